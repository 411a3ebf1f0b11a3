/* The rules are replacements, applied one after the other to the whole line, in the order of Moses.
 * Each rule goes from left to right and skips the text that it has inserted. */
#include "data/text/punctuation.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"

#define NBSP "\xc2\xa0"

/* Characters required around a replaced text. They stay, and do not match again. */
typedef enum condition {
    ALWAYS,
    BETWEEN_LETTERS, /* of ASCII */
    AFTER_DIGIT,
    BETWEEN_DIGITS,
    SPACES,       /* no text: a run of spaces becomes one */
    QUOTE_POINTS, /* no text: a quote is moved after the points and commas that follow it */
    POINTS_QUOTE, /* no text: a quote moves before points, unless a < or the end is next */
} condition;

typedef struct rule {
    const char *from, *to;
    condition condition;
} rule;

static const rule general[] = {
    { "\r", "", ALWAYS },
    { "(", " (", ALWAYS },
    { ")", ") ", ALWAYS },
    { "", "", SPACES },
    { ") .", ").", ALWAYS },
    { ") !", ")!", ALWAYS },
    { ") :", "):", ALWAYS },
    { ") ?", ")?", ALWAYS },
    { ") ;", ");", ALWAYS },
    { ") ,", "),", ALWAYS },
    { "( ", "(", ALWAYS },
    { " )", ")", ALWAYS },
    { " %", "%", AFTER_DIGIT },
    { " :", ":", ALWAYS },
    { " ;", ";", ALWAYS },
    { "`", "'", ALWAYS },
    { "''", " \" ", ALWAYS },
    { "\xe2\x80\x9e", "\"", ALWAYS },  /* U+201E, low double quotes */
    { "\xe2\x80\x9c", "\"", ALWAYS },  /* U+201C */
    { "\xe2\x80\x9d", "\"", ALWAYS },  /* U+201D */
    { "\xe2\x80\x93", "-", ALWAYS },   /* U+2013, en dash */
    { "\xe2\x80\x94", " - ", ALWAYS }, /* U+2014, em dash */
    { "", "", SPACES },
    { "\xc2\xb4", "'", ALWAYS },              /* U+00B4, acute accent */
    { "\xe2\x80\x98", "'", BETWEEN_LETTERS }, /* U+2018 */
    { "\xe2\x80\x99", "'", BETWEEN_LETTERS }, /* U+2019 */
    { "\xe2\x80\x98", "'", ALWAYS },
    { "\xe2\x80\x9a", "'", ALWAYS }, /* U+201A */
    { "\xe2\x80\x99", "'", ALWAYS },
    { "''", "\"", ALWAYS },
    { "\xe2\x80\xa6", "...", ALWAYS },      /* U+2026 */
    { NBSP "\xc2\xab" NBSP, "\"", ALWAYS }, /* U+00AB, French quotes */
    { "\xc2\xab" NBSP, "\"", ALWAYS },
    { "\xc2\xab", "\"", ALWAYS },
    { NBSP "\xc2\xbb" NBSP, "\"", ALWAYS }, /* U+00BB */
    { NBSP "\xc2\xbb", "\"", ALWAYS },
    { "\xc2\xbb", "\"", ALWAYS },
    { NBSP "%", "%", ALWAYS },
    { "n\xc2\xba" NBSP, "n\xc2\xba ", ALWAYS }, /* U+00BA, ordinal */
    { NBSP ":", ":", ALWAYS },
    { NBSP "\xc2\xba"
           "C",
      " \xc2\xba"
      "C",
      ALWAYS },
    { NBSP "cm", " cm", ALWAYS },
    { NBSP "?", "?", ALWAYS },
    { NBSP "!", "!", ALWAYS },
    { NBSP ";", ";", ALWAYS },
    { "," NBSP, ", ", ALWAYS },
    { "", "", SPACES },
    { NULL, NULL, ALWAYS },
};

