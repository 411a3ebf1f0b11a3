/* Predictions for programs: rows as texts or as named cells, predicted block by block. Results are
 * copied to their own memory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/threads/thread.h"
#include "base/vector.h"
#include "data/table/rows/csv_scan.h"
#include "data/table/schema/schema.h"
#include "metric/class_scores.h"
#include "tasks/tabular/predict/predict.h"

struct et_predictions {
    size_t count;
    int outputs;
    int64_t width;               /* of all outputs together */
    et_arena arena;              /* of all below */
    const char **label;          /* [count]: the predictor's; NULL: none */
    int *index;                  /* [count] */
    const char **key, **failure; /* [count] */
    double *values;              /* [count, width] */
    float *rounded;              /* [count, width] */
    const float **output;        /* [count, outputs] */
};

static int new_predictions(et_predictions **out, const et_predictor *p, size_t count,
                           et_error *error)
{
    et_predictions *found = et_alloc_zero(1, sizeof *found);
    *out = found;
    if (!found)
        return et_alloc_failed(error, "predictions");
    found->count = count;
    found->outputs = p->outputs;
    for (int i = 0; i < p->outputs; i++)
        found->width += p->output[i].width;
    size_t width = (size_t)found->width;
    et_arena *arena = &found->arena;
    found->label = et_arena_array(arena, count, sizeof *found->label);
    found->index = et_arena_array(arena, count, sizeof *found->index);
    found->key = et_arena_array(arena, count, sizeof *found->key);
    found->failure = et_arena_array(arena, count, sizeof *found->failure);
    found->values = et_arena_array(arena, count, width * sizeof *found->values);
    found->rounded = et_arena_array(arena, count, width * sizeof *found->rounded);
    found->output = et_arena_array(arena, count, p->outputs * sizeof *found->output);
    return arena->failed ? et_alloc_failed(error, "predictions") : ET_OK;
}

void et_predictions_free(et_predictions *found)
{
    if (!found)
        return;
    et_arena_release(&found->arena);
    et_free(found);
}

size_t et_predictions_count(const et_predictions *found)
{
    return found->count;
}

et_prediction et_predictions_at(const et_predictions *found, size_t row)
{
    static const et_prediction none = { .label_index = -1 };
    if (row >= found->count)
        return none;
    if (found->failure[row])
        return (et_prediction){ .label_index = -1, .failure = found->failure[row] };
    return (et_prediction){ .label = found->label[row],
                            .label_index = found->label[row] ? found->index[row] : -1,
                            .key = found->key[row],
                            .output = found->output + row * (size_t)found->outputs };
}

const double *et_predictions_values(const et_predictions *found, size_t row, int output)
{
    if (row >= found->count || found->failure[row] || output < 0 || output >= found->outputs)
        return NULL;
    return found->values +
           (found->output[row * (size_t)found->outputs + (size_t)output] - found->rounded);
}

/* ---- blocks of rows ---- */

/* Rows of a call, whatever they are given as: cells of the row, or ET_EDATA. */
typedef struct call call;
struct call {
    et_predictor *p;
    et_predictions *found;
    int (*cells)(call *c, size_t row, const et_cell **cells, et_error *error);
    et_arena arena; /* of cells */
    /* texts */
    const char *const *rows;
    et_csv_scanner scanner;
    et_columns columns;
    int count;  /* cells that columns is for; 0: not yet */
    char *line; /* a copy with room after it; owned */
    size_t room;
    /* named cells */
    const et_named_cell *named;
    size_t named_count;
    int *at; /* [named_count]: the place among cells; owned */
    et_cell *own;
};

/* A row that cannot be is a failure of the call, or its own. */
static int fail_row(call *c, size_t row, int status, const et_error *reason, et_error *error)
{
    et_assert(status && row < c->found->count);
    if (status != ET_EDATA || !c->p->lenient)
        return et_fail(error, status, "%s", reason->text);
    c->found->failure[row] = et_arena_strdup(&c->found->arena, reason->text);
    return c->found->failure[row] ? ET_OK : et_alloc_failed(error, "predictions");
}

