/* The run that a command line names, before a command has parsed the line. The run's kind of task
 * chooses between commands with the same name. */
#ifndef ETUDE_COMMAND_NAMED_RUN_H
#define ETUDE_COMMAND_NAMED_RUN_H

#include <stdbool.h>

#include <etude/command.h>

typedef struct et_named_run {
    const et_task_kind
        *kind;        /* of the run, or of its task; NULL: none is named, or none is there */
    const char *run;  /* behind --model-dir, or else the first word that is one; or NULL */
    const char *task; /* behind --task; NULL: it is not given */
    bool of_task;     /* kind is the task's */
} et_named_run;

et_named_run et_run_named(const et_call *call);

/* Whose experiment the line names by --experiment; NULL: it names none that there is. */
const et_task_kind *et_kind_named(const et_call *call);

#endif
