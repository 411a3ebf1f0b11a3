/* Waiting for the checkpoints of a run that another process trains, by all ranks that evaluate them
 * together. Rank 0 looks, and its result holds for all ranks. The caller repeats the call after a
 * while; nothing is kept in between.
 *
 *     status = et_checkpoint_wait_next(comm, &path, &step, "runs/a", step, false, &error);
 *     ... path NULL: there is none ...
 *     bool over = et_clock_monotonic() - since > timeout;
 *     status = et_together_decide(comm, ET_OK, &over, &error);
 *
 * All ranks call these functions together; comm NULL: this process alone. */
#ifndef ETUDE_TRAIN_RANKS_CHECKPOINT_WAIT_H
#define ETUDE_TRAIN_RANKS_CHECKPOINT_WAIT_H

#include <etude/comm.h>

#include "train/checkpoint/checkpoint.h"

/* et_checkpoint_next by rank 0. */
int et_checkpoint_wait_next(et_comm *comm, char **path, int64_t *step, const char *model_dir,
                            int64_t after, bool transient, et_error *error);

/* Call after all ranks have tried to load a checkpoint, with the status of et_together_run. *found
 * false: the checkpoint was removed before a rank loaded it, which is not an error. */
int et_checkpoint_wait_loaded(et_comm *comm, int status, bool *found);

#endif
