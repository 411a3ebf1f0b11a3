/* Rows to predict, a block at a time: read, encoded, computed, printed.
 *
 *     et_prediction_block_open(&block, 256, 0, predictor, &error);
 *     et_row_reader_next(reader, &block.rows, &error);
 *     et_prediction_block_run(&block, predictor, &how);     block.lines, block.status
 *     et_prediction_block_release(&block);
 *
 * Blocks are worked on by any thread, each with a predictor of its own. */
#ifndef ETUDE_TASKS_TABULAR_MODEL_PREDICTION_BLOCK_H
#define ETUDE_TASKS_TABULAR_MODEL_PREDICTION_BLOCK_H

#include "base/text/strbuf.h"
#include "data/table/features/unseen.h"
#include "tasks/tabular/predict/prediction_lines.h"
#include "tasks/tabular/predict/row_reader.h"

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
