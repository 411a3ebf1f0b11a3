/* Rows of arrays in memory: each field reads the column with its name. */
#include "data/table/rows/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "data/table/schema/schema.h"

typedef struct frame_rows {
    et_rows rows;
    const char *name;               /* of the frame */
    const et_frame_column **column; /* [fields of the schema]; NULL: the frame lacks the column */
    int64_t count, at;
    et_reading values[]; /* [cells] */
} frame_rows;

et_schema_type et_column_field_type(et_column_type type)
{
    static const et_schema_type types[] = {
        [ET_COLUMN_CATEGORY] = ET_SCHEMA_DISCRETE, [ET_COLUMN_INT32] = ET_SCHEMA_INTEGER,
        [ET_COLUMN_INT64] = ET_SCHEMA_INTEGER,     [ET_COLUMN_FLOAT32] = ET_SCHEMA_REAL,
        [ET_COLUMN_FLOAT64] = ET_SCHEMA_REAL,
    };
    et_assert((size_t)type < sizeof types / sizeof *types);
    return types[type];
}

et_reading et_frame_value(const et_frame_column *column, int64_t row)
{
    const char *text;
    double number = 0;
    switch (column->type) {
    case ET_COLUMN_CATEGORY:
        text = ((const char *const *)column->data)[row];
        return (et_reading){ .text = text, .length = text ? strlen(text) : 0, .missing = !text };
    case ET_COLUMN_INT32:
        number = ((const int32_t *)column->data)[row];
        break;
    case ET_COLUMN_INT64:
        number = (double)((const int64_t *)column->data)[row];
        break;
    case ET_COLUMN_FLOAT32:
        number = ((const float *)column->data)[row];
        break;
    case ET_COLUMN_FLOAT64:
        number = ((const double *)column->data)[row];
        break;
    }
    return (et_reading){ .number = number, .numeric = true, .missing = isnan(number) };
}

int et_frame_check(const et_frame *frame, et_error *error)
{
    if (frame->column_count < 1 || !frame->columns || frame->rows < 1)
        return et_fail(error, ET_ECONFIG,
                       "a frame of %d columns and %lld rows: give at least one of each",
                       frame->column_count, (long long)frame->rows);
    for (int i = 0; i < frame->column_count; i++) {
        const et_frame_column *c = &frame->columns[i];
        if (!c->name || !*c->name || !c->data)
            return et_fail(error, ET_ECONFIG, "column %d of a frame needs a name and data", i + 1);
        if ((unsigned)c->type > ET_COLUMN_FLOAT64)
            return et_fail(error, ET_ECONFIG,
                           "column %.60s of a frame: the type must be category, int32, int64, "
                           "float32 or float64",
                           c->name);
        for (int k = 0; k < i; k++)
            if (!strcmp(c->name, frame->columns[k].name))
                return et_fail(error, ET_ECONFIG, "two columns are called %.60s: rename one",
                               c->name);
    }
    return ET_OK;
}

/* ---- rows ---- */

static void frame_close(et_rows *rows)
{
    frame_rows *self = (frame_rows *)rows;
    et_free((void *)self->column);
    et_free(self);
}

static int frame_next(et_rows *rows, et_row *row, et_error *error)
{
    frame_rows *self = (frame_rows *)rows;
    const et_schema *schema = rows->layout->schema;
    if (self->at == self->count)
        return ET_OK;
    for (int f = 0; f < et_schema_count(schema); f++) {
        if (!self->column[f])
            continue;
        et_reading *to = &self->values[rows->layout->begin[f]];
        *to = et_frame_value(self->column[f], self->at);
        if (to->text && !et_utf8_valid(to->text, to->length, NULL))
            return et_fail(error, ET_EDATA, "%s:%lld: column %.60s: its text is not UTF-8",
                           self->name, (long long)self->at + 1, self->column[f]->name);
    }
    self->at++;
    *row = (et_row){ .values = self->values, .number = self->at };
    return ET_OK;
}

static const et_rows_class frame_rows_class = { "a frame", frame_next, NULL, frame_close };

static const et_frame_column *find(const et_frame *frame, const char *name)
{
    for (int i = 0; i < frame->column_count; i++)
        if (!strcmp(frame->columns[i].name, name))
            return &frame->columns[i];
    return NULL;
}

/* A column for each field that is needed, of the field's kind. */
static int find_columns(frame_rows *self, const et_frame *frame, bool no_targets, et_error *error)
{
    const et_row_layout *layout = self->rows.layout;
    const et_schema *schema = layout->schema;
    et_problems problems = ET_PROBLEMS_INIT;
    char what[100];
    for (int f = 0; f < et_schema_count(schema); f++) {
        const et_schema_field *field = et_schema_at(schema, f);
        const et_frame_column *column = find(frame, field->name);
        bool input = layout->reads[false][f];
        bool target = layout->reads[true][f];
        if (!column && (input || (target && !no_targets)))
            et_problems_add(&problems, "there is no column %.60s", field->name);
        if (!column || !(input || target))
            continue;
        bool numeric = et_column_field_type(column->type) != ET_SCHEMA_DISCRETE;
        if (field->length > 1)
            et_problems_add(&problems, "column %.60s has one value per row, the field %lld",
                            field->name, (long long)field->length);
        else if (numeric != et_schema_numeric(field))
            et_problems_add(&problems, "column %.60s has %s, but the field is %s", field->name,
                            numeric ? "numbers" : "texts", et_schema_type_name(field->type));
        self->column[f] = column;
    }
    snprintf(what, sizeof what, "%.60s does not match the schema", self->name);
    return et_problems_report(&problems, ET_EDATA, what, error);
}

int et_rows_open_frame(et_rows **out, const et_row_layout *layout, const et_frame *frame,
                       const char *name, const et_rows_options *options, et_error *error)
{
    size_t cells = (size_t)layout->count;
    size_t fields = (size_t)et_schema_count(layout->schema);
    int status = et_frame_check(frame, error);
    const size_t size = sizeof(frame_rows) + cells * sizeof(et_reading);
    frame_rows *self =
        status ? NULL
               : et_rows_new(size, &frame_rows_class, layout, (et_strings){ NULL, 1 }, error);
    if (!self)
        return status ? status : ET_ENOMEM;
    self->name = name;
    self->rows.paths.items = &self->name;
    self->count = frame->rows;
    for (size_t i = 0; i < cells; i++)
        self->values[i].missing = true;
    self->column = et_alloc_zero(fields, sizeof *self->column);
    if (!self->column)
        status = et_alloc_failed(error, "rows");
    else
        status = find_columns(self, frame, options && options->no_targets, error);
    if (status) {
        frame_close(&self->rows);
        return status;
    }
    *out = &self->rows;
    return ET_OK;
}
