/* Encoding of a row: the steps in order. A step reads its cells as the schema says, and its
 * transform writes its columns. */
#include "data/table/features/encoder_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "data/table/schema/notation.h"

void et_encoder_free(et_encoder *encoder)
{
    if (!encoder)
        return;
    et_schema_free(encoder->schema);
    et_free(encoder->steps);
    et_arena_release(&encoder->arena);
    et_free(encoder);
}

/* ---- rows ---- */

static int no_number(const et_encoder_input *in, const et_cell *cell, et_number kind,
                     et_error *error)
{
    int length = (int)(cell->length < 40 ? cell->length : 40);
    if (kind == ET_NUMBER_LARGE)
        return et_fail(error, ET_EDATA, "\"%.*s\" is too large for a double: correct it", length,
                       cell->text);
    const et_number_format format = et_number_format_of(in->field);
    if (format.notation)
        return et_fail(error, ET_EDATA,
                       "\"%.*s\" is not a number as the schema has it, like %s%s%s: correct it, or "
                       "leave it empty",
                       length, cell->text, ET_NOTATION_EXAMPLE(format));
    char text[41];
    snprintf(text, sizeof text, "%.*s", length, cell->text);
    return et_fail(error, ET_EDATA,
                   "\"%s\" is not a number, but the schema says %s: correct it, or leave it empty; "
                   "to train on such values, make the field discrete, or give --missing %s if "
                   "this text means a missing value",
                   text, et_schema_type_name(in->field->type), et_shell_quote(text).text);
}

static int check_integer(const et_encoder_input *in, const et_reading *value, et_error *error)
{
    if (in->field->type != ET_SCHEMA_INTEGER || in->field->fractions ||
        value->number == floor(value->number))
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "%.17g is not an integer, but the schema says so: correct it, set fractions: "
                   "true, or make the field real",
                   value->number);
}

static int read_missing(const et_encoder_input *in, et_reading *out, et_error *error)
{
    *out = in->missing;
    if (out->missing && in->field->required)
        return et_fail(error, ET_EDATA,
                       "the value is missing, but the schema requires one: fill it in, or set "
                       "nullable: true in the schema");
    return ET_OK;
}

static int read_cell(const et_encoder_input *in, const et_cell *cell, et_reading *out,
                     et_error *error)
{
    if (!cell->text)
        return read_missing(in, out, error);
    *out =
        (et_reading){ .text = cell->text, .length = cell->length, .numeric = in->missing.numeric };
    if (!out->numeric)
        return ET_OK;
    const et_number_format format = et_number_format_of(in->field);
    et_number kind = et_notation_parse(&out->number, &format, cell->text, cell->length);
    if (!et_number_is(kind))
        return no_number(in, cell, kind, error);
    return kind == ET_NUMBER_INTEGER ? ET_OK : check_integer(in, out, error);
}

static int check_value(const et_encoder_input *in, const et_reading *value, et_error *error)
{
    et_assert(in->missing.numeric || value->text);
    if (in->missing.numeric && !isfinite(value->number))
        return et_fail(error, ET_EDATA, "%g is not finite: correct it", value->number);
    return check_integer(in, value, error);
}

static int read_value(const et_encoder_input *in, const et_reading *value, et_reading *out,
                      et_error *error)
{
    int status = ET_OK;
    if (value->missing)
        return read_missing(in, out, error);
    *out = *value;
    out->numeric = in->missing.numeric;
    et_assert(!value->list || (value->count && in->field->length == ET_SCHEMA_VARIABLE));
    for (size_t i = 0; !status && value->list && i < value->count; i++) {
        et_assert(!value->list[i].missing && value->list[i].numeric == out->numeric);
        status = check_value(in, &value->list[i], error);
    }
    return status || value->list ? status : check_value(in, value, error);
}

/* "train.csv:17: column age: ...". */
static int blame(const et_encoder_input *in, const char *where, int status, et_error *error)
{
    if (where)
        return et_fail_while(error, status, "%s: column %.60s", where, in->field->name);
    return et_fail_while(error, status, "column %.60s", in->field->name);
}

static int encode(const et_encoder *self, const et_cell *cells, const et_reading *values,
                  void *const *to, const char *where, et_error *error)
{
    for (size_t i = 0; i < self->step_count; i++) {
        const et_encoder_step *s = &self->steps[i];
        const et_fitted_transform *f = &s->fitted;
        et_reading read[ET_ENCODER_CROSS_MAX];
        if (!to[s->field])
            continue;
        for (int k = 0; k < f->inputs; k++) {
            int at = f->input[k];
            const et_encoder_input *in = &self->inputs[at];
            int status = cells ? read_cell(in, &cells[at], &read[k], error)
                               : read_value(in, &values[at], &read[k], error);
            if (status)
                return blame(in, where, status, error);
        }
        int status = f->row->apply(f, read, (char *)to[s->field] + s->offset, error);
        if (status)
            return blame(&self->inputs[f->input[0]], where, status, error);
    }
    return ET_OK;
}

int et_encoder_row(const et_encoder *encoder, const et_cell *cells, void *const *to,
                   const char *where, et_error *error)
{
    return encode(encoder, cells, NULL, to, where, error);
}

int et_encoder_values(const et_encoder *encoder, const et_reading *values, void *const *to,
                      const char *where, et_error *error)
{
    return encode(encoder, NULL, values, to, where, error);
}

int et_row_encode(const et_encoder *encoder, const et_rows *rows, const et_row *row,
                  void *const *to, et_error *error)
{
    et_assert(!row->end && !row->json.data);
    int status = row->cells ? et_encoder_row(encoder, row->cells, to, NULL, error)
                            : et_encoder_values(encoder, row->values, to, NULL, error);
    return status ? et_fail_while(error, status, "%s:%lld", rows->paths.items[row->file],
                                  (long long)row->number)
                  : ET_OK;
}

