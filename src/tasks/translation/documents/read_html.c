/* HTML, by Gumbo, which reads pages as browsers do. Its tree gives the positions of a page's start
 * tags, texts and comments. The bytes between these are other markup: end tags, and parts that a
 * browser ignores or moves. Nothing is written anew from the tree.
 *
 * Elements such as b and a belong to the text around them, others end a segment. The contents of
 * script, pre, code and similar elements, and of translate="no", stay. Values of attributes that
 * people read, such as title, are separate segments; all other attributes stay. */
#include <setjmp.h>

#include <gumbo.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/library.h"
#include "base/sort.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "tasks/translation/documents/document_private.h"

/* Attributes of a tag of HTML: which have text for people. */

typedef struct et_attribute {
    const char *name; /* [name_length] */
    size_t name_length;
    const char *value; /* [length], without its quotes; NULL: none */
    size_t length;
    char quote; /* " or '; 0: none */
} et_attribute;

/* Facts in the attributes of a tag about its other attributes. */
typedef struct et_attributes {
    bool kept;        /* translate="no" or class="notranslate" */
    bool read;        /* translate="yes", or without a value */
    bool description; /* name="description" */
    bool button;      /* type="submit", "button" or "reset" */
} et_attributes;

#define SPACE " \t\r\n\f"

/* Bytes at `at` that are not among `ends`. */
static const char *skip_until(const char *at, const char *end, const char *ends)
{
    while (at < end && (!*at || !strchr(ends, *at)))
        at++;
    return at;
}

static const char *skip(const char *at, const char *end, const char *among)
{
    while (at < end && *at && strchr(among, *at))
        at++;
    return at;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !strncasecmp(text, word, length);
}

static bool is_named(const et_attribute *a, const char *name)
{
    return is_word(a->name, a->name_length, name);
}

static bool has_word(const et_attribute *a, const char *word)
{
    const char *at = a->value, *end = at + a->length;
    while (at < end) {
        const char *from = skip(at, end, SPACE);
        at = skip_until(from, end, SPACE);
        if (is_word(from, (size_t)(at - from), word))
            return true;
    }
    return false;
}

/* Adds the facts of an attribute with a value. */
static void attributes_add(et_attributes *found, const et_attribute *a)
{
    static const char buttons[] = "submit button reset";
    /* XML's name has a prefix: its:translate. */
    const char *colon = memchr(a->name, ':', a->name_length);
    const char *name = colon ? colon + 1 : a->name;
    if (is_word(name, a->name_length - (size_t)(name - a->name), "translate")) {
        found->kept |= is_word(a->value, a->length, "no");
        found->read |= !a->length || is_word(a->value, a->length, "yes");
    }
    found->kept |= is_named(a, "class") && has_word(a, "notranslate");
    found->description |= is_named(a, "name") && is_word(a->value, a->length, "description");
    found->button |= is_named(a, "type") && et_is_listed(buttons, a->value, a->length);
}

/* Whether people read the value in HTML. element: the tag's name, [element_length]. */
static bool attribute_is_read(const et_attribute *a, const char *element, size_t element_length,
                              const et_attributes *others)
{
    static const char anywhere[] = "alt placeholder aria-label aria-description aria-placeholder "
                                   "aria-roledescription aria-valuetext";
    static const char labelled[] = "option optgroup track";
    static const char style_sets[] = "link style"; /* titles are their names */
    if (et_is_listed(anywhere, a->name, a->name_length))
        return true;
    if (is_named(a, "title"))
        return !et_is_listed(style_sets, element, element_length);
    if (is_named(a, "label"))
        return et_is_listed(labelled, element, element_length);
    if (is_named(a, "content"))
        return others->description && is_word(element, element_length, "meta");
    return is_named(a, "value") && others->button && is_word(element, element_length, "input");
}

/* gumbo_parse_with_options is gumbo.parse_with_options. */
#define CALLS(X) X(gumbo_, parse_with_options)

ET_LIBRARY(gumbo, CALLS, ET_GUMBO_FILE, "Gumbo");

/* Most open elements, as in browsers. Gumbo looks at all open elements for each tag, so its time
 * grows with their number. */
#define DEPTH_MAX 512

/* Wrongly nested tags make a tree that is deeper than they are. */
#define TREE_DEPTH_MAX (8 * DEPTH_MAX)

