/* The plan of tabular/auto: which experiments it trains, and in which order. It estimates the
 * duration of each candidate from the size of the table, and leaves out candidates that exceed the
 * budget. A plan for folds of one experiment has one candidate. */
#ifndef ETUDE_TASKS_TABULAR_ENSEMBLE_ENSEMBLE_PRIVATE_H
#define ETUDE_TASKS_TABULAR_ENSEMBLE_ENSEMBLE_PRIVATE_H

#include "tasks/tabular/ensemble/ensemble.h"

/* Folds of a small table. */
#define ET_AUTO_FOLDS 5
/* Default budget: seconds for all trainings. */
#define ET_AUTO_BUDGET 120

#define ET_CANDIDATES_MAX 8

typedef struct et_candidate_plan {
    et_series_run *run; /* the plan sets candidate, count, seconds and left_out */
    et_arena *arena;    /* of the plan */
    const et_tabular_task *task;
    bool is_auto;
    double budget; /* seconds for all trainings of tabular/auto */
    int folds;     /* 1: none */
} et_candidate_plan;

bool et_candidates_is_auto(const char *experiment);

/* The experiment of candidate i, from 0; NULL: no more. */
const char *et_candidates_at(const char *experiment, const void *options, int i);

/* Whether tabular/auto trains on folds, because the table is small. */
bool et_candidates_take_folds(const et_tabular_task *task, const char *experiment);

int et_candidates_plan(const et_candidate_plan *s, const char *experiment,
                       const et_tabular_options *options, et_error *error);

/* ---- out_of_fold.c ---- */

/* RUN/out_of_fold.jsonl: a prediction of each row by the models that did not learn it.
 *
 *   {"fold": 2, "label": "no", "row": "train.csv:17", "scores": [0.7, 0.3], "target": "no"}
 *   {"fold": 2, "row": "train.csv:17", "target": [12.5], "values": [11.9], "weight": 2}
 *
 * A run writes the file when all folds are trained. Later its rows are scored as a validation's. */

/* Replaces the file; rows are those of the task's table. fold: [rows], from 0; -1: no model
 * predicts the row. */
int et_fold_rows_write(const et_tabular_task *task, const et_validation_rows *rows,
                       const int16_t *fold, const char *path, et_error *error);

#endif
