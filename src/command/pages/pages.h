/* Pages made from the tables of options, and candidates for the end of a command line.
 *
 * Man pages are written in groff's man macros, which mandoc reads too. Their date is
 * SOURCE_DATE_EPOCH (for reproducible builds), or today. */
#ifndef ETUDE_COMMAND_PAGES_PAGES_H
#define ETUDE_COMMAND_PAGES_PAGES_H

#include <stdio.h>

#include "command/command.h"

/* The page of a command, PROGRAM-COMMAND(1). ET_ENOMEM. */
int et_man_print(FILE *to, const et_program *program, const et_command *row, et_error *error);

/* The page of the program, with its commands, exit codes and variables. */
void et_man_print_program(FILE *to, const et_program *program, const et_commands *all);

/* Prints candidates for the last word after the program's name. Each line has a word and, if there
 * is a description, a tab and the description. ET_ENOMEM. */
int et_complete(const et_program *program, int argc, char **argv, et_error *error);

#endif
