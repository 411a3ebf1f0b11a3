/* Initial weights: a new run begins with the weights of another one, and with the files that belong
 * to them.
 *
 *     et_initial initial = { .from = "runs/a", .option = "--init" };
 *     et_initial_find(&initial, program, &arena, &error);
 *     et_initial_begin(&initial, &experiment, program, &arena, &error);   all of its settings, or:
 *     et_experiment_begin(&experiment, program, "rings/small", &arena, &error);
 *     et_initial_apply(&initial, &experiment, &arena, &error);        before the user's settings
 *     et_initial_inherit(&initial, &experiment, &arena, &error);      after them
 *     et_initial_close(&initial);                                     after the task
 *
 * The weights are set by task.init_checkpoint. If a kind of task lacks this setting, the task gets
 * the weights too; but a run that resumes before its first checkpoint then needs --init again. The
 * run uses the other run's files that belong to the weights, unless settings name other files.
 * Texts live in the arena. */
#ifndef ETUDE_SYSTEMS_TRAINING_INITIAL_H
#define ETUDE_SYSTEMS_TRAINING_INITIAL_H

#include "systems/modelgarden/recipe.h"

typedef struct et_initial {
    const char *from;       /* as typed; NULL: not given, and the functions do nothing */
    const char *option;     /* by which messages name it: "--init" */
    const char *checkpoint; /* value for task.init_checkpoint: a file, RUN/best, or RUN for its
                               newest checkpoint */
    const char *run;   /* the source of the checkpoint: a run, an export (directory or file), or the
                          model of another program; NULL: none */
    const char *taken; /* files of that run that the new run uses, in words for people; NULL:
                          none */
    const et_foreign_class *class; /* set if run is a model of another program; NULL: it is not */
    void *foreign;                 /* this model, open */
    const char *foreign_settings;
    bool settings; /* this run begins with the run's settings */
    bool unset;    /* the kind has no setting for the checkpoint */
} et_initial;

/* ET_ENOTFOUND: no such file, or a run without a checkpoint. */
int et_initial_find(et_initial *initial, const et_program *program, et_arena *arena,
                    et_error *error);

/* Uses the settings of initial->run, which is not NULL. If that run is finished, adds its kind's
 * recipe of fine-tuning. */
int et_initial_begin(et_initial *initial, et_experiment *experiment, const et_program *program,
                     et_arena *arena, et_error *error);

/* ET_ECONFIG: the run is of another kind. */
int et_initial_apply(et_initial *initial, et_experiment *experiment, et_arena *arena,
                     et_error *error);

int et_initial_inherit(et_initial *initial, et_experiment *experiment, et_arena *arena,
                       et_error *error);

/* The recipe of a run with these initial weights. NULL: none, for example if the run uses the
 * settings of an unfinished run. */
const et_recipe *et_initial_recipe(const et_initial *initial, const et_experiment *experiment);

void et_initial_close(et_initial *initial);

#endif
