/* The records of a list of files. An entry of the index has the begin and length of a record's
 * data: 16 bytes per record. The entries of a file are together, so a record's file is found by
 * binary search.
 *
 *   plain        map it, walk it
 *   GZIP         if FOLDER/<checksum of its packed bytes>.tfrecord exists and is undamaged, map and
 *                walk that; else unpack into it; without a folder or space, unpack into memory
 *
 * Unpacked records keep their frames, so one walk works for all. */
#include "data/table/record_files.h"

#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/vector.h"

typedef struct file {
    const char *path;   /* borrowed */
    et_mapping mapping; /* data NULL: in memory, or empty */
    et_strbuf memory;
    bool gzip;
    int64_t first; /* its first record */
} file;

struct et_record_files {
    file *files; /* [count] */
    size_t count;
    et_record_bytes *records; /* [record_count] */
    size_t record_count, capacity;
};

static const void *bytes_of(const file *f, size_t *size)
{
    *size = f->mapping.data ? f->mapping.length : f->memory.length;
    return f->mapping.data ? f->mapping.data : f->memory.data;
}

/* ---- walking ---- */

static int add_record(et_record_files *self, const void *data, size_t length, et_error *error)
{
    if (self->record_count == UINT32_MAX)
        return et_fail(error, ET_EDATA, "more than 4,294,967,295 records: use fewer");
    et_record_bytes *records = et_vector_grow(self->records, &self->capacity,
                                              self->record_count + 1, sizeof *records, 1024);
    if (!records)
        return et_alloc_failed(error, self->record_count * sizeof *records, "records");
    self->records = records;
    self->records[self->record_count++] = (et_record_bytes){ data, (uint32_t)length };
    return ET_OK;
}

/* All of a file that is in memory. On failure there are no more records than before. */
static int walk(et_record_files *self, const file *f, et_error *error)
{
    size_t size, length, before = self->record_count;
    const void *bytes = bytes_of(f, &size), *data;
    et_record_position position = { f->path, f->gzip, 1, 0 };
    int status = ET_OK;
    while (!status && position.offset < size) {
        status = et_record_at(&position, bytes, size, &data, &length, error);
        if (!status)
            status = add_record(self, data, length, error);
        position.offset += length + ET_RECORD_OVERHEAD;
        position.number++;
    }
    if (status)
        self->record_count = before;
    return status;
}

/* ---- GZIP ---- */

/* Framed records go into memory or into a file. */
typedef struct sink {
    et_strbuf *memory; /* NULL: into file */
    et_file_writer file;
} sink;

static int put(sink *out, const void *bytes, size_t length, et_error *error)
{
    if (!out->memory)
        return et_file_writer_write(&out->file, bytes, length, error);
    et_strbuf_append_bytes(out->memory, bytes, length);
    return out->memory->failed ? et_alloc_failed(error, length, "unpacked records") : ET_OK;
}

static int put_record(sink *out, const void *data, size_t length, et_error *error)
{
    const et_record_frame frame = et_record_frame_of(data, length);
    int status = put(out, frame.head, ET_RECORD_HEAD, error);
    if (!status && length)
        status = put(out, data, length, error);
    return status ? status : put(out, frame.tail, ET_RECORD_TAIL, error);
}

/* *wrong: it was the file that failed, not where its records went. */
static int unpack(sink *out, const char *path, bool *wrong, et_error *error)
{
    et_record_reader *reader;
    const void *data;
    size_t length;
    int status = et_record_reader_open(&reader, path, error);
    *wrong = status != ET_OK;
    if (status)
        return status;
    do {
        status = et_record_read(reader, &data, &length, error);
        *wrong = status != ET_OK;
        if (!status && data)
            status = put_record(out, data, length, error);
    } while (!status && data);
    et_record_reader_close(reader);
    return status;
}

static int unpack_to_memory(file *f, et_error *error)
{
    bool wrong;
    sink out = { .memory = &f->memory };
    return unpack(&out, f->path, &wrong, error);
}

/* *wrong: as above; else what failed is the cache's affair. */
static int unpack_to_file(const file *f, const char *cached, bool *wrong, et_error *error)
{
    sink out = { .memory = NULL };
    *wrong = false;
    int status = et_file_writer_open(&out.file, cached, error);
    if (status)
        return status;
    status = unpack(&out, f->path, wrong, error);
    if (!status)
        return et_file_writer_commit(&out.file, error);
    et_file_writer_abandon(&out.file);
    return status;
}