static int put_row(call *c, size_t row, int64_t at, et_error *error)
{
    et_assert(row < c->found->count && at >= 0);
    const et_cell *cells;
    et_error reason = ET_ERROR_INIT;
    char where[48];
    snprintf(where, sizeof where, "row %zu", row + 1);
    int status = c->cells(c, row, &cells, &reason);
    if (!status)
        status = et_predictor_put(c->p, at, cells, where, &reason);
    else if (status == ET_EDATA)
        et_fail_while(&reason, status, "%s", where);
    if (status)
        return fail_row(c, row, status, &reason, error);
    const et_cell *cell = et_predictor_key(c->p, cells);
    if (!cell || !cell->text)
        return ET_OK;
    c->found->key[row] = et_arena_strndup(&c->found->arena, cell->text, cell->length);
    return c->found->key[row] ? ET_OK : et_alloc_failed(error, "a key");
}

static int take_row(call *c, size_t row, int64_t at, et_error *error)
{
    et_assert(row < c->found->count && at >= 0);
    const et_predictor *p = c->p;
    et_error reason = ET_ERROR_INIT;
    char where[48];
    snprintf(where, sizeof where, "row %zu", row + 1);
    int status = et_predictor_check(p, at, where, &reason);
    if (status)
        return fail_row(c, row, status, &reason, error);
    et_predictions *found = c->found;
    float *to = found->rounded + row * (size_t)found->width;
    for (int i = 0; i < p->outputs; i++) {
        int64_t width = p->output[i].width;
        double *value = found->values + (to - found->rounded);
        for (int64_t k = 0; k < width; k++) {
            value[k] = et_predictor_value(p, i, at, k);
            to[k] = (float)value[k];
        }
        found->output[row * (size_t)p->outputs + (size_t)i] = to;
        if (p->classes && i == p->target) {
            found->index[row] = (int)et_class_most_likely(to, p->classes);
            found->label[row] = p->labels[found->index[row]];
        }
        to += width;
    }
    return ET_OK;
}

static int predict(call *c, size_t count, et_predictions **out, et_error *error)
{
    et_predictor *p = c->p;
    size_t block = (size_t)p->batch_size;
    int status = et_thread_check_stack(error);
    if (!status)
        status = new_predictions(&c->found, p, count, error);
    for (size_t row = 0; !status && row < count; row += block) {
        size_t rows = count - row < block ? count - row : block;
        for (size_t i = 0; i < rows && !status; i++)
            status = put_row(c, row + i, (int64_t)i, error);
        if (!status)
            status = et_predictor_run(p, (int64_t)rows, error);
        for (size_t i = 0; i < rows && !status; i++)
            if (!c->found->failure[row + i])
                status = take_row(c, row + i, (int64_t)i, error);
    }
    if (status)
        et_predictions_free(c->found);
    else
        *out = c->found;
    return status;
}

/* ---- texts ---- */

static int cells_of_text(call *c, size_t row, const et_cell **cells, et_error *error)
{
    const char *text = c->rows[row];
    const size_t length = text ? strlen(text) : 0;
    if (!text)
        return et_fail(error, ET_EDATA, "the row is NULL");
    if (length > ET_CSV_ROW_MAX)
        return et_fail(error, ET_EDATA, "longer than %zu bytes", ET_CSV_ROW_MAX);
    /* A copy that the scanner may write into, ended by a line end. */
    if (!ET_VECTOR_GROW(c->line, c->room, length + 1))
        return et_alloc_failed(error, "a row");
    char *line = c->line;
    memcpy(line, text, length);
    line[length] = '\n';
    et_csv_found found =
        et_csv_scan(&c->scanner, line, line + length + 1, et_csv_contents(line, length + 1));
    if (found == ET_CSV_MORE) {
        c->scanner.fault = ET_CSV_FAULT_QUOTE;
        found = ET_CSV_BAD;
    }
    if (found == ET_CSV_BAD)
        return et_csv_fault_fail(&c->scanner, "the text", 1, error);
    if (found == ET_CSV_SKIP)
        return et_fail(error, ET_EDATA, "the row is empty");
    if (c->scanner.next != line + length + 1)
        return et_fail(error, ET_EDATA, "the text has more than one row");
    const et_csv_row scanned = { .line = 1, .count = c->scanner.count, .cell = c->scanner.cell };
    if (c->count != scanned.count) {
        et_columns_release(&c->columns);
        c->count = 0;
        int status = et_columns_find(&c->columns, et_encoder_row_layout(c->p->model->encoder),
                                     &scanned, ET_HEADER_ABSENT, false, "the text", error);
        if (status)
            return status;
        c->count = scanned.count;
    }
    *cells = et_columns_take(&c->columns, &scanned);
    return ET_OK;
}

