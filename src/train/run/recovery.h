/* Recovery of a run whose loss diverged: the run goes back to its newest checkpoint and continues
 * differently, as with Model Garden's RecoveryCondition and RecoveryAction. Differences: the
 * trainer judges every step, not the mean of a loop. The data go back with the weights. A run
 * without a checkpoint goes back to its initial values, which are saved as step 0. A file keeps the
 * count, which starts again once the run has passed the failed step.
 *
 *   diverged -> wait for the save in progress -> recovery.json -> restore -> retry
 *
 * A run that is killed after the file was written resumes with the same trial. */
#ifndef ETUDE_TRAIN_RUN_RECOVERY_H
#define ETUDE_TRAIN_RUN_RECOVERY_H

#include <etude/trainer.h>

#include "base/arena.h"
#include "train/run/run.h"

typedef struct et_recovery {
    int64_t max_trials;     /* in a row; at most 0: the run ends by the first failure */
    int64_t trials, all;    /* trials in this row; trials ever, which retry gets as trial */
    int64_t step, failed;   /* step of the last recovery's checkpoint, and the step that failed */
    et_arena arena;         /* of memory; the owner releases it */
    const et_value *memory; /* the trainer's data from `diverged`; NULL: none yet */
} et_recovery;

/* Call when the run is at `step` (-1: a new run, which is saved as a checkpoint) and its logs are
 * open. Reads earlier trials and lets the trainer continue with them. */
int et_recovery_open(et_recovery *recovery, et_run *run, et_trainer *trainer, int64_t step,
                     et_error *error);

/* Call after a step failed with ET_EDIVERGED, with the error of the step. ET_OK: the state is that
 * of the checkpoint. ET_EDIVERGED: no trial is left. */
int et_recovery_go_back(et_recovery *recovery, et_run *run, et_trainer *trainer, et_error *error);

#endif
