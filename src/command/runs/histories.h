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
    int damaged;                     /* runs with a damaged file: the readable part is there */
    bool alike;                      /* all runs with logs choose their best by the same metric */
    struct et_histories_file *files; /* [count] the distinguishing part of each directory; owned */
    size_t file_capacity;
} et_histories;

/* Opens the runs that words name, in that order; for a directory that is not a run, all runs below
 * it. A run that is named twice is opened once. Damaged files of a run are warnings. ET_ENOTFOUND:
 * a word names no run. */
int et_histories_open(et_histories *all, const et_strings *words, et_error *error);

void et_histories_close(et_histories *all); /* zeros are fine */

/* Checks that some run has a metric with this name (et_history_match); a warning names the runs
 * without it. ET_EDATA: the error suggests the nearest name and lists the others. */
int et_histories_check_metric(const et_histories *all, const char *word, et_error *error);

#endif