int et_encoder_missing(const et_encoder *encoder, int field, void *item, et_error *error)
{
    for (size_t i = 0; i < encoder->step_count; i++) {
        const et_encoder_step *s = &encoder->steps[i];
        const et_fitted_transform *f = &s->fitted;
        et_reading read[ET_ENCODER_CROSS_MAX];
        if (s->field != field)
            continue;
        for (int k = 0; k < f->inputs; k++)
            read[k] = encoder->inputs[f->input[k]].missing;
        int status = f->row->apply(f, read, (char *)item + s->offset, error);
        if (status)
            return blame(&encoder->inputs[f->input[0]], NULL, status, error);
    }
    return ET_OK;
}

/* ---- getters ---- */

const et_layout *et_encoder_layout(const et_encoder *encoder)
{
    return &encoder->layout;
}

int et_encoder_fields(const et_encoder *encoder)
{
    return encoder->field_count;
}

const et_encoded_field *et_encoder_field(const et_encoder *encoder, int index)
{
    et_assert(index >= 0 && index < encoder->field_count);
    return &encoder->fields[index];
}

et_layout *et_encoder_input_layout(const et_encoder *encoder, int64_t batch, et_arena *arena)
{
    const et_layout *from = et_encoder_layout(encoder);
    et_layout *layout = et_arena_alloc(arena, sizeof *layout);
    et_layout_field *field = et_arena_array(arena, from->fields, sizeof *field);
    if (!layout || !field)
        return NULL;
    *layout = *from;
    layout->field = field;
    layout->fields = 0;
    layout->capacity[0] = batch;
    for (int i = 0; i < encoder->field_count; i++)
        if (encoder->fields[i].kind < ET_ENCODED_CLASS)
            field[layout->fields++] = from->field[i];
    return layout;
}

void **et_encoder_items(const et_encoder *encoder, et_arena *arena)
{
    const et_layout *layout = et_encoder_layout(encoder);
    void **items = et_arena_array(arena, encoder->field_count, sizeof *items);
    for (int i = 0; items && i < encoder->field_count; i++)
        items[i] = et_arena_array(arena, et_shape_count(layout->field[i].item),
                                  et_dtype_size(layout->field[i].dtype));
    return items;
}

int et_encoder_target(const et_encoder *encoder)
{
    for (int i = 0; i < encoder->field_count; i++)
        if (et_encoded_is_target(encoder->fields[i].kind))
            return i;
    return -1;
}

et_target_unit et_encoder_unit(const et_encoder *encoder, int64_t column)
{
    const int target = et_encoder_target(encoder);
    et_assert(target >= 0 && encoder->fields[target].kind == ET_ENCODED_VALUES);
    et_assert(column >= 0 && column < encoder->fields[target].width);
    const et_encoder_step *s = encoder->steps;
    while (s->field != target || s->offset != (size_t)column * ET_ENCODER_ITEM)
        s++;
    et_assert(s < encoder->steps + encoder->step_count);
    return (et_target_unit){ s->fitted.offset, s->fitted.divisor };
}

#define REPORTED_MAX 8

void et_encoder_warn_coarse(const et_encoder *encoder)
{
    int reported = 0;
    for (size_t i = 0; i < encoder->step_count && reported < REPORTED_MAX; i++) {
        const et_encoder_step *s = &encoder->steps[i];
        const bool target = encoder->fields[s->field].kind == ET_ENCODED_VALUES;
        if (!s->coarse)
            continue;
        reported++;
        et_log(ET_LOG_WARNING,
               "column %.60s: its values are too close to each other to differ as float32; %s",
               encoder->inputs[s->fitted.input[0]].field->name,
               target ? "subtract an offset from all of them" : "choose standardize or quantile");
    }
}

/* The first field of a kind; -1: no such field. */
static int find_kind(const et_encoder *encoder, et_encoded_kind kind)
{
    for (int i = 0; i < encoder->field_count; i++)
        if (encoder->fields[i].kind == kind)
            return i;
    return -1;
}

int et_encoder_written(const et_encoder *encoder)
{
    return find_kind(encoder, ET_ENCODED_WRITTEN);
}

double et_encoded_written(const void *item, int64_t i)
{
    double number;
    memcpy(&number, (const char *)item + i * sizeof number, sizeof number);
    return number;
}

int et_encoder_weight(const et_encoder *encoder)
{
    return find_kind(encoder, ET_ENCODED_WEIGHT);
}

const et_schema *et_encoder_schema(const et_encoder *encoder)
{
    return encoder->schema;
}

const et_row_layout *et_encoder_row_layout(const et_encoder *encoder)
{
    return &encoder->row;
}

int et_encoder_key(const et_encoder *encoder, int n, const char **name)
{
    if (n < 0 || n >= encoder->key_count)
        return -1;
    *name = encoder->keys[n].name;
    return encoder->keys[n].position;
}

uint64_t et_encoder_fingerprint(const et_encoder *encoder)
{
    return encoder->fingerprint;
}

int et_encoder_cells(const et_encoder *encoder)
{
    return encoder->row.count;
}

int et_encoder_cell(const et_encoder *encoder, int field)
{
    et_assert(field >= 0 && field < et_schema_count(encoder->schema));
    return encoder->row.begin[field];
}

int et_encoder_cell_count(const et_encoder *encoder, int field)
{
    et_assert(field >= 0 && field < et_schema_count(encoder->schema));
    return encoder->row.begin[field + 1] - encoder->row.begin[field];
}

bool et_encoder_reads(const et_encoder *encoder, int field, bool target)
{
    et_assert(field >= 0 && field < et_schema_count(encoder->schema));
    return encoder->row.reads[target][field];
}
