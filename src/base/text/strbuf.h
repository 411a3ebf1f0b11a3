/* A string that grows. Appending never fails at once: an allocation failure is kept (`failed`) and
 * later calls are ignored, so a writer checks once at the end.
 *
 * Several problems can be reported in one message; those that do not fit are counted.
 *
 *     et_problems problems = ET_PROBLEMS_INIT;
 *     et_problems_add(&problems, "field %s is not in the schema", name);
 *     status = et_problems_report(&problems, ET_ECONFIG, "the features do not fit", &error);
 */
#ifndef ETUDE_BASE_TEXT_STRBUF_H
#define ETUDE_BASE_TEXT_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/arena.h"

typedef struct et_strbuf {
    char *data;      /* terminated by 0 after the first append; before: NULL */
    size_t length;   /* without the 0 */
    size_t capacity; /* with it */
    bool failed;     /* an allocation failed: data is not whole */
} et_strbuf;

/* Room for the longest of et_count_text, -9,223,372,036,854,775,808, and its 0. */
#define ET_COUNT_TEXT_MAX 27

#define ET_STRBUF_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0, false                                                                          \
    }

/* Each appends: text terminated by 0, bytes of any value, printf's format. Texts must not be in the
 * buffer itself, which may move. */
void et_strbuf_append(et_strbuf *buffer, const char *text);
void et_strbuf_append_bytes(et_strbuf *buffer, const void *bytes, size_t length);
void et_strbuf_append_char(et_strbuf *buffer, char c);
void et_strbuf_append_blanks(et_strbuf *buffer, int count); /* none for less than 1 */
void et_strbuf_printf(et_strbuf *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void et_strbuf_vprintf(et_strbuf *buffer, const char *format, va_list arguments);

/* A finite number with the fewest digits that strtod reads back equal, always with a point:
 * 0.1, 4.0, 1.0e-08. Reads as a float in JSON, in YAML 1.1 and in YAML 1.2. */
void et_strbuf_append_double(et_strbuf *buffer, double value);

/* A whole number for people, digits in threes: "1,234,567", "-12". */
void et_count_text(char text[ET_COUNT_TEXT_MAX], int64_t count);

/* Whether text ends with `end`. */
bool et_text_ends(const char *text, const char *end);
/* Whether a list of words, separated by spaces, has the word, in upper or lower case. */
bool et_is_listed(const char *list, const char *word, size_t length);

/* The text, "" when empty. Valid until the next append. */
const char *et_strbuf_text(const et_strbuf *buffer);

/* Empties but keeps the memory. */
void et_strbuf_reset(et_strbuf *buffer);

/* Cuts to length bytes, at most the present length; a failed buffer stays empty. */
void et_strbuf_truncate(et_strbuf *buffer, size_t length);

/* Hands the text to the caller (free with et_free), NULL on failure; empties the buffer. */
char *et_strbuf_detach(et_strbuf *buffer);

/* The same for a copy in an arena, whose `failed` a failure sets. */
char *et_strbuf_keep(et_strbuf *buffer, et_arena *arena);

void et_strbuf_release(et_strbuf *buffer);

/* Appends a text from others made safe to print (base/plain.h), on one line. */
void et_plain_append(et_strbuf *out, const char *text);

/* The same for a text of several lines: \n and \t are kept. */
void et_plain_append_lines(et_strbuf *out, const char *text, size_t length);

/* Appends a text from others to HTML or SVG, for an element or an attribute in double quotes: made
 * plain and escaped. */
void et_markup_append(et_strbuf *out, const char *text);

/* Appends a word of a command that people copy: in single quotes where a shell would otherwise not
 * read it back as this word. */
void et_shell_append(et_strbuf *out, const char *word);

/* The same by value, for messages; cut where it has no room. */
typedef struct et_shell_word {
    char text[ET_ERROR_TEXT_MAX]; /* terminated */
} et_shell_word;

et_shell_word et_shell_quote(const char *word);

/* Problems for one message. */
typedef struct et_problems {
    et_strbuf text;
    int count, shown;
} et_problems;

#define ET_PROBLEMS_INIT                                                                           \
    {                                                                                              \
        ET_STRBUF_INIT, 0, 0                                                                       \
    }

void et_problems_add(et_problems *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ET_OK: no problems; else "what: one", "what, in 3 places: (1) one; (2) two; ...". Releases
 * problems. */
int et_problems_report(et_problems *self, int status, const char *what, et_error *error);

#endif
