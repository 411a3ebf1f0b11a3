/* What a task is to the trainer: where batches come from, what the loss is, how it is
 * validated. A task is a class; its first member is its et_task.
 *
 * Order of calls: build_loss once per graph; attach; then next before each run of the plan;
 * validate between loops, with the averaged weights in the store if there are any. */
#ifndef ETUDE_TRAIN_TASK_H
#define ETUDE_TRAIN_TASK_H

#include "base/strbuf.h"
#include "base/value.h"
#include "exec/plan.h"
#include "train/state.h"

typedef struct et_task et_task;

typedef struct et_task_class {
    const char *name;
    /* Adds the model and its loss for one batch of the task's shape. The node's value is the
     * four sums of a loss (et_loss_sum); the first is differentiated. */
    et_node *(*build_loss)(et_task *self, et_scope *scope);
    /* Hangs what resumes (the position in the data) on the state tree. */
    int (*attach)(et_task *self, et_state *state, et_error *error);
    /* Binds the next batch of training data to the plan. */
    int (*next)(et_task *self, et_plan *plan, et_error *error);
    /* Passes over the data begun, from 1. */
    int64_t (*epoch)(const et_task *self);
    /* Says which lines the current batch holds, for messages. */
    void (*describe_batch)(const et_task *self, et_strbuf *out);
    /* Scores the store's weights on validation data: fills logs. Optional. */
    int (*validate)(et_task *self, int64_t step, et_value *logs, et_error *error);
    /* Which of its values says what checkpoint is best (higher is better), where the settings do
     * not. NULL: none does. */
    const char *best_metric;
} et_task_class;

struct et_task {
    const et_task_class *class;
};

#endif
