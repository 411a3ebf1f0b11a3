/* Options that set settings: general ones and those of the program's kinds of task
 * (ET_OPTION_SETS). The kind is known only when the experiment is known, so words are kept until
 * then. A command's table has these options in one row:
 *
 *     static const et_option options[] = { ET_OPTION_KINDS(own_options, settings), ET_OPTION_END };
 *
 *     et_option_settings_apply(&o->settings, &experiment, &arena, &error); */
#ifndef ETUDE_COMMAND_OPTIONS_SETS_H
#define ETUDE_COMMAND_OPTIONS_SETS_H

#include "command/options/options.h"
#include "systems/modelgarden/experiment.h"

/* In the arena of the command line. */
typedef struct et_option_settings {
    const char **names;    /* [count] of options; kinds may share one */
    et_option_uses *words; /* [count] */
    int count;
} et_option_settings;

#define ET_OPTION_KINDS(type, member)                                                              \
    ET_OPTION_ROW(type, member, et_option_settings, ONLY, KINDS, "", NULL, "")

/* Options for every kind of task: --steps, --seed, ... */
extern const et_option et_option_general[];

/* The experiment for the named data: of the kind that has all given options and the endings of the
 * files. NULL: no data are named, or no kind fits. */
const char *et_option_settings_experiment(const et_option_settings *settings,
                                          const et_program *program);

/* Whether a text file has both languages by its name: .tsv, also packed. */
bool et_path_has_pairs(const char *path);

/* ET_EUSAGE: an option that tasks of this kind do not have, or too many words. ET_ECONFIG: a wrong
 * value. */
int et_option_settings_apply(const et_option_settings *settings, et_experiment *experiment,
                             et_arena *arena, et_error *error);

#endif
