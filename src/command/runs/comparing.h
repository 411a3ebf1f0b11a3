/* `compare` of runs of any kind, for a kind of task whose own `compare` does more. */
#ifndef ETUDE_COMMAND_RUNS_COMPARING_H
#define ETUDE_COMMAND_RUNS_COMPARING_H

#include <stdbool.h>

#include <etude/options.h>

typedef struct et_compare_args {
    et_strings words; /* runs */
    bool json, all;   /* all: settings and values that are the same, too */
} et_compare_args;

/* Rows of a table of options, the words among them. */
extern const et_option et_compare_options[];

int et_compare_runs(const et_compare_args *args, et_error *error);

#endif
