/* Rows are encoded straight into where they stay. A row in memory:
 *
 *   item of field 0 | item of field 1 | ... | its line, uint32
 *
 * all of 4 bytes or several, in the order of the layout. A batch of shuffled rows then touches one
 * place for each. Rows of a file stand together, so a row's file is found by halving. */
#include "data/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/checksum.h"
#include "base/format.h"
#include "base/vector.h"
#include "data/layout.h"

/* Rows that the first memory is for. */
#define ROWS_FIRST 1024

typedef struct part {
    size_t offset, size; /* of a field's item in a row */
    bool numbers;        /* of a target */
    bool target;
} part;

typedef struct file {
    char *path;    /* owned */
    int64_t first; /* its first row */
} file;

typedef struct table {
    et_samples samples;
    unsigned char *rows; /* [count][row_size] */
    size_t row_size;     /* with the line */
    part *parts;         /* [fields but the mask] */
    int fields;          /* the same */
    file *files;         /* [file_count] */
    size_t file_count;
    et_layout_field *layout; /* owned */
} table;

/* ---- the class ---- */

static int table_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    (void)error;
    const table *self = (const table *)samples;
    for (int k = 0; k < self->fields; k++) {
        const part *p = &self->parts[k];
        unsigned char *to = (unsigned char *)batch->data[k] + (size_t)batch->filled[0] * p->size;
        for (int64_t i = 0; i < pick.count; i++, to += p->size)
            memcpy(to, self->rows + pick.which[i] * self->row_size + p->offset, p->size);
    }
    batch->filled[0] += pick.count;
    return ET_OK;
}

static void table_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                           size_t size)
{
    (void)kind;
    const table *self = (const table *)samples;
    uint32_t line;
    size_t low = 0, high = self->file_count - 1;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (self->files[middle].first <= which)
            low = middle;
        else
            high = middle - 1;
    }
    memcpy(&line, self->rows + (which + 1) * self->row_size - sizeof line, sizeof line);
    snprintf(text, size, "%s:%lu", self->files[low].path, (unsigned long)line);
}

static void table_close(et_samples *samples)
{
    table *self = (table *)samples;
    for (size_t i = 0; self->files && i < self->file_count; i++)
        et_free(self->files[i].path);
    et_free(self->files);
    et_free(self->parts);
    et_free(self->layout);
    et_free(self->rows);
    et_free(self);
}

static const et_samples_class table_class = {
    .name = "table",
    .fill = table_fill,
    .describe = table_describe,
    .close = table_close,
};

/* ---- shape ---- */

static int copy_layout(table *self, const et_encoder *encoder, et_error *error)
{
    const et_layout *layout = et_encoder_layout(encoder);
    int status = et_layout_own(&self->layout, layout->field, layout->fields, error);
    if (status)
        return status;
    self->samples.layout = *layout;
    self->samples.layout.field = self->layout;
    self->fields = et_encoder_fields(encoder);
    self->parts = et_alloc_zero((size_t)self->fields, sizeof *self->parts);
    if (!self->parts)
        return et_alloc_failed(error, sizeof *self->parts, "a table");
    for (int i = 0; i < self->fields; i++) {
        et_encoded_kind kind = et_encoder_field(encoder, i)->kind;
        self->parts[i] = (part){ .offset = self->row_size,
                                 .size = (size_t)et_shape_count(layout->field[i].item) *
                                         et_dtype_size(layout->field[i].dtype),
                                 .numbers = kind == ET_ENCODED_VALUES,
                                 .target = kind == ET_ENCODED_VALUES || kind == ET_ENCODED_CLASS };
        self->row_size += self->parts[i].size;
    }
    self->row_size += sizeof(uint32_t);
    return ET_OK;
}

static int copy_files(table *self, const et_strings *paths, et_error *error)
{
    self->files = et_alloc_zero(paths->count, sizeof *self->files);
    for (size_t i = 0; self->files && i < paths->count; i++) {
        self->files[i].path = et_strdup(paths->items[i]);
        if (!self->files[i].path)
            return et_alloc_failed(error, strlen(paths->items[i]), "a table");
        self->file_count++;
    }
    return self->files ? ET_OK : et_alloc_failed(error, sizeof *self->files, "a table");
}

/* ---- reading ---- */

typedef struct reading {
    table *self;
    et_rows *rows;
    const et_table_options *options;
    et_checksum_stream *stream; /* of items, not of lines */
    void **to;                  /* [fields] */
    size_t capacity;            /* bytes */
    int64_t left_out;
    et_error *error;
} reading;

/* A class of -1, or a value that is NaN. */
static bool is_unlabelled(const table *self, const unsigned char *row)
{
    for (int i = 0; i < self->fields; i++) {
        const part *p = &self->parts[i];
        for (size_t at = 0; p->target && at < p->size; at += sizeof(float)) {
            int32_t class;
            float value;
            memcpy(&class, row + p->offset + at, sizeof class);
            memcpy(&value, row + p->offset + at, sizeof value);
            if (p->numbers ? isnan(value) : class < 0)
                return true;
        }
    }
    return false;
}

