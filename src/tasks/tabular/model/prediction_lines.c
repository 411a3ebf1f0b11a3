#include "tasks/tabular/model/prediction_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/values/json.h"
#include "data/table/features/schema.h"
#include "metric/class_scores.h"

enum { LABEL = -1, KEY = -2, NUMBER = -3, KEPT = -4 }; /* KEPT - i: kept column i */

#define OTHERS 3 /* columns of a line that are neither kept nor outputs */

#define FIVE 1e5
/* Below it a number's hundred thousandths are exact in a double. */
#define EXACT_MAX 4.5e10

/* ---- numbers ---- */

/* value 10^5 = product + rest, both exact; what is left above the whole number below decides: sums
 * of two doubles have the right sign. */
void et_prediction_number(et_strbuf *out, double value)
{
    char text[32], *at = text + sizeof text;
    double size = fabs(value);
    if (!isfinite(value)) {
        et_strbuf_append(out, "null");
        return;
    }
    if (size >= EXACT_MAX) {
        et_strbuf_printf(out, "%.5f", value);
        return;
    }
    double product = size * FIVE, rest = fma(size, FIVE, -product), below = floor(product);
    double over = product - below - 0.5 + rest;
    uint64_t whole = (uint64_t)below;
    whole += over > 0 || (over == 0 && whole % 2);
    for (int digit = 0; digit < 5; digit++, whole /= 10)
        *--at = (char)('0' + whole % 10);
    *--at = '.';
    do
        *--at = (char)('0' + whole % 10);
    while (whole /= 10);
    if (signbit(value))
        *--at = '-';
    et_strbuf_append_bytes(out, at, (size_t)(text + sizeof text - at));
}

/* Always with a point. */
static void append_pointed(et_strbuf *out, const char *text)
{
    et_strbuf_append(out, text);
    if (!strpbrk(text, ".e"))
        et_strbuf_append(out, ".0");
}

/* As few digits as a float32 is read back by. */
static void append_full(et_strbuf *out, float value)
{
    char text[32];
    if (!isfinite(value)) {
        et_strbuf_append(out, "null");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    append_pointed(out, text);
}

/* Five decimals of a number below it are less than five digits. */
#define SMALL 0.1

/* score: a share of 1, of which five decimals are enough. */
static void append_number(const et_prediction_lines *lines, et_strbuf *out, float value, bool score)
{
    if (lines->form.full || (!score && value != 0 && fabsf(value) < (float)SMALL))
        append_full(out, value);
    else
        et_prediction_number(out, (double)value);
}

/* What a network tells apart, in units of its target: about a step of a float32. */
#define STEP 1e-7

/* As few digits as it takes to be no further off than that. */
static void append_near(et_strbuf *out, double value, double scale)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (fabs(strtod(text, NULL) - value) <= STEP * scale)
            break;
    }
    append_pointed(out, text);
}

/* A number of a target with that deviation; full: it is read back as the same double. */
static void append_double(const et_prediction_lines *lines, et_strbuf *out, double value,
                          double scale)
{
    if (!isfinite(value))
        et_strbuf_append(out, "null");
    else if (lines->form.full)
        et_strbuf_append_double(out, value);
    else if (value != 0 && (fabs(value) < SMALL || scale < SMALL))
        append_near(out, value, scale);
    else
        et_prediction_number(out, value);
}

/* ---- texts ---- */

/* In quotes where RFC 4180 needs them. */
static void append_csv(et_strbuf *out, const char *text, size_t length)
{
    bool plain = true;
    for (size_t i = 0; i < length && plain; i++)
        plain = !strchr(",\"\r\n", text[i]);
    if (plain) {
        et_strbuf_append_bytes(out, text, length);
        return;
    }
    et_strbuf_append_char(out, '"');
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"')
            et_strbuf_append_char(out, '"');
        et_strbuf_append_char(out, text[i]);
    }
    et_strbuf_append_char(out, '"');
}

