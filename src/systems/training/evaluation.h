/* Evaluates a trained model on its validation data, as training does, while the run may be
 * training: the run is neither locked nor written. An export works too: its settings name the data.
 *
 *     et_evaluation evaluation = { .model_dir = "runs/a", .experiment = &experiment };
 *     et_evaluation_open(&evaluation, &error);            task, data, parameters
 *     et_evaluation_load(&evaluation, NULL, &error);      weights: the newest checkpoint's
 *     et_evaluation_run(&evaluation, logs, &error);       logs: a dict
 *     et_evaluation_close(&evaluation);                   also if it was not opened
 */
#ifndef ETUDE_SYSTEMS_TRAINING_EVALUATION_H
#define ETUDE_SYSTEMS_TRAINING_EVALUATION_H

#include "command/options/options.h"
#include "command/outputs.h"
#include "systems/modelgarden/experiment.h"
#include "systems/modelgarden/learner.h"
#include "train/checkpoint/artifact/artifact.h"

typedef struct et_evaluation {
    const char *model_dir;     /* a run, or an export; borrowed */
    et_experiment *experiment; /* borrowed: settings as they are to be */
    bool live_weights;         /* not the averaged ones */
    int64_t batches;           /* of the validation data; 0: all */
    void *listener;            /* tell(listener, line) gets what a task says; tell NULL: nobody */
    void (*tell)(void *listener, const char *line);
    const volatile sig_atomic_t *stop; /* not 0: ends with ET_EINTERRUPTED; NULL: never */
    et_comm *comm; /* ranks that all do the same, and share the work; borrowed. NULL: alone */

    char *path;   /* of the checkpoint that was loaded; owned */
    int64_t step; /* of it */

    et_arena *arena;
    et_artifact artifact;
    et_identity newest;
    et_device *device;
    et_params *params;
    et_task *task;
    et_learner *learner;
} et_evaluation;

/* Before it is opened: comm, if several ranks were started (et_ranks_leave closes it). */
int et_evaluation_open_ranks(et_evaluation *evaluation, et_error *error);

/* Between the two: what the task says goes to standard error, by rank 0. */
void et_evaluation_listen(et_evaluation *evaluation);

/* ET_ECONFIG: the settings name no validation data. */
int et_evaluation_open(et_evaluation *evaluation, et_error *error);

/* Loads the weights of a run's checkpoint (et_checkpoint_named; name NULL: the newest), and checks
 * that they belong to the settings. */
int et_evaluation_load(et_evaluation *evaluation, const char *name, et_error *error);

/* Loads the weights of an export, or of the best checkpoint. If the best checkpoint cannot be
 * loaded, it warns and loads the newest. */
int et_evaluation_load_best(et_evaluation *evaluation, et_error *error);

/* Adds the values to logs. */
int et_evaluation_run(et_evaluation *evaluation, et_value *logs, et_error *error);

/* Rank 0 prints a line for the checkpoint and a line for each value to standard output, and
 * flushes. */
int et_evaluation_print(const et_evaluation *evaluation, const et_value *logs, et_error *error);

/* The same as a JSON object (print.h). more: a dict whose members the object also has; NULL: none.
 */
int et_evaluation_print_json(const et_evaluation *evaluation, const et_value *logs,
                             const et_value *more, et_error *error);

void et_evaluation_close(et_evaluation *evaluation);

/* The name of a value in messages: without "validation_", unless two names would be equal. */
const char *et_evaluation_name(const et_value *logs, const et_value *value);

/* ---- as a command (cmd_evaluate.c) ---- */

/* What a kind of task adds to the command. */
typedef struct et_evaluate_more {
    void *payload;
    /* Before anything is measured; NULL: nothing. */
    int (*opened)(void *payload, et_evaluation *evaluation, et_error *error);
    /* In place of et_evaluation_run; NULL: that. */
    int (*run)(et_evaluation *evaluation, et_value *logs, et_error *error);
    /* In place of et_evaluation_print, or of et_evaluation_print_json. Rank 0 alone prints. */
    int (*print)(void *payload, const et_evaluation *evaluation, const et_value *logs, bool json,
                 et_error *error);
    /* Of pictures: checks their paths; NULL: there are none. */
    int (*check_outputs)(void *payload, et_outputs *outputs, et_error *error);
} et_evaluate_more;

typedef struct et_evaluate_args {
    const char *model_dir, *checkpoint; /* checkpoint NULL: the best, or else the newest */
    et_option_task task;
    et_strings set;  /* settings on top of the run's */
    et_strings data; /* files in place of its validation data */
    bool live_weights, json;
    bool quiet; /* of what a task says of its data on standard error */
} et_evaluate_args;

/* Rows of options. */
extern const et_option et_evaluate_options[];

/* Prints the values of the run's own validation data. more: NULL allowed. */
int et_evaluate_own_data(const et_call *call, const et_evaluate_args *args,
                         const et_evaluate_more *more, et_error *error);

#endif
