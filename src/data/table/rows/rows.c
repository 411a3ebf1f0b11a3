/* The common part of all rows, and rows of CSV files: each file has its own columns, in its own
 * order. */
#include "data/table/rows/rows.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/table/schema/schema.h"

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

bool et_rows_wait(et_rows *rows)
{
    return rows->class->waits && rows->class->waits(rows);
}

/* ---- CSV ---- */

typedef struct csv_rows {
    et_rows rows;
    et_rows_options options;
    et_csv *csv;         /* NULL: no file is open */
    size_t file, begun;  /* which one it is, and how many were opened */
    et_columns columns;  /* of it; count 0: not known, and a row that fails is the last */
    et_columns first;    /* of the first file, if it has a header */
    et_same_header same; /* that; count 0: it has none, or was not read */
    et_csv_known known;  /* of the later files */
    int *keep;           /* [options.keep]: columns of the file; owned */
    et_cell *kept;       /* [options.keep]: of the row; owned */
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
    et_columns_release(&self->first);
    et_same_header_release(&self->same);
    et_free(self->keep);
    et_free(self->kept);
    et_free(self);
}

/* The first file's header says which columns all files have. */
static int keep_header(csv_rows *self, const et_csv_row *header, et_error *error)
{
    int status =
        et_same_header_begin(&self->same, self->rows.paths.items[self->file], header, error);
    if (!status)
        status = et_columns_copy(&self->first, &self->columns, error);
    if (status)
        return status;
    self->known = et_same_header_known(&self->same, et_csv_delimiter(self->csv));
    self->options.csv.known = &self->known;
    return ET_OK;
}

/* Finds the columns of a file with the first file's header, in any order. */
static int find_named(csv_rows *self, const et_csv_row *row, et_error *error)
{
    int *position = et_alloc((size_t)self->same.count, sizeof *position);
    if (!position)
        return et_alloc_failed(error, (size_t)self->same.count * sizeof *position, "columns");
    int status =
        et_same_header_find(&self->same, position, self->rows.paths.items[self->file], row, error);
    if (!status)
        status = et_columns_copy(&self->columns, &self->first, error);
    for (int i = 0; !status && i < self->columns.count; i++)
        if (self->columns.column[i] >= 0)
            self->columns.column[i] = position[self->columns.column[i]];
    et_free(position);
    return status;
}

/* Without a header columns are the schema's, which must not be another order than the first file's.
 */
static int find_columns(csv_rows *self, const et_csv_row *row, et_error *error)
{
    const char *path = self->rows.paths.items[self->file];
    et_header header = self->options.header;
    if (self->same.count && (header == ET_HEADER_THERE || et_same_header_is(&self->same, row)))
        return find_named(self, row, error);
    if (self->same.count)
        header = ET_HEADER_ABSENT;
    int status = et_columns_find(&self->columns, self->rows.layout, row, header,
                                 !self->options.no_targets, path, error);
    const size_t size = (size_t)self->columns.count * sizeof *self->columns.column;
    if (!status && self->same.count == row->count &&
        memcmp(self->columns.column, self->first.column, size) != 0)
        status = et_same_header_absent(&self->same, path, row->line, error);
    return status;
}

/* ---- columns that are kept ---- */

#define NAMES_MAX 256 /* columns that a message compares */

static int find_in_header(const csv_rows *self, const et_csv_row *header, const char *name,
                          int *column, et_error *error)
{
    const size_t length = strlen(name);
    *column = -1;
    for (int i = 0; i < header->count; i++) {
        const et_cell *cell = &header->cell[i];
        const bool same = cell->text && cell->length
                              ? cell->length == length && !memcmp(cell->text, name, length)
                              : !strcmp(et_column_numbered(i).text, name);
        if (same && *column >= 0)
            return et_fail(error, ET_EDATA,
                           "%s:%lld: the name %.64s is used twice, for columns %d and %d: rename "
                           "one",
                           self->rows.paths.items[self->file], (long long)header->line, name,
                           *column + 1, i + 1);
        *column = same ? i : *column;
    }
    if (*column < 0) {
        et_column_name names[NAMES_MAX];
        const char *list[NAMES_MAX + 1];
        int count = 0;
        for (int i = 0; i < header->count && count < NAMES_MAX; i++) {
            const et_cell *cell = &header->cell[i];
            et_column_name *to = &names[count];
            snprintf(to->text, sizeof to->text, "%.*s",
                     (int)(cell->length < 299 ? cell->length : 299), cell->text ? cell->text : "");
            list[count++] = to->text;
        }
        list[count] = NULL;
        return et_fail(error, ET_EDATA, "%s:%lld: there is no column %.64s to keep%s",
                       self->rows.paths.items[self->file], (long long)header->line, name,
                       et_nearest_hint(name, list, "").text);
    }
    return ET_OK;
}

