/* Predictions as lines of text: JSON objects with sorted keys, as TensorFX prints them, or CSV.
 *
 *   {"label": "setosa", "scores": [0.98123, 0.01877, 0.00000]}
 *
 *   label,scores.setosa,scores.versicolor,scores.virginica
 *   setosa,0.98123,0.01877,0.00000
 *
 *     et_prediction_lines_open(&lines, predictor, true, false, false, &error);
 *     et_prediction_lines_begin(&lines, predictor, &out);
 *     et_prediction_lines_add(&lines, predictor, 0, 1, NULL, &out);
 *     et_prediction_lines_release(&lines);
 *
 * Numbers have five digits after the point, rounded as printf rounds, or as many as a float32 needs
 * to be read back. Use one buffer from one thread at a time. Threads may share an open
 * et_prediction_lines; it does not change. */
#ifndef ETUDE_TASKS_TABULAR_MODEL_PREDICTION_LINES_H
#define ETUDE_TASKS_TABULAR_MODEL_PREDICTION_LINES_H

#include "base/text/strbuf.h"
#include "tasks/tabular/tensorfx/predictor_private.h"

#define ET_PREDICTION_COLUMNS_MAX (ET_NODES_MAX + 3)

typedef struct et_prediction_lines {
    bool csv, full;
    int columns;
    struct {
        const char *name;
        int output; /* -1: the label, -2: the key, -3: the number of the line */
        char *lead; /* what stands before its value in each line; owned */
    } column[ET_PREDICTION_COLUMNS_MAX]; /* by name */
    char **label;                        /* [labels]: as they are printed; owned */
    int labels;
} et_prediction_lines;

/* What each line holds; numbers: the number of the line that a row began in. */
int et_prediction_lines_open(et_prediction_lines *lines, const et_predictor *predictor, bool csv,
                             bool full, bool numbers, et_error *error);
void et_prediction_lines_release(et_prediction_lines *lines);

/* The first line of CSV; of JSON there is none. */
void et_prediction_lines_begin(const et_prediction_lines *lines, const et_predictor *predictor,
                               et_strbuf *out);
/* The row at a place of the last run. key NULL: it has none. */
void et_prediction_lines_add(const et_prediction_lines *lines, const et_predictor *predictor,
                             int64_t at, int64_t number, const et_cell *key, et_strbuf *out);

/* "0.98123", "-0.00001"; "null" of what is no finite number. Equal to printf's %.5f. */
void et_prediction_number(et_strbuf *out, double value);

#endif