/* Gumbo's memory for each byte, and for any page. */
#define MEMORY_PER_BYTE 200
#define MEMORY_MIN      ((size_t)16 << 20)

typedef struct piece {
    size_t start, end;
    enum { TEXT, WORDS, TAG, KEPT, COMMENT } kind; /* WORDS: text in which < is no markup */
    const GumboElement *element;                   /* of TAG and KEPT */
} piece;

/* A block of Gumbo's memory, in a list. */
typedef struct block {
    struct block *next, *before;
    size_t size, unused;
} block;

typedef struct reader {
    et_document *d;
    size_t from, to; /* of the document */
    block *blocks;   /* owned */
    size_t memory, memory_max;
    jmp_buf no_memory;
    piece *pieces; /* [count], owned */
    size_t count, capacity;
    size_t depth;            /* in the tree; nothing deeper than TREE_DEPTH_MAX is read */
    size_t inner, inner_end; /* markup of the text's flow that is not in the run yet */
} reader;

/* ---- memory: Gumbo does not check for NULL ---- */

static void *allocate(void *payload, size_t size)
{
    reader *r = payload;
    block *b = size <= r->memory_max - r->memory ? et_alloc(sizeof *b + size, 1) : NULL;
    if (!b)
        longjmp(r->no_memory, 1);
    *b = (block){ .next = r->blocks, .size = size };
    if (r->blocks)
        r->blocks->before = b;
    r->blocks = b;
    r->memory += size;
    return b + 1;
}

static void release(void *payload, void *memory)
{
    reader *r = payload;
    if (!memory)
        return;
    block *b = (block *)memory - 1;
    *(b->before ? &b->before->next : &r->blocks) = b->next;
    if (b->next)
        b->next->before = b->before;
    r->memory -= b->size;
    et_free(b);
}

static void release_blocks(reader *r)
{
    for (block *next; r->blocks; r->blocks = next) {
        next = r->blocks->next;
        et_free(r->blocks);
    }
}

/* ---- markup that the tree does not have ---- */

static bool is_markup(const reader *r, size_t at)
{
    const char *text = r->d->text;
    const char next = at + 1 < r->to ? text[at + 1] : 0;
    return text[at] == '<' && (et_ascii_is_letter(next) || (next && strchr("/!?", next)));
}

static size_t name_length(const char *name, size_t most)
{
    size_t length = 0;
    while (length < most && !strchr(" \t\r\n\f/>", name[length]))
        length++;
    return length;
}

/* The end of markup; a > in quotes is part of a tag, and a > before ?> is part of code of PHP. */
static size_t end_of_markup(const reader *r, size_t at)
{
    const char *text = r->d->text;
    const size_t left = r->to - at;
    const char *const close =
        left >= 4 && !memcmp(text + at, "<!--", 4)                                      ? "-->"
        : left >= 5 && (!memcmp(text + at, "<?php", 5) || !memcmp(text + at, "<?=", 3)) ? "?>"
                                                                                        : NULL;
    char quote = 0;
    if (close) {
        const char *end = memmem(text + at, left, close, strlen(close));
        return end ? (size_t)(end - text) + strlen(close) : r->to;
    }
    const bool tag = !strchr("!?", text[at + 1]);
    for (; at < r->to; at++) {
        if (quote)
            quote = text[at] == quote ? 0 : quote;
        else if (text[at] == '>')
            return at + 1;
        else if (tag && strchr("\"'", text[at]) && text[at - 1] == '=')
            quote = text[at];
    }
    return at;
}

/* ---- names ---- */

typedef struct name {
    const char *text; /* [length] */
    size_t length;
} name;

/* Elements of a text's flow. */
static const char inside[] =
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label "
    "mark math q s samp small span strike strong sub sup svg time tt u var wbr";
/* Elements whose content stays. */
static const char opaque[] =
    "code iframe kbd math noembed noframes plaintext pre samp script style svg "
    "template textarea var xmp";
/* Among these, elements with text for people. */
static const char unread[] = "svg template textarea xmp";

/* The name in a start or end tag. */
static name name_of(const char *tag, size_t length)
{
    const size_t skip = length > 1 && tag[1] == '/' ? 2 : 1;
    return (name){ tag + skip, length > skip ? name_length(tag + skip, length - skip) : 0 };
}

static name name_of_element(const GumboElement *e)
{
    return name_of(e->original_tag.data, e->original_tag.length);
}

/* ---- nesting ---- */

