/* Histories of several runs, and their settings by dotted path, for commands that compare them;
 * and the search for runs below directories.
 *
 *     et_run_list runs = { .items = NULL };
 *     et_run_list_add(&runs, "runs", &error);
 *     ... runs.items[i] ...
 *     et_run_list_release(&runs);
 *
 *     et_histories all = { .items = NULL };
 *     et_run_settings settings;
 *     et_histories_open(&all, &words, &error);
 *     et_run_settings_open(&settings, &all, &error);
 *     ... all.items[i]->series; of k < settings.count with settings.differs[k]:
 *     ... settings.names[k], et_run_settings_value(&settings, k, i) ...
 *     et_run_settings_close(&settings);
 *     et_histories_close(&all);
 */
#ifndef ETUDE_COMMAND_RUNS_HISTORIES_H
#define ETUDE_COMMAND_RUNS_HISTORIES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>
#include <etude/fields.h>
#include <etude/options.h>

#include "base/arena.h"
#include "base/map.h"
#include "command/runs/history.h"

typedef struct et_histories {
    et_history **items; /* [count], owned */
    size_t count, capacity;
    int damaged;                     /* runs with a damaged file, of which the readable part is
                                        used */
    bool alike;                      /* all runs with logs choose their best by the same metric */
    struct et_histories_file *files; /* [count] the distinguishing part of each directory; owned */
    size_t file_capacity;
} et_histories;

/* Opens the named runs in the order of `words`. If a directory is not a run, opens all runs below
 * it. A run that is named twice is opened once. Damaged files of a run are warnings.
 * ET_ENOTFOUND: a word names no run. */
int et_histories_open(et_histories *all, const et_strings *words, et_error *error);

void et_histories_close(et_histories *all); /* zeros are fine */

/* Checks that some run has a metric with this name (et_history_match); a warning names the runs
 * without it. ET_EDATA: the error suggests the nearest name and lists the others. */
int et_histories_check_metric(const et_histories *all, const char *word, et_error *error);

/* ---- search ---- */

/* Finds runs by their files (history.h). Names that begin with a dot are skipped, and so are links
 * below the given directories. Below a run, only a folder with its own settings is another run. */

typedef struct et_run_list {
    char **items; /* [count] paths that begin like the given ones; owned */
    size_t count, capacity;
    bool quiet; /* skipped folders are not reported */
} et_run_list;

#define ET_RUN_LIST_MAX   100000 /* runs; ET_EDATA above */
#define ET_RUN_LIST_DEPTH 16     /* levels of folders below the given directory */

/* Adds directory, if it is a run, and all runs below it, by name. Finding no run is no error.
 * Unreadable folders are skipped with a warning. ET_ENOTFOUND: no such directory. */
int et_run_list_add(et_run_list *list, const char *directory, et_error *error);

void et_run_list_release(et_run_list *list);

/* ---- settings ---- */

typedef struct et_run_settings {
    const char **names;  /* [count] in the order in which runs have them */
    const char **values; /* [count, runs] as text; NULL: the run lacks the setting */
    bool *differs;       /* [count] true if two runs have different values. If all runs have the
                            same experiment, also if only one of them has a value. Runs with unknown
                            settings are ignored */
    size_t count, runs, name_capacity, value_capacity;
    et_arena arena;
    et_map index;
} et_run_settings;

int et_run_settings_open(et_run_settings *settings, const et_histories *runs, et_error *error);
void et_run_settings_close(et_run_settings *settings);

/* NULL: the run does not have this setting. */
const char *et_run_settings_value(const et_run_settings *settings, size_t name, size_t run);

/* The name for a table: the shortest end, from a dot on, that no other differing setting has. */
const char *et_run_settings_head(const et_run_settings *settings, size_t name);

/* ---- `compare` of runs of any kind, for kinds of task with their own `compare` ---- */

typedef struct et_compare_args {
    et_strings words; /* runs */
    bool json, all;   /* all: also settings and values that are the same */
} et_compare_args;

/* Rows of a table of options, the words among them. */
extern const et_option et_compare_options[];

int et_compare_runs(const et_compare_args *args, et_error *error);

#endif
