/* Markdown, by MD4C. Its callbacks get texts as pointers into the document, so each text has a
 * position, and the bytes between two texts are markup:
 *
 *     - a **b** [c](d)         text "a ", text "b", text " ", text "c"
 *     ~~  ~~ ~~~ ~~~~~         markup
 *
 * Markup before the first text of a block, and after its last text up to the end of its spans,
 * belongs to the block, other markup to the segment.
 *
 * Syntax outside CommonMark is masked first (md_mask.c). The lines of a paragraph are one text; a
 * hard line break ends a segment. Code, formulas and link definitions stay; blocks of HTML are read
 * as HTML. A reference whose label is its text gets the label: [text] becomes
 * [translation][text]. */
#include <string.h>
#include <strings.h>

#include <md4c.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/library.h"
#include "base/vector.h"
#include "tasks/translation/documents/document_private.h"

/* md_parse is md4c.parse. */
#define CALLS(X) X(md_, parse)

ET_LIBRARY(md4c, CALLS, ET_MD4C_FILE, "MD4C");

#define FLAGS (MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS)

/* A table of n rows and n columns has n * n cells: a parse with more calls than this for each byte
 * ends. */
#define CALLS_PER_BYTE 64

/* A callback's non-zero result ends the parse. */
enum { NO_MEMORY = 1, TOO_MANY, OTHER };

/* A callback of MD4C between two texts. */
typedef struct event {
    enum { ENTER, LEAVE, SOFT_BREAK, HARD_BREAK } kind;
    int type;  /* of a span */
    size_t at; /* the end of the last text or code before it */
    size_t link;
} event;

/* An open link or image. */
typedef struct link {
    size_t open; /* position of its [ */
    bool known;  /* open is */
    bool automatic;
} link;

typedef struct reader {
    et_document *d;
    et_md_mask mask;
    size_t calls;
    size_t at;     /* end of the bytes already in the document's items or run */
    size_t seen;   /* end of the last text of any kind */
    bool verbatim; /* in a block of code or HTML */
    bool begun;    /* in a block with text, at is in it */
    size_t quotes;
    size_t html, html_end; /* bytes of a block of HTML; both 0: none yet */
    bool in_html;
    char hidden[12]; /* an element of HTML whose text stays; empty: none */
    event *events;   /* [event_count], owned */
    size_t event_count, event_capacity;
    link *links; /* [link_count] open ones, owned */
    size_t link_count, link_capacity;
    size_t kept; /* spans of the mask that are before at */
    et_spans code;
    bool finds_code; /* the first pass */
    et_error *error;
    int status;
} reader;

static size_t line_of(const reader *r, size_t position)
{
    return et_document_line(r->d, position);
}

static const char *text_of(const reader *r)
{
    return r->d->text;
}

static bool is_among(char c, const char *among)
{
    return c && strchr(among, c);
}

/* ---- markup within a segment ---- */

/* The end of a link's or image's markup that begins with its ] at `at`. *own: the label is its
 * text. */
static size_t end_of_link(const reader *r, size_t at, size_t end, bool *own)
{
    const char *text = text_of(r);
    const char open = at + 1 < end ? text[at + 1] : 0;
    *own = open != '(' && (open != '[' || (at + 2 < end && text[at + 2] == ']'));
    if (*own)
        return at + (open == '[' ? 3 : 1);
    char quote = 0;
    int depth = 0;
    for (size_t i = at + 1; i < end; i++) {
        const char c = text[i];
        if (c == '\\')
            i++;
        else if (quote)
            quote = c == quote ? 0 : quote;
        else if (open == '(' && depth == 1 && is_among(c, "<\"'") &&
                 is_among(text[i - 1], "( \t\n"))
            quote = c == '<' ? '>' : c;
        else if (c == open)
            depth++;
        else if (c == (open == '(' ? ')' : ']') && !--depth)
            return i + 1;
    }
    return end;
}

/* The label of a reference in one line. */
static void append_label(const reader *r, size_t from, size_t to, et_strbuf *out)
{
    const char *text = text_of(r);
    et_strbuf_append(out, "][");
    for (size_t i = from; i < to; i++) {
        if (!is_among(text[i], "\r\n")) {
            et_strbuf_append_char(out, text[i]);
            continue;
        }
        while (i + 1 < to && is_among(text[i + 1], "\r\n\t >"))
            i++;
        et_strbuf_append_char(out, ' ');
    }
    et_strbuf_append_char(out, ']');
}

