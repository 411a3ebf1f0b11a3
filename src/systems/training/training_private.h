/* A training, for its own files.
 *
 *   training.c         the directory; from begin to end, with lines for people
 *   training_open.c    what the recipe chooses; device, task, trainer, controller
 */
#ifndef ETUDE_SYSTEMS_TRAINING_TRAINING_PRIVATE_H
#define ETUDE_SYSTEMS_TRAINING_TRAINING_PRIVATE_H

#include <math.h>

#include "base/clock.h"
#include "systems/modelgarden/recipe.h"
#include "systems/modelgarden/trainable.h"
#include "systems/orbit/controller.h"
#include "systems/training/model_dir.h"
#include "systems/training/session.h"
#include "systems/training/training.h"

/* Everything that a training opens, in order; closed in reverse. */
typedef struct et_training {
    const et_training_options *options;
    et_experiment *experiment; /* of options */
    et_arena *arena;           /* of options */
    et_model_dir directory;
    et_internals internals;    /* access of the run to directory and device */
    bool set_up;               /* everything is open, and the directory has a run to keep */
    et_recipe_amounts amounts; /* input with which the recipe has chosen; zeros: no recipe was
                                  applied */
    double step_seconds;       /* as measured for the length of the run; 0: not measured */
    et_trainer_options plan;   /* of the trainer, with steps in place of epochs */
    et_identity kept;          /* of the newest existing checkpoint */
    et_value *identity;        /* of this training's checkpoints */
    char rate[64];             /* its unit */
    const char *best_metric;   /* NULL: none */
    const char *best_tie;      /* the loss on the same data: decides between equal values of
                                  best_metric */
    et_main_metrics shown;     /* of validation, in the table */
    int shown_most;            /* most metrics to show */
    et_showing showing;        /* the last step shown; all 0: none yet */
    int64_t warmup;            /* warm-up steps that the time limit may shorten; 0: none, or already
                                  settled */
    int64_t first_step;        /* the step at the start of this process, and its time */
    double first_time;
    et_action pacing; /* changes the length of a paced run according to the time that is left */
    et_action *actions[1];
    bool paced;          /* this process chose the length by the time limit */
    int64_t pacing_each; /* steps */
    int64_t paced_step;  /* the step of the first look at the time, and this time; 0: not yet */
    double paced_time;
    double target; /* value of the metric at which training ends, if `targeted` */
    bool targeted; /* given */
    et_device *device;
    et_params *params;       /* of task and run, which borrow it */
    et_task_context context; /* of the task */
    et_task *task;
    et_trainable *trainable;
    et_trainer *cluster; /* replaces the task trainer's trainer; NULL: no cluster */
    et_controller *controller;
    et_session session; /* train.log and info.json */
} et_training;

static inline et_trainer *et_training_trainer(const et_training *t)
{
    return t->cluster ? t->cluster : et_trainable_trainer(t->trainable);
}

/* NULL: the run has no recipe. */
static inline const et_recipe *et_training_recipe(const et_training *t)
{
    return et_initial_recipe(t->options->initial, t->experiment);
}

/* Seconds until the time limit; negative: no limit, or the limit does not choose the length. */
static inline double et_training_seconds_left(const et_training *t)
{
    const et_training_options *o = t->options;
    return o->ends > 0 && !o->cluster ? fmax(o->ends - et_clock_monotonic(), 0) : -1;
}

/* 0 before the trainer is open. */
static inline int64_t et_training_step(const et_training *t)
{
    return t->trainable ? et_training_trainer(t)->step : 0;
}

/* training_open.c. open_parts: everything below the controller, also for --dry-run; open:
 * everything. After a failure et_training_close closes all open parts, the directory last, because
 * its lock covers all files. */
int et_training_open_parts(et_training *t, const char *directory, et_error *error);
int et_training_open(et_training *t, const char *directory, et_error *error);
void et_training_close(et_training *t);

int et_training_write_settings(const et_training *t, et_error *error);
uint64_t et_training_planned(const et_training *t); /* bytes */

/* Measures the duration of a step by running at most `most` steps, which change the weights. After
 * a first step, which also touches memory for the first time, steps run for three seconds, but at
 * most a hundred. Batches differ, so the mean of a few steps is only an estimate. The trainer has
 * started; each rank measures its own steps. ET_EINTERRUPTED: a stop was requested. */
int et_training_pace(et_training *t, int64_t most, et_pace *pace, et_error *error);

/* Prints a line above the bar; a long line is cut. Thirteen columns are for the topic. */
void et_training_say(const et_training *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- training_open.c: the largest batch ---- */

/* Finds the largest batch whose plan fits into a given memory. Memory grows with the batch by an
 * unknown law. So the search tries batches, and computes each candidate from the two nearest
 * results.
 *
 *     et_batch_fit fit = et_batch_fit_begin(budget, 4096, ET_BATCH_MOST);
 *     do
 *         bytes = needed_by(fit.batch);
 *     while (et_batch_fit_note(&fit, bytes, false));
 *     use(fit.fits);                                        0: even the smallest does not fit */
#define ET_BATCH_LEAST 8
#define ET_BATCH_MOST  1048576

typedef struct et_batch_fit {
    uint64_t budget;     /* bytes */
    int64_t batch;       /* to be tried next */
    int64_t most;        /* no larger one is tried */
    int64_t fits, fails; /* largest batch that fits, smallest that does not; 0: none yet */
    uint64_t fits_bytes, fails_bytes;
    int tries;
} et_batch_fit;

/* batch: the first one to try. most: the largest one, from ET_BATCH_LEAST to ET_BATCH_MOST. */
et_batch_fit et_batch_fit_begin(uint64_t budget, int64_t batch, int64_t most);

/* Notes the bytes that `batch` needs. whole: a larger batch would be of no use. True: try another
 * batch. */
bool et_batch_fit_note(et_batch_fit *fit, uint64_t bytes, bool whole);

#endif