/* Keys are of rows, so they are copied to be terminated; most are short. */
static void append_key(const et_prediction_lines *lines, et_strbuf *out, const et_cell *key)
{
    char few[128];
    if (!key || !key->text) {
        et_strbuf_append(out, lines->form.csv ? "" : "null");
        return;
    }
    if (lines->form.csv) {
        append_csv(out, key->text, key->length);
        return;
    }
    char *copy = key->length < sizeof few ? few : et_alloc(key->length + 1, 1);
    if (!copy) {
        out->failed = true;
        return;
    }
    memcpy(copy, key->text, key->length);
    copy[key->length] = 0;
    et_json_print_string(out, copy);
    if (copy != few)
        et_free(copy);
}

/* ---- kept columns ---- */

/* A number keeps the digits of the row. */
static void append_json(et_strbuf *out, const et_value *value)
{
    const bool number = value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT;
    if (number && value->text)
        et_strbuf_append(out, value->text);
    else
        et_json_print(out, value, 0);
}

static void append_kept_value(et_strbuf *out, const et_value *value, bool csv)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (!value)
        et_strbuf_append(out, csv ? "" : "null");
    else if (!csv)
        append_json(out, value);
    else if (value->kind == ET_VALUE_STRING)
        append_csv(out, value->string, strlen(value->string));
    else if (value->kind != ET_VALUE_NULL) {
        append_json(&text, value);
        append_csv(out, et_strbuf_text(&text), text.length);
        out->failed |= text.failed;
    }
    et_strbuf_release(&text);
}

static void append_kept(const et_prediction_lines *lines, et_strbuf *out,
                        const et_prediction_row *row, int kept)
{
    if (row->kept)
        append_key(lines, out, &row->kept[kept]);
    else
        append_kept_value(
            out, row->object ? et_value_get(row->object, lines->form.keep.items[kept]) : NULL,
            lines->form.csv);
}

/* ---- what is in a line ---- */

static void add_column(et_prediction_lines *lines, const char *name, int output)
{
    int at = lines->columns++;
    for (; at > lines->kept && strcmp(lines->column[at - 1].name, name) > 0; at--)
        lines->column[at] = lines->column[at - 1];
    lines->column[at] = (et_prediction_column){ .name = name, .output = output };
}

static bool has_column(const et_prediction_lines *lines, const char *name)
{
    for (int i = lines->kept; i < lines->columns; i++)
        if (!strcmp(lines->column[i].name, name))
            return true;
    return false;
}

/* Whether an output's values have the labels as keys. */
static bool is_named(const et_prediction_lines *lines, const et_predictor *p, int output)
{
    return output == p->scores && output >= 0 && !lines->form.lists && !lines->form.csv;
}

/* `{"label": `, `, "scores": {`; of CSV the comma. */
static int print_leads(et_prediction_lines *lines, const et_predictor *p, et_error *error)
{
    for (int c = 0; c < lines->columns; c++) {
        et_strbuf out = ET_STRBUF_INIT;
        et_strbuf_append(&out, lines->form.csv ? c ? "," : "" : c ? ", " : "{");
        if (!lines->form.csv) {
            et_json_print_string(&out, lines->column[c].name);
            const int output = lines->column[c].output;
            et_strbuf_append(&out, output < 0 ? ": " : is_named(lines, p, output) ? ": {" : ": [");
        }
        lines->column[c].lead = et_strbuf_detach(&out);
        if (!lines->column[c].lead)
            return et_alloc_failed(error, 1, "names");
    }
    return ET_OK;
}

/* `"setosa"`, and as a key `, "setosa": `. */
static int print_label(et_prediction_lines *lines, int i, const char *text, et_error *error)
{
    et_strbuf label = ET_STRBUF_INIT, score = ET_STRBUF_INIT;
    if (lines->form.csv)
        append_csv(&label, text, strlen(text));
    else
        et_json_print_string(&label, text);
    et_strbuf_append(&label, "");
    et_strbuf_printf(&score, "%s%s: ", i ? ", " : "", et_strbuf_text(&label));
    lines->label[i] = et_strbuf_detach(&label);
    lines->score[i] = et_strbuf_detach(&score);
    return lines->label[i] && lines->score[i] ? ET_OK
                                              : et_alloc_failed(error, strlen(text), "labels");
}

