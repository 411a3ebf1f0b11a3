/* Commands of translation, for the kind's table of them. */
#ifndef ETUDE_COMMAND_TRANSLATION_TRANSLATION_COMMANDS_H
#define ETUDE_COMMAND_TRANSLATION_TRANSLATION_COMMANDS_H

#include <etude/command.h>

int et_cmd_evaluate_translation(const et_call *call, et_error *error);
int et_cmd_translate(const et_call *call, et_error *error);
int et_cmd_export(const et_call *call, et_error *error);
int et_cmd_score(const et_call *call, et_error *error);

#endif
