/* One pass over the text; each rule looks ahead only over its own span, so the time is linear. A
 * span of words begins where no letter or digit is before it. */
#include "tasks/translation/documents/spans.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text/unicode.h"
#include "base/vector.h"

/* Bytes of the longest placeholder. */
#define PLACEHOLDER_MAX 80

#define UPPER   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LETTERS UPPER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
#define NAMES   LETTERS DIGITS "_"

bool et_spans_add(et_spans *spans, et_span span)
{
    et_span *items =
        et_vector_grow(spans->items, &spans->capacity, spans->count + 1, sizeof *items, 4);
    if (!items)
        return false;
    spans->items = items;
    spans->items[spans->count++] = span;
    return true;
}

void et_spans_release(et_spans *spans)
{
    et_free(spans->items);
    *spans = (et_spans){ NULL, 0, 0 };
}

/* The rest of a text. */
typedef struct rest {
    const char *at;
    size_t left;
} rest;

/* Bytes at the start of the rest, after skip, that are among `among`; at most `most`. */
static size_t run(rest r, size_t skip, const char *among, size_t most)
{
    size_t length = 0;
    while (skip + length < r.left && length < most && r.at[skip + length] &&
           strchr(among, r.at[skip + length]))
        length++;
    return length;
}

static bool has(rest r, size_t skip, const char *text)
{
    const size_t length = strlen(text);
    return r.left >= skip + length && !memcmp(r.at + skip, text, length);
}

/* {name}, {0:.2f}, {{ name }}, ${name}, $[name], with skip bytes before the bracket. */
static size_t bracketed(rest r, size_t skip)
{
    static const char inner[] = NAMES ".,:!#$-|+<>=%";
    const bool twice = has(r, skip, "{{");
    const char *end = twice ? "}}" : has(r, skip, "[") ? "]" : "}";
    size_t at = skip + (twice ? 2 : 1);
    if (!twice && !has(r, skip, "{") && !(skip && has(r, skip, "[")))
        return 0;
    for (const size_t from = at; at - from < PLACEHOLDER_MAX && !has(r, at, end); at++)
        if (at >= r.left || !r.at[at] || !(strchr(inner, r.at[at]) || (twice && r.at[at] == ' ')))
            return 0;
    return has(r, at, end) ? at + strlen(end) : 0;
}

/* %s, %1$d, %-5.2f, %ld of printf; %(name)s of Python; %@ of Objective-C. */
static size_t format_of_printf(rest r)
{
    size_t at = 1, count = run(r, 1, DIGITS, 4);
    if (has(r, 1, "(")) {
        count = run(r, 2, NAMES, PLACEHOLDER_MAX);
        if (!count || !has(r, 2 + count, ")"))
            return 0;
        at = 3 + count;
    } else if (count && has(r, 1 + count, "$")) {
        at = 2 + count;
    }
    at += run(r, at, "-+#0'", 5);
    at += run(r, at, DIGITS "*", 6);
    if (has(r, at, "."))
        at += 1 + run(r, at + 1, DIGITS "*", 6);
    at += run(r, at, "hlLqjzt", 2);
    if (!run(r, at, "diouxXeEfgGaAcsSpn@", 1) || run(r, at + 1, NAMES, 1))
        return 0;
    return at + 1;
}

static size_t placeholder(rest r)
{
    switch (*r.at) {
    case '{':
        return bracketed(r, 0);
    case '$':
        return bracketed(r, 1);
    case '%': {
        const size_t format = format_of_printf(r);
        const size_t name = run(r, 1, NAMES, PLACEHOLDER_MAX), upper = run(r, 1, UPPER "_", 64);
        if (format)
            return format;
        if (name > 1 && has(r, 1 + name, "%")) /* %name% */
            return name + 2;
        return upper > 1 && upper == name ? upper + 1 : 0; /* %PRODUCTNAME */
    }
    default:
        return 0;
    }
}

/* Without the punctuation of a sentence at its end. */
static size_t url(rest r)
{
    static const char *const starts[] = { "http://", "https://", "ftp://",
                                          "file://", "mailto:",  "www." };
    size_t start = 0, length, closing = 0, opening = 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts && !start; i++)
        start = has(r, 0, starts[i]) ? strlen(starts[i]) : 0;
    if (!start)
        return 0;
    for (length = start; length < r.left; length++) {
        const unsigned char c = (unsigned char)r.at[length];
        if (c <= ' ' || strchr("<>\"`|{}\\^", c) ||
            has((rest){ r.at + length, r.left - length }, 0, "\xc2\xa0"))
            break;
        opening += c == '(';
        closing += c == ')';
    }
    while (length > start && (strchr(".,:;!?'*_", r.at[length - 1]) ||
                              (r.at[length - 1] == ')' && closing > opening))) {
        closing -= r.at[length - 1] == ')';
        length--;
    }
    return length > start ? length : 0;
}

static size_t email(rest r)
{
    static const char local[] = NAMES ".%+-";
    const size_t name = run(r, 0, local, 64);
    if (!name || !has(r, name, "@"))
        return 0;
    size_t domain = run(r, name + 1, NAMES ".-", 255);
    while (domain && strchr(".-", r.at[name + domain]))
        domain--;
    return domain && memchr(r.at + name + 1, '.', domain) ? name + 1 + domain : 0;
}

/* 7, 1,234.5, 12:30, 2024-05-01, 3/4. */
static size_t number(rest r)
{
    size_t length = run(r, 0, DIGITS, r.left);
    while (length && length + 1 < r.left && strchr(".,:/-", r.at[length]) &&
           run(r, length + 1, DIGITS, 1))
        length += 1 + run(r, length + 1, DIGITS, r.left);
    return length;
}

bool et_span_find(const char *text, size_t length, size_t from, et_span *span)
{
    size_t word = from; /* where the name of an e-mail address was looked for last */
    for (size_t i = from; i < length; i++) {
        const rest r = { text + i, length - i };
        const bool begins = !i || !text[i - 1] || !strchr(NAMES, text[i - 1]);
        size_t found = placeholder(r);
        if (!found && begins)
            found = url(r);
        if (!found && begins && i >= word) {
            found = email(r);
            word = i + 1 + run(r, 0, NAMES ".%+-", 64);
        }
        const size_t digits = !found && begins ? number(r) : 0;
        if (!found && !digits)
            continue;
        *span = (et_span){ i, found + digits, digits ? ET_SPAN_NUMBER : ET_SPAN_TEXT, 0 };
        return true;
    }
    return false;
}

bool et_text_has_letter(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        uint32_t code;
        i += et_utf8_decode(text + i, length - i, &code);
        if (et_unicode_is_letter(code))
            return true;
    }
    return false;
}
