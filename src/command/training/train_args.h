/* The command line of `train`, and the settings from it.
 *
 *     et_train_args *args = call->options;
 *     et_train_configure(&experiment, &initial, args, call->program, &arena, &error);
 */
#ifndef ETUDE_COMMAND_TRAINING_TRAIN_ARGS_H
#define ETUDE_COMMAND_TRAINING_TRAIN_ARGS_H

#include <etude/run.h>
#include <etude/task.h>

#include "command/options/sets.h"
#include "systems/modelgarden/experiment.h"
#include "systems/training/initial.h"
#include "systems/training/model_dir.h"
#include "systems/training/profile.h"

/* Model Garden's, by its names. */
typedef enum et_train_mode {
    ET_MODE_TRAIN,
    ET_MODE_EVAL,
    ET_MODE_TRAIN_AND_EVAL,
    ET_MODE_TRAIN_AND_POST_EVAL,
    ET_MODE_CONTINUOUS_EVAL,
    ET_MODE_CONTINUOUS_TRAIN_AND_EVAL,
    ET_MODE_COUNT,
} et_train_mode;

typedef struct et_train_args {
    const char *experiment, *model_dir; /* NULL: not given */
    char new_run[256];                  /* model_dir, if it is not given */
    const char *mode_name;              /* NULL: not given */
    const char *init;                   /* source of the initial weights; NULL: random */
    et_train_mode mode;
    et_strings config, set;      /* in the order given, which is the order applied */
    et_option_settings settings; /* between them */
    bool accept_changes, verbose, quiet, dry_run, json;
    bool async;               /* saves run in the background */
    bool distributed;         /* by the roles of a cluster that is started here: of so many */
    int64_t workers, servers; /* 0: not given */
    const char *keys;         /* of a cluster in TF_CONFIG */
    double time_limit;        /* seconds; 0: none */
    double ends;              /* of monotonic time, when it saves and stops; 0: when it is done */
    uint64_t memory;        /* bytes that the plan may have, by the largest batch; 0: as it comes */
    int64_t pretrain_steps; /* of the run that is fine-tuned; 0: not given */
    et_profiling profiling;
} et_train_args;

extern const et_usage et_usage_train;

/* Experiment, files, single settings; nothing written. Later ones win. initial: what --init has
 * come to; close it with et_initial_close, which does nothing after a failure. */
int et_train_assemble(et_experiment *experiment, et_initial *initial, const et_train_args *args,
                      const et_program *program, et_arena *arena, et_error *error);
/* Checks all settings together, because one may depend on another, and locks them. */
int et_train_settle(et_experiment *experiment, et_error *error);
/* Both. */
int et_train_configure(et_experiment *experiment, et_initial *initial, const et_train_args *args,
                       const et_program *program, et_arena *arena, et_error *error);

#endif
