/* One pass over the text. Each rule looks ahead only over its own span, so the time is linear. A
 * span of words begins only after a character that is no letter or digit. */

#include "tasks/translation/documents/document_private.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "base/vector.h"

/* Bytes of the longest placeholder. */
#define PLACEHOLDER_MAX ((size_t)80)

#define UPPER   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LETTERS UPPER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
#define NAMES   LETTERS DIGITS "_"
#define WORDS   NAMES "\x80" /* and letters of all scripts */

bool et_spans_add(et_spans *spans, et_span span)
{
    et_assert(spans);
    return ET_VECTOR_APPEND(spans->items, spans->count, spans->capacity, span);
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

/* Bytes at the start of the rest, after skip, that are among `among`; at most `most`. \x80 in
 * `among`: all bytes that are not ASCII. */
static size_t run(rest r, size_t skip, const char *among, size_t most)
{
    size_t length = 0;
    for (char c; skip + length < r.left && length < most; length++)
        if (!(c = r.at[skip + length]) || !strchr(among, c & 0x80 ? '\x80' : c))
            break;
    return length;
}

static bool has(rest r, size_t skip, const char *text)
{
    const size_t length = strlen(text);
    return r.left >= skip + length && !memcmp(r.at + skip, text, length);
}

/* {name}, {/name}, {0:.2f}, {{ name }}, {% if name %}, ${name}, #{name}, %{name}, $[name], {if $a}
 * of Smarty, with skip bytes before the bracket. Braces after $ and # may have expressions. */
static size_t bracketed(rest r, size_t skip)
{
    static const char inner[] = WORDS ".,:!#$-|+<>=%[]";
    const bool twice = has(r, skip, "{{"), statement = !skip && has(r, 1, "%");
    const size_t plain = run(r, 1, NAMES " ", PLACEHOLDER_MAX);
    const bool any = statement || twice || (skip && *r.at != '%' && has(r, skip, "{")) ||
                     (has(r, 1 + plain, "$") && run(r, 2 + plain, LETTERS, 1));
    const char *end = twice               ? "}}"
                      : statement         ? (*r.at == '<' ? "%>" : "%}")
                      : has(r, skip, "[") ? "]"
                                          : "}";
    size_t at = skip + (twice || statement ? 2 : 1);
    if (!twice && !statement && !has(r, skip, "{") && !(skip && has(r, skip, "[")))
        return 0;
    at += !skip && has(r, at, "/") && run(r, at + 1, LETTERS, 1);
    for (const size_t from = at; at - from < 4 * PLACEHOLDER_MAX && !has(r, at, end); at++)
        if (at >= r.left || !r.at[at] ||
            !(run(r, at, inner, 1) || (any && !strchr("{}", r.at[at]))))
            return 0;
    return has(r, at, end) ? at + strlen(end) : 0;
}

/* {count, number}, {when, date, ::yMMMd} of ICU. */
static size_t format_of_icu(rest r)
{
    size_t at = 1 + run(r, 1, " ", 4);
    const size_t name = run(r, at, WORDS, PLACEHOLDER_MAX);
    at += name;
    at += run(r, at, " ", 4);
    if (!name || !has(r, at, ","))
        return 0;
    at += 1 + run(r, at + 1, " ", 4);
    const size_t kind = run(r, at, LETTERS, 16);
    if (!et_is_listed("number date time ordinal spellout duration list", r.at + at, kind))
        return 0;
    at += kind;
    at += run(r, at, " ", 4);
    if (!has(r, at, "}") && !has(r, at, ","))
        return 0;
    for (const size_t from = at; at < r.left && at - from < PLACEHOLDER_MAX; at++)
        if (r.at[at] == '}' || r.at[at] == '{')
            return r.at[at] == '}' ? at + 1 : 0;
    return 0;
}

/* $t(key), $t(key, { "count": {{n}} }) of i18next. */
static size_t nested(rest r)
{
    int depth = 0;
    for (size_t at = 2; at < r.left && at < 4 * PLACEHOLDER_MAX; at++) {
        depth += (r.at[at] == '(') - (r.at[at] == ')');
        if (!depth)
            return at + 1;
    }
    return 0;
}

/* Bytes of 5, *, *1$. */
static size_t width_of_printf(rest r, size_t at)
{
    const size_t count = run(r, at, DIGITS "*", 6);
    return count + (count > 1 && r.at[at] == '*' && has(r, at + count, "$"));
}

/* %s, %1$d, %-5.2f, %ld of printf; %Y of strftime; %(name)s of Python; %<name>s of Ruby and
 * %<PRIu64> of gettext; %@ of Objective-C. Letters that follow belong to it: %dx. But words follow
 * %1$s and %(name)s, as in %1$slog in%2$s, and begin with a capital after %s. ordered: it has
 * neither number nor name. after_digit: 50%of has no directive. */
static size_t format_of_printf(rest r, bool after_digit, bool *ordered)
{
    size_t at = 1, count = run(r, 1, DIGITS, 4), whole = 0;
    const bool round = has(r, 1, "("), angle = has(r, 1, "<") && !after_digit;
    *ordered = false;
    if (round || angle) {
        count = run(r, 2, WORDS ".-", PLACEHOLDER_MAX);
        if (!count || !has(r, 2 + count, round ? ")" : ">"))
            return 0;
        at = 3 + count;
        whole = angle ? at : 0;
        if (has(r, 1, "<PRI"))
            return at;
    } else if (count && has(r, 1 + count, "$")) {
        at = 2 + count;
    } else {
        *ordered = true;
    }
    at += run(r, at, angle ? "-+#0" : "-+#0'", 5);
    at += run(r, at, ",", 1) && run(r, at + 1, DIGITS ".df", 1); /* %,d of Java */
    at += width_of_printf(r, at);
    if (has(r, at, "."))
        at += 1 + width_of_printf(r, at + 1);
    const bool flags = run(r, 1, "-+0", 1);
    const size_t named = flags && has(r, at, "<") ? run(r, at + 1, NAMES, PLACEHOLDER_MAX) : 0;
    if (named && has(r, at + 1 + named, ">")) { /* %-10<name>s of Ruby */
        at += named + 2;
        *ordered = false;
    }
    const size_t argument = has(r, at, "[") ? run(r, at + 1, DIGITS, 2) : 0; /* %[1]d of Go */
    at += argument && has(r, at + 1 + argument, "]") ? argument + 2 : 0;
    const size_t sizes = run(r, at, "hlLqjzt", 2);
    at += sizes && !run(r, at + sizes, LETTERS "@", 1) ? sizes - 1 : sizes; /* %j, %z */
    const size_t letter =
        run(r, at, *ordered && after_digit ? "diouxXeEfgGaAcsSpn@" : LETTERS "@", 1);
    const bool word = letter && r.at[at] == 's' &&
                      (*ordered ? run(r, at + 1, UPPER, 1) && !run(r, at + 2, UPPER, 1)
                                : run(r, at + 1, LETTERS, 1));
    const size_t letters = letter && !word ? run(r, at + 1, NAMES, PLACEHOLDER_MAX) : 0;
    return !letter ? whole : letters && after_digit ? 0 : at + 1 + letters;
}

/* A directive that begins with %. */
static size_t percent(rest r, bool after_digit, bool *ordered)
{
    const size_t name = run(r, 1, NAMES, PLACEHOLDER_MAX), upper = run(r, 1, UPPER "_", 64);
    const size_t qt = has(r, 1, "L") ? 2 : 1, number = run(r, qt, DIGITS, 2);
    if (has(r, 1, "%")) /* %%s of a text that is a format twice */
        return 2 + (has(r, 2, "s") && !run(r, 3, NAMES, 1));
    if (has(r, 1, "{"))
        return bracketed(r, 1);
    if (has(r, 1, "#@")) /* %#@files@ of Apple's stringsdict */
        return has(r, 3 + run(r, 3, NAMES, 64), "@") ? 4 + run(r, 3, NAMES, 64) : 0;
    if (number && qt == 1 && !after_digit && has(r, 1 + number, "%")) /* %1% of Boost */
        return number + 2;
    if (number && qt == 1 && !after_digit && has(r, 1 + number, ":") &&
        run(r, 2 + number, "duefgnmsx", 1) && !run(r, 3 + number, NAMES, 1)) /* %0:s of Pascal */
        return number + 3;
    const size_t bars = has(r, 1, "|") ? run(r, 2, DIGITS "diouxXeEfgGaAcsSpnt$-+#.* ", 20) : 0;
    if (bars && !after_digit && has(r, 2 + bars, "|")) /* %|3$+d| of Boost */
        return bars + 3;
    if (name > 1 && has(r, 1 + name, "%") && !run(r, 2 + name, NAMES, 1)) /* %name% */
        return name + 2;
    if (upper > 1 && upper == name) /* %PRODUCTNAME */
        return upper + 1;
    const size_t format = format_of_printf(r, after_digit, ordered);
    if (format)
        return format;
    *ordered = false;
    return number && !after_digit && !has(r, qt + number, "$") ? qt + number
                                                               : 0; /* %1, %L1 of Qt */
}

/* $NAME of the shell, @name of Drupal, :name of Laravel: begin a word. */
static size_t sigil(rest r, bool after_space)
{
    const size_t name = run(r, 1, NAMES, PLACEHOLDER_MAX);
    const bool letter = run(r, 1, LETTERS "_", 1);
    const bool small = letter && !run(r, 1, UPPER, 1);
    return letter && (*r.at != ':' || after_space) && (*r.at != '@' || small) ? name + 1 : 0;
}

/* before: the byte before text; 0: none. */
static size_t placeholder(rest r, char before, bool *ordered)
{
    const bool begins = !before || !strchr(NAMES, before);
    size_t found = 0;
    *ordered = false;
    switch (*r.at) {
    case '{':
        found = format_of_icu(r);
        if (!found)
            found = bracketed(r, 0);
        *ordered = found == 2;
        return found;
    case '$':
    case '#':
        found = has(r, 0, "$t(") ? nested(r) : has(r, 1, "{") || *r.at == '$' ? bracketed(r, 1) : 0;
        return found || *r.at == '#' || !begins ? found : sigil(r, false);
    case '@':
    case ':':
        return begins ? sigil(r, !before || strchr(" \t\n(/\"'", before)) : 0;
    case '<': /* <%= name %> of ERB */
        return has(r, 0, "<%") ? bracketed(r, 0) : 0;
    case '%':
        return percent(r, et_ascii_is_digit(before), ordered);
    default:
        return 0;
    }
}

/* The length without the punctuation of a sentence at the end. */
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
    et_assert(from <= length && span);
    size_t word = from; /* end of the last search for the name of an e-mail address */
    for (size_t i = from; i < length; i++) {
        const rest r = { text + i, length - i };
        const bool begins = !i || !text[i - 1] || !strchr(NAMES, text[i - 1]);
        bool ordered;
        size_t found = placeholder(r, i ? text[i - 1] : 0, &ordered);
        if (!found && begins)
            found = url(r);
        if (!found && begins && i >= word) {
            found = email(r);
            word = i + 1 + run(r, 0, NAMES ".%+-", 64);
        }
        const size_t digits = !found && begins ? number(r) : 0;
        if (!found && !digits)
            continue;
        *span = (et_span){ i, found + digits, digits ? ET_SPAN_NUMBER : ET_SPAN_TEXT, 0, ordered };
        return true;
    }
    return false;
}

bool et_text_has_letter(const char *text, size_t length)
{
    et_assert(text || !length);
    for (size_t i = 0; i < length;) {
        uint32_t code;
        i += et_utf8_decode(text + i, length - i, &code);
        if (et_unicode_is_letter(code))
            return true;
    }
    return false;
}
