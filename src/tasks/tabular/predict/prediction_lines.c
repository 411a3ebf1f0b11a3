#include "tasks/tabular/predict/prediction_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "metric/class_scores.h"

enum { LABEL = -1, KEY = -2, NUMBER = -3, INTERVAL = -4, KEPT = -5 }; /* KEPT - i: kept column i */

#define OTHERS 4 /* columns of a line that are neither kept nor outputs */

#define FIVE 1e5
/* Below it a number's hundred thousandths are exact in a double. */
#define EXACT_MAX 4.5e10

/* ---- numbers ---- */

/* value 10^5 = product + rest, exactly. The remainder above the next lower whole number decides:
 * sums of two doubles have the right sign. */
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

/* As few digits as reading the same float32 back needs. */
static void append_full(et_strbuf *out, float value)
{
    char text[32];
    if (!isfinite(value)) {
        et_strbuf_append(out, "null");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        et_decimal_print(text, sizeof text, digits, 0, (double)value);
        if ((float)et_decimal_read(text, NULL) == value)
            break;
    }
    append_pointed(out, text);
}

/* Five decimals of a number below it are less than five digits. */
#define SMALL 0.1

/* The precision of a network, in units of its target: about a step of a float32. */
#define STEP 1e-7

/* Appends a number of a target. scale: the deviation of the target. full: with as many digits as
 * reading the same double back needs. */
static void append_double(const et_prediction_lines *lines, et_strbuf *out, double value,
                          double scale)
{
    if (!isfinite(value))
        et_strbuf_append(out, "null");
    else if (lines->form.full)
        et_strbuf_append_double(out, value);
    else if (value != 0 && (fabs(value) < SMALL || scale < SMALL)) {
        /* Prints as few digits as this accuracy needs. */
        char text[40];
        for (int digits = 6; digits <= 17; digits++) {
            et_decimal_print(text, sizeof text, digits, 0, value);
            if (fabs(et_decimal_read(text, NULL) - value) <= STEP * scale)
                break;
        }
        append_pointed(out, text);
    } else
        et_prediction_number(out, value);
}

/* ---- texts ---- */

/* Adds quotes if RFC 4180 requires them. */
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
    if (et_value_is_number(value) && value->text)
        et_strbuf_append(out, value->text);
    else
        et_json_print(out, value, 0);
}

static void append_kept(const et_prediction_lines *lines, et_strbuf *out,
                        const et_prediction_row *row, int kept)
{
    et_assert(kept >= 0 && kept < lines->kept);
    if (row->kept)
        append_key(lines, out, &row->kept[kept]);
    else {
        const et_value *value =
            row->object ? et_value_get(row->object, lines->form.keep.items[kept]) : NULL;
        et_strbuf text = ET_STRBUF_INIT;
        if (!value)
            et_strbuf_append(out, lines->form.csv ? "" : "null");
        else if (!lines->form.csv)
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
}

/* ---- columns of a line ---- */

static void add_column(et_prediction_lines *lines, const char *name, int output)
{
    int at = lines->columns++;
    for (; at > lines->kept && strcmp(lines->column[at - 1].name, name) > 0; at--)
        lines->column[at] = lines->column[at - 1];
    lines->column[at] = (et_prediction_column){ .name = name, .output = output };
}

/* The output that a column's values are of; -1: none. */
static int output_of(const et_predictor *p, int column)
{
    return column == LABEL && p->kind == &et_target_labels ? p->target : column;
}

static bool is_list(const et_predictor *p, int column)
{
    return column == INTERVAL || output_of(p, column) >= 0;
}

/* In CSV, the values of a list have names such as scores.no. */
static bool has_column(const et_prediction_lines *lines, const et_predictor *p, const char *name)
{
    for (int i = lines->kept; i < lines->columns; i++) {
        const et_prediction_column *column = &lines->column[i];
        const size_t length = strlen(column->name);
        if (!strcmp(column->name, name) ||
            (lines->form.csv && is_list(p, column->output) &&
             !strncmp(column->name, name, length) && name[length] == '.'))
            return true;
    }
    return false;
}

/* A name as it is printed in each line, in the arena. */
static const char *printed(et_prediction_lines *lines, const char *before, const char *name,
                           const char *after)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, before);
    if (lines->form.csv)
        append_csv(&out, name, strlen(name));
    else
        et_json_print_string(&out, name);
    et_strbuf_append(&out, after);
    return et_strbuf_keep(&out, &lines->arena);
}

