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
 * A reader reads rows block by block: CSV with any delimiter, with or without a header, or JSON
 * lines. A block has a copy of its data, so one thread can work on it while another reads the next.
 * A bad row is in its block with its message. Use a reader from one thread at a time.
 *
 * A filter makes lines of all rows of a reader, in the order of input:
 *
 *   reader -> blocks --a few threads, each with its own predictor--> lines -> write
 *
 *     if (et_row_reader_open(&reader, &options, encoder, &error)) ...
 *     et_row_filter filter = { &predictors, &lines, reader, .write = print, .self = file };
 *     if (et_row_filter_run(&filter, &error)) ...
 *     et_row_filter_warn(&filter);
 *     et_row_filter_release(&filter);
 *     et_row_reader_close(reader); */
#ifndef ETUDE_TASKS_TABULAR_PREDICT_PREDICTION_LINES_H
#define ETUDE_TASKS_TABULAR_PREDICT_PREDICTION_LINES_H

#include <etude/class_scores.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "data/table/features/unknown_values.h"
#include "data/table/rows/rows.h"
#include "tasks/tabular/predict/predict.h"

/* ---- reading rows ---- */

typedef enum et_row_format {
    ET_ROWS_AUTO, /* by the file's name: .tsv, .jsonl, .ndjson; else CSV */
    ET_ROWS_CSV,
    ET_ROWS_TSV,
    ET_ROWS_JSONL,
    ET_ROW_FORMATS,
} et_row_format;

typedef struct et_row_reader_options {
    const char *path;   /* NULL: standard input */
    int format;         /* an et_row_format */
    char delimiter;     /* 0: by the format, of CSV found in the first row */
    int header;         /* an et_header */
    int64_t rows;       /* of a block at most */
    et_strings keep;    /* columns that rows also have as they are; borrowed */
    et_csv_options csv; /* as for training rows: missing texts (also of JSON), comment, and a
                           delimiter that replaces 0 above, except for TSV */
    bool lenient;       /* a bad row is in its block; else reading ends after it */
} et_row_reader_options;

/* A row: its cells, in the encoder's order, or its error. */
typedef struct et_block_row {
    int64_t line;
    et_cell *cells;         /* NULL: JSON, or failure */
    et_cell *kept;          /* [keep]; NULL: JSON, or failure */
    et_bytes json;          /* to be read by et_row_block_parse */
    const et_value *object; /* the parsed JSON, in the block's arena; NULL: not yet, or CSV */
    const char *failure;    /* NULL: none */
} et_block_row;

typedef struct et_row_block {
    int64_t count;
    et_block_row *row; /* [rows], owned */
    et_cell *cell;     /* [rows, cells], owned */
    et_cell *kept;     /* [rows, keep], owned */
    char *bytes;       /* texts of cells; owned */
    size_t used, room;
    et_arena arena; /* long texts, and messages */
} et_row_block;

typedef struct et_row_reader et_row_reader;

int et_row_reader_open(et_row_reader **out, const et_row_reader_options *options,
                       const et_encoder *encoder, et_error *error);
void et_row_reader_close(et_row_reader *reader); /* NULL allowed */

/* Fills a block; count 0: the end. For a stream, a block ends when no more input is available.
 * After a failure, the block has the rows before the failure. */
int et_row_reader_next(et_row_reader *reader, et_row_block *block, et_error *error);

/* keep: number of columns that rows also have as they are. */
int et_row_block_open(et_row_block *block, int64_t rows, const et_encoder *encoder, size_t keep,
                      et_error *error);
void et_row_block_release(et_row_block *block);

/* Reads the cells of a row of JSON. ET_EDATA: the row is not an object, or has an unknown column or
 * a bad value. */
int et_row_block_parse(et_row_block *block, const et_table_model *model, int64_t row,
                       et_error *error);

/* ---- lines ---- */

typedef struct et_prediction_form {
    bool csv;     /* else JSON */
    bool full;    /* numbers in full, not with five decimals */
    bool numbers; /* each line has the number of the line that its row begins in */
    bool lists;   /* in JSON: outputs are lists, with scores in the order of the labels, as TensorFX
                     prints them. false: outputs are objects if their values have names */
    et_strings keep; /* columns of the rows that lines begin with, each once; borrowed */
    const et_class_predictions *decision; /* classes, first, threshold and costs, by which the label
                                             is chosen; NULL: the most likely label; borrowed */
} et_prediction_form;

/* Values of a row that its line has. */
typedef struct et_prediction_row {
    int64_t number;         /* the row's line in its file */
    const et_cell *key;     /* NULL: none */
    const et_cell *kept;    /* of CSV: [keep] cells that are kept; NULL: JSON, or no kept columns */
    const et_value *object; /* the row in JSON, with the columns that are kept; NULL: CSV, or no
                               kept columns */
} et_prediction_row;

typedef struct et_prediction_column {
    const char *name;
    int output; /* -1: the label, -2: the key, -3: the number of the line, -4: the interval, -5 and
                   below: kept */
    const char *lead;   /* text before its value in each line */
    const char **value; /* text before each value of an output; NULL: a comma */
} et_prediction_column;

typedef struct et_prediction_lines {
    et_prediction_form form;
    int columns, kept;
    et_prediction_column *column; /* [columns]: the kept ones as given, then others by name */
    const char **label;           /* as they are printed; of several targets no and yes of each */
    et_arena arena;               /* of all texts */
} et_prediction_lines;

/* Finds the columns of each line. Release lines even after a failure. */
int et_prediction_lines_open(et_prediction_lines *lines, const et_predictor *predictor,
                             const et_prediction_form *form, et_error *error);
void et_prediction_lines_release(et_prediction_lines *lines);

/* Adds the first line of CSV; JSON has no such line. */
void et_prediction_lines_begin(const et_prediction_lines *lines, const et_predictor *predictor,
                               et_strbuf *out);
/* The row at a place of the last run. */
void et_prediction_lines_add(const et_prediction_lines *lines, const et_predictor *predictor,
                             int64_t at, const et_prediction_row *row, et_strbuf *out);

/* "0.98123", "-0.00001"; "null" if the value is not finite. Equal to printf's %.5f. */
void et_prediction_number(et_strbuf *out, double value);

/* ---- rows to lines ---- */

/* All is borrowed. The calling thread reads and writes; with one predictor it also predicts. Blocks
 * are written in order, so the output does not depend on timing. Before the calling thread waits
 * for input, it writes all finished rows: a program that asks row by row is answered row by row. */
typedef struct et_row_filter {
    const et_predictors *predictors; /* several: a thread for each */
    const et_prediction_lines *lines;
    et_row_reader *reader; /* keeps the columns that lines keep */
    int (*write)(void *self, const char *bytes, size_t length, et_error *error);
    void *self;
    /* after the run */
    int64_t blocks;           /* read */
    et_unknown_values unseen; /* of the rows that were written */
    bool *found;              /* [keep]: a row has the column */
} et_row_filter;

/* Ends at the first bad row, after writing the lines before it. With a lenient reader, warns and
 * leaves the row out instead. Release even after a failure. */
int et_row_filter_run(et_row_filter *filter, et_error *error);
/* After a run: warns of values that the model has never seen, and of columns to keep that no row
 * has. */
void et_row_filter_warn(const et_row_filter *filter);
void et_row_filter_release(et_row_filter *filter);

#endif