static int print_labels(et_prediction_lines *lines, const et_predictor *p, et_error *error)
{
    int status = ET_OK;
    lines->labels = p->facts.labels;
    lines->label = et_alloc_zero((size_t)lines->labels + 1, sizeof *lines->label);
    lines->score = et_alloc_zero((size_t)lines->labels + 1, sizeof *lines->score);
    if (!lines->label || !lines->score)
        return et_alloc_failed(error, sizeof *lines->label, "labels");
    for (int i = 0; i < lines->labels && !status; i++)
        status = print_label(lines, i, p->facts.label[i], error);
    return status;
}

/* By the name of its feature, unless something else is called so. */
static void add_key(et_prediction_lines *lines, const char *name)
{
    const bool taken = !strcmp(name, "label") || !strcmp(name, "line") || has_column(lines, name);
    add_column(lines, taken ? "key" : name, KEY);
}

/* Whether the key's column is one of those that are kept. */
static bool is_kept(const et_prediction_lines *lines, const et_predictor *p, int field)
{
    const char *name = et_schema_at(et_encoder_schema(p->model->encoder), field)->name;
    for (size_t i = 0; i < lines->form.keep.count; i++)
        if (!strcmp(lines->form.keep.items[i], name))
            return true;
    return false;
}

static void add_outputs(et_prediction_lines *lines, const et_predictor *p)
{
    const char *key;
    const int field = et_encoder_key(p->model->encoder, 0, &key);
    for (int i = 0; i < p->facts.outputs; i++)
        add_column(lines, p->facts.output[i].name, i);
    if (p->facts.labels)
        add_column(lines, "label", LABEL);
    if (field >= 0 && !is_kept(lines, p, field))
        add_key(lines, key);
    if (lines->form.numbers)
        add_column(lines, "line", NUMBER);
}

/* A kept column that is called as something else of the line has another name there. */
static int name_kept(et_prediction_lines *lines, et_error *error)
{
    for (int i = 0; i < lines->kept; i++) {
        et_prediction_column *column = &lines->column[i];
        if (!has_column(lines, column->name))
            continue;
        const char *name = et_arena_printf(&lines->arena, "input.%s", column->name);
        if (!name)
            return et_alloc_failed(error, strlen(column->name), "a name");
        et_log(ET_LOG_WARNING, "predictions have their own %s: the column %s of the rows is %s",
               column->name, column->name, name);
        column->name = name;
    }
    return ET_OK;
}

int et_prediction_lines_open(et_prediction_lines *lines, const et_predictor *p,
                             const et_prediction_form *form, et_error *error)
{
    const size_t most = form->keep.count + (size_t)p->facts.outputs + OTHERS;
    *lines = (et_prediction_lines){ .form = *form, .kept = (int)form->keep.count };
    lines->column = et_alloc_zero(most, sizeof *lines->column);
    if (!lines->column)
        return et_alloc_failed(error, most * sizeof *lines->column, "columns");
    for (int i = 0; i < lines->kept; i++)
        lines->column[lines->columns++] =
            (et_prediction_column){ .name = form->keep.items[i], .output = KEPT - i };
    add_outputs(lines, p);
    int status = name_kept(lines, error);
    if (!status)
        status = print_leads(lines, p, error);
    return status ? status : print_labels(lines, p, error);
}

void et_prediction_lines_release(et_prediction_lines *lines)
{
    for (int i = 0; lines->label && i < lines->labels; i++)
        et_free(lines->label[i]);
    for (int i = 0; lines->score && i < lines->labels; i++)
        et_free(lines->score[i]);
    for (int c = 0; c < lines->columns; c++)
        et_free(lines->column[c].lead);
    et_free(lines->column);
    et_arena_release(&lines->arena);
    et_free(lines->label);
    et_free(lines->score);
    *lines = (et_prediction_lines){ .columns = 0 };
}