/* Copies markup, with the labels of references that ended in it by these events and began before.
 */
static void append_markup(const reader *r, size_t from, size_t to, size_t first, size_t last,
                          et_strbuf *out)
{
    const char *text = text_of(r);
    size_t next = from;
    for (size_t i = first; i < last; i++) {
        const event *e = &r->events[i];
        bool own;
        if (e->kind != LEAVE || (e->type != MD_SPAN_A && e->type != MD_SPAN_IMG) || !e->link)
            continue;
        const size_t look = next > e->at ? next : e->at;
        const char *close = look < to ? memchr(text + look, ']', to - look) : NULL;
        if (!close)
            break;
        const size_t at = (size_t)(close - text), end = end_of_link(r, at, to, &own);
        next = at + 1;
        if (!own) {
            next = end;
        } else if (e->link <= r->at && et_text_has_letter(text + e->link, at - e->link)) {
            et_strbuf_append_bytes(out, text + from, at - from);
            append_label(r, e->link, at, out);
            from = next = end;
        }
    }
    et_strbuf_append_bytes(out, text + from, to - from);
}

static void add_markup(reader *r, size_t from, size_t to, size_t first, size_t last)
{
    et_strbuf tag = ET_STRBUF_INIT;
    if (from < to)
        append_markup(r, from, to, first, last, &tag);
    if (tag.length)
        et_document_add_tag(r->d, tag.data, tag.length, line_of(r, from));
    r->d->failed |= tag.failed;
    et_strbuf_release(&tag);
}

/* "a. ", "iv. ", "(2) ", "#. " and "(@name) " of Pandoc: an item of a list. */
static bool is_item(const reader *r, size_t at)
{
    static const char marks[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ#@_-";
    const char *text = text_of(r);
    const size_t from = at + (at < r->d->length && text[at] == '(');
    const size_t most = from < r->d->length && text[from] == '@' ? 40 : 5;
    size_t end = from;
    while (end < r->d->length && end - from < most && is_among(text[end], marks))
        end++;
    return end > from && end + 1 < r->d->length && text[end + 1] == ' ' &&
           (text[end] == ')' || (text[end] == '.' && from == at &&
                                 (end - from == 1 || strspn(text + at, "ivxIVX") == end - at)));
}

static bool is_no_sentence(const reader *r, size_t at)
{
    const char *text = text_of(r);
    return at < r->d->length && (is_among(text[at], "|+") ||
                                 (text[at] == '%' && at + 1 < r->d->length && text[at + 1] == ' '));
}

/* Whether the line end stays. It stays if a line next to it may be part of a table, or begins with
 * % as comments of MyST and titles of Pandoc do. */
static bool is_kept_line(const reader *r, size_t line_end)
{
    const char *text = text_of(r);
    size_t low = 0, high = r->mask.kept.count, at = line_end + 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (r->mask.kept.items[middle].start < line_end)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < r->mask.kept.count && r->mask.kept.items[low].start == line_end)
        return true;
    while (at < r->d->length && is_among(text[at], " \t>"))
        at++;
    size_t start = line_end;
    while (start && text[start - 1] != '\n')
        start--;
    const bool indented = text[start] == ' ';
    while (start < line_end && is_among(text[start], " \t>"))
        start++;
    return is_no_sentence(r, at) || is_no_sentence(r, start) ||
           (is_item(r, at) && (indented || is_item(r, start)));
}

/* The line end of a break. Of the line ends between the texts around the event, the last ones are
 * breaks; earlier ones are in the markup of a link. Returns to: none. */
static size_t line_end_of_break(const reader *r, size_t number, size_t from, size_t to)
{
    const char *text = text_of(r);
    const event *e = &r->events[number];
    size_t ends = 0, breaks = 0;
    for (size_t i = number; i < r->event_count; i++)
        if (r->events[i].kind >= SOFT_BREAK && r->events[i].at == e->at)
            breaks++;
        else if (r->events[i].kind >= SOFT_BREAK && r->events[i].at < to)
            to = r->events[i].at;
    from = e->at > from ? e->at : from;
    for (size_t i = from; i < to; i++)
        ends += text[i] == '\n';
    for (size_t i = from; i < to; i++)
        if (text[i] == '\n' && ends-- <= breaks)
            return i;
    return to;
}

