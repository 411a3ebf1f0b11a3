#include "data/text/augment.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/numbers/philox.h"
#include "base/text/unicode.h"

#define RATE 0.1 /* of a kind without a rate */

static const char *const names[ET_AUGMENT_KINDS] = { "case", "placeholders" };

/* ---- the setting ---- */

static int read_kind(et_augment *out, const char *text, size_t length, et_error *error)
{
    const char *colon = memchr(text, ':', length);
    const size_t name = colon ? (size_t)(colon - text) : length;
    char rate[32] = "", *end = rate;
    for (int kind = 0; kind < ET_AUGMENT_KINDS; kind++) {
        if (strlen(names[kind]) != name || strncmp(names[kind], text, name) != 0)
            continue;
        if (colon && length - name - 1 < sizeof rate)
            memcpy(rate, colon + 1, length - name - 1);
        const double value = colon ? et_decimal_read_typed(rate, &end) : RATE;
        if (colon && (!*rate || *end || !(value > 0 && value <= 1)))
            break;
        if (out->rates[kind] > 0)
            return et_fail(error, ET_ECONFIG, "%s is given twice", names[kind]);
        out->rates[kind] = value;
        return ET_OK;
    }
    return et_fail(error, ET_ECONFIG,
                   "'%.*s': expected case or placeholders, each with a rate above 0 and up to 1 or "
                   "without: case:0.1,placeholders",
                   (int)(length < 100 ? length : 100), text);
}

int et_augment_parse(et_augment *out, const char *text, et_error *error)
{
    int status = ET_OK;
    *out = (et_augment){ { 0 } };
    while (text && *text && !status) {
        const size_t length = strcspn(text, ",");
        status = read_kind(out, text, length, error);
        text += length + (text[length] == ',');
    }
    return status;
}

void et_augment_print(const et_augment *augment, et_strbuf *out)
{
    const char *before = "";
    for (int kind = 0; kind < ET_AUGMENT_KINDS; kind++)
        if (augment->rates[kind] > 0) {
            et_strbuf_printf(out, "%s%s %g", before, names[kind], augment->rates[kind]);
            before = ", ";
        }
}

bool et_augment_is_used(const et_augment *augment)
{
    return augment->rates[ET_AUGMENT_CASE] > 0 || augment->rates[ET_AUGMENT_PLACEHOLDERS] > 0;
}

/* ---- case ---- */

enum { UPPER, TITLE, LOWER };

/* Sharp s has no capital that people write. */
static void append_upper(et_strbuf *out, uint32_t code)
{
    if (code == 0xdf)
        et_strbuf_append(out, "SS");
    else
        et_strbuf_append_code(out, et_unicode_upper(code));
}

/* Code, placeholders and addresses have these characters, and their case must not change. */
static bool is_kept(const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (strchr("{}<>%$/\\@_=&", word[i]))
            return true;
    return false;
}

static void change_word(et_strbuf *out, const char *word, size_t length, int style)
{
    bool begins = true;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        const size_t size = et_utf8_decode(word + at, length - at, &code);
        if (style == UPPER || (style == TITLE && begins))
            append_upper(out, code);
        else
            et_strbuf_append_code(out, style == LOWER ? et_unicode_lower(code) : code);
        begins = begins && !et_unicode_is_letter(code);
        at += size;
    }
}

static void change_case(et_strbuf *out, const char *text, size_t length, int style)
{
    for (size_t at = 0; at < length;) {
        size_t end = at;
        while (end < length && text[end] != ' ')
            end++;
        if (is_kept(text + at, end - at))
            et_strbuf_append_bytes(out, text + at, end - at);
        else
            change_word(out, text + at, end - at, style);
        if (end < length)
            et_strbuf_append_char(out, ' ');
        at = end + 1;
    }
}

/* ---- placeholders ---- */

/* Half of the names are those that programs use most; the others teach the model to copy any
 * name. */
static void append_name(et_strbuf *out, et_random random, uint64_t element)
{
    static const char *const usual[] = { "name", "count", "user",  "file",  "number", "date",
                                         "size", "title", "value", "email", "path",   "url",
                                         "id",   "total", "time",  "page" };
    enum { USUAL = sizeof usual / sizeof usual[0] };
    const uint64_t which = et_random_below(random, element + 50, 2 * USUAL);
    if (which < USUAL) {
        et_strbuf_append(out, usual[which]);
        return;
    }
    const uint64_t count = 3 + et_random_below(random, element, 6);
    for (uint64_t i = 0; i < count; i++)
        et_strbuf_append_char(out, (char)('a' + et_random_below(random, element + 1 + i, 26)));
}

enum { NUMBERED, PRINTF, ORDERED, SHELL, ADDRESS, DIGITS, NAMED };

/* Numbers of each kind among 20 placeholders. */
static const unsigned char shares[] = { [NUMBERED] = 5, [PRINTF] = 3, [ORDERED] = 1, [SHELL] = 1,
                                        [ADDRESS] = 1,  [DIGITS] = 2, [NAMED] = 7 };

