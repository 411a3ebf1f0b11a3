/* RUN/out_of_fold.jsonl: a prediction of each row by the models that did not learn it.
 *
 *   {"fold": 2, "label": "no", "row": "train.csv:17", "scores": [0.7, 0.3], "target": "no"}
 *   {"fold": 2, "row": "train.csv:17", "target": [12.5], "values": [11.9], "weight": 2}
 *
 * A run writes the file when all folds are trained. Later its rows are scored as a validation's. */
#ifndef ETUDE_TASKS_TABULAR_FOLDS_OUT_OF_FOLD_H
#define ETUDE_TASKS_TABULAR_FOLDS_OUT_OF_FOLD_H

#include "tasks/tabular/tabular_task_private.h"

/* Arrays are borrowed: those of classes, or of all others written and value. */
typedef struct et_fold_rows {
    int64_t count, width;
    int64_t targets;       /* of a row, but of classes */
    const int16_t *fold;   /* [count], from 0; -1: no model predicts the row */
    const double *weight;  /* [count] */
    const int32_t *class;  /* [count] */
    const float *output;   /* [count, width] */
    const double *written; /* [count, targets] */
    const double *value;   /* [count, width] */
} et_fold_rows;

/* Replaces the file; rows are those of the task's table. */
int et_fold_rows_write(const et_tabular_task *task, const et_fold_rows *rows, const char *path,
                       et_error *error);

/* Whether an evaluation of the task is that of the file: the run was trained on folds, and no file
 * of rows is named. */
bool et_tabular_has_out_of_fold(const et_tabular_task *task);

/* Scores the file's rows as a validation does, into logs. ET_EFORMAT: the file is damaged, or its
 * rows are not the target's. */
int et_tabular_score_out_of_fold(et_tabular_task *task, et_value *logs, et_error *error);

#endif