/* Markup between two texts, or after the last one, with the line breaks in it. */
static void take_gap(reader *r, size_t to)
{
    et_document *d = r->d;
    size_t from = r->at, first = 0;
    for (size_t i = 0; i < r->event_count; i++) {
        const event *e = &r->events[i];
        const size_t end = e->kind < SOFT_BREAK ? to : line_end_of_break(r, i, from, to);
        size_t start = end, after = end + 1;
        if (end >= to || d->text[end] != '\n')
            continue;
        while (start > from && is_among(d->text[start - 1], " \t\r"))
            start--;
        if (e->kind == HARD_BREAK && start > from && d->text[start - 1] == '\\' &&
            (start == end || d->text[start] == '\r'))
            start--;
        while (after < to && is_among(d->text[after], " \t>"))
            after++;
        add_markup(r, from, start, first, i);
        first = i + 1;
        if (e->kind == HARD_BREAK || is_kept_line(r, end))
            et_document_keep(d, d->text + start, after - start);
        else
            et_document_add_written(d, " ", 1, d->text + start, after - start, line_of(r, start));
        from = after;
    }
    add_markup(r, from, to, first, r->event_count);
    r->event_count = 0;
    r->at = to;
}

/* Adds text. Masked bytes in it are markup; a placeholder other than a statement is text. */
static void add_text(reader *r, size_t from, size_t to, bool entity)
{
    et_document *d = r->d;
    const et_spans *kept = &r->mask.kept;
    et_span found;
    if (entity) {
        et_document_add_decoded(d, d->text + from, to - from, line_of(r, from));
        return;
    }
    while (r->kept < kept->count &&
           kept->items[r->kept].start + kept->items[r->kept].length <= from)
        r->kept++;
    for (size_t i = r->kept; from < to; i++) {
        const et_span *span = i < kept->count && kept->items[i].start < to ? &kept->items[i] : NULL;
        if (span && span->start + span->length <= from)
            continue; /* within the last one */
        const size_t end = !span ? to : span->start > from ? span->start : from;
        if (end > from)
            et_document_add(d, d->text + from, end - from, line_of(r, from));
        from = end;
        if (!span)
            continue;
        const size_t stop = span->start + span->length < to ? span->start + span->length : to;
        if (et_span_find(d->text + from, stop - from, 0, &found) && !found.start &&
            found.length == stop - from && d->text[from + 1] != '%')
            et_document_add(d, d->text + from, stop - from, line_of(r, from));
        else
            et_document_add_tag(d, d->text + from, stop - from, line_of(r, from));
        from = stop;
    }
}

/* ---- blocks ---- */

/* The begin of the spans around the first text of a block. */
static size_t begin_of_spans(const reader *r, size_t at, MD_TEXTTYPE type)
{
    const char *text = text_of(r);
    if (type == MD_TEXT_CODE) {
        at -= at > r->at + 1 && is_among(text[at - 1], " \n") && text[at - 2] == '`';
        while (at > r->at && text[at - 1] == '`')
            at--;
    }
    while (at > r->at && is_among(text[at - 1], "*_~[!\\<"))
        at--;
    return at;
}

/* The end of the spans around the last text of a block. */
static size_t end_of_spans(const reader *r)
{
    const char *text = text_of(r);
    const size_t end = r->d->length;
    size_t at = r->seen;
    bool own;
    for (size_t i = 0; i < r->event_count; i++) {
        const event *e = &r->events[i];
        if (e->at < r->seen)
            continue;
        if (e->kind != LEAVE)
            return at;
        if (e->type == MD_SPAN_CODE) {
            at += at < end && is_among(text[at], " \n");
            while (at < end && text[at] == '`')
                at++;
        } else if (e->type == MD_SPAN_A || e->type == MD_SPAN_IMG) {
            if (at >= end || !is_among(text[at], "]>"))
                return at;
            at = text[at] == '>' ? at + 1 : end_of_link(r, at, end, &own);
        } else {
            for (int marks = e->type == MD_SPAN_EM ? 1 : 2;
                 marks && at < end && is_among(text[at], "*_~"); marks--)
                at++;
        }
    }
    return at;
}