/* Maps the unpacked file and walks through it. A damaged file gives a warning. */
static bool use_cached(et_record_files *self, file *f, const char *cached)
{
    et_error error = ET_ERROR_INIT;
    if (!et_file_exists(cached) || et_mapping_open(&f->mapping, cached, &error))
        return false;
    const char *path = f->path;
    f->path = cached;
    f->gzip = false;
    int status = walk(self, f, &error);
    f->path = path;
    f->gzip = true;
    if (!status)
        return true;
    et_log(ET_LOG_WARNING, "%s; Etude unpacks %s again", error.text, path);
    et_mapping_close(&f->mapping);
    f->mapping = (et_mapping){ NULL, 0 };
    return false;
}

/* Names the file by its content, so a file may be moved, and a changed file gets another name. */
static int name_cached(const char **out, const file *f, const char *folder, et_arena *arena,
                       et_error *error)
{
    et_mapping packed;
    int status = et_mapping_open(&packed, f->path, error);
    if (status)
        return status;
    uint64_t checksum = et_checksum(packed.data, packed.length);
    et_mapping_close(&packed);
    *out = et_arena_printf(arena, "%s/%s.tfrecord", folder, et_checksum_print(checksum).digits);
    return *out ? ET_OK : et_alloc_failed(error, strlen(folder), "a path");
}

/* *done: the file's records are there. A cache that cannot be written costs the next start some
 * time and this one nothing. */
static int open_cached(et_record_files *self, file *f, const char *folder, bool *done,
                       et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_error why = ET_ERROR_INIT;
    const char *cached = NULL;
    bool wrong = false;
    int made = ET_OK, status = name_cached(&cached, f, folder, &arena, error);
    *done = !status && use_cached(self, f, cached);
    if (!status && !*done) {
        made = et_directory_make(folder, &why);
        if (!made)
            made = unpack_to_file(f, cached, &wrong, &why);
        *done = !made && use_cached(self, f, cached);
    }
    et_arena_release(&arena);
    if (made && wrong)
        return et_fail(error, made, "%s", why.text);
    if (made)
        et_log(ET_LOG_WARNING, "cannot keep unpacked records for the next start: %s", why.text);
    return status;
}

/* ---- files ---- */

static int find_kind(file *f, et_error *error)
{
    et_record_reader *reader;
    int status = et_record_reader_open(&reader, f->path, error);
    if (status)
        return status;
    f->gzip = et_record_reader_position(reader).gzip;
    et_record_reader_close(reader);
    return ET_OK;
}

static int open_file(et_record_files *self, file *f, const char *cache, et_error *error)
{
    bool done = false;
    int status = find_kind(f, error);
    f->first = (int64_t)self->record_count;
    if (!status && f->gzip && cache)
        status = open_cached(self, f, cache, &done, error);
    if (status || done)
        return status;
    status = f->gzip ? unpack_to_memory(f, error) : et_mapping_open(&f->mapping, f->path, error);
    return status ? status : walk(self, f, error);
}

int et_record_files_open(et_record_files **out, const et_strings *paths, const char *cache,
                         et_error *error)
{
    et_record_files *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "record files");
    self->files = et_alloc_zero(paths->count, sizeof *self->files);
    int status = self->files
                     ? ET_OK
                     : et_alloc_failed(error, paths->count * sizeof *self->files, "record files");
    for (size_t i = 0; !status && i < paths->count; i++) {
        file *f = &self->files[self->count++];
        f->path = paths->items[i];
        status = open_file(self, f, cache, error);
    }
    if (!status && !self->record_count)
        status =
            et_fail(error, ET_EDATA, "%s: no records: name files with records", paths->items[0]);
    if (status) {
        et_record_files_close(self);
        return status;
    }
    *out = self;
    return ET_OK;
}

void et_record_files_close(et_record_files *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < files->count; i++) {
        et_mapping_close(&files->files[i].mapping);
        et_strbuf_release(&files->files[i].memory);
    }
    et_free(files->files);
    et_free(files->records);
    et_free(files);
}

int64_t et_record_files_count(const et_record_files *files)
{
    return (int64_t)files->record_count;
}

et_record_bytes et_record_files_get(const et_record_files *files, int64_t record)
{
    et_assert(record >= 0 && (size_t)record < files->record_count);
    return files->records[record];
}

et_record_position et_record_files_position(const et_record_files *files, int64_t record)
{
    size_t low = 0, high = files->count - 1, size;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (files->files[middle].first <= record)
            low = middle;
        else
            high = middle - 1;
    }
    const file *f = &files->files[low];
    const char *data = files->records[record].data, *bytes = bytes_of(f, &size);
    return (et_record_position){ f->path, f->gzip, record - f->first + 1,
                                 (uint64_t)(data - bytes) - ET_RECORD_HEAD };
}
