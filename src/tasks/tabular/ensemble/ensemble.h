/* Several models of one table as one model (task.ensemble): trains the models and chooses their
 * weights. */
#ifndef ETUDE_TASKS_TABULAR_ENSEMBLE_ENSEMBLE_H
#define ETUDE_TASKS_TABULAR_ENSEMBLE_ENSEMBLE_H

#include "systems/modelgarden/series.h"
#include "tasks/tabular/tabular_task.h"

/* For the kind's row. */
extern const et_series et_tabular_series;

/* Scores the rows of RUN/out_of_fold.jsonl as a validation does, into logs. ET_EFORMAT: the file is
 * damaged, or its rows are not the target's. */
int et_tabular_score_out_of_fold(et_tabular_task *task, et_value *logs, et_error *error);

#endif
