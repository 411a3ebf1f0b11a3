/* The settings of each training of a series: its experiment's, with those that were given to the
 * run on top, RUN/members/CANDIDATE.yaml.
 *
 *     et_series_settings_make(&settings, &error);                     all files, each checked
 *     et_series_settings_args(&settings, &args, candidate, 0, &arena, &error);
 *     et_training_run(call, &args, &error);
 */
#ifndef ETUDE_COMMAND_TRAINING_SERIES_SERIES_SETTINGS_H
#define ETUDE_COMMAND_TRAINING_SERIES_SERIES_SETTINGS_H

#include "command/training/train_args.h"
#include "systems/modelgarden/series.h"

/* All borrowed. */
typedef struct et_series_settings {
    const et_program *program;
    const et_train_args *args;
    const char *run_dir;
    const et_experiment *experiment;
    const et_series_run *run;
    struct et_reported *reported; /* warnings that were printed */
    et_arena *arena;
} et_series_settings;

/* Writes the files, and checks that each candidate can be configured. ET_ECONFIG: one can not. */
int et_series_settings_make(const et_series_settings *settings, et_error *error);
/* Removes the files again. */
void et_series_settings_remove(const et_series_settings *settings);

/* The arguments of `train` for one training; texts live in arena. */
int et_series_settings_args(const et_series_settings *settings, et_train_args *args,
                            const et_series_candidate *candidate, int which, et_arena *arena,
                            et_error *error);

#endif
