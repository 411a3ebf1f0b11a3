/* Sources of a data set, and reading them. The rows of files, of a frame or of a program's class
 * become samples, then batches and passes, read ahead on request. */
#include <etude/table_columns.h>

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "data/batches/source.h"
#include "data/table/table_set.h"
#include "data/text/paths.h"

#define BATCH_USUAL 128

/* ---- making ---- */

static int new_columns(et_table_columns **out, et_error *error)
{
    et_table_columns *self = et_alloc_zero(1, sizeof *self);
    *out = self;
    return self ? ET_OK : et_alloc_failed(error, "a data source");
}

void et_table_columns_close(et_table_columns *source)
{
    if (!source)
        return;
    if (source->own && source->own->class->close)
        source->own->class->close(source->own);
    et_arena_release(&source->arena);
    et_free(source->name);
    et_free(source);
}

static int copy_format(et_table_columns *self, const et_csv_format *format, et_error *error)
{
    if (!format)
        return ET_OK;
    if (format->header && format->no_header)
        return et_fail(error, ET_ECONFIG,
                       "the format of a data source sets both header and no_header: set only one");
    self->csv.delimiter = format->delimiter;
    self->csv.comment = format->comment;
    self->header = format->header      ? ET_HEADER_THERE
                   : format->no_header ? ET_HEADER_ABSENT
                                       : ET_HEADER_FOUND;
    const char *const *missing = format->missing;
    size_t count = 0;
    while (missing && missing[count])
        count++;
    if (!missing)
        return ET_OK;
    const char **copy = et_arena_array(&self->arena, count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = et_arena_strdup(&self->arena, missing[i]);
    self->csv.missing = copy;
    return self->arena.failed ? et_alloc_failed(error, "a data source") : ET_OK;
}

static int give(et_table_columns **out, et_table_columns *self, int status)
{
    if (status)
        et_table_columns_close(self);
    else
        *out = self;
    return status;
}

/* Files are looked for when the source is read. */
static int open_files(et_table_columns **out, const char *paths, const et_csv_format *format,
                      bool examples, et_error *error)
{
    et_table_columns *self;
    int status = new_columns(&self, error);
    if (!status)
        status = copy_format(self, format, error);
    if (!status && (!paths || !*paths))
        status = et_fail(error, ET_ECONFIG, "a data source has no path: name at least one file");
    if (!status) {
        self->examples = examples;
        self->paths = et_arena_strdup(&self->arena, paths);
        status = self->paths ? ET_OK : et_alloc_failed(error, "a data source");
    }
    return give(out, self, status);
}

int et_csv_columns_open(et_table_columns **out, const char *paths, const et_csv_format *format,
                        et_error *error)
{
    return open_files(out, paths, format, false, error);
}

int et_examples_columns_open(et_table_columns **out, const char *paths, et_error *error)
{
    return open_files(out, paths, NULL, true, error);
}

int et_frame_columns_open(et_table_columns **out, const et_frame *frame, et_error *error)
{
    et_table_columns *self = NULL;
    int status;
    if ((status = et_frame_check(frame, error)) || (status = new_columns(&self, error)))
        return status;
    et_frame_column *columns = et_arena_array(&self->arena, frame->column_count, sizeof *columns);
    if (columns) {
        memcpy(columns, frame->columns, frame->column_count * sizeof *columns);
        self->in_memory = true;
        self->frame = *frame;
        self->frame.columns = columns;
    } else
        status = et_alloc_failed(error, "a data source");
    return give(out, self, status);
}

int et_own_columns_open(et_table_columns **out, et_own_columns *own, et_error *error)
{
    et_table_columns *self;
    if (!own || !own->class || !own->class->name)
        return et_fail(error, ET_ECONFIG, "a data source of a program needs a class with a name");
    int status = new_columns(&self, error);
    if (status)
        return status;
    self->own = own;
    self->examples = own->class->examples;
    *out = self;
    return ET_OK;
}

const char *et_table_columns_name(const et_table_columns *source)
{
    return source->name;
}

/* ---- passes ---- */

/* Ends after a number of passes. The first batch of a further pass is given back, so that inner's
 * position is before it. */

typedef struct passes {
    et_around around;
    int64_t epochs;
} passes;

static int passes_next(et_source *source, et_batch *batch, et_error *error)
{
    const passes *self = (const passes *)source;
    et_source *inner = self->around.inner;
    et_position before = { .count = 0 };
    et_source_position(inner, &before);
    int status = et_source_next(inner, batch, error);
    if (status || !batch->filled[0] || batch->epoch < self->epochs)
        return status;
    et_batch_clear(batch);
    return et_source_seek(inner, &before, error);
}

/* The passes are of one reading: each begins with the first of them. */
static int passes_rewind(et_source *source, bool next, et_error *error)
{
    (void)next;
    return et_source_rewind(((passes *)source)->around.inner, error);
}

static const et_source_class passes_class = {
    .name = "passes",
    .next = passes_next,
    .position = et_around_position,
    .seek = et_around_seek,
    .describe = et_around_describe,
    .close = et_around_close,
    .batches = et_around_batches,
    .content = et_around_content,
    .rewind = passes_rewind,
};

/* Limits an endless source to so many passes. Owns inner. */
static int passes_open(et_source **out, et_source *inner, int64_t epochs, et_error *error)
{
    et_assert(epochs > 0);
    passes *self = et_around_new(sizeof *self, &passes_class, inner, "passes", error);
    if (!self)
        return ET_ENOMEM;
    self->epochs = epochs;
    *out = &self->around.source;
    return ET_OK;
}

/* ---- reading ---- */

static int read_rows(et_samples **out, const et_encoder *encoder, et_rows *rows,
                     const et_table_samples_options *options, et_error *error)
{
    const int status = et_table_read(out, encoder, rows, options, error);
    et_rows_close(rows);
    return status;
}

struct et_instances {
    et_bytes *items; /* [count], in arena */
    size_t count, capacity;
    et_arena arena;
};

int et_instances_add(et_instances *to, const void *data, size_t length, et_error *error)
{
    if (!data && length)
        return et_fail(error, ET_EDATA, "instance %zu is NULL", to->count + 1);
    char *copy = et_arena_strndup(&to->arena, data, length);
    if (!copy || !ET_VECTOR_APPEND(to->items, to->count, to->capacity, (et_bytes){ copy, length }))
        return et_alloc_failed(error, "an instance");
    return ET_OK;
}

static int read_own(et_samples **out, const et_table_columns *source,
                    const et_table_samples_options *options, et_error *error)
{
    const et_own_columns_class *class = source->own->class;
    const et_rows_options how = { .no_targets = options->keep_unlabelled };
    et_instances list = { .arena = ET_ARENA_INIT };
    et_rows *rows = NULL;
    int status = class->read_instances
                     ? class->read_instances(source->own, &list, error)
                     : et_fail(error, ET_EUSAGE,
                               "read_instances must be implemented by the class of the source, %s",
                               class->name);
    if (!status && !list.count)
        status =
            et_fail(error, ET_EDATA, "class %s gave no instance: give at least one", class->name);
    if (!status)
        status = et_rows_open_instances(&rows, et_encoder_row_layout(source->encoder), list.items,
                                        list.count, source->examples, &how, error);
    if (!status)
        status = read_rows(out, source->encoder, rows, options, error);
    et_free(list.items);
    et_arena_release(&list.arena);
    return status;
}

int et_table_columns_samples(et_samples **out, const et_table_columns *source,
                             const et_read_options *options, et_error *error)
{
    static const et_read_options usual;
    const et_read_options *o = options ? options : &usual;
    int status = ET_OK;
    if (!source->encoder)
        status =
            et_fail(error, ET_ECONFIG,
                    "a data source cannot be opened alone: add it to a data set, whose features "
                    "describe the rows");
    else if (o->batch < 0 || o->epochs < 0 || o->threads < 0 || o->shuffle_buffer < 0)
        status = et_fail(
            error, ET_ECONFIG,
            "batch %lld, epochs %lld, threads %d, shuffle_buffer %lld: none may be negative",
            (long long)o->batch, (long long)o->epochs, o->threads, (long long)o->shuffle_buffer);
    if (status)
        return status;
    et_table_samples_options table = { .examples = source->examples,
                                       .csv = source->csv,
                                       .header = source->header,
                                       .keep_unlabelled = o->keep_unlabelled,
                                       .cache = o->cache,
                                       .memory = o->memory };
    if (source->own)
        status = read_own(out, source, &table, error);
    else if (source->in_memory) {
        const et_rows_options how = { .no_targets = o->keep_unlabelled };
        et_rows *rows = NULL;
        status = et_rows_open_frame(&rows, et_encoder_row_layout(source->encoder), &source->frame,
                                    source->name, &how, error);
        if (!status)
            status = read_rows(out, source->encoder, rows, &table, error);
    } else {
        const et_strings given = { &source->paths, 1 };
        et_arena arena = ET_ARENA_INIT;
        status = et_paths_match(&table.paths, &given, NULL, &arena, error);
        if (!status)
            status = et_table_samples_open(out, source->encoder, &table, error);
        et_arena_release(&arena);
    }
    return status ? et_fail_while(error, status, "source %.60s", source->name) : ET_OK;
}

/* Puts one decorator around another; on failure, the inner source is closed too. */
static int around(et_source **source, int status, et_source *const *outer)
{
    if (status) {
        et_source_close(*source);
        return status;
    }
    *source = *outer;
    return ET_OK;
}

int et_table_columns_read(et_source **out, const et_table_columns *source,
                          const et_read_options *options, et_error *error)
{
    static const et_read_options usual;
    const et_read_options *o = options ? options : &usual;
    et_samples *samples = NULL;
    et_source *batches = NULL, *outer = NULL;
    const et_batches_options how = { .seed = o->seed,
                                     .shuffle = o->shuffle,
                                     .repeat = o->epochs != 1,
                                     .capacity = { o->batch ? o->batch : BATCH_USUAL } };
    int status;
    if ((status = et_table_columns_samples(&samples, source, options, error)) ||
        (status = et_batches_take(&batches, samples, &how, error)))
        return status;
    if (o->epochs > 1)
        status = around(&batches, passes_open(&outer, batches, o->epochs, error), &outer);
    if (!status && o->threads > 1)
        status = around(&batches, et_prefetch_open(&outer, batches, o->threads, error), &outer);
    if (!status)
        *out = batches;
    return status;
}