static const rule english[] = {
    { "", "", QUOTE_POINTS },
    { NBSP, ".", BETWEEN_DIGITS },
    { NULL, NULL, ALWAYS },
};
static const rule german[] = {
    { ",\"", "\",", ALWAYS },
    { "", "", POINTS_QUOTE },
    { NBSP, ",", BETWEEN_DIGITS },
    { NULL, NULL, ALWAYS },
};
static const rule czech[] = {
    { NBSP, ",", BETWEEN_DIGITS },
    { NULL, NULL, ALWAYS },
};
static const rule other[] = {
    { NBSP, ".", BETWEEN_DIGITS },
    { NULL, NULL, ALWAYS },
};

struct et_punctuation {
    const char *language; /* NULL: all others */
    const rule *rules;
};

static const et_punctuation languages[] = {
    { "en", english }, { "de", german }, { "es", german }, { "fr", german },
    { "cs", czech },   { "cz", czech },  { NULL, other },
};

const et_punctuation *et_punctuation_of(const char *language)
{
    const et_punctuation *rules = languages;
    if (!language || !*language)
        return NULL;
    while (rules->language && strcmp(rules->language, language) != 0)
        rules++;
    return rules;
}

uint64_t et_punctuation_number(const et_punctuation *rules)
{
    return rules ? (uint64_t)(rules - languages) + 1 : 0;
}

/* ---- replacing ---- */

/* A line on its way: a rule reads `text` from `at` and writes out. */
typedef struct pass {
    const char *text;
    size_t length;
    size_t at;    /* text up to here is written or replaced */
    size_t start; /* end of the last match, where the next one may begin */
    et_strbuf *out;
} pass;

/* Bytes of the digit, in any script, before or at a position; 0: not a digit. */
static size_t digit_before(const pass *p, size_t at)
{
    uint32_t code;
    size_t start = at;
    if (at == p->start)
        return 0;
    do
        start--;
    while (start > p->start && ((unsigned char)p->text[start] & 0xc0) == 0x80);
    const size_t size = et_utf8_decode(p->text + start, at - start, &code);
    return et_unicode_is_digit(code) ? size : 0;
}

static size_t digit_at(const pass *p, size_t at)
{
    uint32_t code;
    const size_t size = at < p->length ? et_utf8_decode(p->text + at, p->length - at, &code) : 0;
    return size && et_unicode_is_digit(code) ? size : 0;
}

/* Whether the characters around a text are as the rule wants them. *after: bytes after it that
 * match with it. */
static bool is_met(const pass *p, condition c, size_t from, size_t to, size_t *after)
{
    *after = 0;
    switch (c) {
    case AFTER_DIGIT:
        return digit_before(p, from) > 0;
    case BETWEEN_DIGITS:
        *after = digit_before(p, from) ? digit_at(p, to) : 0;
        return *after > 0;
    case BETWEEN_LETTERS:
        *after = 1;
        return from > p->start && et_ascii_is_letter(p->text[from - 1]) && to < p->length &&
               et_ascii_is_letter(p->text[to]);
    default:
        return true;
    }
}

static void copy_to(pass *p, size_t to)
{
    et_assert(p->at <= to && to <= p->length);
    et_strbuf_append_bytes(p->out, p->text + p->at, to - p->at);
    p->at = to;
}

static void replace(pass *p, const rule *by)
{
    const size_t length = strlen(by->from);
    const char *found;
    size_t search = 0, after;
    while ((found = memmem(p->text + search, p->length - search, by->from, length)) != NULL) {
        const size_t from = (size_t)(found - p->text), to = from + length;
        if (!is_met(p, by->condition, from, to, &after)) {
            search = from + 1;
            continue;
        }
        copy_to(p, from);
        et_strbuf_append(p->out, by->to);
        p->at = to;
        copy_to(p, to + after);
        p->start = search = p->at;
    }
}

static size_t run_of(const pass *p, size_t at, const char *among)
{
    size_t count = 0;
    while (at + count < p->length && strchr(among, p->text[at + count]))
        count++;
    return count;
}

static void join_spaces(pass *p)
{
    const char *found;
    while ((found = memchr(p->text + p->at, ' ', p->length - p->at)) != NULL) {
        const size_t from = (size_t)(found - p->text);
        copy_to(p, from + 1);
        p->at = from + run_of(p, from, " ");
    }
}