static void keep_up_to(reader *r, size_t to)
{
    if (to > r->at)
        et_document_keep(r->d, text_of(r) + r->at, to - r->at);
    r->at = to > r->at ? to : r->at;
}

static void end_text(reader *r)
{
    if (r->finds_code)
        return;
    if (r->begun)
        take_gap(r, end_of_spans(r));
    et_document_end(r->d);
    r->event_count = r->link_count = 0;
    r->begun = false;
    r->hidden[0] = 0;
}

static int count_call(reader *r)
{
    return r->d->failed                                        ? NO_MEMORY
           : ++r->calls > CALLS_PER_BYTE * (r->d->length + 64) ? TOO_MANY
                                                               : 0;
}

/* In a tight list, no block contains the text of an item. */
static int enter_block(MD_BLOCKTYPE type, void *detail, void *payload)
{
    reader *r = payload;
    const bool cell = type == MD_BLOCK_TH || type == MD_BLOCK_TD;
    (void)detail;
    end_text(r);
    r->quotes += type == MD_BLOCK_QUOTE;
    r->d->escape = cell ? ET_ESCAPE_MD_CELL : ET_ESCAPE_MD;
    r->in_html = type == MD_BLOCK_HTML;
    r->verbatim = r->in_html || type == MD_BLOCK_CODE;
    r->html = r->html_end = 0;
    return count_call(r);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *payload)
{
    reader *r = payload;
    (void)detail;
    end_text(r);
    r->quotes -= type == MD_BLOCK_QUOTE;
    r->d->escape = ET_ESCAPE_MD;
    r->verbatim = false;
    if (type == MD_BLOCK_HTML) {
        r->in_html = false;
        if (r->html_end <= r->html || r->finds_code)
            return 0;
        keep_up_to(r, r->html);
        r->at = r->html_end;
        if (r->quotes && strncmp(r->mask.text + r->html, "<!--", 4) != 0)
            et_document_keep_words(r->d, text_of(r) + r->html, r->html_end - r->html,
                                   line_of(r, r->html));
        else
            r->status = et_document_read_page(r->d, r->html, r->html_end, r->error);
        return r->status ? OTHER : 0;
    }
    return count_call(r);
}

/* ---- spans and texts ---- */

static int add_event(reader *r, event e)
{
    if (!ET_VECTOR_APPEND(r->events, r->event_count, r->event_capacity, e))
        return NO_MEMORY;
    return count_call(r);
}

static int enter_span(MD_SPANTYPE type, void *detail, void *payload)
{
    reader *r = payload;
    (void)detail;
    if (r->finds_code)
        return count_call(r);
    if (type == MD_SPAN_A || type == MD_SPAN_IMG) {
        if (!ET_VECTOR_APPEND(r->links, r->link_count, r->link_capacity, (link){ .known = false }))
            return NO_MEMORY;
    }
    return add_event(r, (event){ .kind = ENTER, .type = (int)type, .at = r->seen });
}

static int leave_span(MD_SPANTYPE type, void *detail, void *payload)
{
    reader *r = payload;
    event e = { .kind = LEAVE, .type = (int)type, .at = r->seen };
    (void)detail;
    if (r->finds_code)
        return count_call(r);
    if ((type == MD_SPAN_A || type == MD_SPAN_IMG) && r->link_count) {
        const link *l = &r->links[--r->link_count];
        e.link = l->known && !l->automatic ? l->open + 1 : 0;
    }
    return add_event(r, e);
}

/* Finds the brackets of links that were entered before this text. */
static void find_links(reader *r, size_t at)
{
    const char *text = text_of(r);
    const size_t from = r->at;
    size_t next = at;
    for (size_t i = r->link_count; i-- > 0 && !r->links[i].known;) {
        link *l = &r->links[i];
        l->known = true;
        l->automatic = i + 1 == r->link_count && at && text[at - 1] == '<';
        const char *open =
            l->automatic || next < from ? NULL : memrchr(text + from, '[', next - from);
        if (open)
            next = l->open = (size_t)(open - text);
        else
            l->automatic = true;
    }
}

