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
    int64_t trials, all;    /* in this row; ever, which is the trial that retry is told */
    int64_t step, failed;   /* what was gone back to last, and the step that failed */
    et_arena arena;         /* of memory */
    const et_value *memory; /* what the trainer kept of where it was; NULL: nothing yet */
} et_recovery;

/* Where the run stands at `step` (-1: a new one, which is saved as a checkpoint like others) and
 * its logs are open: reads what was tried so far and lets the trainer go on with it. */
int et_recovery_open(et_recovery *recovery, et_run *run, et_trainer *trainer, int64_t step,
                     et_error *error);
void et_recovery_release(et_recovery *recovery);

/* After a step that failed with ET_EDIVERGED, whose text is in error. ET_OK: the state is that of
 * the checkpoint. ET_EDIVERGED: there is no trial left. */
int et_recovery_go_back(et_recovery *recovery, et_run *run, et_trainer *trainer, et_error *error);

#endif
