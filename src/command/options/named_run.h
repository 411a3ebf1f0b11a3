/* The run that a command line names, before a command has parsed the line. The run's kind of task
 * chooses between commands with the same name. */
#ifndef ETUDE_COMMAND_OPTIONS_NAMED_RUN_H
#define ETUDE_COMMAND_OPTIONS_NAMED_RUN_H

#include <stdbool.h>

#include <etude/command.h>

typedef struct et_named_run {
    const et_task_kind *kind; /* kind of the run, or of its task; NULL: no run is named, or the run
                                 does not exist */
    const char *run;          /* after --model-dir, else the first word that is a run; or NULL */
    const char *task;         /* after --task; NULL: not given */
    bool of_task;             /* kind is the task's */
} et_named_run;

et_named_run et_run_named(const et_call *call);

/* Checks that run and others [count] are models of one kind. ET_ECONFIG: two kinds differ. Models
 * that cannot be opened are not compared. run NULL: nothing is compared. */
int et_runs_check_kinds(const et_program *program, const char *run, const char *const *others,
                        int count, et_error *error);

/* The kind of the experiment that the line names with --experiment; NULL: no existing experiment is
 * named. */
const et_task_kind *et_kind_named(const et_call *call);

#endif
