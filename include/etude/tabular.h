/* Tables: the kind of task that learns a column of a table from the others, for et_command_main
 * (command.h). Its models are tabular/linear, tabular/feed_forward, tabular/mlp, tabular/resnet and
 * tabular/ft_transformer; its settings stand in `etude list tabular/mlp`.
 *
 *     const struct et_task_kind *const kinds[] = { &et_tabular_kind };
 *     int code = et_command_main(argc, argv, kinds, 1);
 */
#ifndef ETUDE_TABULAR_H
#define ETUDE_TABULAR_H

#include <etude/export.h>

struct et_task_kind;
ET_DATA const struct et_task_kind et_tabular_kind;

#endif
