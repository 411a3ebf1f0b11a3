/* Commands of tables, for the kind's table of them, and what `tfx` shares with those that it calls
 * by TensorFX's names. */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H
#define ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H

#include <etude/command.h>

int et_cmd_data(const et_call *call, et_error *error);
int et_cmd_predict(const et_call *call, et_error *error);
int et_cmd_export_table(const et_call *call, et_error *error);
int et_cmd_scaffold(const et_call *call, et_error *error);
/* tfx train, tfx predict, tfx scaffold: TensorFX's flags and defaults. */
int et_cmd_tfx(const et_call *call, et_error *error);

/* Those of them that are told apart by the words before: call->command is "tfx predict". */
int et_predict_as_tfx(const et_call *call, et_error *error);

#endif