/* Without a header the schema has the names. */
static int find_in_schema(const csv_rows *self, const char *name, int *column, et_error *error)
{
    const et_row_layout *layout = self->rows.layout;
    const int field = et_schema_position(layout->schema, name);
    *column = field < 0 ? -1 : self->columns.column[layout->begin[field]];
    if (*column >= 0)
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "%s: the rows have no header, and the model knows no column %.64s of theirs: "
                   "add a first line with the names of all columns",
                   self->rows.paths.items[self->file], name);
}

/* first: the header, if there is one. */
static int find_kept(csv_rows *self, const et_csv_row *first, et_error *error)
{
    const et_strings *keep = &self->options.keep;
    int status = ET_OK;
    if (keep->count && !self->keep) {
        self->keep = et_alloc(keep->count, sizeof *self->keep);
        self->kept = et_alloc_zero(keep->count, sizeof *self->kept);
        if (!self->keep || !self->kept)
            return et_alloc_failed(error, keep->count * sizeof *self->kept, "kept columns");
    }
    for (size_t i = 0; i < keep->count && !status; i++)
        status = self->columns.header
                     ? find_in_header(self, first, keep->items[i], &self->keep[i], error)
                     : find_in_schema(self, keep->items[i], &self->keep[i], error);
    return status;
}

static const et_cell *take_kept(csv_rows *self, const et_csv_row *row)
{
    for (size_t i = 0; i < self->options.keep.count; i++)
        self->kept[i] = row->cell[self->keep[i]];
    return self->kept;
}

/* ---- rows of CSV ---- */

/* If the first row is bad, the file may not be CSV at all: the message then mentions JSON lines. */
static int fail_first(const csv_rows *self, int status, et_error *error)
{
    const et_error reason = *error;
    if (status != ET_EDATA || self->columns.count || !self->options.jsonl)
        return status;
    return et_fail(error, status, "%s; if these are JSON lines, %s", reason.text,
                   self->options.jsonl);
}

/* *row is the first row of values, or has count 0. */
static int read_first(csv_rows *self, et_csv_row *row, et_error *error)
{
    const char *path = self->rows.paths.items[self->file];
    if (!row->count)
        return self->options.optional
                   ? ET_OK
                   : et_fail(error, ET_EDATA, "%s: no rows: give at least one", path);
    if (self->options.jsonl && row->cell[0].text && row->cell[0].length &&
        row->cell[0].text[0] == '{')
        return et_fail(error, ET_EDATA, "%s:%lld: this looks like JSON lines; %s", path,
                       (long long)row->line, self->options.jsonl);
    int status = find_columns(self, row, error);
    if (!status && self->columns.header && self->begun == 1 && self->rows.paths.count > 1)
        status = keep_header(self, row, error);
    if (!status)
        status = find_kept(self, row, error);
    if (status)
        et_columns_release(&self->columns);
    else if (self->columns.header)
        return et_csv_next(self->csv, row, error);
    else
        et_csv_take_missing(self->csv);
    return status;
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
            status = et_csv_open(&self->csv, self->rows.paths.items[self->file], &self->options.csv,
                                 error);
        }
        if (!status)
            status = fail_first(self, et_csv_next(self->csv, &row, error), error);
        if (!status && !self->columns.count)
            status = read_first(self, &row, error);
        if (!status && !row.count)
            close_file(self);
    }
    if (!status)
        *out = (et_row){ .cells = et_columns_take(&self->columns, &row),
                         .kept = take_kept(self, &row),
                         .file = self->file,
                         .number = row.line };
    else if (self->columns.count)
        out->number = row.line;
    return status;
}

static bool csv_waits(et_rows *rows)
{
    const et_csv *csv = ((const csv_rows *)rows)->csv;
    return csv && et_csv_waits(csv);
}

static const et_rows_class csv_rows_class = { "CSV", csv_next, csv_waits, csv_close };

int et_rows_open_csv(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                     const et_rows_options *options, et_error *error)
{
    et_assert(paths->count > 0);
    csv_rows *self = et_alloc_zero(1, sizeof *self);
    if (!self) {
        et_csv_close(options ? options->reader : NULL);
        return et_alloc_failed(error, sizeof *self, "rows");
    }
    self->rows = (et_rows){ &csv_rows_class, layout, *paths };
    if (options)
        self->options = *options;
    self->options.csv.names = self->options.header != ET_HEADER_ABSENT;
    self->csv = self->options.reader;
    self->begun = self->csv != NULL;
    *out = &self->rows;
    return ET_OK;
}
