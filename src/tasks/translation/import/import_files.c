/* Files of the folder, by name. */
#include <dirent.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/yaml.h"
#include "base/vector.h"
#include "formats/records/packed.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "train/checkpoint/run_names.h"

/* Files of JSON and YAML: a vocabulary of a million tokens has about 32 MB. */
#define VALUES_MAX ((size_t)64 << 20)

#define ET_IMPORT_GZIP ".gz"
/* Bytes that are unpacked at a time. */
#define PACKED_PART ((size_t)1 << 20)

static const char pointer[] = "version https://git-lfs.github.com/spec/";

static bool is_archive(const char *path)
{
    return et_path_ends(path, ".zip");
}

/* The length of a name, without ".gz", if it begins and ends so; otherwise 0. */
static size_t matching(const char *name, const char *begin, const char *ending)
{
    size_t length = strlen(name);
    const size_t last = strlen(ending);
    if (et_path_ends(name, ET_IMPORT_GZIP))
        length -= strlen(ET_IMPORT_GZIP);
    return strncmp(name, begin, strlen(begin)) == 0 && length > last &&
                   !memcmp(name + length - last, ending, last)
               ? length
               : 0;
}

int et_import_find_file(et_import *from, const char *begin, const char *ending, const char **name,
                        et_error *error)
{
    et_assert(begin && ending && name);
    const struct dirent *entry;
    int status = ET_OK;
    *name = NULL;
    DIR *stream = opendir(from->folder);
    while (stream && !status && (entry = readdir(stream))) {
        const size_t length = matching(entry->d_name, begin, ending);
        if (!length || (*name && strlen(*name) == length && !strncmp(*name, entry->d_name, length)))
            continue;
        if (*name)
            status = et_fail(error, ET_EFORMAT,
                             "%s has several files %s*%s, %s and %s; remove all but one",
                             from->folder, begin, ending, *name, entry->d_name);
        *name = et_arena_strndup(&from->arena, entry->d_name, length);
        if (!*name && !status)
            status = et_alloc_failed(error, "a name");
    }
    if (stream)
        closedir(stream);
    return status;
}

/* Both kinds of folder have a SentencePiece model of this name. So it also identifies a folder
 * whose download is not complete. */
bool et_import_is_folder(const char *path)
{
    static const char *const names[] = { ET_TRANSFORMERS_CONFIG, ET_MARIAN_DECODER,
                                         ET_TRANSFORMERS_SOURCE_MODEL };
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = et_file_exists_in(path, names[i]);
    /* A model of Bergamot. */
    const struct dirent *entry;
    DIR *stream = found ? NULL : opendir(path);
    while (stream && !found && (entry = readdir(stream)))
        found = matching(entry->d_name, ET_BERGAMOT_MODEL, ET_MARIAN_BINARY) > 0;
    if (stream)
        closedir(stream);
    return is_archive(path) || (found && !et_file_exists_in(path, ET_RUN_SETTINGS));
}

/* ---- archives ---- */

/* Whether a file is decoder.yml. *folder: the length of its folder's name, "" or "opus/". */
static bool is_decoder(const char *name, size_t *folder)
{
    const size_t suffix = strlen(ET_MARIAN_DECODER), length = name ? strlen(name) : 0;
    if (length < suffix || strcmp(name + length - suffix, ET_MARIAN_DECODER) != 0)
        return false;
    *folder = length - suffix;
    return !*folder || name[*folder - 1] == '/';
}

int et_import_open_files(et_import *from, et_error *error)
{
    if (!is_archive(from->folder))
        return ET_OK;
    int status = et_zip_open(&from->zip, from->folder, NULL, 0, error);
    if (status)
        return status;
    /* Files of an archive are in its folder that has decoder.yml; nothing is unpacked. */
    for (int64_t i = 0; i < et_zip_count(from->zip); i++) {
        const char *name = et_zip_name(from->zip, i);
        size_t folder;
        if (!is_decoder(name, &folder))
            continue;
        if (from->in_zip)
            return et_fail(error, ET_EFORMAT,
                           "%s: the archive has several models, %s" ET_MARIAN_DECODER
                           " and %s; unpack it and name a folder",
                           from->folder, from->in_zip, name);
        from->in_zip = et_arena_strndup(&from->arena, name, folder);
        if (!from->in_zip)
            return et_alloc_failed(error, "a name");
    }
    return from->in_zip
               ? ET_OK
               : et_fail(error, ET_EFORMAT,
                         "%s: the archive has no " ET_MARIAN_DECODER
                         ", so it is no release of Marian; unpack a folder of transformers",
                         from->folder);
}

static int64_t find_member(et_import *from, const char *name)
{
    const char *whole = et_arena_printf(&from->arena, "%s%s", from->in_zip, name);
    return whole ? et_zip_find(from->zip, whole) : -1;
}

/* ---- files ---- */

const char *et_import_path(et_import *from, const char *name)
{
    return et_arena_printf(&from->arena, from->zip ? "%s: %s" : "%s/%s", from->folder, name);
}

static bool is_packed(et_import *from, const char *path)
{
    const char *packed = et_arena_printf(&from->arena, "%s" ET_IMPORT_GZIP, path);
    return packed && et_file_exists(packed);
}

bool et_import_has(et_import *from, const char *name)
{
    if (from->zip)
        return find_member(from, name) >= 0;
    const char *path = et_import_path(from, name);
    return path && (et_file_exists(path) || (from->root && is_packed(from, path)));
}