/* An element of inline HTML whose text stays. */
static void take_html(reader *r, const char *tag, size_t length)
{
    static const char elements[] = "code kbd pre samp script style var";
    const bool close = length > 1 && tag[1] == '/';
    const char *name = tag + 1 + close;
    size_t count = 0;
    while ((size_t)(name - tag) + count < length && !is_among(name[count], " \t\r\n/>"))
        count++;
    if (close && count == strlen(r->hidden) && !strncasecmp(name, r->hidden, count))
        r->hidden[0] = 0;
    if (!close && !*r->hidden && *tag == '<' && et_is_listed(elements, name, count)) {
        memcpy(r->hidden, name, count);
        r->hidden[count] = 0;
    }
}

static int take_text(reader *r, MD_TEXTTYPE type, size_t from, size_t to)
{
    if (r->in_html) {
        r->html = r->html_end ? r->html : from;
        r->html_end = to;
    }
    if (r->finds_code) {
        const bool hides = type == MD_TEXT_CODE || type == MD_TEXT_HTML;
        const et_span span = { from, to - from, type == MD_TEXT_HTML ? ET_SPAN_TAG : ET_SPAN_TEXT,
                               0, false };
        return hides && !et_spans_add(&r->code, span) ? NO_MEMORY : 0;
    }
    if (r->verbatim)
        return 0;
    find_links(r, from);
    if (!r->begun) {
        while (from < to && type == MD_TEXT_NORMAL && is_among(text_of(r)[from], " \t"))
            from++; /* MD4C's heading after a tab */
        keep_up_to(r, begin_of_spans(r, from, type));
        r->begun = true;
    }
    if (type == MD_TEXT_HTML)
        take_html(r, text_of(r) + from, to - from);
    const bool automatic = r->link_count && r->links[r->link_count - 1].automatic;
    if ((type == MD_TEXT_NORMAL || type == MD_TEXT_ENTITY) && !automatic && !*r->hidden) {
        /* An escaped character is markup. */
        const bool escaped = from > r->at && text_of(r)[from - 1] == '\\' && to == from + 1 &&
                             type == MD_TEXT_NORMAL;
        take_gap(r, escaped ? to : from);
        if (!escaped)
            add_text(r, from, to, type == MD_TEXT_ENTITY);
        r->at = to;
    }
    r->seen = to;
    return 0;
}

static int text(MD_TEXTTYPE type, const MD_CHAR *bytes, MD_SIZE size, void *payload)
{
    reader *r = payload;
    const char *all = r->mask.text;
    if (!r->finds_code && (type == MD_TEXT_SOFTBR || type == MD_TEXT_BR))
        return add_event(
            r, (event){ .kind = type == MD_TEXT_BR ? HARD_BREAK : SOFT_BREAK, .at = r->seen });
    int status = count_call(r);
    if (status || !size || bytes < all || bytes >= all + r->mask.length)
        return status; /* text that is not in the document, such as a line end of MD4C */
    return take_text(r, type, (size_t)(bytes - all), (size_t)(bytes - all) + size);
}

static int parse(reader *r)
{
    const MD_PARSER parser = { .flags = FLAGS,
                               .enter_block = enter_block,
                               .leave_block = leave_block,
                               .enter_span = enter_span,
                               .leave_span = leave_span,
                               .text = text };
    r->calls = r->quotes = 0;
    r->verbatim = r->begun = false;
    const int result = md4c.parse(r->mask.text, (MD_SIZE)r->mask.length, &parser, r);
    if (result == OTHER)
        return r->status;
    if (result == TOO_MANY)
        return et_fail(r->error, ET_EDATA,
                       "%s: a table of this text has too many empty cells: shorten its first row",
                       r->d->name);
    return result ? et_alloc_failed(r->error, r->d->name) : ET_OK;
}

