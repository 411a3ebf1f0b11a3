/* Samples from records. Opening reads every record once: it parses the record and checks each
 * declared feature (present, right kind, as many values as the shape has, integers that fit). It
 * keeps the sizes for planning batches: 16 bytes per record, and 4 for each of its variable fields.
 * Filling a batch parses the record again, into a block that fits the largest record, so no memory
 * is allocated. Filling can fail only if the file was changed.
 *
 *   layout   the declared fields in their order, after a variable one its offsets, then the mask
 *   kind 0   samples; each variable field is a separate kind */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>
#include <etude/records.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "data/text/paths.h"
#include "engine/tensor/tensor.h"
#include "formats/records/example.h"
#include "formats/records/record.h"

/* ---- the records of files ---- */

/* The records of a list of files. An entry of the index has the begin and length of a record's
 * data: 16 bytes per record. The entries of a file are together, so a record's file is found by
 * binary search.
 *
 *   plain        map it, walk it
 *   GZIP         if FOLDER/<checksum of its packed bytes>.tfrecord exists and is undamaged, map and
 *                walk that; else unpack into it; without a folder or space, unpack into memory
 *
 * Unpacked records keep their frames, so one walk works for all. */

/* A record's bytes, borrowed from the files. */
typedef struct record_bytes {
    const void *data;
    uint32_t length;
} record_bytes;

typedef struct file {
    const char *path;   /* borrowed */
    et_mapping mapping; /* data NULL: in memory, or empty */
    et_strbuf memory;
    bool gzip;
    int64_t first; /* its first record */
} file;

typedef struct record_files {
    file *files; /* [count] */
    size_t count;
    record_bytes *records; /* [record_count] */
    size_t record_count, capacity;
} record_files;

static const void *bytes_of(const file *f, size_t *size)
{
    *size = f->mapping.data ? f->mapping.length : f->memory.length;
    return f->mapping.data ? f->mapping.data : f->memory.data;
}

/* ---- walking ---- */

/* Lists all records of a file in memory. After a failure, there are no more records than before. */
static int walk(record_files *self, const file *f, et_error *error)
{
    size_t size, length, before = self->record_count;
    const void *bytes = bytes_of(f, &size), *data;
    et_record_position position = { f->path, f->gzip, 1, 0 };
    int status = ET_OK;
    while (!status && position.offset < size) {
        status = et_record_at(&position, bytes, size, &data, &length, error);
        if (status)
            break;
        position.offset += length + ET_RECORD_OVERHEAD;
        position.number++;
        if (self->record_count == UINT32_MAX)
            status = et_fail(error, ET_EDATA, "more than 4,294,967,295 records: use fewer");
        else if (!ET_VECTOR_APPEND(self->records, self->record_count, self->capacity,
                                   (record_bytes){ data, (uint32_t)length }))
            status = et_alloc_failed(error, "records");
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
    return out->memory->failed ? et_alloc_failed(error, "unpacked records") : ET_OK;
}

/* *wrong: the file is the cause of the failure, not the destination of its records. */
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
        if (status || !data)
            break;
        const et_record_frame frame = et_record_frame_of(data, length);
        status = put(out, frame.head, ET_RECORD_HEAD, error);
        if (!status && length)
            status = put(out, data, length, error);
        if (!status)
            status = put(out, frame.tail, ET_RECORD_TAIL, error);
    } while (!status);
    et_record_reader_close(reader);
    return status;
}

/* *wrong: the file is the cause of the failure, not the cache. */
static int unpack_to_file(const file *f, const char *cached, bool *wrong, et_error *error)
{
    sink out = { .memory = NULL };
    *wrong = false;
    int status = et_file_writer_open(&out.file, cached, error);
    if (status)
        return status;
    return et_file_writer_end(&out.file, unpack(&out, f->path, wrong, error), error);
}

/* Maps the unpacked file and walks through it. A damaged file gives a warning. */
static bool use_cached(record_files *self, file *f, const char *cached)
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
    return false;
}

/* *done: the records are available. If the cache cannot be written, only the next start takes
 * longer. The cache is named by the file's content, so a file may be moved, and a changed file gets
 * another cache. */
