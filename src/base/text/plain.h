/* Text of others for people: names, values, messages that quote them. A terminal obeys control
 * characters, and shows what follows some of Unicode's in another order. They become escapes that
 * can be read:
 *
 *   `\n` `\r` `\t`              line ends and tabs
 *   `\u001b` `\u007f` `\u009b`  other control characters, of C0 and C1
 *   `\u202e` `\u2028`           what changes the direction of writing, or ends a line or paragraph
 *   `\xff`                      a byte that is no UTF-8
 *
 * All other text stays as it is, so what was made plain stays so. JSON stays JSON of the same
 * values: a control character within its quotes becomes the escape that JSON has for it. */
#ifndef ETUDE_BASE_TEXT_PLAIN_H
#define ETUDE_BASE_TEXT_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/strbuf.h"

/* Appends a text on one line. */
void et_plain_append(et_strbuf *out, const char *text);

/* Appends a text of several lines: \n and \t stay as they are. */
void et_plain_append_lines(et_strbuf *out, const char *text, size_t length);

/* Gives a text's pieces to fn, without any memory. lines: \n and \t stay as they are. */
typedef void et_plain_fn(void *payload, const char *bytes, size_t length);
void et_plain_walk(const char *text, size_t length, bool lines, et_plain_fn *fn, void *payload);

/* The same on one line without any memory, also in a handler of a signal, cut before the first
 * character that has no room; to is terminated, size > 0. to may not overlap with text. */
void et_plain_copy(char *to, size_t size, const char *text);

#endif