/* `{"label": `, `, "scores": {`; of CSV the comma. `, "setosa": ` before each value. */
static void print_leads(et_prediction_lines *lines, const et_predictor *p)
{
    for (int c = 0; c < lines->columns; c++) {
        et_prediction_column *column = &lines->column[c];
        const int output = output_of(p, column->output);
        const char *const *names = output < 0 || lines->form.lists ? NULL : p->output[output].value;
        const char *after = names ? ": {" : is_list(p, column->output) ? ": [" : ": ";
        if (lines->form.csv) {
            column->lead = c ? "," : "";
            continue;
        }
        column->lead = printed(lines, c ? ", " : "{", column->name, after);
        const int64_t width = names ? p->output[output].width : 0;
        column->value = names ? et_arena_array(&lines->arena, width, sizeof *column->value) : NULL;
        for (int64_t i = 0; column->value && i < width; i++)
            column->value[i] = printed(lines, i ? ", " : "", names[i], ": ");
    }
}

/* Whether the key's column is kept. */
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
    if (p->kind && p->kind->labelled)
        add_column(lines, "label", LABEL);
    if (p->kind == &et_target_quantiles && p->output[p->target].width > 1)
        add_column(lines, "interval", INTERVAL);
    if (field >= 0 && !is_kept(lines, p, field)) {
        /* The key is called as its feature is, unless something else has this name. */
        const bool taken =
            !strcmp(key, "label") || !strcmp(key, "line") || has_column(lines, p, key);
        add_column(lines, taken ? "key" : key, KEY);
    }
    if (lines->form.numbers)
        add_column(lines, "line", NUMBER);
}

int et_prediction_lines_open(et_prediction_lines *lines, const et_predictor *p,
                             const et_prediction_form *form, et_error *error)
{
    et_assert(lines && p && form);
    const size_t most = form->keep.count + (size_t)p->facts.outputs + OTHERS;
    const int labels = p->kind == &et_target_labels ? 2 * (int)p->field->width : p->classes;
    *lines = (et_prediction_lines){ .form = *form, .kept = (int)form->keep.count };
    lines->column = et_arena_array(&lines->arena, most, sizeof *lines->column);
    lines->label = et_arena_array(&lines->arena, labels, sizeof *lines->label);
    if (!lines->arena.failed) {
        for (int i = 0; i < lines->kept; i++)
            lines->column[lines->columns++] =
                (et_prediction_column){ .name = form->keep.items[i], .output = KEPT - i };
        add_outputs(lines, p);
        /* A kept column with the same name as another value of the line is renamed. */
        for (int i = 0; i < lines->kept; i++) {
            et_prediction_column *column = &lines->column[i];
            const char *name = has_column(lines, p, column->name)
                                   ? et_arena_printf(&lines->arena, "input.%s", column->name)
                                   : NULL;
            if (!name)
                continue;
            et_log(ET_LOG_WARNING, "predictions have their own %s: the column %s of the rows is %s",
                   column->name, column->name, name);
            column->name = name;
        }
        print_leads(lines, p);
        for (int i = 0; i < labels; i++)
            lines->label[i] = printed(lines, "", p->field->label[i], "");
    }
    return lines->arena.failed ? et_alloc_failed(error, "columns") : ET_OK;
}

void et_prediction_lines_release(et_prediction_lines *lines)
{
    et_arena_release(&lines->arena);
    *lines = (et_prediction_lines){ .columns = 0 };
}

