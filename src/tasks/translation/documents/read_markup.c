/* HTML. The text is cut at its tags, which stay byte by byte; nothing is rebuilt from a
 * parsed tree, because that would write the markup anew.
 *
 * HTML: elements such as b and a belong to the text around them, others end a segment. The contents
 * of script, pre, code and the like, and of translate="no", stay. Values of attributes that people
 * read, such as title, are segments of their own; all other attributes stay.
 */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "tasks/translation/documents/attributes.h"
#include "tasks/translation/documents/document_private.h"
#include "tasks/translation/documents/entities.h"

typedef enum token_kind { TEXT, OPEN, CLOSE, EMPTY, OTHER } token_kind;

typedef struct token {
    token_kind kind;
    size_t start, end; /* in the document */
    const char *name;  /* of a tag, [name_length]; NULL: none */
    size_t name_length;
    size_t tag_end; /* after the start tag; 0: it is none, or has no end */
} token;

typedef struct reader {
    et_document *d;
    size_t at;   /* end of the last token */
    size_t line; /* of counted */
    size_t counted;
} reader;

static size_t line_of(reader *r, size_t position)
{
    for (; r->counted < position; r->counted++)
        r->line += r->d->text[r->counted] == '\n';
    return r->line;
}

/* ---- tokens ---- */

/* The end of what begins at `at` and ends with the words; the text's end if they are missing. */
static size_t end_after(const et_document *d, size_t at, const char *words, bool *ends)
{
    const char *found = memmem(d->text + at, d->length - at, words, strlen(words));
    *ends = found != NULL;
    return found ? (size_t)(found - d->text) + strlen(words) : d->length;
}

/* A tag or a declaration, whose quotes may have a > and whose brackets another declaration. */
static size_t end_of_tag(const et_document *d, size_t at, bool *ends)
{
    char quote = 0;
    int brackets = 0;
    for (; at < d->length; at++) {
        const char c = d->text[at];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '[' || c == ']')
            brackets += c == '[' ? 1 : -1;
        else if (c == '>' && brackets <= 0)
            break;
    }
    *ends = at < d->length;
    return at < d->length ? at + 1 : at;
}

/* The same of a tag of HTML, where only the quotes around a value are quotes. */
static size_t end_of_html_tag(const et_document *d, size_t at, bool *ends)
{
    const char *from = d->text + at, *end = d->text + d->length;
    et_attribute a;
    while (et_attribute_next(&from, end, &a))
        continue;
    *ends = from < end;
    return (size_t)(from - d->text) + *ends;
}

static bool begins(const et_document *d, size_t at, const char *words)
{
    const size_t length = strlen(words);
    return d->length - at >= length && !memcmp(d->text + at, words, length);
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || (c & 0x80);
}

