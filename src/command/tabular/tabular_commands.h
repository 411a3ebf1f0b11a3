/* The commands for tables, for the table of commands of their kind of task. */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H
#define ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H

#include "command/command.h"

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

#endif