/* Elements that have no end tag, or need none. */
static const char endless[] =
    "area base body br col colgroup dd dt embed head hr html img input li link meta "
    "optgroup option p param rp rt source tbody td tfoot th thead tr track wbr";
static const char raw[] = "iframe noembed noframes plaintext script style textarea title xmp";

/* Elements whose end tag does not end the elements within them. */
static const char formatting[] = "a b big code em font i nobr s small strike strong tt u";

/* Moves after the content of an element that has no tags. */
static size_t skip_raw(const reader *r, size_t at, name n)
{
    for (; at < r->to; at += 2) {
        const char *end = memmem(r->d->text + at, r->to - at, "</", 2);
        if (!end)
            return r->to;
        at = (size_t)(end - r->d->text);
        const name other = name_of(end, r->to - at);
        if (other.length == n.length && !strncasecmp(other.text, n.text, n.length))
            return at;
    }
    return r->to;
}

/* Ends an element. Of the open elements in it, only formatting continues afterwards, but not into
 * the next cell of a table. Returns the new depth. */
static size_t close_element(name *open, size_t depth, name n)
{
    static const char cells[] = "td th tr table";
    size_t match = depth, kept;
    while (et_is_listed(cells, n.text, n.length) && depth &&
           et_is_listed(formatting, open[depth - 1].text, open[depth - 1].length))
        match = --depth;
    while (match && (open[match - 1].length != n.length ||
                     strncasecmp(open[match - 1].text, n.text, n.length) != 0))
        match--;
    if (!match)
        return depth;
    kept = match - 1;
    for (size_t i = match; i < depth; i++)
        if (et_is_listed(formatting, n.text, n.length) ||
            et_is_listed(formatting, open[i].text, open[i].length))
            open[kept++] = open[i];
    return kept;
}

static int check_depth(reader *r, et_error *error)
{
    name open[DEPTH_MAX];
    size_t depth = 0;
    for (size_t at = r->from; at < r->to;) {
        const char *next = memchr(r->d->text + at, '<', r->to - at);
        at = next ? (size_t)(next - r->d->text) : r->to;
        if (at >= r->to || !is_markup(r, at)) {
            at++;
            continue;
        }
        const size_t end = end_of_markup(r, at);
        const name n = name_of(r->d->text + at, end - at);
        const char kind = r->d->text[at + 1];
        if (kind == '/') {
            depth = close_element(open, depth, n);
        } else if (!strchr("!?", kind) && !et_is_listed(endless, n.text, n.length) &&
                   r->d->text[end - 2] != '/') {
            if (depth == DEPTH_MAX)
                return et_fail(error, ET_EDATA,
                               "%s:%zu: elements are nested more than %d deep; close them, or cut "
                               "the page",
                               r->d->name, et_document_line(r->d, at), DEPTH_MAX);
            open[depth++] = n;
        }
        at = kind != '/' && et_is_listed(raw, n.text, n.length) ? skip_raw(r, end, n) : end;
    }
    return ET_OK;
}

/* ---- the tree ---- */

static void add_piece(reader *r, GumboStringPiece bytes, int kind, const GumboElement *element)
{
    const char *from = r->d->text + r->from;
    if (!bytes.data || !bytes.length || bytes.data < from || bytes.data >= r->d->text + r->to)
        return;
    const size_t start = (size_t)(bytes.data - r->d->text);
    const size_t end = bytes.length < r->to - start ? start + bytes.length : r->to;
    if (!ET_VECTOR_APPEND(r->pieces, r->count, r->capacity, (piece){ start, end, kind, element }))
        r->d->failed = true;
}

static const GumboVector *children_of(const GumboNode *n)
{
    switch (n->type) {
    case GUMBO_NODE_DOCUMENT:
        return &n->v.document.children;
    case GUMBO_NODE_ELEMENT:
    case GUMBO_NODE_TEMPLATE:
        return &n->v.element.children;
    default:
        return NULL;
    }
}

static size_t end_of(const reader *r, GumboStringPiece bytes)
{
    return bytes.data && bytes.length ? (size_t)(bytes.data - r->d->text) + bytes.length : 0;
}

/* The end of an element whose content stays: after its end tag, or without an end tag after its
 * content. */
