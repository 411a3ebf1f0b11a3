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
 * weights are loaded, and the estimate is for the remaining steps.
 *
 * Ranks measure together, in a directory that rank 0 makes and all must see: each measures its
 * memory and steps, and rank 0 prints the results of all. */
#ifndef ETUDE_COMMAND_TRAINING_DRY_RUN_H
#define ETUDE_COMMAND_TRAINING_DRY_RUN_H

#include "systems/modelgarden/learner.h"

#include <etude/experiment.h>

typedef struct et_dry_run {
    const et_task_kind *kind;
    const char *run; /* that would go on; NULL: none */
    et_comm *comm;   /* borrowed; NULL: this process alone */
    char *directory; /* owned */
} et_dry_run;

/* What is measured, and how the result is told. */
typedef struct et_dry_run_facts {
    et_learner *learner;
    et_params *params;
    int64_t train_steps;
    bool json;
    const volatile sig_atomic_t *stop;
} et_dry_run_facts;

/* ET_ENOTFOUND: a rank does not see the directory of rank 0. */
int et_dry_run_open(et_dry_run *dry, et_error *error);
int et_dry_run_measure(const et_dry_run *dry, const et_dry_run_facts *facts, et_error *error);
void et_dry_run_close(et_dry_run *dry);

#endif
