/* --init: a new run begins with the weights of another one, and with what they need of it.
 *
 *     et_initial initial = { .from = "runs/a" };
 *     et_initial_find(&initial, &arena, &error);                     which file, whose run
 *     et_initial_begin(&initial, &experiment, program, &arena, &error);   without --experiment
 *     et_initial_apply(&initial, &experiment, &arena, &error);       before what is set by hand
 *     et_initial_inherit(&initial, &experiment, &arena, &error);     behind it
 *
 * Weights are those of task.init_checkpoint. Files that they belong to are
 * the other run's unless the settings name others; so are all settings, where there is no
 * experiment. Texts live in the arena. */
#ifndef ETUDE_COMMAND_TRAINING_INITIAL_H
#define ETUDE_COMMAND_TRAINING_INITIAL_H

#include "train/experiment.h"

typedef struct et_initial {
    const char *from; /* as typed; NULL: there is none, and nothing is done */
    const char
        *checkpoint;   /* what task.init_checkpoint becomes: a file, RUN/best, or RUN: its newest */
    const char *run;   /* the directory of the run or export that it is of; NULL: none */
    const char *taken; /* files of the run that are used, for people; NULL: none */
    bool settings;     /* the run's settings are where this one began */
} et_initial;

/* ET_ENOTFOUND: there is no such file, or a run without a checkpoint. */
int et_initial_find(et_initial *initial, et_arena *arena, et_error *error);

/* The run's settings. ET_EUSAGE: the weights are of no run, so there are none. */
int et_initial_begin(et_initial *initial, et_experiment *experiment, const et_program *program,
                     et_arena *arena, et_error *error);

/* ET_ECONFIG: tasks of this kind do not begin with weights, or the run is of another kind. */
int et_initial_apply(et_initial *initial, et_experiment *experiment, et_arena *arena,
                     et_error *error);
int et_initial_inherit(et_initial *initial, et_experiment *experiment, et_arena *arena,
                       et_error *error);

#endif
