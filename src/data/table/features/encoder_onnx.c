/* All numbers are concatenated to one array, and each transform reads its columns from it. Adjacent
 * columns with the same transform share their nodes. */
#include "data/table/features/encoder.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "data/table/features/encoder_private.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"

/* A field of the schema. */
typedef struct column {
    bool read, text, date, day_first;
    int at;              /* of numbers and dates: the first of its values in `numbers` */
    const char *value;   /* of texts: the input */
    const char *missing; /* of texts: which of these are missing, bool of the input's shape */
} column;

typedef struct emission {
    const et_encoder_onnx *how;
    const et_schema *schema;
    et_onnx *to;
    et_arena arena;
    column *columns;     /* [fields of the schema], in arena */
    int *field;          /* [cells of the encoder]: the field of each cell, in arena */
    int count;           /* numbers of a row */
    const char *numbers; /* float64 [rows, count] */
    const char *missing; /* bool [rows, count] */
    const char *refused; /* bool [rows, 1]; NULL: no row, so far */
    et_error *error;
} emission;

static int no_memory(const emission *e)
{
    return et_alloc_failed(e->error, "a model to export");
}

static const et_schema_field *field_at(const emission *e, int field)
{
    return et_schema_at(e->schema, field);
}

static int cannot(const emission *e, int field, const char *why)
{
    return et_fail(e->error, ET_ECONFIG,
                   "column %.60s: %s, so the ONNX model cannot encode the column; use --inputs "
                   "encoded, or train without the column",
                   field_at(e, field)->name, why);
}

/* ---- which columns ---- */

static bool is_wanted(const int *fields, int count, int field)
{
    for (int i = 0; i < count; i++)
        if (fields[i] == field)
            return true;
    return false;
}

static int check_column(const emission *e, int field)
{
    const et_encoder_onnx *how = e->how;
    const char *name = field_at(e, field)->name;
    const column *c = &e->columns[field];
    if (field_at(e, field)->length == ET_SCHEMA_VARIABLE)
        return cannot(e, field, "it has lists of values");
    if (c->date && c->text)
        return cannot(e, field, "one feature reads it as a date and another as a text");
    if (*name == ':' || how->is_taken(how->payload, name))
        return cannot(e, field, "another input or output of the model has this name");
    return ET_OK;
}

static int find_columns(emission *e, const int *fields, int count)
{
    const et_encoder *encoder = e->how->encoder;
    const int all = et_schema_count(e->schema);
    e->columns = et_arena_array(&e->arena, all, sizeof *e->columns);
    e->field = et_arena_array(&e->arena, et_encoder_cells(e->how->encoder), sizeof *e->field);
    if (e->arena.failed)
        return no_memory(e);
    for (int i = 0; i < et_schema_count(e->schema); i++) {
        const int begin = et_encoder_cell(e->how->encoder, i);
        for (int c = 0; c < et_encoder_cell_count(e->how->encoder, i); c++)
            e->field[begin + c] = i;
    }
    for (size_t i = 0; i < encoder->step_count; i++)
        if (is_wanted(fields, count, encoder->steps[i].field)) {
            const et_fitted_transform *f = &encoder->steps[i].fitted;
            for (int k = 0; k < f->inputs; k++) {
                column *c = &e->columns[e->field[f->input[k]]];
                const bool numeric = et_schema_numeric(field_at(e, e->field[f->input[k]]));
                const bool any = f->row == &et_transform_rows[ET_TRANSFORM_MISSING];
                const bool date = f->row == &et_transform_rows[ET_TRANSFORM_DATE];
                c->read = true;
                c->date |= date && !numeric;
                c->day_first |= date && f->order == ET_DATE_DAY_FIRST;
                c->text |= !date && !any && !numeric;
            }
        }
    int status = ET_OK;
    for (int i = 0; i < all && !status; i++) {
        column *c = &e->columns[i];
        c->text |= !c->date && !et_schema_numeric(field_at(e, i));
        status = c->read ? check_column(e, i) : ET_OK;
    }
    return status;
}

