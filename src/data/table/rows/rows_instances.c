/* Instances of a program as rows: each is a row of CSV, or a serialized tf.Example. */
#include "data/table/rows/rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/vector.h"
#include "data/table/rows/csv_scan.h"

/* What messages call it: "instance:3". */
static const char *const instance_name = "instance";

typedef struct instance_rows {
    et_rows rows;
    et_rows_options options;
    const et_bytes *instances; /* [count], borrowed */
    size_t count, at;
    /* tf.Examples */
    bool examples;
    et_reading *values; /* [cells] */
    et_arena arena;
    /* CSV */
    et_csv_scanner scanner;
    et_columns columns; /* count 0: there was no instance yet */
    char *text;         /* [capacity] */
    size_t capacity;
} instance_rows;

static void instance_close(et_rows *rows)
{
    instance_rows *self = (instance_rows *)rows;
    et_csv_scanner_release(&self->scanner);
    et_columns_release(&self->columns);
    et_arena_release(&self->arena);
    et_free(self->values);
    et_free(self->text);
    et_free(self);
}

/* ---- CSV ---- */

/* With a line end, which it may have itself. */
static int copy_instance(instance_rows *self, const et_bytes *instance, size_t *length,
                         et_error *error)
{
    if (instance->length > ET_CSV_ROW_MAX)
        return et_fail(error, ET_EDATA, "%s:%zu: a row of %zu bytes, more than %zu", instance_name,
                       self->at, instance->length, ET_CSV_ROW_MAX);
    size_t needed = instance->length + 1;
    char *text = et_vector_grow(self->text, &self->capacity, needed, 1, 256);
    if (!text)
        return et_alloc_failed(error, needed, "an instance");
    self->text = text;
    *length = instance->length;
    if (*length)
        memcpy(self->text, instance->data, *length);
    if (!*length || self->text[*length - 1] != '\n')
        self->text[(*length)++] = '\n';
    return ET_OK;
}

static int scan(instance_rows *self, size_t length, et_csv_row *row, et_error *error)
{
    et_csv_scanner *scanner = &self->scanner;
    char *end = self->text + length;
    if (!self->columns.count && !self->options.csv.delimiter) {
        char guess = et_csv_guess(scanner, self->text, end, 1);
        scanner->delimiter = guess ? guess : scanner->delimiter;
    }
    et_csv_found found = et_csv_scan(scanner, self->text, end, et_csv_contents(self->text, length));
    if (found == ET_CSV_MORE) {
        scanner->fault = scanner->at ? ET_CSV_FAULT_QUOTE : ET_CSV_FAULT_LONG;
        found = ET_CSV_BAD;
    }
    if (found == ET_CSV_BAD)
        return et_csv_fault_fail(scanner, instance_name, (int64_t)self->at, error);
    if (found == ET_CSV_SKIP || scanner->next != end)
        return et_fail(error, ET_EDATA, "%s:%zu: the text is %s: give one row", instance_name,
                       self->at, found == ET_CSV_SKIP ? "empty" : "more than one row");
    *row = (et_csv_row){ (int64_t)self->at, scanner->count, scanner->cell };
    if (!scanner->columns) {
        scanner->columns = scanner->count;
        scanner->columns_line = (int64_t)self->at;
    }
    return ET_OK;
}

/* *header: it was one. */
static int next_csv(instance_rows *self, et_row *out, bool *header, et_error *error)
{
    size_t length = 0;
    et_csv_row row = { .count = 0 };
    bool first = !self->columns.count;
    int status = copy_instance(self, &self->instances[self->at++], &length, error);
    if (!status)
        status = scan(self, length, &row, error);
    if (!status && first)
        status = et_columns_find(&self->columns, self->rows.layout, &row, self->options.header,
                                 !self->options.no_targets, instance_name, error);
    if (status)
        return status;
    *header = first && self->columns.header;
    if (first && !*header)
        et_csv_scanner_take_missing(&self->scanner);
    self->scanner.names = false;
    *out = (et_row){ .cells = et_columns_take(&self->columns, &row), .number = row.line };
    return ET_OK;
}

/* ---- both ---- */

static int instance_next(et_rows *rows, et_row *row, et_error *error)
{
    instance_rows *self = (instance_rows *)rows;
    bool header = false;
    if (self->at == self->count)
        return ET_OK;
    if (self->examples) {
        const et_bytes *bytes = &self->instances[self->at++];
        int status = et_example_row(self->values, self->rows.layout, bytes->data, bytes->length,
                                    &self->arena, error);
        *row = (et_row){ .values = self->values, .number = (int64_t)self->at };
        return status ? et_fail_while(error, status, "%s:%zu", instance_name, self->at) : ET_OK;
    }
    int status = next_csv(self, row, &header, error);
    if (status || !header)
        return status;
    *row = (et_row){ .end = true };
    return self->at == self->count ? ET_OK : next_csv(self, row, &header, error);
}

static const et_rows_class instance_rows_class = { "instances", instance_next, NULL,
                                                   instance_close };

int et_rows_open_instances(et_rows **out, const et_row_layout *layout, const et_bytes *instances,
                           size_t count, bool examples, const et_rows_options *options,
                           et_error *error)
{
    size_t cells = (size_t)layout->count;
    instance_rows *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "rows");
    self->rows = (et_rows){ &instance_rows_class, layout, { &instance_name, 1 } };
    self->instances = instances;
    self->count = count;
    self->examples = examples;
    if (options)
        self->options = *options;
    self->options.csv.names = self->options.header != ET_HEADER_ABSENT;
    et_csv_scanner_init(&self->scanner, &self->options.csv);
    self->values = et_alloc_zero(cells, sizeof *self->values);
    if (!self->values) {
        instance_close(&self->rows);
        return et_alloc_failed(error, cells * sizeof *self->values, "rows");
    }
    *out = &self->rows;
    return ET_OK;
}
