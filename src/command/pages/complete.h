/* Candidates for the end of a command line. */
#ifndef ETUDE_COMMAND_PAGES_COMPLETE_H
#define ETUDE_COMMAND_PAGES_COMPLETE_H

#include <etude/command.h>

/* Prints candidates for the last word after the program's name. A line is a word, then a tab and
 * its description, if it has one. ET_ENOMEM. */
int et_complete(const et_program *program, int argc, char **argv, et_error *error);

#endif
