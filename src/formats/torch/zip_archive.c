#include "formats/torch/zip_archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <zip.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/library.h"

/* zip_open is libzip.open, and so on. */
#define CALLS(X)                                                                                   \
    X(zip_, discard)                                                                               \
    X(zip_, error_fini)                                                                            \
    X(zip_, error_init)                                                                            \
    X(zip_, error_init_with_code)                                                                  \
    X(zip_, error_strerror)                                                                        \
    X(zip_, error_system_type)                                                                     \
    X(zip_, file_get_error)                                                                        \
    X(zip_, fclose)                                                                                \
    X(zip_, fopen_index)                                                                           \
    X(zip_, fread)                                                                                 \
    X(zip_, get_error)                                                                             \
    X(zip_, get_name)                                                                              \
    X(zip_, get_num_entries)                                                                       \
    X(zip_, name_locate)                                                                           \
    X(zip_, open)                                                                                  \
    X(zip_, open_from_source)                                                                      \
    X(zip_, source_buffer_create)                                                                  \
    X(zip_, source_free)                                                                           \
    X(zip_, stat_index)

ET_LIBRARY(libzip, CALLS, ET_ZIP_FILE, "libzip");

struct et_zip {
    zip_t *archive;
    const char *path; /* owned */
};

static int damaged(const et_zip *zip, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT, "%s: %s; download it again", zip->path, what);
}

enum { ZLIB_MEMORY = -4 }; /* Z_MEM_ERROR of zlib.h */

/* A call of libzip failed for that reason; what: if the archive is at fault. */
static int failed(const et_zip *zip, const zip_error_t *reason, const char *what, et_error *error)
{
    /* Besides its own code, libzip passes on those of zlib and of the system. */
    const int type = libzip.error_system_type(reason);
    return reason->zip_err == ZIP_ER_MEMORY ||
                   (type == ZIP_ET_ZLIB && reason->sys_err == ZLIB_MEMORY) ||
                   (type == ZIP_ET_SYS && reason->sys_err == ENOMEM)
               ? et_fail(error, ET_ENOMEM, "%s: libzip has no memory left", zip->path)
               : damaged(zip, what, error);
}

/* The reason is consumed. */
static int not_whole(const et_zip *zip, zip_error_t *reason, et_error *error)
{
    char what[160];
    snprintf(what, sizeof what, "not a whole zip archive (%s)", libzip.error_strerror(reason));
    int status = failed(zip, reason, what, error);
    libzip.error_fini(reason);
    return status;
}

static int open_file(et_zip *zip, et_error *error)
{
    int code;
    zip_error_t reason;
    zip->archive = libzip.open(zip->path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
    if (zip->archive)
        return ET_OK;
    libzip.error_init_with_code(&reason, code);
    return not_whole(zip, &reason, error);
}

static int open_bytes(et_zip *zip, const void *bytes, size_t length, et_error *error)
{
    zip_error_t reason;
    libzip.error_init(&reason);
    zip_source_t *source = libzip.source_buffer_create(bytes, length, 0, &reason);
    if (source)
        zip->archive = libzip.open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &reason);
    if (!zip->archive) {
        if (source)
            libzip.source_free(source);
        return not_whole(zip, &reason, error);
    }
    libzip.error_fini(&reason);
    return ET_OK;
}

int et_zip_open(et_zip **out, const char *name, const void *bytes, size_t length, et_error *error)
{
    *out = NULL;
    et_zip *zip = et_alloc_zero(1, sizeof *zip);
    if (zip)
        zip->path = et_strdup(name);
    if (!zip || !zip->path) {
        et_free(zip);
        return et_alloc_failed(error, "a zip archive");
    }
    int status = et_library_load(&library, &libzip, error);
    if (status)
        status = et_fail_while(error, status, "%s", zip->path);
    else
        status = bytes ? open_bytes(zip, bytes, length, error) : open_file(zip, error);
    if (status)
        et_zip_close(zip);
    else
        *out = zip;
    return status;
}

void et_zip_close(et_zip *zip)
{
    if (!zip)
        return;
    if (zip->archive)
        libzip.discard(zip->archive);
    et_free((char *)zip->path);
    et_free(zip);
}

int64_t et_zip_count(const et_zip *zip)
{
    return libzip.get_num_entries(zip->archive, 0);
}

const char *et_zip_name(const et_zip *zip, int64_t index)
{
    return libzip.get_name(zip->archive, (zip_uint64_t)index, 0);
}

int64_t et_zip_find(const et_zip *zip, const char *name)
{
    return libzip.name_locate(zip->archive, name, 0);
}

/* Weights become a tenth smaller in an archive, text a tenth of its size. Zeros become a
 * thousandth: an archive of some megabytes would fill the memory. */
enum { RATIO_MAX = 100, RATIO_FROM = 16 << 20 };

int et_zip_length(const et_zip *zip, int64_t index, uint64_t *length, et_error *error)
{
    zip_stat_t facts;
    if (libzip.stat_index(zip->archive, (zip_uint64_t)index, 0, &facts) ||
        !(facts.valid & ZIP_STAT_SIZE))
        return damaged(zip, "a file of the archive has no length", error);
    *length = facts.size;
    if (!(facts.valid & ZIP_STAT_COMP_SIZE) || facts.size < RATIO_FROM ||
        facts.size / RATIO_MAX <= facts.comp_size)
        return ET_OK;
    const char *name = et_zip_name(zip, index);
    return et_fail(
        error, ET_EFORMAT,
        "%s: %s has %llu bytes, packed into %llu; a file of a model has at most %d times its "
        "packed size. Unpack the archive yourself if you trust it",
        zip->path, name ? name : "a file", (unsigned long long)facts.size,
        (unsigned long long)facts.comp_size, RATIO_MAX);
}

/* Reads on in a file that is being read. */
static int read_on(const et_zip *zip, zip_file_t *file, char *bytes, uint64_t length,
                   et_error *error)
{
    for (uint64_t at = 0; at < length;) {
        const zip_int64_t got = libzip.fread(file, bytes + at, length - at);
        if (got <= 0)
            return failed(zip, libzip.file_get_error(file),
                          "a file of the archive is damaged or ends early", error);
        at += (uint64_t)got;
    }
    return ET_OK;
}

int et_zip_read(const et_zip *zip, int64_t index, uint64_t from, void *bytes, uint64_t length,
                et_error *error)
{
    et_assert(index >= 0);
    zip_file_t *file = libzip.fopen_index(zip->archive, (zip_uint64_t)index, 0);
    if (!file)
        return failed(zip, libzip.get_error(zip->archive), "a file of the archive cannot be read",
                      error);
    char skipped[4096];
    int status = ET_OK;
    while (from && !status) {
        const uint64_t some = from < sizeof skipped ? from : sizeof skipped;
        status = read_on(zip, file, skipped, some, error);
        from -= some;
    }
    if (!status)
        status = read_on(zip, file, bytes, length, error);
    /* libzip compares the checksum when a read finds the end of the file. */
    char more;
    if (!status && libzip.fread(file, &more, 1) < 0)
        status = failed(zip, libzip.file_get_error(file),
                        "a file of the archive is damaged: its checksum is another", error);
    libzip.fclose(file);
    return status;
}