static void move_quotes(pass *p)
{
    const char *found;
    for (size_t at = 0; (found = memchr(p->text + at, '"', p->length - at)) != NULL;) {
        const size_t from = (size_t)(found - p->text), count = run_of(p, from + 1, ",.");
        at = from + 1 + count;
        if (!count)
            continue;
        copy_to(p, from);
        p->at = from + 1;
        copy_to(p, at);
        et_strbuf_append_char(p->out, '"');
    }
}

/* Bytes of the white space after a position. */
static size_t spaces_at(const pass *p, size_t at)
{
    size_t count = 0, size;
    uint32_t code;
    for (; at + count < p->length; count += size) {
        size = et_utf8_decode(p->text + at + count, p->length - at - count, &code);
        if (!et_unicode_is_space(code))
            break;
    }
    return count;
}

/* Bytes after a quote that belong to the match: white space and the next character, which is not <.
 */
static size_t follower(const pass *p, size_t at)
{
    uint32_t code;
    const size_t spaces = spaces_at(p, at), next = at + spaces;
    if (next == p->length || p->text[next] == '<')
        return spaces;
    return spaces + et_utf8_decode(p->text + next, p->length - next, &code);
}

static void move_quotes_before_points(pass *p)
{
    const char *found;
    for (size_t at = 0; (found = memchr(p->text + at, '.', p->length - at)) != NULL;) {
        const size_t from = (size_t)(found - p->text), count = run_of(p, from, "."),
                     to = from + count;
        const size_t next = to < p->length && p->text[to] == '"' ? follower(p, to + 1) : 0;
        at = to;
        if (!next)
            continue;
        copy_to(p, from);
        et_strbuf_append_char(p->out, '"');
        copy_to(p, to);
        p->at = to + 1;
        copy_to(p, to + 1 + next);
        at = p->at;
    }
}

/* Applies rules in turn. *text becomes the result. */
static void apply_all(const rule *rules, et_strbuf *text, et_strbuf *other_text)
{
    for (; rules->from; rules++) {
        /* Most rules match nothing in a line. */
        if (*rules->from && !strstr(et_strbuf_text(text), rules->from))
            continue;
        pass p = { .text = et_strbuf_text(text), .length = text->length, .out = other_text };
        et_strbuf_reset(other_text);
        switch (rules->condition) {
        case SPACES:
            join_spaces(&p);
            break;
        case QUOTE_POINTS:
            move_quotes(&p);
            break;
        case POINTS_QUOTE:
            move_quotes_before_points(&p);
            break;
        default:
            replace(&p, rules);
        }
        copy_to(&p, p.length);
        const et_strbuf swapped = *text;
        *text = *other_text;
        *other_text = swapped;
    }
}

static void strip(et_strbuf *text)
{
    pass p = { .text = et_strbuf_text(text), .length = text->length };
    const size_t first = spaces_at(&p, 0);
    size_t end = first;
    for (size_t at = first, size; at < p.length; at += size) {
        uint32_t code;
        size = et_utf8_decode(p.text + at, p.length - at, &code);
        if (!et_unicode_is_space(code))
            end = at + size;
    }
    if (text->failed || (!first && end == text->length))
        return;
    memmove(text->data, text->data + first, end - first);
    et_strbuf_truncate(text, end - first);
}

void et_punctuation_normalize(const et_punctuation *rules, const char *text, size_t length,
                              et_strbuf *out)
{
    et_strbuf scratch = ET_STRBUF_INIT;
    et_strbuf_reset(out);
    et_strbuf_append_bytes(out, text, length);
    apply_all(general, out, &scratch);
    apply_all(rules->rules, out, &scratch);
    out->failed |= scratch.failed;
    strip(out);
    et_strbuf_release(&scratch);
}

int et_sides_encode_by(const et_punctuation *rules, const et_vocabulary *vocabulary,
                       const char *text, size_t length, et_tokens *tokens, et_error *error)
{
    et_strbuf line = ET_STRBUF_INIT;
    et_punctuation_normalize(rules, text, length, &line);
    int status = line.failed ? et_alloc_failed(error, "a line")
                             : et_vocabulary_encode(vocabulary, et_strbuf_text(&line), line.length,
                                                    tokens, error);
    et_strbuf_release(&line);
    return status;
}
