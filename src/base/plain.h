/* Makes text from others safe to print: names, values, messages that quote them. A terminal obeys
 * control characters, and some Unicode characters change the order of the following text. Both
 * become readable escapes:
 *
 *   `\n` `\r` `\t`              line ends and tabs
 *   `\u001b` `\u007f` `\u009b`  other control characters, of C0 and C1
 *   `\u202e` `\u2028`           characters that change the direction or end a line or paragraph
 *   `\xff`                      a byte that is not UTF-8
 *
 * All other text is unchanged, so plain text stays plain. JSON keeps its values: a control
 * character within quotes becomes JSON's escape for it. */
#ifndef ETUDE_BASE_PLAIN_H
#define ETUDE_BASE_PLAIN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Passes a text's pieces to fn, without allocating. lines: \n and \t are kept. */
typedef void et_plain_fn(void *payload, const char *bytes, size_t length);
void et_plain_walk(const char *text, size_t length, bool lines, et_plain_fn *fn, void *payload);

/* The same on one line, without allocation, also in a signal handler. The result is cut before the
 * first character that has no room, and is terminated; size > 0. `to` may not overlap with text. */
void et_plain_copy(char *to, size_t size, const char *text);

/* As vsnprintf in the C locale, also if the program has another one. */
int et_plain_vprint(char *text, size_t size, const char *format, va_list arguments);

#endif
