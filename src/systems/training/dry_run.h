/* A dry run: everything that a training does before its first step, and a few steps to
 * estimate the duration; in a temporary directory below TMPDIR.
 *
 *     et_dry_run dry = { .kind = kind, .run = "runs/a" };
 *     et_dry_run_open(&dry, &error);                  makes dry.directory
 *     ...                                             task and trainer are opened in it
 *     et_dry_run_measure(&dry, learner, params, steps, &stop, &results, &error);
 *     et_dry_run_close(&dry);                         also if it was not opened
 *
 * An existing run does not change: the files that belong to its weights are copied, its newest
 * weights are loaded, and the estimate is for the remaining steps.
 *
 * Ranks measure together, in a directory that rank 0 makes and all must see: each measures its
 * memory and steps. */
#ifndef ETUDE_SYSTEMS_TRAINING_DRY_RUN_H
#define ETUDE_SYSTEMS_TRAINING_DRY_RUN_H

#include <signal.h>

#include "systems/modelgarden/learner.h"

#include <etude/experiment.h>
#include <etude/trainer.h>

typedef struct et_dry_run {
    const et_task_kind *kind;
    const char *run; /* its files are copied, and its weights loaded if it has any; NULL: none */
    et_comm *comm;   /* borrowed; NULL: this process alone */
    char *directory; /* owned */
} et_dry_run;

/* ET_ENOTFOUND: a rank does not see the directory of rank 0. */
int et_dry_run_open(et_dry_run *dry, et_error *error);
void et_dry_run_close(et_dry_run *dry);

typedef struct et_pace {
    double seconds;   /* of a step; NaN: none was done */
    double units;     /* a second */
    const char *unit; /* NULL: the trainer has none */
} et_pace;

/* Measures the duration of a training step by running a few; they change the weights. After a first
 * step, which also touches memory for the first time, steps run for three seconds, but at most a
 * hundred. The estimate for all steps is their mean: batches differ, so the mean of a few differs
 * from the mean of all.
 *
 * Measures at most `most` steps of a started trainer. comm: the ranks that train together; each
 * measures its own steps. NULL: this process alone. ET_EINTERRUPTED: *stop was set. */
int et_pace_measure(et_pace *pace, et_trainer *trainer, et_comm *comm, int64_t most,
                    const volatile sig_atomic_t *stop, et_error *error);

/* What a rank has measured. */
typedef struct et_dry_run_measured {
    int64_t done, left; /* steps: of the run that is there; still to do */
    et_pace pace;
    size_t memory; /* the most that the process had, bytes */
} et_dry_run_measured;

typedef struct et_dry_run_results {
    et_dry_run_measured all;   /* of the slowest and the largest rank */
    et_dry_run_measured *each; /* [ranks], owned by the caller (et_free); NULL: a rank failed */
    int ranks;
} et_dry_run_results;

/* Begins with the weights that training would have, and measures. steps: of the run, in all. */
int et_dry_run_measure(const et_dry_run *dry, et_learner *learner, et_params *params, int64_t steps,
                       const volatile sig_atomic_t *stop, et_dry_run_results *out, et_error *error);

#endif
