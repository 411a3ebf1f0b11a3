/* Histories of several runs, for commands that compare them.
 *
 *     et_histories all = { .items = NULL };
 *     et_histories_open(&all, &words, &error);
 *     ... all.items[i]->series ...
 *     et_histories_close(&all);
 */
#ifndef ETUDE_COMMAND_RUNS_HISTORIES_H
#define ETUDE_COMMAND_RUNS_HISTORIES_H

#include <etude/fields.h>

#include "command/runs/history.h"

typedef struct et_histories {
    et_history **items; /* [count], owned */
    size_t count, capacity;
    int damaged; /* runs of which a file was at fault: what could be read is there */
    bool alike;  /* all that have logged anything choose their best by the same metric */
    struct et_histories_file *files; /* [count] what tells the directories apart; owned */
    size_t file_capacity;
} et_histories;

/* Those of the runs that words name, in that order; of a directory that is none, all runs below it.
 * A run named twice is there once. Faults in a run's files are warnings. ET_ENOTFOUND: a word names
 * no run. */
int et_histories_open(et_histories *all, const et_strings *words, et_error *error);

void et_histories_close(et_histories *all); /* zeros are fine */

/* What is looked at in a run without a name: what its best is chosen by, where all that keep a best
 * choose by the same, else its loss. NULL: it has logged nothing. */
const et_history_series *et_histories_usual(const et_histories *all, size_t run);

/* Whether any run has a metric of that name (et_history_match); a warning names those that have
 * none. ET_EDATA names the nearest and lists what there is. */
int et_histories_check_metric(const et_histories *all, const char *word, et_error *error);

#endif
