/* What all rows share, and those of CSV files: each file has its own columns, in its own order. */
#include "data/rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void et_rows_close(et_rows *rows)
{
    if (rows)
        rows->class->close(rows);
}

int et_rows_next(et_rows *rows, et_row *row, et_error *error)
{
    *row = (et_row){ .end = true };
    return rows->class->next(rows, row, error);
}

int et_row_encode(const et_rows *rows, const et_row *row, void *const *to, et_error *error)
{
    et_assert(!row->end);
    int status = row->cells ? et_encoder_row(rows->encoder, row->cells, to, NULL, error)
                            : et_encoder_values(rows->encoder, row->values, to, NULL, error);
    return status ? et_fail_while(error, status, "%s:%lld", rows->paths.items[row->file],
                                  (long long)row->number)
                  : ET_OK;
}

/* ---- CSV ---- */

typedef struct csv_rows {
    et_rows rows;
    et_rows_options options;
    et_csv *csv;        /* NULL: no file is open */
    size_t file, begun; /* which one it is, and how many were opened */
    et_columns columns; /* of it; count 0: it has given no row */
} csv_rows;

static void close_file(csv_rows *self)
{
    et_csv_close(self->csv);
    self->csv = NULL;
    et_columns_release(&self->columns);
}

static void csv_close(et_rows *rows)
{
    csv_rows *self = (csv_rows *)rows;
    close_file(self);
    et_free(self);
}

/* *row is the first row of values, or has count 0. */
static int read_first(csv_rows *self, et_csv_row *row, et_error *error)
{
    const char *path = self->rows.paths.items[self->file];
    if (!row->count)
        return et_fail(error, ET_EDATA, "%s: there is no row in it: give at least one", path);
    int status = et_columns_find(&self->columns, self->rows.encoder, row, self->options.header,
                                 !self->options.no_targets, path, error);
    return !status && self->columns.header ? et_csv_next(self->csv, row, error) : status;
}

static int csv_next(et_rows *rows, et_row *out, et_error *error)
{
    csv_rows *self = (csv_rows *)rows;
    et_csv_row row = { .count = 0 };
    int status = ET_OK;
    while (!status && !row.count) {
        if (!self->csv) {
            if (self->begun == rows->paths.count)
                return ET_OK;
            self->file = self->begun++;
            status =
                et_csv_open(&self->csv, rows->paths.items[self->file], &self->options.csv, error);
        }
        if (!status)
            status = et_csv_next(self->csv, &row, error);
        if (!status && !self->columns.count)
            status = read_first(self, &row, error);
        if (!status && !row.count)
            close_file(self);
    }
    if (!status)
        *out = (et_row){ .cells = et_columns_take(&self->columns, &row),
                         .file = self->file,
                         .number = row.line };
    return status;
}

static const et_rows_class csv_rows_class = { "CSV", csv_next, csv_close };

int et_rows_open_csv(et_rows **out, const et_encoder *encoder, const et_strings *paths,
                     const et_rows_options *options, et_error *error)
{
    et_assert(paths->count > 0);
    csv_rows *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "rows");
    self->rows = (et_rows){ &csv_rows_class, encoder, *paths };
    if (options)
        self->options = *options;
    *out = &self->rows;
    return ET_OK;
}