static int open_cached(record_files *self, file *f, const char *folder, bool *done, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_error why = ET_ERROR_INIT;
    et_mapping packed;
    bool wrong = false;
    int made = ET_OK, status = et_mapping_open(&packed, f->path, error);
    if (status)
        return status;
    uint64_t checksum = et_checksum(packed.data, packed.length);
    et_mapping_close(&packed);
    const char *cached =
        et_arena_printf(&arena, "%s/%s.tfrecord", folder, et_checksum_print(checksum).digits);
    if (!cached)
        return et_alloc_failed(error, "a path");
    *done = use_cached(self, f, cached);
    if (!*done) {
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
    return ET_OK;
}

/* ---- files ---- */

/* paths: from et_paths_match; borrowed. cache: a folder, made if needed; NULL: none. Damage is
 * ET_EFORMAT; damage in a cache is a warning, and the cache is made again. The caller releases
 * self, even after a failure. */
static int read_files(record_files *self, const et_strings *paths, const char *cache,
                      et_error *error)
{
    int status = ET_ALLOC_ZERO(self->files, paths->count, "record files", error);
    for (size_t i = 0; !status && i < paths->count; i++) {
        file *f = &self->files[self->count++];
        f->path = paths->items[i];
        bool done = false;
        et_record_reader *reader;
        status = et_record_reader_open(&reader, f->path, error);
        if (!status) {
            f->gzip = et_record_reader_position(reader).gzip;
            et_record_reader_close(reader);
        }
        f->first = (int64_t)self->record_count;
        if (!status && f->gzip && cache)
            status = open_cached(self, f, cache, &done, error);
        if (status || done)
            continue;
        sink memory = { .memory = &f->memory };
        bool wrong;
        status = f->gzip ? unpack(&memory, f->path, &wrong, error)
                         : et_mapping_open(&f->mapping, f->path, error);
        if (!status)
            status = walk(self, f, error);
    }
    if (!status && !self->record_count)
        status =
            et_fail(error, ET_EDATA, "%s: no records: name files with records", paths->items[0]);
    return status;
}

/* File, number in the file from 1, and offset. */
static et_record_position record_files_position(const record_files *files, int64_t record)
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

/* A declared field. */
typedef struct column {
    const char *name;
    et_dtype dtype;
    int64_t elements;    /* of a sample, or of an item */
    int kind;            /* 0: fixed length */
    int field, offsets;  /* indices in the layout; offsets only if kind is not 0 */
    bool optional;       /* a record may lack it */
    const void *missing; /* [elements], of fixed length and optional ones; in the arena */
} column;

typedef struct records {
    et_samples samples;
    record_files files;
    column *columns; /* [count], in the arena as the layout's fields */
    int count;
    et_layout_field *fields;
    int32_t *sizes[ET_LAYOUT_KINDS]; /* [samples.count], from kind 1: items of each */
    unsigned char *block;            /* [block_size]: of parsing */
    size_t block_size;
    et_arena arena;
} records;

/* ---- a feature's values ---- */

/* The values of a feature in a record: a count of elements of one of three types. */
typedef struct values {
    et_feature_kind kind; /* NONE: the record lacks the feature */
    int64_t count;
    const void *data;
} values;

static int wrong_kind(const column *c, const char *is, et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "feature %s has %s, but a field of %s needs %s, or one string of bytes; declare "
                   "the field like the data",
                   c->name, is, et_dtype_name(c->dtype),
                   c->dtype == ET_I32 ? "integers" : "floats");
}

static int values_of(values *out, const column *c, const et_example *example, et_error *error)
{
    const et_feature *f = et_example_last(example, c->name);
    *out = (values){ f ? f->kind : ET_FEATURE_NONE, f ? (int64_t)f->count : 0, NULL };
    switch (out->kind) {
    case ET_FEATURE_NONE:
        return ET_OK;
    case ET_FEATURE_FLOATS:
        out->data = f->floats;
        return c->dtype == ET_F32 ? ET_OK : wrong_kind(c, "floats", error);
    case ET_FEATURE_INTS:
        out->data = f->ints;
        return c->dtype == ET_I32 ? ET_OK : wrong_kind(c, "integers", error);
    case ET_FEATURE_BYTES:
        break;
    }
    if (f->count != 1)
        return wrong_kind(c, "several strings, or none", error);
    out->data = f->bytes->data;
    out->count = (int64_t)f->bytes->length;
    return ET_OK;
}

