/* Inline markup of Markdown, in two passes: brackets of links are paired first, because only the
 * end of [text](address) says that it is a link. Everything that looks ahead remembers where it has
 * looked in vain, so that the time is linear. */
#include <string.h>

#include "base/alloc.h"
#include "tasks/translation/documents/document_private.h"
#include "tasks/translation/documents/entities.h"
#include "tasks/translation/documents/read_md.h"

/* The longest run of ` that may begin code. */
#define CODE_MAX 64

/* Bytes of the longest address of a link, with its title. */
#define ADDRESS_MAX 1024

typedef struct reader {
    et_document *d;
    const char *text;
    size_t length, line;
    uint16_t *links;            /* [length]: bytes of the tag at a bracket of a link; 0: none */
    bool no_code[CODE_MAX + 1]; /* by length: no such run is left */
    bool no_angle;              /* no > is left */
} reader;

static size_t run_at(const reader *r, size_t at, char c)
{
    size_t count = 0;
    while (at + count < r->length && r->text[at + count] == c)
        count++;
    return count;
}

static bool is_punctuation(char c)
{
    return c > ' ' && c < 127 &&
           !((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
}

/* Bytes of code from `at`, with its backquotes; 0: none. */
static size_t code_at(reader *r, size_t at)
{
    const size_t count = run_at(r, at, '`');
    if (!count || count > CODE_MAX || r->no_code[count])
        return 0;
    for (size_t i = at + count; i < r->length;) {
        const char *next = memchr(r->text + i, '`', r->length - i);
        if (!next)
            break;
        i = (size_t)(next - r->text);
        const size_t other = run_at(r, i, '`');
        i += other;
        if (other == count)
            return i - at;
    }
    r->no_code[count] = true;
    return 0;
}

/* <https://example.org>, <b>, <!-- c --> */
static size_t angle_at(reader *r, size_t at)
{
    const char next = at + 1 < r->length ? r->text[at + 1] : ' ';
    const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (r->no_angle || !(letter || next == '/' || next == '!' || next == '?'))
        return 0;
    const char *end = memchr(r->text + at, '>', r->length - at);
    r->no_angle = !end;
    return end ? (size_t)(end - r->text) + 1 - at : 0;
}

/* ---- links ---- */

/* Bytes of "](address)" or "][name]" from the closing bracket on; 0: none. */
static size_t tail_at(const reader *r, size_t at)
{
    const char open = at + 1 < r->length ? r->text[at + 1] : 0;
    const size_t end = r->length - at < ADDRESS_MAX ? r->length : at + ADDRESS_MAX;
    int depth = 0;
    if (open != '(' && open != '[')
        return 0;
    for (size_t i = at + 1; i < end; i++) {
        const char c = r->text[i];
        if (c == '\\')
            i++;
        else if (c == open)
            depth++;
        else if (c == (open == '(' ? ')' : ']') && !--depth)
            return i + 1 - at;
    }
    return 0;
}

/* Code and tags hide brackets. */
static size_t hidden_at(reader *r, size_t at)
{
    if (r->text[at] == '\\')
        return 2;
    return r->text[at] == '`' ? code_at(r, at) : r->text[at] == '<' ? angle_at(r, at) : 0;
}

static bool pair_brackets(reader *r)
{
    size_t *open = et_alloc(r->length + 1, sizeof *open), depth = 0;
    r->links = et_alloc_zero(r->length + 1, sizeof *r->links);
    for (size_t i = 0; open && r->links && i < r->length; i++) {
        const size_t hidden = hidden_at(r, i);
        if (hidden) {
            i += hidden - 1;
        } else if (r->text[i] == '[') {
            open[depth++] = i;
        } else if (r->text[i] == ']' && depth) {
            const size_t from = open[--depth], tail = tail_at(r, i);
            if (!tail && !(from + 1 < i && r->text[from + 1] == '^'))
                continue;
            /* A footnote, [^1], has no text. */
            r->links[from] = (uint16_t)(tail ? 1 : i - from < 80 ? i + 1 - from : 0);
            r->links[i] = (uint16_t)tail;
            i += tail ? tail - 1 : 0;
        }
    }
    memset(r->no_code, 0, sizeof r->no_code);
    r->no_angle = false;
    et_free(open);
    return open && r->links;
}

/* ---- emphasis ---- */

static bool is_word(const reader *r, size_t at)
{
    return at < r->length && r->text[at] != ' ' && r->text[at] != '\n';
}

static bool is_letter(const reader *r, size_t at)
{
    return is_word(r, at) && !is_punctuation(r->text[at]);
}

/* Bytes of *, **, _, ~~ that begin or end emphasis; 0: they are text. */
static size_t emphasis_at(const reader *r, size_t at)
{
    const char c = r->text[at];
    const size_t count = run_at(r, at, c);
    const bool before = at && is_word(r, at - 1), after = is_word(r, at + count);
    if (!before && !after)
        return 0;
    if (c == '_' && at && is_letter(r, at - 1) && is_letter(r, at + count))
        return 0;
    return c == '~' && count != 2 ? 0 : count;
}

/* Bytes of the markup at `at`; 0: text. */
static size_t markup_at(reader *r, size_t at)
{
    switch (r->text[at]) {
    case '\\':
        return at + 1 < r->length && is_punctuation(r->text[at + 1]) ? 2 : 0;
    case '`':
        return code_at(r, at);
    case '<':
        return angle_at(r, at);
    case '!':
        return at + 1 < r->length && r->links[at + 1] == 1 ? 2 : 0;
    case '[':
    case ']':
        return r->links[at];
    case '*':
    case '_':
    case '~':
        return emphasis_at(r, at);
    default:
        return 0;
    }
}

bool et_document_add_md(et_document *d, const char *text, size_t length, size_t line)
{
    reader r = { .d = d, .text = text, .length = length, .line = line };
    bool good = pair_brackets(&r);
    size_t from = 0;
    for (size_t i = 0; good && i < length;) {
        size_t bytes = markup_at(&r, i);
        if (!bytes) {
            /* A run that is text is text as a whole. */
            i += strchr("`*_~", text[i]) ? run_at(&r, i, text[i]) : 1;
            continue;
        }
        et_document_add_decoded(d, text + from, i - from, line);
        et_document_add_tag(d, text + i, bytes, line);
        from = i += bytes;
    }
    if (good)
        et_document_add_decoded(d, text + from, length - from, line);
    et_free(r.links);
    return good;
}