int et_predictor_predict(et_predictor *predictor, const char *const *rows, size_t count,
                         et_predictions **out, et_error *error)
{
    *out = NULL;
    if (!predictor)
        return et_fail(error, ET_EUSAGE,
                       "no model is given to predict with; only the master of a cluster gets one");
    const et_csv_options options = { .delimiter = ',', .missing = predictor->model->csv.missing };
    call c = { .p = predictor, .cells = cells_of_text, .rows = rows };
    if (count && !rows)
        return et_fail(error, ET_EDATA, "%zu rows to predict, but the array is NULL", count);
    et_csv_scanner_init(&c.scanner, &options);
    int status = predict(&c, count, out, error);
    et_csv_scanner_release(&c.scanner);
    et_columns_release(&c.columns);
    et_free(c.line);
    return status;
}

/* ---- named cells ---- */

/* Uses the order of names in the first row, which all rows should have. */
static int find_cells(call *c, et_error *error)
{
    const et_encoder *encoder = c->p->model->encoder;
    const et_schema *schema = et_encoder_schema(encoder);
    for (size_t i = 0; i < c->named_count; i++) {
        const char *name = c->named[i].column ? c->named[i].column : "NULL";
        const int field = c->named[i].column ? et_schema_position(schema, name) : -1;
        if (field < 0)
            return et_fail(error, ET_ECONFIG, "the model has no column %s%s", name,
                           et_predictor_hint(c->p, name, false).text);
        if (et_schema_at(schema, field)->length != 1)
            return et_fail(error, ET_ECONFIG,
                           "column %s has more than one value: give rows as text", name);
        c->at[i] = et_encoder_cell(encoder, field);
        for (size_t j = 0; j < i; j++)
            if (c->at[j] == c->at[i])
                return et_fail(error, ET_ECONFIG, "two cells are of column %s: give one", name);
    }
    return ET_OK;
}

/* Refuses rows whose names differ from those of the first row. */
static int cells_of_names(call *c, size_t row, const et_cell **cells, et_error *error)
{
    const et_named_cell *named = c->named + row * c->named_count;
    memset(c->own, 0, et_encoder_cells(c->p->model->encoder) * sizeof *c->own);
    for (size_t i = 0; i < c->named_count; i++) {
        if (!named[i].column || (row && strcmp(named[i].column, c->named[i].column) != 0))
            return et_fail(error, ET_ECONFIG,
                           "row %zu, cell %zu is column %s, but in row 1 it is %s: give all rows "
                           "the same order of columns",
                           row + 1, i + 1, named[i].column ? named[i].column : "NULL",
                           c->named[i].column);
        c->own[c->at[i]].text = named[i].text;
        c->own[c->at[i]].length = named[i].text ? strlen(named[i].text) : 0;
    }
    *cells = c->own;
    return ET_OK;
}

int et_predictor_predict_cells(et_predictor *predictor, const et_named_cell *cells,
                               size_t cells_a_row, size_t count, et_predictions **out,
                               et_error *error)
{
    call c = {
        .p = predictor, .cells = cells_of_names, .named = cells, .named_count = cells_a_row
    };
    *out = NULL;
    if (count && (!cells || !cells_a_row))
        return et_fail(error, ET_EDATA, "%zu rows to predict, but no cells", count);
    c.at = et_alloc(cells_a_row, sizeof *c.at);
    c.own = et_alloc(et_encoder_cells(predictor->model->encoder), sizeof *c.own);
    int status = c.at && c.own ? ET_OK : et_alloc_failed(error, "cells");
    if (!status && count)
        status = find_cells(&c, error);
    if (!status)
        status = predict(&c, count, out, error);
    et_free(c.at);
    et_free(c.own);
    return status;
}
