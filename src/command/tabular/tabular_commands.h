/* The commands for tables, for the table of commands of their kind of task. */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H
#define ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H

#include "command/command.h"
#include "data/table/analysis/column_use.h"

ET_COMMAND_NAMED(data);
ET_COMMAND_NAMED(explain);
ET_COMMAND_NAMED(evaluate_table);
ET_COMMAND_NAMED(predict);
ET_COMMAND_NAMED(export_table);
ET_COMMAND_NAMED(report);
ET_COMMAND_NAMED(scaffold);

/* tfx train, tfx predict, tfx scaffold: TensorFX's flags and defaults. */
extern const et_command et_tfx_commands[];
ET_COMMAND_NAMED(tfx_predict);

struct et_tabular_task;

/* How the features of a task use the columns of its table, for the start of a run and its report.
 * uses: [fields of the schema]. Returns whether the features ignore a column that looks like an
 * ID. */
bool et_tabular_find_uses(const struct et_tabular_task *task, et_column_use *uses);

#endif