/* Checked. *items: of a variable field; 1 else. */
static int read_values(values *v, int64_t *items, const column *c, const et_example *example,
                       et_error *error)
{
    int status = values_of(v, c, example, error);
    *items = 1;
    if (status)
        return status;
    if (v->kind == ET_FEATURE_NONE && !c->optional)
        return et_fail(error, ET_EDATA,
                       "no feature %s: add it to every record, or give the field a default",
                       c->name);
    if (v->kind == ET_FEATURE_NONE) {
        *items = c->kind ? 0 : 1;
        return ET_OK;
    }
    if (c->kind ? v->count % c->elements : v->count != c->elements)
        return et_fail(error, ET_EDATA, "feature %s: %lld values, but %s%lld are declared", c->name,
                       (long long)v->count, c->kind ? "a multiple of " : "",
                       (long long)c->elements);
    if (c->kind && v->count / c->elements > INT32_MAX)
        return et_fail(error, ET_EDATA, "feature %s: %lld values: use fewer than 2^31", c->name,
                       (long long)v->count);
    if (c->kind)
        *items = v->count / c->elements;
    const int64_t *ints = v->data;
    for (int64_t i = 0; v->kind == ET_FEATURE_INTS && i < v->count; i++)
        if (ints[i] < INT32_MIN || ints[i] > INT32_MAX)
            return et_fail(error, ET_EDATA,
                           "feature %s: %lld does not fit in 32 bits; write smaller integers",
                           c->name, (long long)ints[i]);
    return ET_OK;
}

static void copy_values(void *to, const column *c, const values *v)
{
    const unsigned char *bytes = v->data;
    const int64_t *ints = v->data;
    int32_t *whole = to;
    float *real = to;
    switch (v->kind) {
    case ET_FEATURE_NONE:
        if (!c->kind)
            memcpy(to, c->missing, (size_t)c->elements * et_dtype_size(c->dtype));
        break;
    case ET_FEATURE_FLOATS:
        if (v->count)
            memcpy(to, v->data, v->count * sizeof *real);
        break;
    case ET_FEATURE_INTS:
        for (int64_t i = 0; i < v->count; i++)
            whole[i] = (int32_t)ints[i];
        break;
    case ET_FEATURE_BYTES:
        for (int64_t i = 0; c->dtype == ET_I32 && i < v->count; i++)
            whole[i] = bytes[i];
        for (int64_t i = 0; c->dtype == ET_F32 && i < v->count; i++)
            real[i] = bytes[i];
        break;
    }
}

/* ---- the class ---- */

static void records_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const records *self = (const records *)samples;
    for (int k = 1; k < samples->layout.kinds; k++)
        for (int64_t i = 0; i < pick.count; i++)
            sizes[k][i] = self->sizes[k][pick.which[i]];
}

/* Puts file, record and byte before the message. */
static int blame(const records *self, int64_t record, int status, et_error *error)
{
    et_record_position position = record_files_position(&self->files, record);
    return et_record_blame(&position, status, error);
}

static int add_column(const records *self, const column *c, const et_example *example,
                      uint32_t which, et_batch *batch, et_error *error)
{
    values v;
    int64_t items, at = batch->filled[c->kind];
    size_t size = (size_t)c->elements * et_dtype_size(c->dtype);
    int status = read_values(&v, &items, c, example, error);
    if (!status && c->kind && items != self->sizes[c->kind][which])
        status = et_fail(error, ET_EDATA, "the file changed while Etude used it: start again");
    if (status)
        return status;
    if (c->kind) {
        ((int32_t *)batch->data[c->offsets])[batch->filled[0]] = (int32_t)at;
        batch->filled[c->kind] += items;
    }
    copy_values((char *)batch->data[c->field] + (size_t)at * size, c, &v);
    return ET_OK;
}

static int records_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    records *self = (records *)samples;
    int status = ET_OK;
    for (int64_t i = 0; !status && i < pick.count; i++) {
        record_bytes record = self->files.records[pick.which[i]];
        et_example_memory room = { .block = self->block, .capacity = self->block_size };
        et_example example;
        status = et_example_read(&example, &room, record.data, record.length, error);
        for (int k = 0; !status && k < self->count; k++)
            status = add_column(self, &self->columns[k], &example, pick.which[i], batch, error);
        if (status)
            return blame(self, pick.which[i], status, error);
        batch->filled[0]++;
    }
    return status;
}

static void records_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                             size_t size)
{
    (void)kind;
    et_record_position position = record_files_position(&((const records *)samples)->files, which);
    snprintf(text, size, "%s:%lld", position.path, (long long)position.number);
}

