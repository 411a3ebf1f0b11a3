/* What makes the folder of one task in a run a model of the task's kind
 * (train/checkpoint/artifact/artifact.h). */
#ifndef ETUDE_TASKS_MULTITASK_MEMBER_H
#define ETUDE_TASKS_MULTITASK_MEMBER_H

#include "tasks/multitask/multitask_options.h"

/* Writes member.yaml of task i. */
int et_multitask_write_member(const et_multitask_settings *settings, int i, const char *folder,
                              et_error *error);

#endif