static int check_pointer(const char *path, const char *bytes, size_t length, et_error *error)
{
    if (length < sizeof pointer - 1 || memcmp(bytes, pointer, sizeof pointer - 1) != 0)
        return ET_OK;
    return et_fail(error, ET_EFORMAT,
                   "%s: this is a pointer of %zu bytes in place of the file: run git lfs pull, or "
                   "download the file",
                   path, length);
}

static int missing_file(const char *path, et_error *error)
{
    return et_fail(error, ET_ENOTFOUND, "%s is missing; download this file, too", path);
}

static int missing_member(const char *path, et_error *error)
{
    return et_fail(error, ET_ENOTFOUND, "%s: the archive has no such file", path);
}

int et_import_check_file(et_import *from, const char *name, et_error *error)
{
    et_assert(name);
    const char *path = et_import_path(from, name);
    et_mapping mapping;
    if (!path)
        return et_alloc_failed(error, "a path");
    if (from->zip)
        return find_member(from, name) < 0 ? missing_member(path, error) : ET_OK;
    int status =
        et_file_exists(path) ? et_mapping_open(&mapping, path, error) : missing_file(path, error);
    if (status)
        return status;
    status = check_pointer(path, mapping.data, mapping.length, error);
    et_mapping_close(&mapping);
    return status;
}

/* Unpacks at most the size given in the archive, and at most `most`. */
static int read_member(et_import *from, const char *name, const char *path, size_t most,
                       char **bytes, size_t *length, et_error *error)
{
    const int64_t member = find_member(from, name);
    uint64_t size = 0;
    if (member < 0)
        return missing_member(path, error);
    int status = et_zip_length(from->zip, member, &size, error);
    if (status)
        return status;
    if (size > most)
        return et_fail(error, ET_EFORMAT, "%s: %s has %llu bytes, too many for this kind of file",
                       from->folder, name, (unsigned long long)size);
    if ((status = et_memory_check(size, "a file of an archive", error)))
        return status;
    if (!(*bytes = et_alloc(size + 1, 1)))
        return et_alloc_failed(error, "a file of an archive");
    if ((status = et_zip_read(from->zip, member, 0, *bytes, size, error)))
        return status;
    (*bytes)[size] = 0;
    *length = size;
    return ET_OK;
}

/* The size of a packed file is known only at its end. */
static int read_packed(et_import *from, const char *path, size_t most, char **bytes, size_t *length,
                       et_error *error)
{
    et_packed_reader *reader;
    size_t room = 0, got = 1;
    int fd;
    et_error why = ET_ERROR_INIT;
    int status;
    if ((status = et_file_open_below(&fd, path, from->root, error)) ||
        (status = et_packed_reader_open(&reader, fd, path, NULL, error)))
        return status;
    while (!status && got) {
        status = ET_VECTOR_GROW(*bytes, room, *length + PACKED_PART + 1)
                     ? et_packed_read(reader, *bytes + *length, PACKED_PART, &got, &why)
                     : et_alloc_failed(&why, "a packed file");
        *length += status ? 0 : got;
        if (!status && *length > most)
            status = et_fail(&why, ET_EFORMAT, "more than %zu bytes", most);
        if (status)
            et_fail(error, status, "%s: %s", path, why.text);
    }
    et_packed_reader_close(reader);
    if (!status)
        (*bytes)[*length] = 0;
    return status;
}

static int read_plain(et_import *from, char **bytes, size_t *length, const char *path, size_t most,
                      et_error *error)
{
    *length = 0;
    if (et_file_exists(path))
        return et_file_read_below(bytes, length, path, from->root, most, error);
    if (!from->root || !is_packed(from, path))
        return missing_file(path, error);
    return read_packed(from, et_arena_printf(&from->arena, "%s" ET_IMPORT_GZIP, path), most, bytes,
                       length, error);
}

int et_import_read_file(et_import *from, const char *name, size_t most, char **bytes,
                        size_t *length, et_error *error)
{
    et_assert(most > 0 && bytes && length);
    const char *path = et_import_path(from, name);
    *bytes = NULL;
    int status = !path       ? et_alloc_failed(error, "a path")
                 : from->zip ? read_member(from, name, path, most, bytes, length, error)
                             : read_plain(from, bytes, length, path, most, error);
    if (!status)
        status = check_pointer(path, *bytes, *length, error);
    if (!status)
        return ET_OK;
    et_free(*bytes);
    *bytes = NULL;
    return status;
}

typedef int parse_fn(et_value **out, et_arena *arena, const char *text, size_t length,
                     const char *name, et_error *error);

static int read_values(et_import *from, const char *name, parse_fn *parse, et_value **out,
                       et_error *error)
{
    const char *path = et_import_path(from, name);
    char *bytes;
    size_t length;
    et_error why = ET_ERROR_INIT;
    int status = et_import_read_file(from, name, VALUES_MAX, &bytes, &length, error);
    if (!status) {
        status = parse(out, &from->arena, bytes, length, path, &why);
        if (status)
            et_fail(error, status, "%s%s", why.text,
                    status == ET_EFORMAT ? "; download the file again" : "");
    }
    et_free(bytes);
    if (!status && (*out)->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s: not %s, but %s", path,
                         et_json_kind_name(ET_VALUE_DICT), et_json_kind_name((*out)->kind));
    return status;
}

int et_import_read_json(et_import *from, const char *name, et_value **out, et_error *error)
{
    et_assert(name && out);
    return read_values(from, name, et_json_parse_written, out, error);
}

int et_import_read_yaml(et_import *from, const char *name, et_value **out, et_error *error)
{
    et_assert(name && out);
    return read_values(from, name, et_yaml_parse, out, error);
}
