/* Lost files: a mapped file (data, checkpoints) is truncated meanwhile, or its disk fails. The
 * system then sends SIGBUS at the instruction that reads. The process cannot continue, but it
 * prints the name of the file. */
#ifndef ETUDE_COMMAND_LOST_FILE_H
#define ETUDE_COMMAND_LOST_FILE_H

#include "systems/training/session.h"

/* Installs a handler for a mapped file that was cut off. The handler prints a line on standard
 * error after the program's name (borrowed) and exits with code 3. Any other SIGBUS ends the
 * process as usual. */
void et_tell_lost_files(const char *program);

/* Borrowed until the next call; NULL: none. */
void et_report_lost_files(const et_lost_report *report);

#endif
