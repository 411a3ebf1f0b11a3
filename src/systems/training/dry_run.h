/* train --dry-run: everything that a training does before its first step, and a few steps to
 * estimate the duration; in a temporary directory below TMPDIR.
 *
 *     et_dry_run dry = { .kind = kind, .run = "runs/a" };
 *     et_dry_run_open(&dry, &error);                  makes dry.directory
 *     ...                                             task and trainer are opened in it
 *     et_dry_run_measure(&dry, &facts, &error);       result on standard output
 *     et_dry_run_close(&dry);                         also if it was not opened
 *
 * An existing run does not change: the files that belong to its weights are copied, its newest
 * weights are loaded, and the estimate is for the remaining steps. Of several trainings each is
 * measured on its own, and the result begins with its name.
 *
 * Ranks measure together, in a directory that rank 0 makes and all must see: each measures its
 * memory and steps, and rank 0 prints the results of all. */
#ifndef ETUDE_SYSTEMS_TRAINING_DRY_RUN_H
#define ETUDE_SYSTEMS_TRAINING_DRY_RUN_H

#include <signal.h>

#include "systems/modelgarden/learner.h"

#include <etude/experiment.h>
#include <etude/trainer.h>

/* Equal trainings of several. */
typedef struct et_dry_run_share {
    const char *name; /* "mlp" */
    int times;
    double seconds; /* of all of them, as measured */
} et_dry_run_share;

typedef struct et_dry_run {
    const et_task_kind *kind;
    const char *run; /* its files are copied, and its weights loaded if it has any; NULL: none */
    et_comm *comm;   /* borrowed; NULL: this process alone */
    char *directory; /* owned */
} et_dry_run;

/* What is measured, and how the result is told. */
typedef struct et_dry_run_facts {
    et_learner *learner;
    et_params *params;
    int64_t train_steps;
    bool json;
    et_dry_run_share *share; /* NULL: one training */
    const volatile sig_atomic_t *stop;
} et_dry_run_facts;

/* ET_ENOTFOUND: a rank does not see the directory of rank 0. */
int et_dry_run_open(et_dry_run *dry, et_error *error);
int et_dry_run_measure(const et_dry_run *dry, const et_dry_run_facts *facts, et_error *error);
void et_dry_run_close(et_dry_run *dry);

/* Prints that nothing is left of a run that is complete. */
int et_dry_run_tell_complete(bool json, et_error *error);

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

#endif