static void make_placeholder(et_strbuf *out, et_random random)
{
    et_strbuf name = ET_STRBUF_INIT;
    append_name(&name, random, 100);
    const char *letters = et_strbuf_text(&name);
    /* 0 to 9. Half are below 3: few messages have more arguments. */
    int number = (int)et_random_below(random, 3, 20), kind = 0;
    number = number < 10 ? number : number % 3;
    for (uint64_t draw = et_random_below(random, 2, 20); draw >= shares[kind]; kind++)
        draw -= shares[kind];
    switch (kind) {
    case NUMBERED:
        et_strbuf_printf(out, "{%d}", number);
        break;
    case PRINTF:
        et_strbuf_append(out, number % 2 ? "%s" : "%d");
        break;
    case ORDERED:
        et_strbuf_printf(out, "%%%d$s", 1 + number % 4);
        break;
    case SHELL:
        et_strbuf_printf(out, "${%s}", letters);
        break;
    case ADDRESS:
        et_strbuf_printf(out, "https://www.%s.org/%d", letters, number);
        break;
    case DIGITS:
        et_strbuf_printf(out, "%d", (int)et_random_below(random, 4, 10000));
        break;
    case NAMED:
        et_strbuf_printf(out, "{%s}", letters);
        break;
    default:
        et_assert(false);
    }
    if (name.failed)
        out->failed = true;
    et_strbuf_release(&name);
}

typedef struct span {
    size_t begin, end; /* of the text that the placeholder replaces */
} span;

/* Finds the only place of a word in a text, between spaces; false: no place, or several. */
static bool find_once(const char *text, size_t length, const char *word, size_t size, span *found)
{
    int count = 0;
    for (size_t at = 0, end; at < length; at = end + 1) {
        for (end = at; end < length && text[end] != ' ';)
            end++;
        if (end - at == size && !memcmp(text + at, word, size)) {
            *found = (span){ at, end };
            count++;
        }
    }
    return count == 1;
}

/* Finds a word of letters and digits that occurs once on both sides, such as a name or a number. */
static bool find_common(const char *const texts[2], const size_t lengths[2], span spans[2])
{
    for (size_t at = 0, end; at < lengths[0]; at = end + 1) {
        bool plain = true;
        for (end = at; end < lengths[0] && texts[0][end] != ' '; end++)
            plain = plain && (unsigned char)texts[0][end] < 0x80 &&
                    strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                           texts[0][end]);
        if (plain && end - at > 1 &&
            find_once(texts[0], lengths[0], texts[0] + at, end - at, &spans[0]) &&
            find_once(texts[1], lengths[1], texts[0] + at, end - at, &spans[1]))
            return true;
    }
    return false;
}

/* Bytes before a mark that ends the sentence. */
static size_t end_of(const char *text, size_t length)
{
    return length && strchr(".!?:;", text[length - 1]) ? length - 1 : length;
}

/* The begin of the word that has `eighths` of the text's words before it; 0: the text has one word.
 */
static size_t word_after(const char *text, size_t length, size_t eighths)
{
    size_t words = 1, before, at = 0;
    for (size_t i = 0; i < length; i++)
        words += text[i] == ' ';
    before = (words * eighths + 4) / 8;
    before = before < words ? before : words - 1;
    for (; before; before--)
        at += (size_t)((const char *)memchr(text + at, ' ', length - at) - (text + at)) + 1;
    return at;
}

enum { AT_BEGIN, AS_LABEL, AT_END, WITHIN, POSITIONS };

/* The position of a placeholder that replaces no word. Words of two languages do not correspond, so
 * a placeholder within a sentence follows about the same fraction of the words on both sides. */
static span position_of(const char *text, size_t length, int position, size_t eighths)
{
    const size_t at = position == AT_END   ? end_of(text, length)
                      : position == WITHIN ? word_after(text, length, eighths)
                                           : 0;
    return (span){ at, at };
}

/* ---- both ---- */

static bool is_same(const et_strbuf *copy, const char *text, size_t length)
{
    return copy->length == length && !memcmp(et_strbuf_text(copy), text, length);
}

int et_augment_make(const et_augment *augment, et_augment_kind kind, int64_t index,
                    const char *const texts[2], const size_t lengths[2], et_strbuf copies[2],
                    bool *made, et_error *error)
{
    const et_random random = { .seed = 1,
                               .step = (uint64_t)index,
                               .site = et_random_site(names[kind]) };
    et_assert(index >= 0);
    *made = lengths[0] && lengths[1] && et_random_uniform(random, 0) < augment->rates[kind];
    if (!*made)
        return ET_OK;
    et_strbuf_reset(&copies[0]);
    et_strbuf_reset(&copies[1]);
    if (kind == ET_AUGMENT_CASE) {
        /* Most copies are in capitals, which small models know least. */
        const uint64_t draw = et_random_below(random, 1, 5);
        const int style = draw < 3 ? UPPER : draw == 3 ? TITLE : LOWER;
        for (int side = 0; side < 2; side++)
            change_case(&copies[side], texts[side], lengths[side], style);
    } else {
        span spans[2];
        const bool common = et_random_below(random, 1, 2) && find_common(texts, lengths, spans);
        const int position = (int)et_random_below(random, 5, POSITIONS);
        const size_t eighths = 1 + (size_t)et_random_below(random, 6, 7);
        for (int side = 0; side < 2; side++) {
            et_strbuf *out = &copies[side];
            const span at =
                common ? spans[side] : position_of(texts[side], lengths[side], position, eighths);
            et_strbuf_append_bytes(out, texts[side], at.begin);
            if (!common && position == AT_END)
                et_strbuf_append_char(out, ' ');
            make_placeholder(out, random);
            if (!common && position != AT_END)
                et_strbuf_append(out, position == AS_LABEL ? ": " : " ");
            et_strbuf_append_bytes(out, texts[side] + at.end, lengths[side] - at.end);
        }
    }
    if (copies[0].failed || copies[1].failed)
        return et_alloc_failed(error, "a pair");
    *made =
        !is_same(&copies[0], texts[0], lengths[0]) || !is_same(&copies[1], texts[1], lengths[1]);
    return ET_OK;
}