static size_t end_of_element(reader *r, const GumboNode *n)
{
    const GumboVector *children = children_of(n);
    size_t end = 0;
    if (!children)
        return end_of(r, n->v.text.original_text);
    if (n->type != GUMBO_NODE_DOCUMENT) {
        const GumboElement *e = &n->v.element;
        const name own = name_of_element(e),
                   last = name_of(e->original_end_tag.data, e->original_end_tag.length);
        end = end_of(r, e->original_tag);
        if (own.length && own.length == last.length &&
            !strncasecmp(own.text, last.text, own.length))
            end = end_of(r, e->original_end_tag);
    }
    r->depth++;
    for (unsigned i = 0; i < children->length && r->depth <= TREE_DEPTH_MAX; i++) {
        const size_t inner = end_of_element(r, children->data[i]);
        end = inner > end ? inner : end;
    }
    r->depth -= r->depth <= TREE_DEPTH_MAX;
    return end < r->to ? end : r->to;
}

/* Gumbo has the name for a value if there is none. */
static et_attribute attribute_of(const GumboAttribute *a)
{
    const bool value = a->original_value.length && a->original_value.data != a->original_name.data;
    et_attribute found = { .name = a->original_name.data,
                           .name_length = a->original_name.length,
                           .value = value ? a->original_value.data : NULL,
                           .length = a->original_value.length };
    if (value && strchr("\"'", *found.value)) {
        found.quote = *found.value++;
        found.length -= found.length > 1 ? 2 : 1;
    }
    return found;
}

static et_attributes scan(const GumboElement *e)
{
    et_attributes all = { .kept = false };
    for (unsigned i = 0; i < e->attributes.length; i++) {
        const et_attribute a = attribute_of(e->attributes.data[i]);
        if (a.value)
            attributes_add(&all, &a);
        else
            all.read |= is_named(&a, "translate");
    }
    return all;
}

static void collect(reader *r, const GumboNode *n, bool words);

/* Reads the elements with translate="yes" in an element whose content stays, and keeps the bytes
 * before each. Returns the end of the last such element, or from. */
static size_t collect_read(reader *r, const GumboNode *n, const GumboElement *stays, size_t from)
{
    const GumboVector *children = children_of(n);
    if (!children)
        return from;
    r->depth++;
    for (unsigned i = 0; i < children->length && r->depth <= TREE_DEPTH_MAX; i++) {
        const GumboNode *child = children->data[i];
        const GumboElement *e = children_of(child) ? &child->v.element : NULL;
        if (!e || !e->original_tag.length || *e->original_tag.data != '<' || !scan(e).read) {
            from = collect_read(r, child, stays, from);
            continue;
        }
        const size_t start = (size_t)(e->original_tag.data - r->d->text);
        if (start > from)
            add_piece(r, (GumboStringPiece){ r->d->text + from, start - from }, KEPT, stays);
        collect(r, child, false);
        from = end_of_element(r, child);
    }
    r->depth -= r->depth <= TREE_DEPTH_MAX;
    return from;
}

static void collect(reader *r, const GumboNode *n, bool words)
{
    const GumboVector *children = children_of(n);
    if (n->type == GUMBO_NODE_COMMENT)
        add_piece(r, n->v.text.original_text, COMMENT, NULL);
    else if (!children)
        add_piece(r, n->v.text.original_text, words ? WORDS : TEXT, NULL);
    if (!children)
        return;
    const GumboElement *e = n->type == GUMBO_NODE_DOCUMENT ? NULL : &n->v.element;
    const name own = e && e->original_tag.length ? name_of_element(e) : (name){ "", 0 };
    if (own.length && *e->original_tag.data == '<') {
        const bool kept = scan(e).kept;
        add_piece(r, e->original_tag, TAG, e);
        if (kept || et_is_listed(opaque, own.text, own.length)) {
            const size_t start = end_of(r, e->original_tag), end = end_of_element(r, n),
                         from = kept ? collect_read(r, n, e, start) : start;
            if (end > from)
                add_piece(r, (GumboStringPiece){ r->d->text + from, end - from }, KEPT, e);
            return;
        }
    }
    r->depth++;
    for (unsigned i = 0; i < children->length && r->depth <= TREE_DEPTH_MAX; i++)
        collect(r, children->data[i], e && e->tag == GUMBO_TAG_TITLE);
    r->depth -= r->depth <= TREE_DEPTH_MAX;
}

/* ---- the document ---- */

