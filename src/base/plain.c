#include "base/plain.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* The longest piece is `\u202e`. */
#define PIECE_MAX 8

static bool is_between(uint32_t code, uint32_t first, uint32_t last)
{
    return code >= first && code <= last;
}

/* Control characters, which are not printed unchanged. U+FFFE and U+FFFF are not characters, and
 * not allowed in XML. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || is_between(code, 0x7f, 0x9f) || code == 0x061c ||
           is_between(code, 0x200e, 0x200f) || is_between(code, 0x2028, 0x202e) ||
           is_between(code, 0x2066, 0x2069) || is_between(code, 0xfffe, 0xffff);
}

/* Bytes of the character at the beginning of text; 0: none. *code: the character. (unicode.c fails
 * with messages, so it can't be used to make messages.) */
static size_t decode(const char *text, size_t left, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *bytes = (const unsigned char *)text;
    const size_t size = bytes[0] < 0x80                    ? 1
                        : is_between(bytes[0], 0xc2, 0xdf) ? 2
                        : is_between(bytes[0], 0xe0, 0xef) ? 3
                        : is_between(bytes[0], 0xf0, 0xf4) ? 4
                                                           : 0;
    if (!size || size > left)
        return 0;
    *code = size == 1 ? bytes[0] : bytes[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    return *code < least[size] || *code > 0x10ffff || is_between(*code, 0xd800, 0xdfff) ? 0 : size;
}

/* A backslash, a letter and so many digits of code; how many bytes they are. */
static size_t put_escape(char *piece, char letter, uint32_t code, int digits)
{
    piece[0] = '\\';
    piece[1] = letter;
    for (int i = 0; i < digits; i++)
        piece[2 + i] = "0123456789abcdef"[code >> (4 * (digits - 1 - i)) & 15];
    return 2 + (size_t)digits;
}

/* The next character of a text of left bytes, as a piece [returned length]; moves on. */
static size_t take(char piece[PIECE_MAX], const char **text, size_t *left)
{
    uint32_t code = 0;
    const char *at = *text;
    const size_t size = decode(at, *left, &code), used = size ? size : 1;
    *text += used;
    *left -= used;
    if (!size)
        return put_escape(piece, 'x', (unsigned char)*at, 2);
    if (code == '\n' || code == '\r' || code == '\t')
        return put_escape(piece, code == '\n' ? 'n' : code == '\r' ? 'r' : 't', 0, 0);
    if (is_control(code))
        return put_escape(piece, 'u', code, 4);
    memcpy(piece, at, size);
    return size;
}

void et_plain_walk(const char *text, size_t length, bool lines, et_plain_fn *fn, void *payload)
{
    char piece[PIECE_MAX];
    while (length) {
        /* Most text is this. */
        size_t run = 0;
        while (run < length && ((text[run] >= 0x20 && text[run] < 0x7f) ||
                                (lines && (text[run] == '\n' || text[run] == '\t'))))
            run++;
        if (run)
            fn(payload, text, run);
        text += run;
        length -= run;
        if (length) {
            const size_t size = take(piece, &text, &length);
            fn(payload, piece, size);
        }
    }
}

void et_plain_copy(char *to, size_t size, const char *text)
{
    char piece[PIECE_MAX];
    size_t left = strlen(text), used = 0;
    et_assert(size > 0);
    while (left) {
        const size_t length = take(piece, &text, &left);
        if (used + length >= size)
            break;
        memcpy(to + used, piece, length);
        used += length;
    }
    to[used] = 0;
}

/* Whether a format may have a conversion of a real number: only these depend on the locale. */
static bool prints_real(const char *format)
{
    while (*format)
        if (*format++ == '%') {
            while ((*format && *format < 'A') || *format == 'l') /* flags, width, precision */
                format++;
            const char c = (char)(*format | ' '); /* in lower case */
            if (c == 'a' || c == 'e' || c == 'f' || c == 'g')
                return true;
        }
    return false;
}

/* glibc has a static object for the C locale: this allocates nothing. */
int et_plain_vprint(char *text, size_t size, const char *format, va_list arguments)
{
    locale_t c = prints_real(format) ? newlocale(LC_ALL_MASK, "C", (locale_t)0) : (locale_t)0;
    locale_t before = c ? uselocale(c) : (locale_t)0;
    int length = vsnprintf(text, size, format, arguments);
    if (c) {
        uselocale(before);
        freelocale(c);
    }
    return length;
}
