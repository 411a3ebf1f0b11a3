/* Lost files: a mapped file (data, checkpoints) is truncated meanwhile, or its disk fails. The
 * system then sends SIGBUS at the instruction that reads. The process cannot continue, but it
 * prints the name of the file. */
#ifndef ETUDE_COMMAND_LOST_FILE_H
#define ETUDE_COMMAND_LOST_FILE_H

/* Installs a handler: such a SIGBUS then prints a line on standard error after the program's name
 * (borrowed) and exits with code 3. Any other SIGBUS ends the process as usual. */
void et_tell_lost_files(const char *program);

/* A file that the handler replaces, because a handler can do nothing else. Contents: `before`, the
 * time in seconds since 1970, `between`, the message in JSON quotes, `behind`. */
typedef struct et_lost_report {
    const char *path, *temporary; /* temporary: a name in the same folder */
    const char *before, *between, *behind;
} et_lost_report;

/* Borrowed until the next call; NULL: none. */
void et_report_lost_files(const et_lost_report *report);

#endif
