/* Short forms of settings on a command line: the general ones and those of the program's kinds
 * (et_short). Which kind's count is known only when the settings have an experiment, so words are
 * kept until then.
 *
 *     count = et_shorts_list(&shorts, call, rows);      rows for et_args_parse
 *     et_shorts_apply(&shorts, &experiment, &arena, &error); */
#ifndef ETUDE_COMMAND_OPTIONS_SHORTS_H
#define ETUDE_COMMAND_OPTIONS_SHORTS_H

#include "command/options/args.h"
#include "systems/modelgarden/experiment.h"

#define ET_SHORTS_MAX 32

typedef struct et_shorts {
    const et_short *first[ET_SHORTS_MAX]; /* of each name the first that a table has */
    et_arg_words words[ET_SHORTS_MAX];
    bool flags[ET_SHORTS_MAX];     /* of those that take no word: given */
    char help[ET_SHORTS_MAX][320]; /* of a name that several kinds have */
    int count;
} et_shorts;

/* Adds a row for each to rows; of names that several kinds have that of the kind whose experiment
 * the call names, or else the one with most words. rows has room for ET_SHORTS_MAX; how many.
 * shorts stays where it is until the arguments are parsed. */
int et_shorts_list(et_shorts *shorts, const et_call *call, et_arg *rows);

/* The experiment for the data that is named, by the kind that has all options which are given and
 * whose files are named so. NULL: no data is named, or its kind is not known. */
const char *et_shorts_experiment(const et_shorts *shorts, const et_program *program);

/* ET_EUSAGE: one that tasks of this kind do not have, too many words. ET_ECONFIG: their values. */
int et_shorts_apply(const et_shorts *shorts, et_experiment *experiment, et_arena *arena,
                    et_error *error);

#endif
