/* Task trainers, for the library, beyond <etude/task_trainer.h>: facts about a task trainer. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_TASK_TRAINER_H
#define ETUDE_SYSTEMS_MODELGARDEN_TASK_TRAINER_H

#include <etude/task_trainer.h>

#include "train/step/step.h"

/* The pass of training; NULL: no training. */
const et_pass *et_task_trainer_pass(const et_task_trainer *trainer);

et_optimizer *et_task_trainer_optimizer(const et_task_trainer *trainer);

/* If training then starts without a checkpoint, it keeps the weights in the store and the state of
 * the optimizer, and counts steps from `step`. */
void et_task_trainer_keep_weights(et_task_trainer *trainer, int64_t step);

/* The number of batches in a pass over the training data (et_source_batches). */
int et_task_trainer_batches(et_task_trainer *trainer, int64_t *count, et_error *error);

/* Values, gradients, shadow, slots, averages. */
size_t et_task_trainer_parameter_bytes(const et_task_trainer *trainer);

#endif
