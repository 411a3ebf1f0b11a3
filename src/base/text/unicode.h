/* Unicode: text as code points, with the properties of Python's str, so that scores and
 * vocabularies agree with Python tools: lower() with its two special cases (U+0130, final sigma),
 * isspace(), and the general categories. Only this module uses utf8proc. Buffers belong to the
 * caller and keep their memory between uses. Otherwise pure functions; no normalization. */
#ifndef ETUDE_BASE_TEXT_UNICODE_H
#define ETUDE_BASE_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/text/strbuf.h"

/* Code points of a line. */
typedef struct et_codes {
    uint32_t *items;
    size_t count;
    size_t capacity;
} et_codes;

#define ET_CODES_INIT                                                                              \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Tests for ASCII characters, in every locale. */
static inline bool et_ascii_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}
static inline bool et_ascii_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}
static inline bool et_ascii_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || et_ascii_is_upper(c);
}

/* Whether text is UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. NUL bytes are
 * allowed. If not, *offset (may be NULL) is the start of the first bad sequence. */
bool et_utf8_valid(const char *text, size_t length, size_t *offset);

/* Bytes of a byte order mark at text, which editors and spreadsheets write; 0: no mark. */
size_t et_utf8_mark(const char *text, size_t length);

/* Columns of text on a terminal: a wide character (East Asian, emoji) has two; a combining
 * character has none. */
size_t et_utf8_columns(const char *text, size_t length);

/* Bytes of the longest beginning of text that has at most this number of columns. */
size_t et_utf8_fitting(const char *text, size_t columns);

/* Bytes of text [length] that are whole characters, at most so many. */
size_t et_utf8_cut(const char *text, size_t length, size_t most);

/* Reads the code that text, [length] valid bytes of UTF-8 and at least one, begins with; returns
 * its bytes. An invalid byte is read as U+FFFD. */
size_t et_utf8_decode(const char *text, size_t length, uint32_t *code);

/* Writes code (a valid one) as 1 to 4 bytes; returns how many. */
size_t et_utf8_encode(char bytes[4], uint32_t code);
void et_strbuf_append_code(et_strbuf *out, uint32_t code);

/* Makes room for capacity codes; count and the first count of them stay. */
int et_codes_reserve(et_codes *codes, size_t capacity, et_error *error);

/* Replaces codes with those of text. ET_EDATA: "byte 7 (0xFF) is not UTF-8: ..." (from 1). */
int et_codes_decode(et_codes *codes, const char *text, size_t length, et_error *error);

/* out = in.lower() of Python; may be longer than in. They are two buffers. */
int et_codes_lower(et_codes *out, const et_codes *in, et_error *error);

void et_codes_release(et_codes *codes);

/* As str.isspace(): what str.split() splits at. */
bool et_unicode_is_space(uint32_t code);

/* The simple mappings, of one code to one. */
uint32_t et_unicode_upper(uint32_t code);
uint32_t et_unicode_lower(uint32_t code);

bool et_unicode_is_punctuation(uint32_t code); /* categories P* */
bool et_unicode_is_symbol(uint32_t code);      /* categories S* */
bool et_unicode_is_digit(uint32_t code);       /* category Nd: \d of Python */
bool et_unicode_is_letter(uint32_t code);      /* categories L*: str.isalpha() */

#endif