/* The name of a value: its label, target or number. NULL: the only value. */
static const char *value_name(const et_predictor *p, int output, int64_t i, char number[24])
{
    const et_table_output *of = &p->output[output];
    if (of->value)
        return of->value[i];
    snprintf(number, 24, "%" PRId64, i);
    return of->width > 1 ? number : NULL;
}

/* "scores.setosa,scores.versicolor"; of an output with one value that has no name its own alone. */
static void name_values(const et_predictor *p, const char *name, int column, et_strbuf *out)
{
    static const char *const ends[] = { "low", "high" };
    const int output = output_of(p, column);
    const int64_t width = column == INTERVAL ? 2 : p->output[output].width;
    char number[24];
    for (int64_t i = 0; i < width; i++) {
        const char *value = column == INTERVAL ? ends[i] : value_name(p, output, i, number);
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
        if (is_list(p, lines->column[c].output))
            name_values(p, name, lines->column[c].output, out);
        else
            append_csv(out, name, strlen(name));
    }
    et_strbuf_append_char(out, '\n');
}

/* Number i of an output. Scores are fractions of 1, so five decimals are enough. */
static void append_value(const et_prediction_lines *lines, const et_predictor *p, int output,
                         int64_t at, int64_t i, et_strbuf *out)
{
    et_assert(output >= 0 && output < p->outputs && i < p->output[output].width);
    const et_target_unit *unit = et_predictor_unit(p, output, i);
    const float value = et_predictor_values(p, output, at)[i];
    const bool score = output == p->target && p->kind->labelled;
    if (unit)
        append_double(lines, out, et_predictor_value(p, output, at, i), unit->scale);
    else if (lines->form.full || (!score && value != 0 && fabsf(value) < (float)SMALL))
        append_full(out, value);
    else
        et_prediction_number(out, (double)value);
}

/* From the lowest to the highest quantile. */
static void append_interval(const et_prediction_lines *lines, const et_predictor *p, int64_t at,
                            et_strbuf *out)
{
    et_assert(p->kind == &et_target_quantiles);
    append_value(lines, p, p->target, at, 0, out);
    et_strbuf_append(out, lines->form.csv ? "," : ", ");
    append_value(lines, p, p->target, at, p->output[p->target].width - 1, out);
    et_strbuf_append(out, lines->form.csv ? "" : "]");
}

void et_prediction_lines_add(const et_prediction_lines *lines, const et_predictor *p, int64_t at,
                             const et_prediction_row *row, et_strbuf *out)
{
    et_assert(at >= 0 && at < p->batch_size && row);
    for (int c = 0; c < lines->columns; c++) {
        const et_prediction_column *column = &lines->column[c];
        et_strbuf_append(out, column->lead);
        const int output = output_of(p, column->output);
        if (output >= 0) {
            /* All of an output, or the labels of several targets. */
            for (int64_t i = 0; i < p->output[output].width; i++) {
                const bool yes = et_predictor_values(p, output, at)[i] > 0.5f;
                if (column->value)
                    et_strbuf_append(out, column->value[i]);
                else if (i)
                    et_strbuf_append(out, lines->form.csv ? "," : ", ");
                if (column->output == LABEL)
                    et_strbuf_append(out, lines->label[2 * i + yes]);
                else
                    append_value(lines, p, output, at, i, out);
            }
            if (!lines->form.csv)
                et_strbuf_append_char(out, column->value ? '}' : ']');
        } else if (column->output == INTERVAL)
            append_interval(lines, p, at, out);
        else if (column->output == LABEL) {
            const float *scores = et_predictor_values(p, p->target, at);
            et_strbuf_append(
                out,
                lines->label[lines->form.decision ? et_class_choose(lines->form.decision, scores)
                                                  : et_class_most_likely(scores, p->classes)]);
        } else if (column->output == KEY)
            append_key(lines, out, row->key);
        else if (column->output == NUMBER)
            et_strbuf_printf(out, "%" PRId64, row->number);
        else
            append_kept(lines, out, row, KEPT - column->output);
    }
    et_strbuf_append(out, lines->form.csv ? "\n" : "}\n");
}
