/* tf.Examples as rows: each field that is read gets the feature with its key. A record is parsed
 * into an arena, which is cleared for the next record. */
#include "data/table/rows/rows.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "data/table/rows/csv_scan.h"
#include "data/table/schema/schema.h"
#include "formats/records/example.h"
#include "formats/records/record.h"

/* ---- one example ---- */

static int wrong_count(const et_schema_field *field, const et_feature *f, et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "feature %.60s has %zu values, but the schema says %lld: correct one of them",
                   field->name, f->count, (long long)field->length);
}

static int wrong_kind(const et_schema_field *field, const et_feature *f, et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "feature %.60s has %s, but the schema says %s: correct one of them", field->name,
                   et_feature_kind_name(f->kind), et_schema_type_name(field->type));
}

static int read_numbers(const et_schema_field *field, const et_feature *f, et_reading *values,
                        et_error *error)
{
    if (f->kind == ET_FEATURE_BYTES) {
        /* Bytes of one string, each a number: images are written so. A string of one byte is a
         * text. */
        const unsigned char *bytes = f->bytes->data;
        if (f->count != 1 || field->length == 1 || f->bytes->length != (size_t)field->length)
            return f->count == 1 && field->length > 1 ? wrong_count(field, f, error)
                                                      : wrong_kind(field, f, error);
        for (int64_t i = 0; i < field->length; i++)
            values[i] = (et_reading){ .number = bytes[i], .numeric = true };
        return ET_OK;
    }
    if (f->count != (size_t)field->length)
        return wrong_count(field, f, error);
    for (size_t i = 0; i < f->count; i++) {
        double number = f->kind == ET_FEATURE_INTS ? (double)f->ints[i] : f->floats[i];
        values[i] = (et_reading){ .number = number, .numeric = true, .missing = isnan(number) };
    }
    return ET_OK;
}

static int read_fixed(const et_schema_field *field, const et_feature *f, et_reading *values,
                      et_error *error)
{
    if (et_schema_numeric(field))
        return read_numbers(field, f, values, error);
    if (f->kind != ET_FEATURE_BYTES)
        return wrong_kind(field, f, error);
    if (f->count != (size_t)field->length)
        return wrong_count(field, f, error);
    for (size_t i = 0; i < f->count; i++) {
        const et_bytes *text = &f->bytes[i];
        size_t offset;
        if (!et_utf8_valid(text->data, text->length, &offset))
            return et_fail(error, ET_EDATA, "feature %.60s: byte %zu of its text is not UTF-8",
                           field->name, offset + 1);
        values[i] = (et_reading){ .text = text->data,
                                  .length = text->length,
                                  .missing = text->length == 0 };
    }
    return ET_OK;
}

/* Reads all values of the list except missing ones. */
static int read_list(const et_schema_field *field, const et_feature *f, et_reading *value,
                     et_arena *arena, et_error *error)
{
    et_reading *list = et_arena_array(arena, f->count, sizeof *list);
    et_schema_field fixed = *field;
    fixed.length = (int64_t)f->count;
    int status = list ? read_fixed(&fixed, f, list, error) : et_alloc_failed(error, "a row");
    size_t count = 0;
    for (size_t i = 0; !status && i < f->count; i++)
        if (!list[i].missing)
            list[count++] = list[i];
    *value = (et_reading){ .list = list, .count = count, .missing = count == 0 };
    return status;
}

/* Reads a serialized tf.Example as values [values of the layout]. Resets arena first; texts and
 * lists are in it. ET_EDATA, ET_EFORMAT: without a place. */
static int example_row(et_reading *values, const et_row_layout *layout, const void *bytes,
                       size_t length, et_arena *arena, et_error *error)
{
    et_example example;
    et_arena_release(arena);
    et_example_memory room = { .arena = arena };
    int status = et_example_read(&example, &room, bytes, length, error);
    if (status)
        return status;
    const et_schema *schema = layout->schema;
    for (int i = 0; i < layout->count; i++)
        values[i] = (et_reading){ .missing = true };
    for (int f = 0; !status && f < et_schema_count(schema); f++) {
        const et_schema_field *field = et_schema_at(schema, f);
        et_reading *to = &values[layout->begin[f]];
        const et_feature *feature = et_example_last(&example, field->name);
        if (!feature || !feature->count)
            continue;
        status = field->length == ET_SCHEMA_VARIABLE ? read_list(field, feature, to, arena, error)
                                                     : read_fixed(field, feature, to, error);
    }
    return status;
}

