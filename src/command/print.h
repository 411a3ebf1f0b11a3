/* Printing of commands. Text for people may contain names and values from others, so it is always
 * made plain (base/text/plain.h). Results for programs are printed unchanged, but plain on a
 * terminal, where people read them. Failures stay in the stream, for ferror and fflush. */
#ifndef ETUDE_COMMAND_PRINT_H
#define ETUDE_COMMAND_PRINT_H

#include <stdio.h>

#include <etude/error.h>

/* For people; \n and \t stay. */
void et_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same; on a terminal long lines are broken between words. */
void et_print_lines(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of a text of any length; needs no memory. */
void et_print_text(FILE *to, const char *text);

/* Results: [length] bytes. */
void et_print_results(FILE *to, const char *bytes, size_t length);
/* The same straight to standard output, past its buffer. */
int et_write_results(const char *bytes, size_t length, et_error *error);

#endif
