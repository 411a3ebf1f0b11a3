/* The command line of `train`, and the settings from it.
 *
 *     et_train_args *args = call->options;
 *     et_train_settings settings = { .arena = &arena };
 *     et_train_configure(&settings, args, call->program, &error);
 *     et_initial_close(&settings.initial);
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
    char new_run[256];                  /* the chosen model_dir, if the user gave none */
    const char *mode_name;              /* NULL: not given */
    const char *init;                   /* source of the initial weights; NULL: random */
    et_train_mode mode;
    et_strings config, set;      /* in the order given, which is the order applied */
    et_option_settings settings; /* between them */
    bool accept_changes, verbose, quiet, dry_run, json;
    bool async;               /* saves run in the background */
    bool distributed;         /* starts a cluster on this machine, with so many tasks: */
    int64_t workers, servers; /* 0: not given */
    const char *keys;         /* of a cluster in TF_CONFIG */
    double time_limit;        /* seconds; 0: none */
    double ends;              /* monotonic time at which the run saves and stops; 0: no limit */
    uint64_t memory;        /* bytes that the plan may have, by the largest batch; 0: as it comes */
    int64_t pretrain_steps; /* of the run that is fine-tuned; 0: not given */
    et_profiling profiling;
} et_train_args;

extern const et_usage et_usage_train;

/* The settings of a command line. The first call of et_train_assemble assembles them; later calls
 * return the same settings or the same failure. */
typedef struct et_train_settings {
    et_arena *arena; /* of their texts; borrowed */
    et_experiment experiment;
    et_initial initial;  /* the source of --init; to be closed, also after a failure */
    const char *unnamed; /* first settings file, if the data chose the experiment; else NULL */
    bool assembled;
    et_error failure; /* of the assembly; status 0: no failure */
} et_train_settings;

/* Assembles experiment, files and single settings; each overrides the previous ones. Writes no
 * file. */
int et_train_assemble(et_train_settings *settings, const et_train_args *args,
                      const et_program *program, et_error *error);
/* Checks all settings together, because one may depend on another, and locks them. */
int et_train_settle(et_experiment *experiment, et_error *error);
/* Adds to a failure that the settings file names no experiment, if so. Returns status. */
int et_train_fail_unnamed(const et_train_settings *settings, int status, et_error *error);
/* Assembles and settles. */
int et_train_configure(et_train_settings *settings, const et_train_args *args,
                       const et_program *program, et_error *error);

#endif
