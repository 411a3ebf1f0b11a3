/* Finds runs below directories by their files (history.h). Names that begin with a dot are skipped,
 * and so are links below the given directories. Below a run, only a folder with its own settings is
 * another run.
 *
 *     et_run_list runs = { .items = NULL };
 *     et_run_list_add(&runs, "runs", &error);
 *     ... runs.items[i] ...
 *     et_run_list_release(&runs);
 */
#ifndef ETUDE_COMMAND_RUNS_RUN_SEARCH_H
#define ETUDE_COMMAND_RUNS_RUN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

typedef struct et_run_list {
    char **items; /* [count] paths that begin like the given ones; owned */
    size_t count, capacity;
    bool quiet; /* skipped folders are not reported */
} et_run_list;

#define ET_RUN_LIST_MAX   100000 /* runs; ET_EDATA above */
#define ET_RUN_LIST_DEPTH 16     /* levels of folders below the given directory */

/* Adds directory, if it is a run, and the runs below it, by name; no run is no error. Unreadable
 * folders are skipped with a warning. ET_ENOTFOUND: no such directory. */
int et_run_list_add(et_run_list *list, const char *directory, et_error *error);

void et_run_list_release(et_run_list *list);

#endif
