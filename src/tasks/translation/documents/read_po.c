/* Message catalogues of gettext. A msgstr that is empty gets the translation of its msgid, a
 * msgstr[1] and higher that of msgid_plural; all others stay, and so does the header (msgid "").
 *
 *     msgid "Open %s"        becomes        msgid "Open %s"
 *     msgstr ""                             msgstr "%s öffnen"
 *
 * Lines of a message are segments of their own, each in a string of its own. */
#include <string.h>

#include "tasks/translation/documents/document_private.h"

/* A line of the document. */
typedef struct line {
    const char *text;     /* [length], without its end */
    size_t length, whole; /* whole: with its end */
    size_t number;
} line;

/* The value of a keyword: strings on its line and the next ones. */
typedef struct value {
    const char *from, *to; /* from the first quote to the last, in the document */
    size_t line;
    bool empty;
} value;

typedef struct reader {
    et_document *d;
    const char *at;
    size_t number;
    value id, plural;
} reader;

static bool peek(const reader *r, line *l)
{
    const size_t left = (size_t)(r->d->text + r->d->length - r->at);
    const char *end = memchr(r->at, '\n', left);
    *l = (line){ r->at, end ? (size_t)(end - r->at) : left, 0, r->number + 1 };
    l->whole = l->length + (end != NULL);
    l->length -= l->length && l->text[l->length - 1] == '\r';
    return left > 0;
}

static void advance(reader *r, const line *l)
{
    r->at += l->whole;
    r->number++;
}

/* Moves over a string in quotes after white space. false: there is none, or something follows. */
static bool find_string(const line *l, size_t at, const char **from, const char **to)
{
    while (at < l->length && strchr(" \t", l->text[at]))
        at++;
    if (at == l->length || l->text[at] != '"')
        return false;
    *from = l->text + at;
    for (at++; at < l->length && l->text[at] != '"'; at++)
        at += l->text[at] == '\\';
    if (at >= l->length)
        return false;
    *to = l->text + at;
    for (at++; at < l->length && strchr(" \t", l->text[at]);)
        at++;
    return at == l->length;
}

static int fail(const reader *r, const line *l, et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "%s:%zu: expected a comment, or msgid, msgid_plural, msgctxt or msgstr and a "
                   "text in quotes",
                   r->d->name, l->number);
}

/* Reads a value that begins after a keyword of so many bytes. */
static int read_value(reader *r, const line *first, size_t keyword, value *v, et_error *error)
{
    const char *from, *to;
    line next;
    if (!find_string(first, keyword, &from, &to))
        return fail(r, first, error);
    *v = (value){ from, to, first->number, to == from + 1 };
    advance(r, first);
    while (peek(r, &next) && find_string(&next, 0, &from, &to)) {
        v->to = to;
        v->empty &= to == from + 1;
        advance(r, &next);
    }
    return ET_OK;
}

/* ---- the translation ---- */

/* The character of an escape sequence; 0: another sequence, which stays. */
static char escaped(char c)
{
    static const char names[] = "nt\"\\r", values[] = "\n\t\"\\\r";
    const char *found = c ? strchr(names, c) : NULL;
    return found ? values[found - names] : 0;
}

/* The line ends of a message: each string in quotes ends with one. */
static void end_line(et_document *d, bool last)
{
    et_document_keep(d, "\\n", 2);
    if (last)
        return;
    et_document_keep(d, "\"", 1);
    et_document_keep(d, d->line_end, strlen(d->line_end));
    et_document_keep(d, "\"", 1);
}

static void add_message(et_document *d, const value *v)
{
    bool quoted = true;
    for (const char *at = v->from + 1; at < v->to; at++) {
        const char c = *at == '\\' && quoted ? escaped(at[1]) : 0;
        if (*at == '"') {
            quoted = !quoted;
        } else if (!quoted) {
            continue; /* between two strings */
        } else if (c == '\n') {
            end_line(d, at + 2 == v->to);
            at++;
        } else if (c) {
            et_document_add(d, &c, 1, v->line);
            at++;
        } else if (*at == '\\') {
            et_document_add_tag(d, at, 2, v->line);
            at++;
        } else {
            et_document_add(d, at, 1, v->line);
        }
    }
    et_document_end(d);
}

/* msgstr, which begins in line l. */
static int read_translation(reader *r, const line *l, size_t keyword, et_error *error)
{
    et_document *d = r->d;
    const bool first = keyword == 6 || (keyword == 9 && !memcmp(l->text, "msgstr[0]", 9));
    const value *source = first ? &r->id : &r->plural;
    value v;
    int status = read_value(r, l, keyword, &v, error);
    if (status)
        return status;
    if (!v.empty || !source->from || source->empty) {
        et_document_keep(d, l->text, (size_t)(r->at - l->text));
        return ET_OK;
    }
    et_document_keep(d, l->text, (size_t)(v.from + 1 - l->text));
    add_message(d, source);
    et_document_keep(d, v.to, (size_t)(r->at - v.to));
    return ET_OK;
}

/* Bytes of a keyword at the line's start; 0: another word. */
static size_t keyword_of(const line *l)
{
    static const char *const words[] = { "msgid_plural", "msgid", "msgctxt", "msgstr" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i]);
        if (l->length <= length || memcmp(l->text, words[i], length) != 0)
            continue;
        const char *end = memchr(l->text, ']', l->length < 16 ? l->length : 16);
        return i == 3 && l->text[length] == '[' && end ? (size_t)(end - l->text) + 1 : length;
    }
    return 0;
}

static int read_line(reader *r, const line *l, et_error *error)
{
    const size_t keyword = keyword_of(l);
    value other;
    size_t blank = 0;
    while (blank < l->length && strchr(" \t", l->text[blank]))
        blank++;
    if (blank == l->length || l->text[blank] == '#') {
        advance(r, l);
        et_document_keep(r->d, l->text, l->whole);
        return ET_OK;
    }
    if (!keyword)
        return fail(r, l, error);
    if (!memcmp(l->text, "msgstr", 6))
        return read_translation(r, l, keyword, error);
    const bool plural = keyword == 12, id = keyword == 5;
    int status = read_value(r, l, keyword, id ? &r->id : plural ? &r->plural : &other, error);
    if (id)
        r->plural = (value){ .from = NULL };
    if (!status)
        et_document_keep(r->d, l->text, (size_t)(r->at - l->text));
    return status;
}

int et_document_read_po(et_document *d, et_error *error)
{
    reader r = { .d = d, .at = d->text };
    line l;
    int status = ET_OK;
    while (!status && peek(&r, &l))
        status = read_line(&r, &l, error);
    return status;
}