static unsigned char *room(reading *r)
{
    table *self = r->self;
    size_t wanted = ((size_t)self->samples.count + 1) * self->row_size;
    unsigned char *rows =
        et_vector_grow(self->rows, &r->capacity, wanted, 1, self->row_size * ROWS_FIRST);
    if (!rows)
        return NULL;
    self->rows = rows;
    unsigned char *row = rows + (size_t)self->samples.count * self->row_size;
    for (int i = 0; i < self->fields; i++)
        r->to[i] = row + self->parts[i].offset;
    return row;
}

static int add_row(reading *r, const et_row *from)
{
    table *self = r->self;
    uint32_t line = (uint32_t)from->number;
    if (self->samples.count == UINT32_MAX || from->number > UINT32_MAX)
        return et_fail(r->error, ET_EDATA, "%s:%lld: more than 4,294,967,295 rows: use fewer",
                       r->rows->paths.items[from->file], (long long)from->number);
    unsigned char *row = room(r);
    if (!row)
        return et_alloc_failed(r->error, r->capacity, "the rows of a table");
    int status = et_row_encode(r->rows, from, r->to, r->error);
    if (status)
        return status;
    if (!r->options->keep_unlabelled && is_unlabelled(self, row)) {
        r->left_out++;
        return ET_OK;
    }
    memcpy(row + self->row_size - sizeof line, &line, sizeof line);
    et_checksum_stream_add(r->stream, row, self->row_size - sizeof line);
    self->samples.count++;
    return ET_OK;
}

/* Says how many rows had no target; where no row is left that is why. */
static int finish(reading *r)
{
    et_samples *s = &r->self->samples;
    const char *path = r->rows->paths.items[0];
    if (!s->count && r->left_out)
        return et_fail(r->error, ET_EDATA, "%s: no row has a target: fill it in", path);
    if (!s->count)
        return et_fail(r->error, ET_EDATA, "%s: there is no row in it: give at least one", path);
    if (r->left_out)
        et_log(ET_LOG_WARNING, "%s: %s rows have no target and are left out", path,
               et_format_count(r->left_out).text);
    s->total[0] = s->count;
    s->largest[0] = 1;
    return ET_OK;
}

static int read_rows(reading *r)
{
    table *self = r->self;
    et_row row;
    size_t at = 0;
    int status = ET_OK;
    for (;;) {
        status = et_rows_next(r->rows, &row, r->error);
        if (status || row.end)
            break;
        for (; at < row.file; at++)
            self->files[at + 1].first = self->samples.count;
        status = add_row(r, &row);
        if (status)
            return status;
    }
    for (; at + 1 < self->file_count; at++)
        self->files[at + 1].first = self->samples.count;
    return status ? status : finish(r);
}

static int read_all(table *self, et_rows *rows, const et_table_options *options, et_error *error)
{
    reading r = { .self = self, .rows = rows, .options = options, .error = error };
    uint64_t print[] = { et_encoder_fingerprint(rows->encoder), 0, 0 };
    r.to = et_alloc_zero((size_t)self->fields, sizeof *r.to);
    int status = r.to ? et_checksum_stream_open(&r.stream, error)
                      : et_alloc_failed(error, sizeof *r.to, "a table");
    if (!status)
        status = read_rows(&r);
    if (!status) {
        print[1] = (uint64_t)self->samples.count;
        print[2] = et_checksum_stream_value(r.stream);
        self->samples.fingerprint = et_checksum(print, sizeof print);
    }
    et_checksum_stream_close(r.stream);
    et_free(r.to);
    return status;
}

int et_table_read(et_samples **out, et_rows *rows, const et_table_options *options, et_error *error)
{
    table *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a table");
    self->samples.class = &table_class;
    int status = copy_layout(self, rows->encoder, error);
    if (!status)
        status = copy_files(self, &rows->paths, error);
    if (!status)
        status = read_all(self, rows, options, error);
    if (status) {
        table_close(&self->samples);
        return status;
    }
    *out = &self->samples;
    return ET_OK;
}

int et_table_open(et_samples **out, const et_encoder *encoder, const et_table_options *options,
                  et_error *error)
{
    const et_rows_options how = { options->csv, options->header, options->keep_unlabelled };
    et_rows *rows = NULL;
    if (!options->paths.count)
        return et_fail(error, ET_ECONFIG, "no data: name one file or more");
    int status = et_rows_open_csv(&rows, encoder, &options->paths, &how, error);
    if (!status)
        status = et_table_read(out, rows, options, error);
    et_rows_close(rows);
    return status;
}
