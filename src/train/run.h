/* A run: a task trained for a number of steps, with everything around the step: restoring,
 * logs, validation, checkpoints, the best one, progress, stopping on request.
 *
 * The inner loop does steps until something is due; then hooks act, in this order: log,
 * validate (and keep the best), save. What they change is in the state before it is saved, so
 * a run that is killed and started again does what an unbroken one would have done.
 *
 *     et_run_open(&run, task, &options, &error);       builds, plans, restores
 *     et_run_train(run, &error);                       ET_EINTERRUPTED: asked to stop, saved
 *     et_run_close(run, &error); */
#ifndef ETUDE_TRAIN_RUN_H
#define ETUDE_TRAIN_RUN_H

#include <signal.h>

#include "exec/device.h"
#include "exec/plan.h"
#include "io/progress.h"
#include "train/options.h"
#include "train/task.h"

typedef struct et_run et_run;

typedef struct et_run_options {
    const char *model_dir;             /* where all files of the run go */
    const et_trainer_options *trainer; /* checked: et_trainer_check */
    et_dtype act;      /* type of activations, the precision setting resolved: ET_F32 or ET_BF16 */
    int recompute;     /* what the backward pass makes again: an et_recompute, or
                          ET_RECOMPUTE_AUTO: chosen by what a batch needs */
    uint64_t seed;     /* of start values and dropout */
    et_device *device; /* borrowed, as all below */
    et_params *params; /* empty; filled by the model */
    et_progress *progress;             /* where people look; NULL: nowhere */
    bool verbose;                      /* they see every summary, and each save */
    const volatile sig_atomic_t *stop; /* not 0: save at the next step boundary and end */
    volatile sig_atomic_t *save;       /* not 0: save there and go on; becomes 0. NULL: never */
    bool locked; /* the caller holds model_dir's lock (et_checkpoints_lock) until after close */
} et_run_options;

/* Options are copied, what they point to must outlive the run. */
int et_run_open(et_run **out, et_task *task, const et_run_options *options, et_error *error);

/* What set-up found: for the lines before step 1. */
typedef struct et_run_facts {
    int64_t step;           /* restored, 0: a new run */
    int64_t parameters;     /* elements */
    et_plan_memory memory;  /* of the training plan */
    int plan_steps;         /* kernel calls of it */
    et_recompute recompute; /* never ET_RECOMPUTE_AUTO */
    size_t parameter_bytes; /* values, gradients, shadow, slots, averages */
} et_run_facts;

et_run_facts et_run_facts_of(const et_run *run);

/* Trains up to train_steps; a run that is there already has nothing to do. Asked to stop, it
 * saves the step it is at and returns ET_EINTERRUPTED; a validation that was cut short is done
 * when the run goes on. */
int et_run_train(et_run *run, et_error *error);

/* What a step's span is called in a trace of the device. */
#define ET_RUN_STEP_SPAN "step"

/* What people read when a run is interrupted. */
#define ET_RUN_GOES_ON "The same command goes on from there."
#define ET_RUN_NOT_BEGUN                                                                           \
    "interrupted before the first step: nothing to save. "                                         \
    "The same command starts again."

/* What ET_RECOMPUTE_AUTO comes to where a batch planned with ET_RECOMPUTE_CHEAP has so many bytes
 * of activations: above 1 GiB feed-forward layers are computed twice. */
et_recompute et_run_recompute(size_t activations);

/* Waits for the last save. NULL allowed. */
int et_run_close(et_run *run, et_error *error);

#endif
