/* `evaluate` for any kind of task (cmd_evaluate.c): its options, and printing of metrics. */
#ifndef ETUDE_COMMAND_TRAINING_EVALUATE_H
#define ETUDE_COMMAND_TRAINING_EVALUATE_H

#include "command/outputs.h"
#include "systems/training/evaluation.h"

/* Rank 0 prints a line for the checkpoint and a line for each value to standard output, and
 * flushes. */
int et_evaluation_print(const et_evaluation *evaluation, const et_value *logs, et_error *error);

/* Prints the values as a JSON object (print.h). more: a dict whose members are added to the object;
 * NULL: none. */
int et_evaluation_print_json(const et_evaluation *evaluation, const et_value *logs,
                             const et_value *more, et_error *error);

/* The name of a value in messages: without "validation_", unless two names would be equal. */
const char *et_evaluation_name(const et_value *logs, const et_value *value);

/* Additions of a kind of task to the command. */
typedef struct et_evaluate_more {
    void *payload;
    /* Called before the evaluation; NULL: not called. */
    int (*opened)(void *payload, et_evaluation *evaluation, et_error *error);
    /* In place of et_evaluation_run; NULL: that. */
    int (*run)(et_evaluation *evaluation, et_value *logs, et_error *error);
    /* In place of et_evaluation_print, or of et_evaluation_print_json. Rank 0 alone prints. */
    int (*print)(void *payload, const et_evaluation *evaluation, const et_value *logs, bool json,
                 et_error *error);
    /* Checks the paths of pictures; NULL: the kind has no pictures. */
    int (*check_outputs)(void *payload, et_outputs *outputs, et_error *error);
} et_evaluate_more;

typedef struct et_evaluate_args {
    const char *model_dir, *checkpoint; /* checkpoint NULL: the best, or else the newest */
    et_option_task task;
    et_strings set;  /* settings on top of the run's */
    et_strings data; /* files in place of its validation data */
    bool live_weights, json;
    bool quiet; /* no lines about the data on standard error */
} et_evaluate_args;

/* Rows of options. */
extern const et_option et_evaluate_options[];

/* Prints the values of the run's own validation data. more: NULL allowed. */
int et_evaluate_own_data(const et_call *call, const et_evaluate_args *args,
                         const et_evaluate_more *more, et_error *error);

#endif
