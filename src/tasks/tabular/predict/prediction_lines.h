/* Predictions as lines of text: JSON objects with sorted keys, or CSV.
 *
 *   {"label": "setosa", "scores": {"setosa": 0.98123, "versicolor": 0.01877, "virginica": 0.00000}}
 *
 *   {"label": {"rain": "yes", "wind": "no"}, "scores": {"rain": 0.73129, "wind": 0.10542}}
 *   {"values": {"price": 12.50000, "days": 3.00000}}
 *   {"interval": [9.1, 17.2], "quantiles": {"0.1": 9.1, "0.5": 12.4, "0.9": 17.2}}
 *
 *   label,scores.setosa,scores.versicolor,scores.virginica
 *   setosa,0.98123,0.01877,0.00000
 *
 *     et_prediction_lines_open(&lines, predictor, &(et_prediction_form){ .csv = true }, &error);
 *     et_prediction_lines_begin(&lines, predictor, &out);
 *     et_prediction_lines_add(&lines, predictor, 0, &(et_prediction_row){ .number = 1 }, &out);
 *     et_prediction_lines_release(&lines);
 *
 * Numbers have five digits after the point, rounded as printf rounds, or as many as a float32 needs
 * to be read back. Use one buffer from one thread at a time. Threads may share an open
 * et_prediction_lines; it does not change.
 *
 * A block of rows is read, encoded, computed and printed at once. Any thread may work on a block,
 * with a predictor of its own:
 *
 *     et_prediction_block_open(&block, 256, 0, predictor, &error);
 *     et_row_reader_next(reader, &block.rows, &error);
 *     et_prediction_block_run(&block, predictor, &how);     block.lines, block.status
 *     et_prediction_block_release(&block); */
#ifndef ETUDE_TASKS_TABULAR_PREDICT_PREDICTION_LINES_H
#define ETUDE_TASKS_TABULAR_PREDICT_PREDICTION_LINES_H

#include <etude/class_scores.h>

#include "base/text/strbuf.h"
#include "data/table/features/unseen.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/predict/row_reader.h"

typedef struct et_prediction_form {
    bool csv;     /* else JSON */
    bool full;    /* numbers in full, not with five decimals */
    bool numbers; /* each line has the number of the line that its row begins in */
    bool lists; /* in JSON, outputs are lists, scores in the order of the labels, as TensorFX prints
                   them; else objects, where their values have names */
    et_strings keep; /* columns of the rows that lines begin with, each once; borrowed */
    const et_class_predictions *decision; /* its classes, first, threshold and costs choose the
                                             label; NULL: the most likely one; borrowed */
} et_prediction_form;

/* Values of a row that its line has. */
typedef struct et_prediction_row {
    int64_t number;         /* the row's line in its file */
    const et_cell *key;     /* NULL: none */
    const et_cell *kept;    /* of CSV: [keep]; NULL: JSON, or none */
    const et_value *object; /* the row in JSON, with columns that are kept; NULL: CSV, or none */
} et_prediction_row;

typedef struct et_prediction_column {
    const char *name;
    int output; /* -1: the label, -2: the key, -3: the number of the line, -4: the interval, -5 and
                   below: kept */
    char *lead; /* text before its value in each line; owned */
    char **value; /* [width]: text before each value of an output; owned. NULL: a comma */
    int64_t width;
} et_prediction_column;

typedef struct et_prediction_lines {
    et_prediction_form form;
    int columns, kept;
    et_prediction_column
        *column;    /* [columns]: the kept ones as given, then others by name; owned */
    et_arena arena; /* of names that differ from the columns' */
    char **label; /* [labels]: as they are printed; of several targets no and yes of each; owned */
    int labels;
} et_prediction_lines;

/* Finds the columns of each line. Release lines after a failure, too. */
int et_prediction_lines_open(et_prediction_lines *lines, const et_predictor *predictor,
                             const et_prediction_form *form, et_error *error);
void et_prediction_lines_release(et_prediction_lines *lines);

/* The first line of CSV; JSON has none. */
void et_prediction_lines_begin(const et_prediction_lines *lines, const et_predictor *predictor,
                               et_strbuf *out);
/* The row at a place of the last run. */
void et_prediction_lines_add(const et_prediction_lines *lines, const et_predictor *predictor,
                             int64_t at, const et_prediction_row *row, et_strbuf *out);

/* "0.98123", "-0.00001"; "null" if the value is not finite. Equal to printf's %.5f. */
void et_prediction_number(et_strbuf *out, double value);

/* ---- blocks of rows ---- */

typedef struct et_prediction_block {
    et_row_block rows;
    et_strbuf lines;  /* the printed lines */
    et_unseen unseen; /* of its rows */
    int status;       /* of a row that ended it, after the lines before */
    et_error error;
} et_prediction_block;

typedef struct et_prediction_how {
    const et_prediction_lines *lines;
    const char *name; /* of the rows, in messages */
    bool lenient;     /* a bad row is kept with its message; else it ends the block */
} et_prediction_how;

/* keep: of et_row_block_open. Zeros are released as well. */
int et_prediction_block_open(et_prediction_block *block, int64_t rows, size_t keep,
                             const et_predictor *predictor, et_error *error);
void et_prediction_block_release(et_prediction_block *block);

/* Makes the lines of the rows, up to the first row that ends the block. */
void et_prediction_block_run(et_prediction_block *block, et_predictor *predictor,
                             const et_prediction_how *how);

#endif
