/* Samples from records. Opening reads every record once: it parses the record and checks each
 * declared feature (present, right kind, as many values as the shape has, integers that fit). It
 * keeps the sizes for planning batches: 16 bytes per record, and 4 for each of its variable fields.
 * Filling a batch parses the record again, into a block as large as the largest record needed, so
 * no memory is allocated. It can fail only if the file was changed.
 *
 *   layout   the declared fields in their order, after a variable one its offsets, then the mask
 *   kind 0   samples; each variable field is a separate kind */
#include <stdio.h>
#include <string.h>

#include <etude/records.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "base/files/checksum.h"
#include "data/table/record_files.h"
#include "data/text/paths.h"
#include "engine/tensor/layout.h"
#include "formats/records/example.h"

/* A declared field. */
typedef struct column {
    const char *name;
    et_dtype dtype;
    int64_t elements;    /* of a sample, or of an item */
    int kind;            /* 0: fixed length */
    int field, offsets;  /* in the layout; offsets only where kind is not 0 */
    bool optional;       /* a record may lack it */
    const void *missing; /* [elements], of fixed length and optional ones; in the arena */
} column;

typedef struct records {
    et_samples samples;
    et_record_files *files;
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
    et_feature_kind kind; /* NONE: the record has none */
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

static int check_integers(const column *c, const values *v, et_error *error)
{
    const int64_t *ints = v->data;
    for (int64_t i = 0; v->kind == ET_FEATURE_INTS && i < v->count; i++)
        if (ints[i] < INT32_MIN || ints[i] > INT32_MAX)
            return et_fail(error, ET_EDATA,
                           "feature %s: %lld does not fit in 32 bits; write smaller integers",
                           c->name, (long long)ints[i]);
    return ET_OK;
}

/* *items: of a variable field; 1 else. */
static int check_values(const column *c, const values *v, int64_t *items, et_error *error)
{
    *items = 1;
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
    return check_integers(c, v, error);
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
            memcpy(to, v->data, (size_t)v->count * sizeof *real);
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
    et_record_position position = et_record_files_position(self->files, record);
    return et_record_blame(&position, status, error);
}

static int add_column(const records *self, const column *c, const et_example *example,
                      uint32_t which, et_batch *batch, et_error *error)
{
    values v;
    int64_t items, at = batch->filled[c->kind];
    size_t size = (size_t)c->elements * et_dtype_size(c->dtype);
    int status = values_of(&v, c, example, error);
    if (!status)
        status = check_values(c, &v, &items, error);
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
        et_record_bytes record = et_record_files_get(self->files, pick.which[i]);
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
    et_record_position position =
        et_record_files_position(((const records *)samples)->files, which);
    snprintf(text, size, "%s:%lld", position.path, (long long)position.number);
}

static void records_close(et_samples *samples)
{
    records *self = (records *)samples;
    et_record_files_close(self->files);
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

static int check_field(const et_record_field *f, et_error *error)
{
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
    return ET_OK;
}

static int add_offsets(records *self, column *c, et_error *error)
{
    et_layout *layout = &self->samples.layout;
    const char *name = et_arena_printf(&self->arena, "%s_offsets", c->name);
    if (!name)
        return et_alloc_failed(error, strlen(c->name), "records");
    c->offsets = layout->fields++;
    self->fields[c->offsets] = (et_layout_field){
        .name = name, .dtype = ET_I32, .empty = ET_EMPTY_OFFSETS, .offsets_of = c->kind
    };
    return ET_OK;
}

static int add_field(records *self, const et_record_field *f, et_error *error)
{
    et_layout *layout = &self->samples.layout;
    column *c = &self->columns[self->count++];
    int status = check_field(f, error);
    if (status)
        return status;
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
        return et_alloc_failed(error, bytes, "records");
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
    return add_offsets(self, c, error);
}

/* Also finds a feature whose name is another feature's field of offsets. */
static int check_names(const records *self, et_error *error)
{
    const et_layout *layout = &self->samples.layout;
    for (int i = 0; i < layout->fields; i++)
        if (et_layout_find(layout, self->fields[i].name) != i)
            return et_fail(error, ET_ECONFIG, "field %s: two fields have this name",
                           self->fields[i].name);
    return ET_OK;
}

static int add_fields(records *self, const et_record_field *fields, int count, et_error *error)
{
    et_layout *layout = &self->samples.layout;
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%d fields of records: give at least one", count);
    size_t most = 2 * (size_t)count + 1; /* with offsets and the mask */
    self->columns = et_arena_array(&self->arena, (size_t)count, sizeof *self->columns);
    self->fields = et_arena_array(&self->arena, most, sizeof *self->fields);
    if (!self->columns || !self->fields)
        return et_alloc_failed(error, most * sizeof *self->fields, "records");
    *layout = (et_layout){ .kinds = 1, .kind = { "sample" }, .field = self->fields };
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++)
        status = add_field(self, &fields[i], error);
    if (status)
        return status;
    self->fields[layout->fields++] = et_layout_mask;
    return check_names(self, error);
}

/* ---- opening ---- */

/* One record: checked, measured, and its bytes into the fingerprint. */
static int look_at(records *self, int64_t i, et_checksum_stream *stream, et_error *error)
{
    et_samples *s = &self->samples;
    et_arena arena = ET_ARENA_INIT;
    et_example_memory room = { .arena = &arena };
    et_record_bytes record = et_record_files_get(self->files, i);
    uint64_t length = record.length;
    et_example example;
    int status = et_example_read(&example, &room, record.data, record.length, error);
    for (int k = 0; !status && k < self->count; k++) {
        const column *c = &self->columns[k];
        values v;
        int64_t items;
        status = values_of(&v, c, &example, error);
        if (!status)
            status = check_values(c, &v, &items, error);
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

static void add_declared(const records *self, et_checksum_stream *stream)
{
    for (int k = 0; k < self->count; k++) {
        const column *c = &self->columns[k];
        uint64_t facts[] = { et_checksum(c->name, strlen(c->name)), (uint64_t)c->dtype,
                             (uint64_t)c->elements, (uint64_t)c->kind, c->optional };
        et_checksum_stream_add(stream, facts, sizeof facts);
        et_checksum_stream_add(stream, c->missing, (size_t)c->elements * et_dtype_size(c->dtype));
    }
}

static int look_at_all(records *self, et_error *error)
{
    et_samples *s = &self->samples;
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    for (int k = 1; !status && k < s->layout.kinds; k++) {
        self->sizes[k] = et_alloc((size_t)s->count, sizeof *self->sizes[k]);
        if (!self->sizes[k])
            status = et_alloc_failed(error, (size_t)s->count * sizeof *self->sizes[k], "records");
    }
    add_declared(self, stream);
    for (int64_t i = 0; !status && i < s->count; i++)
        status = look_at(self, i, stream, error);
    s->fingerprint = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    if (status)
        return status;
    self->block = et_alloc(self->block_size, 1);
    return self->block ? ET_OK : et_alloc_failed(error, self->block_size, "a record");
}

/* Every shards-th file, if there are as many. *by_record: there are not. */
static void choose_files(et_strings *files, const et_records_options *o, bool *by_record)
{
    const char **items = (const char **)(uintptr_t)files->items;
    size_t count = 0;
    *by_record = o->shards > 0 && files->count < (size_t)o->shards;
    if (!o->shards || *by_record)
        return;
    for (size_t i = (size_t)o->shard; i < files->count; i += (size_t)o->shards)
        items[count++] = items[i];
    files->count = count;
}

static int open_files(records *self, const et_strings *given, const et_records_options *o,
                      bool *by_record, et_error *error)
{
    et_strings files;
    int status = et_paths_match(&files, given, NULL, &self->arena, error);
    if (!status && !files.count)
        status = et_fail(error, ET_ECONFIG, "no record file is given: name at least one");
    if (status)
        return status;
    choose_files(&files, o, by_record);
    status = et_record_files_open(&self->files, &files, o->cache, error);
    if (status)
        return status;
    self->samples.count = self->samples.total[0] = et_record_files_count(self->files);
    self->samples.largest[0] = 1;
    return ET_OK;
}

static int check_options(const et_records_options *o, et_error *error)
{
    if (!o || (!o->shards && !o->shard))
        return ET_OK;
    if (o->shards < 1 || o->shard < 0 || o->shard >= o->shards)
        return et_fail(error, ET_ECONFIG, "shard %lld of %lld: shards are numbered from 0",
                       (long long)o->shard, (long long)o->shards);
    return ET_OK;
}

int et_records_open(et_samples **out, const char *const *paths, size_t count,
                    const et_record_field *fields, int field_count,
                    const et_records_options *options, et_error *error)
{
    static const et_records_options defaults = { 0 };
    const et_records_options *o = options ? options : &defaults;
    bool by_record = false;
    int status = check_options(options, error);
    records *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, sizeof *self, "records");
    self->samples.class = &records_class;
    status = add_fields(self, fields, field_count, error);
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
