/* The words of a command line that name an ensemble: runs after the first one, and the option
 * --ensemble-weights. A word is a run if it is a directory, an export in one file or an archive of
 * a published model. Any other word is a file that the command reads. */
#ifndef ETUDE_COMMAND_ENSEMBLE_H
#define ETUDE_COMMAND_ENSEMBLE_H

#include <stdbool.h>

#include "command/options/options.h"

enum { ET_ENSEMBLE_OTHERS_MAX = 31, ET_ENSEMBLE_FILES_MAX = 2 };

typedef struct et_ensemble_runs {
    const char *others[ET_ENSEMBLE_OTHERS_MAX]; /* [count] runs after the first */
    int count;
    double numbers[ET_ENSEMBLE_OTHERS_MAX + 1];
    const double *weights;                 /* [1 + count] in numbers; NULL: not given */
    char *folders[ET_ENSEMBLE_OTHERS_MAX]; /* owned: with --task, of its model in each run */
} et_ensemble_runs;

/* A command line's part in an ensemble. */
typedef struct et_ensemble_args {
    et_strings words;    /* after the first run */
    const char *weights; /* "0.6,0.4"; NULL: equal ones */
} et_ensemble_args;

#define ET_OPTION_ENSEMBLE_WEIGHTS(type, member)                                                   \
    ET_OPTION_TEXT(type, member, "ensemble-weights", "W,W,...",                                    \
                   "weights of several runs (default: equal)")

bool et_word_is_run(const char *word);

/* files: [count] pointers to the command's input files, in order; not NULL if an option has given
 * the file. checkpoint, task: as given; NULL: not given. ET_EUSAGE: words or weights are wrong. */
int et_ensemble_runs_take(et_ensemble_runs *out, const et_ensemble_args *args,
                          const char **const *files, int count, const char *checkpoint,
                          const char *task, et_error *error);
void et_ensemble_runs_release(et_ensemble_runs *words); /* all zeros allowed */

#endif
