/* Declarations for a task's defaults and its trainer. */
#ifndef ETUDE_TRAIN_TASK_TASK_PRIVATE_H
#define ETUDE_TRAIN_TASK_TASK_PRIVATE_H

#include <etude/experiment.h>
#include <etude/task.h>

#include "train/step/step.h"

/* The destination of the measures of a step's pass. */
typedef struct et_task_internals {
    et_step *step; /* of training; NULL: validation */
    et_metrics *measured;
    const int *index; /* [measures of the pass + 1], et_define_measures; -1: not added */
    bool reduces;     /* the trainer aggregates and reduces these logs: what reduce can find out for
                         all of them together may be left to it */
} et_task_internals;

/* ET_ECONFIG: metrics of build_metrics have names of the model's measures. */
int et_task_check_metrics(const et_task *task, const et_metrics *own, const et_metrics *measured,
                          et_error *error);

/* Whether build_metrics defines metrics for passes of the scope's kind, which then need outputs to
 * compare; poisons the graph if build_metrics fails. */
bool et_task_defines_metrics(et_task *task, et_scope *scope);

/* Warns of the results that the task's method verdict names. */
void et_task_tell_verdict(et_task *task, bool best);

/* Reads `depth` batches of training ahead (0: none), on a thread with its own track of a trace. On
 * failure *source is closed, and NULL. */
int et_task_read_ahead(et_source **source, const et_task_context *context, int depth,
                       et_error *error);

/* Calls the task's method, or its default. */
void et_task_build(et_task *task, et_scope *scope, bool training);

#endif