static void records_close(et_samples *samples)
{
    records *self = (records *)samples;
    for (size_t i = 0; i < self->files.count; i++) {
        et_mapping_close(&self->files.files[i].mapping);
        et_strbuf_release(&self->files.files[i].memory);
    }
    et_free(self->files.files);
    et_free(self->files.records);
    for (int k = 1; k < ET_LAYOUT_KINDS; k++)
        et_free(self->sizes[k]);
    et_free(self->block);
    et_arena_release(&self->arena);
    et_free(self);
}

static const et_samples_class records_class = {
    .name = "records",
    .sizes = records_sizes,
    .fill = records_fill,
    .describe = records_describe,
    .close = records_close,
};

/* ---- declared fields ---- */

static int add_field(records *self, const et_record_field *f, et_error *error)
{
    et_layout *layout = &self->samples.layout;
    column *c = &self->columns[self->count++];
    if (!f->name || !*f->name)
        return et_fail(error, ET_ECONFIG, "a field of records has no name");
    if (!strcmp(f->name, et_layout_mask.name))
        return et_fail(error, ET_ECONFIG, "field %s: this name is reserved for batches", f->name);
    if (f->dtype != ET_I32 && f->dtype != ET_F32)
        return et_fail(error, ET_ECONFIG, "field %s: records can only give int32 and float32",
                       f->name);
    if (f->shape.rank >= ET_RANK_MAX || et_shape_count(f->shape) < 1)
        return et_fail(error, ET_ECONFIG,
                       "field %s: a shape of %lld elements: give at least 1 element, in fewer than "
                       "%d dimensions",
                       f->name, (long long)et_shape_count(f->shape), ET_RANK_MAX);
    if (f->variable && layout->kinds == ET_LAYOUT_KINDS)
        return et_fail(error, ET_ECONFIG, "field %s: at most %d fields of variable length", f->name,
                       ET_LAYOUT_KINDS - 1);
    size_t bytes = (size_t)et_shape_count(f->shape) * et_dtype_size(f->dtype);
    void *missing = et_arena_alloc(&self->arena, bytes);
    *c = (column){ .name = et_arena_strdup(&self->arena, f->name),
                   .dtype = f->dtype,
                   .elements = et_shape_count(f->shape),
                   .kind = f->variable ? layout->kinds : 0,
                   .field = layout->fields++,
                   .optional = f->missing,
                   .missing = missing };
    if (!c->name || !missing)
        return et_alloc_failed(error, "records");
    if (f->missing && !f->variable)
        memcpy(missing, f->missing, bytes);
    self->fields[c->field] =
        (et_layout_field){ .name = c->name,
                           .dtype = f->dtype,
                           .item = f->shape,
                           .kind = c->kind,
                           .empty = f->dtype == ET_I32 ? ET_EMPTY_NONE : ET_EMPTY_ZERO };
    if (!f->variable)
        return ET_OK;
    layout->kind[layout->kinds++] = c->name;
    const char *offsets = et_arena_printf(&self->arena, "%s_offsets", c->name);
    if (!offsets)
        return et_alloc_failed(error, "records");
    c->offsets = layout->fields++;
    self->fields[c->offsets] = (et_layout_field){
        .name = offsets, .dtype = ET_I32, .empty = ET_EMPTY_OFFSETS, .offsets_of = c->kind
    };
    return ET_OK;
}

static int add_fields(records *self, const et_record_field *fields, int count, et_error *error)
{
    et_layout *layout = &self->samples.layout;
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%d fields of records: give at least one", count);
    size_t most = 2 * (size_t)count + 1; /* with offsets and the mask */
    self->columns = et_arena_array(&self->arena, count, sizeof *self->columns);
    self->fields = et_arena_array(&self->arena, most, sizeof *self->fields);
    if (!self->columns || !self->fields)
        return et_alloc_failed(error, "records");
    *layout = (et_layout){ .kinds = 1, .kind = { "sample" }, .field = self->fields };
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++)
        status = add_field(self, &fields[i], error);
    if (status)
        return status;
    self->fields[layout->fields++] = et_layout_mask;
    /* Also finds a feature with the name of another feature's field of offsets. */
    for (int i = 0; i < layout->fields; i++)
        if (et_layout_find(layout, self->fields[i].name) != i)
            return et_fail(error, ET_ECONFIG, "field %s: two fields have this name",
                           self->fields[i].name);
    return ET_OK;
}

/* ---- opening ---- */

