/* train --dry-run: all that a training would do before its first step, and a few steps to see how
 * long it would take; in a directory of its own below TMPDIR, which goes again.
 *
 *     et_dry_run dry = { .kind = kind, .run = "runs/a" };
 *     et_dry_run_open(&dry, &error);                  dry.directory is there
 *     ...                                             task and trainer are opened in it
 *     et_dry_run_measure(&dry, &facts, &error);       result on standard output
 *     et_dry_run_close(&dry);                         also if it was not opened
 *
 * A run that is there is not touched: its files that weights belong to are copied, its newest
 * weights loaded, and what counts is what is left to do.
 *
 * Ranks try together, in a directory that rank 0 makes and all must see: each measures its memory
 * and its steps, and rank 0 says what all have measured. */
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