static bool is_name(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

static void read_name(const et_document *d, token *t, size_t at)
{
    t->name = d->text + at;
    while (at + t->name_length < t->end && is_name(t->name[t->name_length]))
        t->name_length++;
}

static size_t end_of_markup(const et_document *d, size_t at, bool *ends)
{
    if (begins(d, at, "<!--"))
        return end_after(d, at + 4, "-->", ends);
    if (begins(d, at, "<![CDATA["))
        return end_after(d, at, "]]>", ends);
    if (begins(d, at, "<?"))
        return end_after(d, at, ">", ends);
    return begins(d, at, "<!") ? end_of_tag(d, at + 1, ends) : end_of_html_tag(d, at + 1, ends);
}

/* Whether < begins markup there; else it is text. */
static bool is_markup(const et_document *d, size_t at)
{
    const char next = at + 1 < d->length ? d->text[at + 1] : 0;
    return d->text[at] == '<' && (is_name_start(next) || strchr("/!?", next)) && next;
}

/* ends: whether the markup has an end. false: no token is left. */
static bool next_token(reader *r, token *t, bool *ends)
{
    const et_document *d = r->d;
    *t = (token){ .start = r->at, .end = r->at };
    *ends = true;
    if (r->at >= d->length)
        return false;
    if (is_markup(d, r->at)) {
        const bool close = d->text[r->at + 1] == '/';
        t->kind = strchr("!?", d->text[r->at + 1]) ? OTHER : close ? CLOSE : OPEN;
        t->end = end_of_markup(d, r->at, ends);
        if (t->kind != OTHER)
            read_name(d, t, r->at + 1 + close);
        t->tag_end = t->kind == OPEN && *ends ? t->end : 0;
        if (t->kind == OPEN && t->end - t->start > 2 && d->text[t->end - 2] == '/')
            t->kind = EMPTY;
    } else {
        do
            t->end++;
        while (t->end < d->length && !is_markup(d, t->end));
    }
    r->at = t->end;
    return true;
}

/* ---- attributes ---- */

/* The attributes of a start tag are at [*from, end). */
static const char *attributes_of(const et_document *d, const token *t, const char **from)
{
    *from = t->name + t->name_length;
    return d->text + (t->tag_end ? t->tag_end - 1 : t->end);
}

static et_attributes scan(const et_document *d, const token *t)
{
    const char *from, *end = attributes_of(d, t, &from);
    return et_attributes_scan(from, end);
}

/* Moves to the next attribute that is translated. */
static bool next_value(et_document *d, const token *t, const et_attributes *all, const char **at,
                       const char *end, et_attribute *a)
{
    while (et_attribute_next(at, end, a))
        if (a->value && et_attribute_is_read(a, t->name, t->name_length, all) &&
            et_document_has_words(d, a->value, a->length))
            return true;
    return false;
}

/* A value without quotes gets some, because its translation may have white space. */
static void add_value(reader *r, const et_attribute *a)
{
    et_document *d = r->d;
    const et_escape escape = d->escape;
    et_document_keep(d, "\"", a->quote ? 0 : 1);
    d->escape = a->quote == '\'' ? ET_ESCAPE_SINGLE : ET_ESCAPE_DOUBLE;
    et_document_add_decoded(d, a->value, a->length, line_of(r, (size_t)(a->value - d->text)));
    et_document_end(d);
    d->escape = escape;
    et_document_keep(d, "\"", a->quote ? 0 : 1);
}

/* Adds markup, whose values that people read are translated. */
static void add_with_values(reader *r, const token *t, const et_attributes *all)
{
    et_document *d = r->d;
    const char *kept = d->text + t->start;
    const char *at, *end = attributes_of(d, t, &at);
    et_attribute a;
    while (next_value(d, t, all, &at, end, &a)) {
        et_document_keep(d, kept, (size_t)(a.value - kept));
        add_value(r, &a);
        kept = a.value + a.length;
    }
    et_document_keep(d, kept, (size_t)(d->text + t->end - kept));
}

static bool has_values(const reader *r, const token *t, const et_attributes *all)
{
    const char *at, *end;
    et_attribute a;
    if (!t->tag_end || all->kept)
        return false;
    end = attributes_of(r->d, t, &at);
    return next_value(r->d, t, all, &at, end, &a);
}

/* ---- text ---- */

/* inside: of a sentence. */
static void add_markup(reader *r, const token *t, bool inside)
{
    const char *bytes = r->d->text + t->start;
    const et_attributes all = t->tag_end ? scan(r->d, t) : (et_attributes){ .kept = true };
    const size_t line = line_of(r, t->start);
    const bool values = has_values(r, t, &all);
    if (values && inside)
        et_document_begin_tag(r->d);
    if (values)
        add_with_values(r, t, &all);
    else if (!inside)
        et_document_keep(r->d, bytes, t->end - t->start);
    if (values && inside)
        et_document_end_tag(r->d, bytes, t->end - t->start, line);
    else if (inside)
        et_document_add_tag(r->d, bytes, t->end - t->start, line);
}

/* ---- HTML ---- */

/* Elements of a text's flow. */
static const char *const inside[] = {
    "a",    "abbr", "acronym", "b",    "bdi",   "bdo",  "big",    "cite",   "code",  "data",
    "del",  "dfn",  "em",      "font", "i",     "img",  "ins",    "kbd",    "label", "mark",
    "math", "q",    "s",       "samp", "small", "span", "strike", "strong", "sub",   "sup",
    "svg",  "time", "tt",      "u",    "var",   "wbr",  NULL
};
/* Elements whose content stays. */
static const char *const opaque[] = { "code",  "kbd", "math",     "pre",      "samp", "script",
                                      "style", "svg", "template", "textarea", "var",  NULL };
/* Elements whose content has no tags. */
static const char *const raw[] = { "script", "style", "textarea", NULL };

static bool is_among(const char *const *list, const token *t)
{
    et_assert(t->name);
    for (; *list; list++)
        if (strlen(*list) == t->name_length && !strncasecmp(*list, t->name, t->name_length))
            return true;
    return false;
}

static bool is_same_name(const token *a, const token *b)
{
    et_assert(a->name && b->name);
    return a->name_length == b->name_length && !strncasecmp(a->name, b->name, a->name_length);
}

/* Moves before the end tag of an element whose content has no tags, or to the end of the text. */
static void skip_raw(reader *r, const token *t)
{
    const et_document *d = r->d;
    bool ends;
    for (size_t at = r->at;;) {
        at = end_after(d, at, "</", &ends);
        r->at = ends ? at - 2 : d->length;
        token end = { .end = d->length };
        if (ends)
            read_name(d, &end, at);
        if (!ends || is_same_name(&end, t))
            return;
    }
}

/* Moves the end of t, a start tag, after the end tag of its element, or to the end of the text. */
static void take_element(reader *r, token *t)
{
    bool ends;
    token next;
    if (is_among(raw, t))
        skip_raw(r, t);
    for (size_t depth = 1; depth && next_token(r, &next, &ends);)
        if (next.name && is_same_name(&next, t))
            depth += next.kind == OPEN ? 1 : next.kind == CLOSE ? (size_t)-1 : 0;
    t->end = r->at;
}

static bool is_void(const token *t)
{
    static const char *const names[] = { "area",  "base",   "br",    "col",  "embed",
                                         "hr",    "img",    "input", "link", "meta",
                                         "param", "source", "track", "wbr",  NULL };
    return is_among(names, t);
}

static void take_html(reader *r, token *t)
{
    const bool inner = t->name ? is_among(inside, t) : begins(r->d, t->start, "<!--");
    if (t->kind == OPEN && !is_void(t) && (is_among(opaque, t) || scan(r->d, t).kept))
        take_element(r, t);
    add_markup(r, t, inner);
}

static void walk_html(reader *r)
{
    et_document *d = r->d;
    token t;
    bool ends;
    while (next_token(r, &t, &ends))
        if (t.kind != TEXT)
            take_html(r, &t);
        else
            et_document_add_decoded(d, d->text + t.start, t.end - t.start, line_of(r, t.start));
}

int et_document_read_html(et_document *d, et_error *error)
{
    reader r = { .d = d, .line = 1 };
    (void)error;
    walk_html(&r);
    return ET_OK;
}
