/* The plan of tabular/auto: which experiments it trains, and in which order. It estimates the
 * duration of each candidate from the size of the table, and leaves out candidates that exceed the
 * budget. A plan for folds of one experiment has one candidate. */
#ifndef ETUDE_TASKS_TABULAR_CANDIDATES_H
#define ETUDE_TASKS_TABULAR_CANDIDATES_H

#include "systems/modelgarden/series.h"
#include "tasks/tabular/tabular_options.h"
#include "tasks/tabular/tabular_task_private.h"

/* The experiment that trains several others. */
#define ET_TABULAR_AUTO "tabular/auto"

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

#endif