/* ---- inputs ---- */

static void refuse_rows(emission *e, const char *rows)
{
    e->refused = e->refused ? et_onnx_call(e->to, "Or", e->refused, rows) : rows;
}

/* Bool [rows, 1]: whether any value of the row is true. */
static const char *any(et_onnx *to, const char *values)
{
    return et_onnx_call(to, "Greater", et_emit_count(to, values), et_onnx_int(to, 0));
}

/* Whether a missing value is refused: the field is required and has no default. */
static bool is_required(const et_schema_field *field)
{
    return field->required && !field->missing;
}

/* Whether a text is "" or one that means a missing value. */
static const char *emit_missing_text(emission *e, const char *value)
{
    const char *const *words = e->how->missing ? e->how->missing : et_csv_usual_missing;
    int count = 0, used = 1;
    while (words[count])
        count++;
    const char **keys = et_arena_array(&e->arena, (size_t)count + 1, sizeof *keys);
    int64_t *ones = et_arena_array(&e->arena, (size_t)count + 1, sizeof *ones);
    if (!keys || !ones)
        return NULL;
    keys[0] = "";
    for (int i = 0; i < count; i++)
        if (*words[i])
            keys[used++] = words[i];
    for (int i = 0; i < used; i++)
        ones[i] = 1;
    const char *found = et_onnx_call(e->to, "LabelEncoder", value);
    et_onnx_use_ml(e->to);
    et_onnx_set_texts(e->to, "keys_strings", keys, used);
    et_onnx_set_ints(e->to, "values_int64s", ones, used);
    et_onnx_set_int(e->to, "default_int64", 0);
    return et_emit_cast(e->to, found, ET_ONNX_BOOL);
}

/* Missing: NaN, and the numbers of --missing. */
static void find_missing(emission *e)
{
    const char *const *words = e->how->missing ? e->how->missing : et_csv_usual_missing;
    double number;
    e->missing = et_onnx_call(e->to, "IsNaN", e->numbers);
    for (; *words; words++)
        if (et_number_is(et_number_parse(&number, *words, strlen(*words))))
            e->missing = et_onnx_call(
                e->to, "Or", e->missing,
                et_onnx_call(e->to, "Equal", e->numbers, et_emit_number(e->to, number)));
}

static bool is_whole(const et_schema_field *field)
{
    return field->type == ET_SCHEMA_INTEGER && !field->fractions;
}

/* An array with 1 for the numbers of fields with a property, else 0; NULL: no field has it. */
static const char *emit_property(emission *e, bool (*has)(const et_schema_field *field))
{
    double *each = et_arena_array(&e->arena, e->count, sizeof *each);
    bool some = false;
    for (int i = 0; each && i < et_schema_count(e->schema); i++) {
        const column *c = &e->columns[i];
        if (!c->read || c->text || !has(field_at(e, i)))
            continue;
        for (int k = 0; k < et_encoder_cell_count(e->how->encoder, i); k++)
            each[c->at + k] = 1;
        some = true;
    }
    return some ? et_onnx_doubles(e->to, each, e->count) : NULL;
}

static void refuse_where(emission *e, const char *property, const char *value)
{
    const char *both = et_onnx_call(e->to, "Mul", value, property);
    refuse_rows(e, any(e->to, et_onnx_call(e->to, "Greater", both, et_emit_number(e->to, 0))));
}

/* Refuses the numbers that et_encoder_row refuses before any transform. */
static void refuse_numbers(emission *e)
{
    et_onnx *to = e->to;
    const char *whole = emit_property(e, is_whole), *required = emit_property(e, is_required);
    const char *infinite = et_onnx_call(to, "IsInf", e->numbers);
    refuse_rows(e, any(to, infinite));
    if (whole) {
        const char *there =
            et_onnx_call(to, "Where", e->missing, et_emit_number(to, 0), e->numbers);
        refuse_where(e, whole, et_onnx_call(to, "Sub", there, et_onnx_call(to, "Floor", there)));
    }
    if (required)
        refuse_where(e, required, et_emit_cast(to, e->missing, ET_ONNX_F64));
}

