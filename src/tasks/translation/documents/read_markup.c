/* HTML and XML. The text is cut at its tags, which stay byte by byte; nothing is rebuilt from a
 * parsed tree, because that would write the markup anew. Attributes stay too.
 *
 * HTML: elements such as b and a belong to the text around them, others end a segment. The contents
 * of script, pre, code and the like, and of translate="no", stay.
 *
 * XML: an element belongs to the text around it if its parent has text of its own (mixed content).
 * This is known only at the parent's end, so a first walk collects it. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "tasks/translation/documents/document_private.h"

typedef enum token_kind { TEXT, OPEN, CLOSE, EMPTY, OTHER } token_kind;

typedef struct token {
    token_kind kind;
    size_t start, end; /* in the document */
    const char *name;  /* of a tag, [name_length]; NULL: none */
    size_t name_length;
} token;

typedef struct reader {
    et_document *d;
    bool xml;
    size_t at;   /* end of the last token */
    size_t line; /* of counted */
    size_t counted;
    /* XML: by element, in order of their starts */
    bool *mixed; /* [elements], owned */
    size_t elements, mixed_capacity;
    size_t *open;       /* [depth] numbers of the open elements, owned */
    size_t *open_start; /* [depth] offsets of their tags, owned */
    size_t depth, open_capacity, start_capacity;
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

static size_t end_of_markup(const et_document *d, bool xml, size_t at, bool *ends)
{
    if (begins(d, at, "<!--"))
        return end_after(d, at + 4, "-->", ends);
    if (begins(d, at, "<![CDATA["))
        return end_after(d, at, "]]>", ends);
    if (begins(d, at, "<?"))
        return end_after(d, at, xml ? "?>" : ">", ends);
    return end_of_tag(d, at + 1, ends);
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
        t->end = end_of_markup(d, r->xml, r->at, ends);
        if (t->kind != OTHER)
            read_name(d, t, r->at + 1 + close);
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

/* ---- text ---- */

static void add_markup(reader *r, const token *t, bool inside)
{
    const char *bytes = r->d->text + t->start;
    if (inside)
        et_document_add_tag(r->d, bytes, t->end - t->start, line_of(r, t->start));
    else
        et_document_keep(r->d, bytes, t->end - t->start);
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

/* Whether the tag says that its element is not translated. */
static bool is_kept_by_attribute(const et_document *d, const token *t)
{
    static const char *const words[] = { "translate=\"no\"", "translate='no'", "translate=no",
                                         "notranslate" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(d->text + t->start, t->end - t->start, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool is_same_name(const token *a, const token *b)
{
    et_assert(a->name && b->name);
    return a->name_length == b->name_length && !strncasecmp(a->name, b->name, a->name_length);
}

/* Moves the end of t, a start tag, after the end tag of its element, or to the end of the text. */
static void take_element(reader *r, token *t)
{
    const bool only_end = !r->xml && is_among(raw, t);
    bool ends;
    token next;
    for (size_t depth = 1; depth && next_token(r, &next, &ends);) {
        if (next.name && is_same_name(&next, t))
            depth += next.kind == OPEN && !only_end ? 1 : next.kind == CLOSE ? (size_t)-1 : 0;
        else if (only_end && next.kind != TEXT && ends)
            r->at = next.start + 1; /* what looks like markup is text */
    }
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
    if (t->kind == OPEN && !is_void(t) && (is_among(opaque, t) || is_kept_by_attribute(r->d, t)))
        take_element(r, t);
    add_markup(r, t, inner);
}

int et_document_read_html(et_document *d, et_error *error)
{
    reader r = { .d = d, .line = 1 };
    token t;
    bool ends;
    (void)error;
    while (next_token(&r, &t, &ends))
        if (t.kind == TEXT)
            et_document_add_decoded(d, d->text + t.start, t.end - t.start, line_of(&r, t.start));
        else
            take_html(&r, &t);
    return ET_OK;
}

/* ---- XML ---- */

static bool push(reader *r, size_t start)
{
    bool *mixed = et_vector_grow(r->mixed, &r->mixed_capacity, r->elements + 1, sizeof *mixed, 64);
    if (mixed)
        r->mixed = mixed;
    size_t *open = et_vector_grow(r->open, &r->open_capacity, r->depth + 1, sizeof *open, 64);
    if (open)
        r->open = open;
    size_t *starts =
        et_vector_grow(r->open_start, &r->start_capacity, r->depth + 1, sizeof *starts, 64);
    if (starts)
        r->open_start = starts;
    if (!mixed || !open || !starts)
        return false;
    r->mixed[r->elements] = false;
    r->open_start[r->depth] = start;
    r->open[r->depth++] = r->elements++;
    return true;
}

static bool is_blank(const et_document *d, const token *t)
{
    for (size_t i = t->start; i < t->end; i++)
        if (!strchr(" \t\r\n", d->text[i]))
            return false;
    return true;
}

static int check_close(reader *r, const token *t, et_error *error)
{
    const char *text = r->d->text;
    token open = { .start = r->depth ? r->open_start[r->depth - 1] : 0, .end = t->start };
    if (r->depth)
        read_name(r->d, &open, open.start + 1);
    if (r->depth && open.name_length == t->name_length &&
        !memcmp(open.name, t->name, t->name_length))
        return ET_OK;
    return et_fail(error, ET_EDATA, "%s:%zu: </%.*s> closes no open element%s%.*s%s", r->d->name,
                   line_of(r, t->start), (int)(t->name_length < 60 ? t->name_length : 60), t->name,
                   r->depth ? "; <" : "",
                   r->depth ? (int)(open.name_length < 60 ? open.name_length : 60) : 0,
                   r->depth ? open.name : text, r->depth ? "> is open" : "");
}

/* One token of either walk. emit: the second, which knows what is mixed. */
static int take_xml(reader *r, token *t, bool emit, et_error *error)
{
    const bool inner = r->depth && r->mixed && r->mixed[r->open[r->depth - 1]];
    int status = ET_OK;
    if (t->kind == TEXT) {
        if (!emit && r->depth && !is_blank(r->d, t))
            r->mixed[r->open[r->depth - 1]] = true;
        else if (emit)
            et_document_add_decoded(r->d, r->d->text + t->start, t->end - t->start,
                                    line_of(r, t->start));
        return ET_OK;
    }
    if (t->kind == CLOSE) {
        status = check_close(r, t, error);
        if (status)
            return status;
        r->depth--;
        if (emit)
            add_markup(r, t, r->depth && r->mixed[r->open[r->depth - 1]]);
        return ET_OK;
    }
    if (t->kind == OPEN && is_kept_by_attribute(r->d, t))
        take_element(r, t);
    else if (t->kind == OPEN)
        status = push(r, t->start) ? ET_OK : et_alloc_failed(error, r->depth, r->d->name);
    if (!status && emit)
        add_markup(r, t, inner);
    return status;
}

static int walk_xml(reader *r, bool emit, et_error *error)
{
    token t;
    bool ends;
    int status = ET_OK;
    r->at = r->counted = r->depth = r->elements = 0;
    r->line = 1;
    while (!status && next_token(r, &t, &ends)) {
        if (!ends)
            return et_fail(error, ET_EDATA, "%s:%zu: the markup that begins here has no end",
                           r->d->name, line_of(r, t.start));
        status = take_xml(r, &t, emit, error);
    }
    if (!status && r->depth)
        status = et_fail(error, ET_EDATA, "%s: an element that begins at byte %zu has no end",
                         r->d->name, r->open_start[r->depth - 1] + 1);
    return status;
}

int et_document_read_xml(et_document *d, et_error *error)
{
    reader r = { .d = d, .xml = true };
    int status = walk_xml(&r, false, error);
    if (!status)
        status = walk_xml(&r, true, error);
    et_free(r.mixed);
    et_free(r.open);
    et_free(r.open_start);
    return status;
}
