/* Evaluates a trained model on its validation data, with the results that training logs. The run
 * may train meanwhile, because an evaluation neither locks nor writes it. An export can be
 * evaluated too; its settings name the data.
 *
 *     et_evaluation evaluation = { .model_dir = "runs/a", .experiment = &experiment };
 *     et_evaluation_open(&evaluation, &error);            task, data, parameters
 *     et_evaluation_load(&evaluation, NULL, &error);      weights: the best checkpoint's
 *     et_evaluation_run(&evaluation, logs, &error);       logs: a dict
 *     et_evaluation_close(&evaluation);                   also if it was not opened */
#ifndef ETUDE_SYSTEMS_TRAINING_EVALUATION_H
#define ETUDE_SYSTEMS_TRAINING_EVALUATION_H

#include "systems/modelgarden/experiment.h"
#include "systems/modelgarden/trainable.h"
#include "train/checkpoint/artifact/artifact.h"

typedef struct et_evaluation {
    const char *model_dir;     /* a run, or an export; borrowed */
    et_experiment *experiment; /* borrowed: settings as they are to be */
    bool live_weights;         /* not the averaged ones */
    int64_t batches;           /* of the validation data; 0: all */
    void *listener; /* tell(listener, line) gets the lines of a task; tell NULL: no one */
    void (*tell)(void *listener, const char *line);
    const volatile sig_atomic_t *stop; /* not 0: ends with ET_EINTERRUPTED; NULL: never */
    et_comm *comm;     /* ranks that make the same calls and share the work; borrowed. NULL: this
                          process alone */
    et_device *device; /* borrowed; NULL: the evaluation opens its own */

    char *path;   /* of the checkpoint that was loaded; owned */
    int64_t step; /* of it */

    et_arena arena;
    et_artifact artifact;
    et_identity newest;
    et_device *own_device;
    et_params *params;
    et_task *task;
    et_trainable *trainable;
} et_evaluation;

/* ET_ECONFIG: the settings name no validation data. */
int et_evaluation_open(et_evaluation *evaluation, et_error *error);

/* Loads the weights of a run's checkpoint (et_checkpoint_named), and checks that they belong to the
 * settings. name NULL: the weights of an export, or of the best checkpoint. If the best checkpoint
 * cannot be loaded, warns and loads the newest. */
int et_evaluation_load(et_evaluation *evaluation, const char *name, et_error *error);

/* Adds the values to logs. */
int et_evaluation_run(et_evaluation *evaluation, et_value *logs, et_error *error);

void et_evaluation_close(et_evaluation *evaluation);

#endif