/* In the schema's order. */
static int add_inputs(emission *e)
{
    const int all = et_schema_count(e->schema);
    const char **numbers = et_arena_array(&e->arena, all, sizeof *numbers);
    int parts = 0;
    for (int i = 0; numbers && i < all; i++) {
        column *c = &e->columns[i];
        const et_onnx_dim dims[] = { { e->how->rows, 0 },
                                     { NULL, et_encoder_cell_count(e->how->encoder, i) } };
        if (!c->read)
            continue;
        const char *value = et_onnx_input(e->to, field_at(e, i)->name,
                                          c->text ? ET_ONNX_TEXT : ET_ONNX_F64, dims, 2);
        if (c->date)
            et_onnx_describe(e->to, "seconds since 1970-01-01 00:00, without a time zone");
        /* Adds the notation of a column of dates or numbers, as in files of the table. Programs
         * that read such files find it in the model's properties, as "column.NAME". */
        const et_schema_field *f = field_at(e, i);
        const char *key = et_arena_printf(&e->arena, "column.%s", f->name);
        if (key && e->columns[i].date)
            et_onnx_note(e->to, key, e->columns[i].day_first ? "date, day first" : "date");
        else if (key && !e->columns[i].text && f->notation)
            et_onnx_note(e->to, key,
                         f->notation == ET_NOTATION_COMMA ? "number, decimal comma"
                                                          : "number, decimal point");
        if (c->text) {
            c->value = value;
            c->missing = emit_missing_text(e, value);
            if (is_required(field_at(e, i)))
                refuse_rows(e, any(e->to, c->missing));
            continue;
        }
        c->at = e->count;
        e->count += (int)dims[1].size;
        numbers[parts++] = value;
    }
    if (e->arena.failed)
        return no_memory(e);
    if (!parts)
        return ET_OK;
    e->numbers = et_onnx_node(e->to, "Concat", numbers, parts);
    et_onnx_set_int(e->to, "axis", 1);
    find_missing(e);
    refuse_numbers(e);
    return ET_OK;
}

/* ---- transforms ---- */

/* Columns of [rows, width]. */
static const char *pick(et_onnx *to, const char *from, int width, const int64_t *indices, int count)
{
    bool all = width == count;
    for (int i = 0; i < count && all; i++)
        all = indices[i] == i;
    if (all)
        return from;
    const char *y = et_onnx_call(to, "Gather", from, et_onnx_ints(to, indices, count));
    et_onnx_set_int(to, "axis", 1);
    return y;
}

/* Sets x, and the missing values of x, for transforms [e->count] that read one value each. */
static void read_values(const emission *from, et_emitting *e, int64_t *indices,
                        const char **missing)
{
    const int cell = e->fitted[0]->input[0], field = from->field[cell];
    const column *c = &from->columns[field];
    e->text = c->text;
    if (c->text) {
        const int width = et_encoder_cell_count(from->how->encoder, field);
        indices[0] = cell - et_encoder_cell(from->how->encoder, field);
        e->x = pick(e->to, c->value, width, indices, 1);
        *missing = pick(e->to, c->missing, width, indices, 1);
        return;
    }
    for (int i = 0; i < e->count; i++) {
        const int at = e->fitted[i]->input[0], of = from->field[at];
        indices[i] = from->columns[of].at + at - et_encoder_cell(from->how->encoder, of);
    }
    e->x = pick(e->to, from->numbers, from->count, indices, e->count);
    *missing = pick(e->to, from->missing, from->count, indices, e->count);
}

/* Transforms that are emitted together. item: the values of their columns if all values of a row
 * are missing. */
