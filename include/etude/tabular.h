/* The kind of task for tables, for et_command_main (command.h): it learns a column of a table from
 * the other columns. Its models are tabular/linear, tabular/feed_forward, tabular/mlp,
 * tabular/resnet, tabular/ft_transformer, tabular/realmlp, tabular/tabm, tabular/pack and, for
 * texts, tabular/tf_idf. tabular/auto tries several of them. `etude list tabular/mlp` shows its
 * settings.
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
