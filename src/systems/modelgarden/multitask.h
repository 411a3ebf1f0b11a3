/* Several tasks together, for the library, beyond <etude/multitask.h>. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_MULTITASK_H
#define ETUDE_SYSTEMS_MODELGARDEN_MULTITASK_H

#include <etude/multitask.h>

/* The arguments for the trainer of a task that consists of others. */
typedef struct et_multitask_request {
    et_device *device;
    et_params *params;
    const et_task_trainer_options *options;
} et_multitask_request;

typedef struct et_multitask_internals {
    et_params *const *views; /* [count]: how each task sees the store (engine/tensor/params.h) */
    et_task *whole;          /* initialized after its tasks */
} et_multitask_internals;

/* inside: its pointers are borrowed; NULL: all tasks see the whole store. */
int et_multitask_open_internal(et_multitask **out, const et_multitask_part *parts, int count,
                               const et_multitask_internals *inside, et_device *device,
                               et_params *params, const et_multitask_options *options,
                               et_error *error);

/* The mean number of batches until every task has made one pass over its data, given how often
 * tasks are drawn. A joint step takes one batch of each task. With annealing, steps_per_epoch
 * decides. */
int et_multitask_batches(const et_multitask *m, int64_t *count, et_error *error);

#endif