/* What a value of an output is: a label's score, a target's value, or one of many. NULL: the only
 * one. */
static const char *value_name(const et_predictor *p, int output, int64_t i, char number[24])
{
    const et_encoder *encoder = p->model->encoder;
    int64_t width = p->facts.output[output].width;
    int target = et_encoder_target(encoder);
    const et_encoded_field *field = target < 0 ? NULL : et_encoder_field(encoder, target);
    if (output == p->scores)
        return p->facts.label[i];
    if (field && field->kind == ET_ENCODED_VALUES && field->width == width &&
        !strcmp(p->facts.output[output].name, "values"))
        return field->column[i];
    snprintf(number, 24, "%" PRId64, i);
    return width > 1 ? number : NULL;
}

/* "scores.setosa,scores.versicolor"; of an output with one value that has no name its own alone. */
static void name_values(const et_predictor *p, const char *name, int output, et_strbuf *out)
{
    char number[24];
    for (int64_t i = 0; i < p->facts.output[output].width; i++) {
        const char *value = value_name(p, output, i, number);
        et_strbuf whole = ET_STRBUF_INIT;
        et_strbuf_printf(&whole, "%s%s%s", name, value ? "." : "", value ? value : "");
        if (i)
            et_strbuf_append_char(out, ',');
        append_csv(out, et_strbuf_text(&whole), whole.length);
        out->failed |= whole.failed;
        et_strbuf_release(&whole);
    }
}

void et_prediction_lines_begin(const et_prediction_lines *lines, const et_predictor *p,
                               et_strbuf *out)
{
    if (!lines->form.csv)
        return;
    for (int c = 0; c < lines->columns; c++) {
        const char *name = lines->column[c].name;
        if (c)
            et_strbuf_append_char(out, ',');
        if (lines->column[c].output >= 0)
            name_values(p, name, lines->column[c].output, out);
        else
            append_csv(out, name, strlen(name));
    }
    et_strbuf_append_char(out, '\n');
}

static void append_values(const et_prediction_lines *lines, const et_predictor *p, int output,
                          int64_t at, et_strbuf *out)
{
    const float *values = et_predictor_values(p, output, at);
    int64_t width = p->facts.output[output].width;
    const bool named = is_named(lines, p, output);
    for (int64_t i = 0; i < width; i++) {
        if (named)
            et_strbuf_append(out, lines->score[i]);
        else if (i)
            et_strbuf_append(out, lines->form.csv ? "," : ", ");
        if (output == p->values)
            append_double(lines, out, et_predictor_value(p, output, at, i),
                          p->model->units[i].scale);
        else
            append_number(lines, out, values[i], output == p->scores);
    }
    if (!lines->form.csv)
        et_strbuf_append_char(out, named ? '}' : ']');
}

static int label_of(const et_prediction_lines *lines, const et_predictor *p, int64_t at)
{
    const float *scores = et_predictor_values(p, p->scores, at);
    return lines->form.decision ? (int)et_class_choose(lines->form.decision, scores)
                                : et_predictor_choose(p, scores);
}

void et_prediction_lines_add(const et_prediction_lines *lines, const et_predictor *p, int64_t at,
                             const et_prediction_row *row, et_strbuf *out)
{
    for (int c = 0; c < lines->columns; c++) {
        int output = lines->column[c].output;
        et_strbuf_append(out, lines->column[c].lead);
        if (output >= 0)
            append_values(lines, p, output, at, out);
        else if (output == LABEL)
            et_strbuf_append(out, lines->label[label_of(lines, p, at)]);
        else if (output == KEY)
            append_key(lines, out, row->key);
        else if (output == NUMBER)
            et_strbuf_printf(out, "%" PRId64, row->number);
        else
            append_kept(lines, out, row, KEPT - output);
    }
    et_strbuf_append(out, lines->form.csv ? "\n" : "}\n");
}