/* Adds markup of the text's flow, as one span. */
static void flush(reader *r)
{
    if (r->inner < r->inner_end)
        et_document_add_tag(r->d, r->d->text + r->inner, r->inner_end - r->inner,
                            et_document_line(r->d, r->inner));
    r->inner = r->inner_end;
}

static void add_markup(reader *r, size_t start, size_t end, bool inner)
{
    if (start != r->inner_end || !inner)
        flush(r);
    if (!inner)
        et_document_keep(r->d, r->d->text + start, end - start);
    else if (start != r->inner_end)
        r->inner = start;
    r->inner_end = end;
    if (!inner)
        r->inner = end;
}

/* Bytes of a longest tag of a template. */
#define TEMPLATE_MAX 2048

/* Bytes of a tag of a template, which a browser takes for text, at text[at]: <% name %>, <?= name
 * ?> or {{< name >}}. In a block of Markdown also `code`, and the address of a link. 0: no such
 * tag. */
static size_t template_size(const et_document *d, size_t at, size_t to)
{
    static const char *const ends[][2] = { { "<%", "%>" }, { "<?", "?>" }, { "{{<", ">}}" },
                                           { "](", ")" },  { "`", "`" },   { "``", "``" } };
    const char *mark = d->text + at;
    const size_t most = to - at < TEMPLATE_MAX ? to - at : TEMPLATE_MAX;
    for (int i = d->format == ET_DOCUMENT_MD ? 5 : 2; i >= 0; i--) {
        const size_t begin = strlen(ends[i][0]), end = strlen(ends[i][1]);
        if (most < begin || memcmp(mark, ends[i][0], begin) != 0)
            continue;
        const char *close = memmem(mark + begin, most - begin, ends[i][1], end);
        if (close)
            return (size_t)(close - mark) + end;
    }
    return 0;
}

static void add_text(reader *r, size_t from, size_t to)
{
    et_document *d = r->d;
    flush(r);
    for (size_t at = from; from < to; from = at) {
        size_t count = 0;
        while (at < to && !(count = template_size(d, at, to)))
            at++;
        if (at > from)
            et_document_add_decoded(d, d->text + from, at - from, et_document_line(d, from));
        if (count)
            et_document_add_tag(d, d->text + at, count, et_document_line(d, at));
        at += count;
    }
}

/* A value without quotes gets some, because its translation may have white space. */
static void add_value(reader *r, const et_attribute *a)
{
    et_document *d = r->d;
    const et_escape escape = d->escape;
    et_document_keep(d, "\"", a->quote ? 0 : 1);
    d->escape = a->quote == '\'' ? ET_ESCAPE_SINGLE : ET_ESCAPE_DOUBLE;
    const size_t from = (size_t)(a->value - d->text);
    add_text(r, from, from + a->length);
    et_document_end(d);
    d->escape = escape;
    et_document_keep(d, "\"", a->quote ? 0 : 1);
}

/* <meta charset=...> or <meta http-equiv=content-type content="...; charset=..."> */
static void warn_of_charset(const reader *r, const GumboElement *e, size_t start)
{
    bool declares = false;
    for (unsigned i = 0; i < e->attributes.length; i++) {
        const et_attribute a = attribute_of(e->attributes.data[i]);
        declares |= is_named(&a, "charset") || (is_named(&a, "http-equiv") && a.value &&
                                                is_word(a.value, a.length, "content-type"));
    }
    for (unsigned i = 0; declares && i < e->attributes.length; i++) {
        const et_attribute a = attribute_of(e->attributes.data[i]);
        const char *end = a.value ? a.value + a.length : NULL, *at = a.value;
        if (is_named(&a, "content") && at) {
            while (end - at >= 8 && strncasecmp(at, "charset=", 8) != 0)
                at++;
            at = end - at >= 8 ? at + 8 : NULL;
        } else if (!is_named(&a, "charset"))
            at = NULL;
        const size_t length = at ? (size_t)(skip_until(at, end, SPACE ";") - at) : 0;
        if (length && !is_word(at, length, "utf-8") && !is_word(at, length, "utf8"))
            et_log(ET_LOG_WARNING,
                   "%s:%zu: the page names the character set %.*s, but the translation is UTF-8; "
                   "write charset=utf-8",
                   r->d->name, et_document_line(r->d, start), (int)(length < 40 ? length : 40), at);
    }
}