/* ---- files ---- */

typedef struct example_rows {
    et_rows rows;
    et_record_list records;
    et_arena arena;      /* of the record given last */
    et_reading values[]; /* [cells] */
} example_rows;

static void example_close(et_rows *rows)
{
    example_rows *self = (example_rows *)rows;
    et_record_list_close(&self->records);
    et_arena_release(&self->arena);
    et_free(self);
}

static int example_next(et_rows *rows, et_row *row, et_error *error)
{
    example_rows *self = (example_rows *)rows;
    const void *bytes;
    size_t length;
    et_record_position position;
    int status = et_record_list_next(&self->records, &position, &bytes, &length, error);
    if (status || !bytes)
        return status;
    status = example_row(self->values, rows->layout, bytes, length, &self->arena, error);
    if (status)
        return et_fail_while(error, status, "%s:%lld", position.path, (long long)position.number);
    *row =
        (et_row){ .values = self->values, .file = self->records.file, .number = position.number };
    return ET_OK;
}

static const et_rows_class example_rows_class = { "tf.Examples", example_next, NULL,
                                                  example_close };

int et_rows_open_examples(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                          const et_rows_options *options, et_error *error)
{
    (void)options; /* a field that a record does not have is missing, also a target */
    et_assert(paths->count > 0);
    const size_t size = sizeof(example_rows) + layout->count * sizeof(et_reading);
    example_rows *self = et_rows_new(size, &example_rows_class, layout, *paths, error);
    if (!self)
        return ET_ENOMEM;
    self->records.paths = *paths;
    *out = &self->rows;
    return ET_OK;
}

/* Instances of a program as rows: each is a row of CSV, or a serialized tf.Example. */

/* The name of an instance in messages: "instance:3". */
static const char *const instance_name = "instance";

typedef struct instance_rows {
    et_rows rows;
    et_rows_options options;
    const et_bytes *instances; /* [count], borrowed */
    size_t count, at;
    /* tf.Examples */
    bool examples;
    et_arena arena;
    /* CSV */
    et_csv_scanner scanner;
    et_columns columns; /* count 0: no instance was read yet */
    char *text;         /* [capacity] */
    size_t capacity;
    et_reading values[]; /* [cells] of a tf.Example */
} instance_rows;

static void instance_close(et_rows *rows)
{
    instance_rows *self = (instance_rows *)rows;
    et_csv_scanner_release(&self->scanner);
    et_columns_release(&self->columns);
    et_arena_release(&self->arena);
    et_free(self->text);
    et_free(self);
}

/* ---- CSV ---- */

/* Copies an instance, with a line end if it has none. */
static int copy_instance(instance_rows *self, const et_bytes *instance, size_t *length,
                         et_error *error)
{
    if (instance->length > ET_CSV_ROW_MAX)
        return et_fail(error, ET_EDATA, "%s:%zu: a row of %zu bytes, more than %zu", instance_name,
                       self->at, instance->length, ET_CSV_ROW_MAX);
    size_t needed = instance->length + 1;
    if (!ET_VECTOR_GROW(self->text, self->capacity, needed))
        return et_alloc_failed(error, "an instance");
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

/* *header: the instance was a header. */
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
        int status = example_row(self->values, self->rows.layout, bytes->data, bytes->length,
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
    const size_t size = sizeof(instance_rows) + layout->count * sizeof(et_reading);
    instance_rows *self =
        et_rows_new(size, &instance_rows_class, layout, (et_strings){ &instance_name, 1 }, error);
    if (!self)
        return ET_ENOMEM;
    self->instances = instances;
    self->count = count;
    self->examples = examples;
    if (options)
        self->options = *options;
    self->options.csv.names = self->options.header != ET_HEADER_ABSENT;
    et_csv_scanner_init(&self->scanner, &self->options.csv);
    *out = &self->rows;
    return ET_OK;
}
