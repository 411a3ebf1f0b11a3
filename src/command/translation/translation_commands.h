/* The commands for translation, for the table of commands of their kind of task. */
#ifndef ETUDE_COMMAND_TRANSLATION_TRANSLATION_COMMANDS_H
#define ETUDE_COMMAND_TRANSLATION_TRANSLATION_COMMANDS_H

#include "command/command.h"

ET_COMMAND_NAMED(evaluate_translation);
ET_COMMAND_NAMED(translate);
ET_COMMAND_NAMED(compare_translation);
ET_COMMAND_NAMED(export);
ET_COMMAND_NAMED(score);
ET_COMMAND_NAMED(import);
ET_COMMAND_NAMED(augment);

#endif