/* A start tag, whose values that people read are translated. */
static void add_start(reader *r, const piece *p)
{
    et_document *d = r->d;
    const GumboElement *e = p->element;
    const name n = name_of_element(e);
    const et_attributes all = scan(e);
    const bool inner = et_is_listed(inside, n.text, n.length);
    bool values = false;
    if (e->tag == GUMBO_TAG_META)
        warn_of_charset(r, e, p->start);
    size_t kept = p->start;
    for (unsigned i = 0; i < e->attributes.length; i++) {
        const et_attribute a = attribute_of(e->attributes.data[i]);
        if (!a.value || all.kept || !attribute_is_read(&a, n.text, n.length, &all) ||
            !et_document_has_words(r->d, a.value, a.length) ||
            (!a.quote && *a.value == '{')) /* an expression of JSX */
            continue;
        flush(r);
        if (!values && inner)
            et_document_begin_tag(d);
        values = true;
        et_document_keep(d, d->text + kept, (size_t)(a.value - d->text) - kept);
        add_value(r, &a);
        kept = (size_t)(a.value - d->text) + a.length;
    }
    if (!values) {
        add_markup(r, p->start, p->end, inner);
        return;
    }
    et_document_keep(d, d->text + kept, p->end - kept);
    if (inner)
        et_document_end_tag(d, d->text + p->start, p->end - p->start,
                            et_document_line(d, p->start));
    r->inner = r->inner_end = p->end;
}

static bool is_blank(const char *text, size_t length)
{
    while (length && strchr(" \t\r\n\f", text[length - 1]))
        length--;
    return !length;
}

/* Bytes of `Map<K>` in a line of Markdown, whose <K> is a tag for a browser; else 1. */
static size_t code_size(const reader *r, size_t at)
{
    const char *text = r->d->text + at, *stop = memchr(text, '\n', r->to - at);
    const size_t size =
        *text == '`' ? template_size(r->d, at, stop ? (size_t)(stop - r->d->text) : r->to) : 0;
    return size && !memmem(text, size, "</", 2) ? size : 1;
}

/* Adds bytes that are not in the tree: end tags, declarations, and parts that a browser ignores.
 * text: the bytes may be within a text of the tree, which may end in code that has tags. Returns
 * the end. */
static size_t add_rest(reader *r, size_t from, size_t to, bool text)
{
    et_document *d = r->d;
    while (from < to) {
        size_t end = from;
        if (is_markup(r, from)) {
            end = end_of_markup(r, from);
            end = end < to ? end : to;
            const name n = name_of(d->text + from, end - from);
            add_markup(r, from, end, et_is_listed(inside, n.text, n.length));
        } else {
            while (end < to && !is_markup(r, end))
                end += text ? code_size(r, end) : 1;
            if (text || is_blank(d->text + from, end - from)) {
                add_text(r, from, end);
            } else {
                flush(r);
                et_document_keep_words(d, d->text + from, end - from, et_document_line(d, from));
            }
        }
        from = end;
    }
    return from;
}

static void add_kept(reader *r, const piece *p, size_t from)
{
    const name n = name_of_element(p->element);
    add_markup(r, from, p->end, et_is_listed(inside, n.text, n.length));
    if (!scan(p->element).kept && et_is_listed(unread, n.text, n.length)) {
        const char *text = r->d->text;
        for (size_t at = from; at < p->end;) {
            size_t end = at + 1;
            if (is_markup(r, at)) {
                at = end_of_markup(r, at);
                continue;
            }
            while (end < p->end && !is_markup(r, end))
                end++;
            if (et_text_has_letter(text + at, end - at)) {
                et_document_count_kept(r->d, et_document_line(r->d, at));
                return;
            }
            at = end;
        }
    }
}

ET_SORT_BY(compare, piece, ET_UP(start), ET_UP(end))

static void add_pieces(reader *r)
{
    size_t at = r->from;
    r->inner = r->inner_end = at;
    if (r->count)
        qsort(r->pieces, r->count, sizeof *r->pieces, compare);
    for (size_t i = 0; i < r->count && !r->d->failed; i++) {
        const piece *p = &r->pieces[i];
        const size_t from = p->start > at ? p->start : at;
        size_t end = p->end;
        if (p->end <= at || (from > p->start && p->kind == TAG))
            continue; /* a copy of an element that a browser makes */
        add_rest(r, at, from, false);
        if (p->kind == TAG)
            add_start(r, p);
        else if (p->kind == KEPT)
            add_kept(r, p, from);
        else if (p->kind == COMMENT) {
            end = r->d->text[p->start + 1] == '?' ? end_of_markup(r, p->start) : p->end;
            add_markup(r, from, end, true);
        } else if (p->kind == WORDS)
            add_text(r, from, p->end);
        else
            end = add_rest(r, from, p->end, true);
        at = end;
    }
    add_rest(r, at, r->to, false);
    flush(r);
}

