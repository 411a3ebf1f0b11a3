/* The command of a task that is made of others. */
#ifndef ETUDE_TASKS_MULTITASK_CMD_EXPORT_H
#define ETUDE_TASKS_MULTITASK_CMD_EXPORT_H

#include <etude/command.h>

int et_cmd_export_one_task(const et_call *call, et_error *error);

#endif
