/* What may stand at the end of a command line that is being typed. */
#ifndef ETUDE_COMMAND_PAGES_COMPLETE_H
#define ETUDE_COMMAND_PAGES_COMPLETE_H

#include <etude/command.h>

/* Prints candidates for the last of the words behind the program's name, a line each: the word and,
 * behind a tab, what it is. ET_ENOMEM. */
int et_complete(const et_program *program, int argc, char **argv, et_error *error);

#endif