/* NULL: no memory. */
static const GumboOutput *parse(reader *r)
{
    const GumboOptions options = { .allocator = allocate,
                                   .deallocator = release,
                                   .userdata = r,
                                   .tab_stop = 8,
                                   .max_errors = 0,
                                   .fragment_context = GUMBO_TAG_LAST,
                                   .fragment_namespace = GUMBO_NAMESPACE_HTML };
    return setjmp(r->no_memory)
               ? NULL
               : gumbo.parse_with_options(&options, r->d->text + r->from, r->to - r->from);
}

static int read_tree(reader *r, et_error *error)
{
    const GumboOutput *page = parse(r);
    if (page)
        collect(r, page->document, false);
    const bool deep = r->depth > TREE_DEPTH_MAX;
    if (page && !deep)
        add_pieces(r);
    release_blocks(r);
    if (deep)
        return et_fail(
            error, ET_EDATA,
            "%s: browsers nest the elements of this page more than %d deep; close tags in "
            "the order in which they were opened",
            r->d->name, TREE_DEPTH_MAX);
    return page ? ET_OK
                : et_fail(error, ET_ENOMEM,
                          "%s: out of memory while reading HTML (at most %zu MB): cut the page",
                          r->d->name, r->memory_max >> 20);
}

int et_document_read_page(et_document *d, size_t from, size_t to, et_error *error)
{
    et_assert(from <= to);
    const et_escape escape = d->escape;
    reader *r = et_alloc_zero(1, sizeof *r);
    if (!r)
        return et_alloc_failed(error, d->name);
    r->d = d;
    r->from = from;
    r->to = to;
    r->memory_max = MEMORY_MIN + MEMORY_PER_BYTE * (to - from);
    int status = et_library_load(&library, &gumbo, error);
    if (!status)
        status = check_depth(r, error);
    et_document_end(d);
    d->escape = ET_ESCAPE_MARKUP;
    if (!status)
        status = read_tree(r, error);
    et_document_end(d);
    d->escape = escape;
    et_free(r->pieces);
    et_free(r);
    return status;
}

int et_document_read_html(et_document *d, et_error *error)
{
    return et_document_read_page(d, 0, d->length, error);
}

/* ---- structure ---- */

static void append_node(const GumboNode *n, et_strbuf *out)
{
    const GumboVector *children = children_of(n);
    if (!children) {
        et_strbuf_append(out, n->type == GUMBO_NODE_TEXT      ? "T"
                              : n->type == GUMBO_NODE_COMMENT ? "C"
                                                              : "");
        return;
    }
    const GumboElement *e = n->type == GUMBO_NODE_DOCUMENT ? NULL : &n->v.element;
    const et_attributes all = e ? scan(e) : (et_attributes){ .kept = false };
    et_strbuf_append_char(out, '<');
    if (e) {
        const name own = name_of_element(e);
        et_strbuf_append_bytes(out, own.text, own.length);
        for (unsigned i = 0; i < e->attributes.length; i++) {
            const GumboAttribute *a = e->attributes.data[i];
            const et_attribute found = attribute_of(a);
            et_strbuf_printf(out, " %s", a->name);
            if (!attribute_is_read(&found, own.text, own.length, &all))
                et_strbuf_printf(out, "=%s", a->value);
        }
    }
    for (unsigned i = 0; i < children->length; i++)
        append_node(children->data[i], out);
    et_strbuf_append_char(out, '>');
}

bool et_html_structure(const char *text, size_t length, et_strbuf *out)
{
    et_assert(out && (text || !length));
    et_document d = { .name = "a page", .text = text, .length = length };
    et_error ignored = ET_ERROR_INIT;
    reader r = { .d = &d, .to = length, .memory_max = MEMORY_MIN + MEMORY_PER_BYTE * length };
    if (et_library_load(&library, &gumbo, &ignored) || check_depth(&r, &ignored))
        return false;
    const GumboOutput *page = parse(&r);
    if (page)
        append_node(page->document, out);
    release_blocks(&r);
    return page && !out->failed;
}
