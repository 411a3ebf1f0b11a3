/* Reads rows for prediction, block by block: CSV with any delimiter, with or without a header, or
 * JSON lines. A block has a copy of its data, so one thread can work on it while another reads the
 * next. A bad row is in its block with its message.
 *
 *     if (et_row_reader_open(&reader, &options, encoder, &error)) ...
 *     et_row_block_open(&block, options.rows, encoder, 0, &error);
 *     while (!(status = et_row_reader_next(reader, &block, &error)) && block.count)
 *         printf("%d rows\n", (int)block.count);
 *     et_row_block_release(&block);
 *     et_row_reader_close(reader);
 *
 * Use a reader from one thread at a time; a block may go to any thread. */
#ifndef ETUDE_TASKS_TABULAR_PREDICT_ROW_READER_H
#define ETUDE_TASKS_TABULAR_PREDICT_ROW_READER_H

#include "base/arena.h"
#include "data/table/rows/rows.h"
#include "tasks/tabular/predict/predict.h"

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
    et_csv_options csv; /* as rows of training: missing, also of JSON; comment; a delimiter
                                   that stands for 0 above, but of TSV */
    bool lenient;       /* a bad row is in its block; else reading ends after it */
} et_row_reader_options;

/* A row: its cells, as an encoder has them, or what is wrong with it. */
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

/* Fills a block; count 0: the end. Of a stream a block ends where nothing more is there yet. After
 * a failure the rows before it are in the block. */
int et_row_reader_next(et_row_reader *reader, et_row_block *block, et_error *error);
/* Whether the next call would have to wait for input. */
bool et_row_reader_waits(const et_row_reader *reader);

/* keep: number of columns that rows also have as they are. */
int et_row_block_open(et_row_block *block, int64_t rows, const et_encoder *encoder, size_t keep,
                      et_error *error);
void et_row_block_release(et_row_block *block);

/* Reads the cells of a row of JSON. ET_EDATA: it is not an object, or has an unknown column or a
 * bad value. */
int et_row_block_parse(et_row_block *block, const et_table_model *model, int64_t row,
                       et_error *error);

#endif
