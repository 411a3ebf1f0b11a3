/* A task that consists of others. Each is opened by its kind, with a view of the store and its own
 * folder of the run. The task builds nothing itself; its learner trains the others
 * (systems/modelgarden/multitask.h). */
#ifndef ETUDE_TASKS_MULTITASK_MULTITASK_TASK_H
#define ETUDE_TASKS_MULTITASK_MULTITASK_TASK_H

#include "tasks/multitask/multitask_options.h"
#include "train/checkpoint/artifact/artifact.h"

#define ET_MULTITASK_FOLDER "task_%d" /* in the run; from 1 */
#define ET_MULTITASK_TASKS                                                                         \
    ET_ARTIFACT_MEMBERS /* key of an identity: a dict of the tasks' own, by name */

/* settings and everything they point to must outlive the task, as must the members of context. */
int et_multitask_task_open(et_task **out, const et_multitask_settings *settings,
                           const et_task_context *context, et_error *error);
void et_multitask_task_close(et_task *task); /* NULL allowed */

void et_multitask_describe(et_task *task);
int et_multitask_identify(const et_task *task, et_value *identity, et_error *error);

/* The identity of one of the tasks, from the identity of the whole run. */
et_identity et_multitask_identity_of(const et_identity *whole, const char *name);

#endif
