/* Man pages from the tables of options, in groff's man macros, which mandoc reads too. The date is
 * that of SOURCE_DATE_EPOCH (for reproducible builds), or today. */
#ifndef ETUDE_COMMAND_PAGES_MAN_H
#define ETUDE_COMMAND_PAGES_MAN_H

#include <stdio.h>

#include "command/command.h"

/* The page of a command, PROGRAM-COMMAND(1). ET_ENOMEM. */
int et_man_print(FILE *to, const et_program *program, const et_command *row, et_error *error);

/* The page of the program, with its commands, exit codes and variables. */
void et_man_print_program(FILE *to, const et_program *program, const et_commands *all);

#endif
