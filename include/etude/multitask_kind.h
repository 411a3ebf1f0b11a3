/* The kind of task for training several tasks together in a program's table (command.h). It offers
 * multitask.h as settings of the command. `task.task_routines` lists the tasks, each with a name, a
 * weight and the settings of its kind. `task.shared` chooses the parameters that they share. See
 * doc/reference/command.md.
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

/* kinds: the kinds that its tasks may have; none may be a multitask kind. ET_EUSAGE: no kinds, or a
 * kind without a name. */
ET_API int et_multitask_kind_new(et_multitask_kind **out, const et_task_kind *const *kinds,
                                 int count, et_error *error);
ET_API void et_multitask_kind_free(et_multitask_kind *kind); /* NULL allowed; call after the
                                                                command */

/* The row for the program's table; lives as long as kind. */
ET_API const et_task_kind *et_multitask_kind_row(const et_multitask_kind *kind);

#endif