/* Loads MD4C and makes the text that it reads. */
static bool mask(reader *r)
{
    et_document *d = r->d;
    r->status = et_library_load(&library, &md4c, r->error);
    if (!r->status && d->length > (MD_SIZE)-1 / 2)
        r->status = et_fail(r->error, ET_EDATA, "%s: more than 2 GB: cut the text", d->name);
    if (!r->status && !et_md_mask_open(&r->mask, d->text, d->length))
        r->status = et_alloc_failed(r->error, d->name);
    r->finds_code = true;
    if (!r->status)
        r->status = parse(r);
    r->finds_code = false;
    if (!r->status && !et_md_mask_inline(&r->mask, &r->code))
        r->status = et_alloc_failed(r->error, d->name);
    return !r->status;
}

static void release(reader *r)
{
    et_spans_release(&r->code);
    et_free(r->events);
    et_free(r->links);
    et_md_mask_release(&r->mask);
}

int et_document_read_md(et_document *d, et_error *error)
{
    reader r = { .d = d, .error = error };
    int status = mask(&r) ? parse(&r) : r.status;
    if (!status)
        keep_up_to(&r, d->length);
    release(&r);
    return status;
}

/* ---- structure ---- */

typedef struct structure {
    et_strbuf *out;
    bool html; /* in a block of HTML, whose text is translated */
    bool text; /* the block has some */
} structure;

static int append_type(structure *s, char kind, int type)
{
    et_strbuf_append_char(s->out, kind);
    et_strbuf_append_char(s->out, (char)('a' + type));
    return s->out->failed ? NO_MEMORY : 0;
}

static int structure_enter_block(MD_BLOCKTYPE type, void *detail, void *payload)
{
    const char level =
        type == MD_BLOCK_H ? (char)('0' + ((MD_BLOCK_H_DETAIL *)detail)->level) : '{';
    structure *s = payload;
    s->html = type == MD_BLOCK_HTML;
    s->text = false;
    return append_type(payload, level, (int)type);
}

static int structure_leave_block(MD_BLOCKTYPE type, void *detail, void *payload)
{
    structure *s = payload;
    (void)detail;
    /* A row may have fewer cells than its table, which adds empty ones. */
    if (s->text && (type == MD_BLOCK_TH || type == MD_BLOCK_TD))
        et_strbuf_append_char(s->out, 't');
    s->html = s->text = false;
    return append_type(s, '}', (int)type);
}

static int structure_enter_span(MD_SPANTYPE type, void *detail, void *payload)
{
    const MD_SPAN_A_DETAIL *target = detail;
    if (type == MD_SPAN_A || type == MD_SPAN_IMG) /* both details begin with the address */
        et_strbuf_append_bytes(((structure *)payload)->out, target->href.text, target->href.size);
    return append_type(payload, '<', (int)type);
}

static int structure_leave_span(MD_SPANTYPE type, void *detail, void *payload)
{
    (void)detail;
    return append_type(payload, '>', (int)type);
}

/* Code and inline HTML with their bytes. */
static int structure_text(MD_TEXTTYPE type, const MD_CHAR *bytes, MD_SIZE size, void *payload)
{
    structure *s = payload;
    s->text = true;
    if (type == MD_TEXT_BR)
        return append_type(s, '|', (int)type);
    if ((type == MD_TEXT_CODE || type == MD_TEXT_HTML) && !s->html)
        et_strbuf_append_bytes(s->out, bytes, size);
    return s->out->failed ? NO_MEMORY : 0;
}

bool et_md_structure(const char *bytes, size_t length, et_strbuf *out)
{
    et_assert(out && (bytes || !length));
    const MD_PARSER parser = { .flags = FLAGS,
                               .enter_block = structure_enter_block,
                               .leave_block = structure_leave_block,
                               .enter_span = structure_enter_span,
                               .leave_span = structure_leave_span,
                               .text = structure_text };
    et_document d = { .name = "a text", .text = bytes, .length = length };
    et_error ignored = ET_ERROR_INIT;
    reader r = { .d = &d, .error = &ignored };
    structure s = { .out = out };
    const bool good = mask(&r) && !md4c.parse(r.mask.text, (MD_SIZE)length, &parser, &s);
    for (size_t i = 0; good && i < r.mask.kept.count; i++)
        et_strbuf_append_bytes(out, bytes + r.mask.kept.items[i].start,
                               r.mask.kept.items[i].length);
    release(&r);
    return good && !out->failed;
}