static int emit_batch(emission *from, et_emitting *e, bool ids, const void *item, const char **out)
{
    int64_t width = 0;
    const char *missing;
    int64_t *indices = et_arena_array(&from->arena, e->count, sizeof *indices);
    if (!indices)
        return no_memory(from);
    for (int i = 0; i < e->count; i++)
        width += e->fitted[i]->width;
    read_values(from, e, indices, &missing);
    et_assert(e->fitted[0]->row->emit);
    const char *value = e->fitted[0]->row->emit(e);
    if (e->refused)
        return cannot(from, from->field[e->fitted[0]->input[0]], e->refused);
    const char *instead = ids ? et_onnx_int(e->to, *(const int32_t *)item)
                              : et_onnx_array(e->to, item, et_shape_1(width));
    *out = et_onnx_call(e->to, "Where", missing, instead, value);
    return ET_OK;
}

/* Whether two transforms can be emitted together: both map one number to one number. */
static bool is_alike(const emission *e, const et_fitted_transform *a, const et_fitted_transform *b)
{
    return a->row == b->row && a->row->gives == ET_GIVES_NUMBERS && a->width == 1 &&
           b->width == 1 && a->inputs == 1 && b->inputs == 1 &&
           !e->columns[e->field[a->input[0]]].text && !e->columns[e->field[b->input[0]]].text;
}

/* The transforms of a field, from transform *at on. */
static int emit_next(emission *e, const et_encoded_field *field, size_t *at, const void *missing,
                     const char **out)
{
    const et_encoder *encoder = e->how->encoder;
    const et_encoder_step *first = &encoder->steps[*at];
    const et_fitted_transform **fitted = et_arena_array(&e->arena, field->width, sizeof *fitted);
    et_emitting one = { .to = e->to, .fitted = fitted };
    if (!fitted)
        return no_memory(e);
    do
        fitted[one.count++] = &encoder->steps[(*at)++].fitted;
    while (*at < encoder->step_count && encoder->steps[*at].field == first->field &&
           is_alike(e, &first->fitted, &encoder->steps[*at].fitted));
    return emit_batch(e, &one, field->kind != ET_ENCODED_NUMBERS,
                      (const char *)missing + first->offset, out);
}

static int emit_field(emission *e, int index, const char **value)
{
    const et_encoder *encoder = e->how->encoder;
    const et_encoded_field *field = et_encoder_field(encoder, index);
    size_t at = 0;
    int parts = 0;
    const char **part = et_arena_array(&e->arena, field->width, sizeof *part);
    float *missing = et_arena_array(&e->arena, field->width, sizeof *missing);
    if (!part || !missing)
        return no_memory(e);
    int status = et_encoder_missing(encoder, index, missing, e->error);
    while (at < encoder->step_count && encoder->steps[at].field != index)
        at++;
    while (!status && at < encoder->step_count && encoder->steps[at].field == index)
        status = emit_next(e, field, &at, missing, &part[parts++]);
    if (status)
        return status;
    *value = et_onnx_node(e->to, "Concat", part, parts);
    et_onnx_set_int(e->to, "axis", 1);
    if (field->kind == ET_ENCODED_NUMBERS)
        refuse_rows(e, any(e->to, et_onnx_call(e->to, "Or", et_onnx_call(e->to, "IsNaN", *value),
                                               et_onnx_call(e->to, "IsInf", *value))));
    return ET_OK;
}

int et_encoder_onnx_add(const et_encoder_onnx *how, et_onnx *to, const int *fields, int count,
                        const char **values, const char **refused, et_error *error)
{
    emission e = {
        .how = how, .schema = et_encoder_schema(how->encoder), .to = to, .error = error
    };
    int status = find_columns(&e, fields, count);
    if (!status)
        status = add_inputs(&e);
    for (int i = 0; i < count && !status; i++)
        status = emit_field(&e, fields[i], &values[i]);
    if (!status && !e.refused) {
        const int64_t none = 0;
        e.refused = et_emit_cast(to, et_onnx_ints(to, &none, 1), ET_ONNX_BOOL);
    }
    *refused = e.refused;
    et_arena_release(&e.arena);
    return status;
}
