/* Commands of tables, for the kind's table of them. */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H
#define ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H

#include "command/command.h"

<<<<<<< ours
int et_cmd_data(const et_call *call, et_error *error);
int et_cmd_predict(const et_call *call, et_error *error);
int et_cmd_export_table(const et_call *call, et_error *error);
int et_cmd_scaffold(const et_call *call, et_error *error);
/* tfx train, tfx predict, tfx scaffold: TensorFX's flags and defaults. */
int et_cmd_tfx(const et_call *call, et_error *error);
=======
ET_COMMAND_NAMED(predict);
ET_COMMAND_NAMED(export_table);
ET_COMMAND_NAMED(scaffold);
>>>>>>> theirs

/* tfx train, tfx predict, tfx scaffold: TensorFX's flags and defaults. */
extern const et_command et_tfx_commands[];
extern const et_usage et_usage_tfx_predict;

#endif