/* Checks and measures one record, and adds its bytes to the fingerprint. */
static int look_at(records *self, int64_t i, et_checksum_stream *stream, et_error *error)
{
    et_samples *s = &self->samples;
    et_arena arena = ET_ARENA_INIT;
    et_example_memory room = { .arena = &arena };
    record_bytes record = self->files.records[i];
    uint64_t length = record.length;
    et_example example;
    int status = et_example_read(&example, &room, record.data, record.length, error);
    for (int k = 0; !status && k < self->count; k++) {
        const column *c = &self->columns[k];
        values v;
        int64_t items;
        status = read_values(&v, &items, c, &example, error);
        if (status || !c->kind)
            continue;
        self->sizes[c->kind][i] = (int32_t)items;
        s->total[c->kind] += items;
        if (items > s->largest[c->kind])
            s->largest[c->kind] = items;
    }
    et_arena_release(&arena);
    if (room.used > self->block_size)
        self->block_size = room.used;
    et_checksum_stream_add(stream, &length, sizeof length);
    et_checksum_stream_add(stream, record.data, record.length);
    return status ? blame(self, i, status, error) : ET_OK;
}

static int look_at_all(records *self, et_error *error)
{
    et_samples *s = &self->samples;
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    for (int k = 1; !status && k < s->layout.kinds; k++) {
        self->sizes[k] = et_alloc(s->count, sizeof *self->sizes[k]);
        if (!self->sizes[k])
            status = et_alloc_failed(error, "records");
    }
    for (int k = 0; k < self->count; k++) {
        const column *c = &self->columns[k];
        uint64_t facts[] = { et_checksum(c->name, strlen(c->name)), (uint64_t)c->dtype,
                             (uint64_t)c->elements, (uint64_t)c->kind, c->optional };
        et_checksum_stream_add(stream, facts, sizeof facts);
        et_checksum_stream_add(stream, c->missing, (size_t)c->elements * et_dtype_size(c->dtype));
    }
    for (int64_t i = 0; !status && i < s->count; i++)
        status = look_at(self, i, stream, error);
    s->fingerprint = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    if (status)
        return status;
    self->block = et_alloc(self->block_size, 1);
    return self->block ? ET_OK : et_alloc_failed(error, "a record");
}

/* *by_record: shards are taken by record, because there are fewer files than shards. */
static int open_files(records *self, const et_strings *given, const et_records_options *o,
                      bool *by_record, et_error *error)
{
    et_strings files;
    int status = et_paths_match(&files, given, NULL, &self->arena, error);
    if (!status && !files.count)
        status = et_fail(error, ET_ECONFIG, "no record file is given: name at least one");
    if (status)
        return status;
    /* Takes every shards-th file, if there are at least as many files as shards. */
    const char **items = (const char **)(uintptr_t)files.items;
    *by_record = o->shards > 0 && files.count < (size_t)o->shards;
    if (o->shards && !*by_record) {
        size_t kept = 0;
        for (size_t i = (size_t)o->shard; i < files.count; i += (size_t)o->shards)
            items[kept++] = items[i];
        files.count = kept;
    }
    status = read_files(&self->files, &files, o->cache, error);
    if (status)
        return status;
    self->samples.count = self->samples.total[0] = (int64_t)self->files.record_count;
    self->samples.largest[0] = 1;
    return ET_OK;
}

int et_records_open(et_samples **out, const char *const *paths, size_t count,
                    const et_record_field *fields, int field_count,
                    const et_records_options *options, et_error *error)
{
    static const et_records_options defaults = { 0 };
    const et_records_options *o = options ? options : &defaults;
    bool by_record = false;
    if ((o->shards || o->shard) && (o->shards < 1 || o->shard < 0 || o->shard >= o->shards))
        return et_fail(error, ET_ECONFIG, "shard %lld of %lld: shards are numbered from 0",
                       (long long)o->shard, (long long)o->shards);
    records *self;
    if (ET_ALLOC_ZERO(self, 1, "records", error))
        return ET_ENOMEM;
    self->samples.class = &records_class;
    int status = add_fields(self, fields, field_count, error);
    if (!status)
        status = open_files(self, &(et_strings){ paths, count }, o, &by_record, error);
    if (!status)
        status = look_at_all(self, error);
    et_samples *samples = &self->samples;
    if (!status && by_record)
        status = et_shard_open(&samples, samples, o->shard, o->shards, error);
    if (status) {
        records_close(&self->samples);
        return status;
    }
    *out = samples;
    return ET_OK;
}
