/* The kind of task that is made of tasks of other kinds, for a program's table (command.h): what
 * multitask.h does, as settings of the command. `task.task_routines` lists the tasks, each with a
 * name, a weight and the settings of a kind of its own; `task.shared` says which parameters they
 * share. doc/reference/command.md has all of it.
 *
 *     const et_task_kind *const singles[] = { &et_tabular_kind, &et_translation_kind };
 *     if (et_multitask_kind_new(&several, singles, 2, &error)) ...
 *     const et_task_kind *const kinds[] = { &et_tabular_kind, et_multitask_kind_row(several) };
 *     int code = et_command_main(argc, argv, kinds, 2);
 *     et_multitask_kind_free(several);
 *
 * Borrows the kinds. Its experiments are multitask/interleaving and multitask/joint. */
#ifndef ETUDE_MULTITASK_KIND_H
#define ETUDE_MULTITASK_KIND_H

#include <etude/experiment.h>

typedef struct et_multitask_kind et_multitask_kind;

/* kinds: of which its tasks may be; none is such a one. ET_EUSAGE: none, or one without a name. */
ET_API int et_multitask_kind_new(et_multitask_kind **out, const et_task_kind *const *kinds,
                                 int count, et_error *error);
ET_API void et_multitask_kind_free(et_multitask_kind *kind); /* NULL allowed; after the command */

/* Lives as long as it. */
ET_API const et_task_kind *et_multitask_kind_row(const et_multitask_kind *kind);

#endif
