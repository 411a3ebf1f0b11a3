/* Which experiments tabular/auto trains, in which order, and for how long: as many as the budget
 * allows for a table of this size. Folds of one experiment are a plan of one candidate. */
#ifndef ETUDE_TASKS_TABULAR_CANDIDATES_H
#define ETUDE_TASKS_TABULAR_CANDIDATES_H

#include "systems/modelgarden/series.h"
#include "tasks/tabular/tabular_options.h"
#include "tasks/tabular/tabular_task_private.h"

/* The experiment that tries several others. */
#define ET_TABULAR_AUTO "tabular/auto"

/* Folds of a small table. */
#define ET_AUTO_FOLDS 5
/* Seconds for all trainings, if nobody says how many. */
#define ET_AUTO_BUDGET 120

#define ET_CANDIDATES_MAX 8

typedef struct et_candidate_plan {
    et_series_run *run; /* gets candidates, seconds and what is left out */
    et_arena *arena;    /* keeps them */
    const et_tabular_task *task;
    bool is_auto;
    double budget; /* seconds for all trainings of tabular/auto */
    int folds;     /* 1: none */
} et_candidate_plan;

bool et_candidates_is_auto(const char *experiment);

/* The experiment of candidate i, from 0; NULL: no more. */
const char *et_candidates_at(const char *experiment, const void *options, int i);

/* Whether a table is so small that tabular/auto validates on folds. */
bool et_candidates_take_folds(const et_tabular_task *task, const char *experiment);

int et_candidates_plan(const et_candidate_plan *s, const char *experiment,
                       const et_tabular_options *options, et_error *error);

#endif
