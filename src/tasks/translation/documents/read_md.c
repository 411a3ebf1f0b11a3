/* Markdown (CommonMark, tables, front matter): blocks line by line, then the inline markup of each
 * paragraph (read_md_inline.c). The lines of a paragraph are one text; a hard line break ends a
 * segment. Code, formulas between lines of $$, HTML blocks, link definitions, rules are copied. */
#include <string.h>
#include <strings.h>

#include "tasks/translation/documents/document_private.h"
#include "tasks/translation/documents/read_md.h"

typedef struct line {
    const char *text;     /* [length], without its end */
    size_t length, whole; /* whole: with its end */
    size_t number;
} line;

typedef struct reader {
    et_document *d;
    const char *at;
    size_t number;
    et_strbuf paragraph; /* its text so far */
    size_t paragraph_line;
    size_t quotes;     /* depth of the paragraph's quote */
    const char *after; /* the end of the paragraph's last line, [after_length] */
    size_t after_length;
    char fence; /* of the open block of code; 0: none */
    size_t fence_length;
    bool html;            /* in a block of HTML */
    const char *html_end; /* that ends it; NULL: an empty line */
    bool table;           /* in a table */
    size_t list;          /* column of the text of the last list item; 0: none */
    bool failed;
} reader;

static bool next_line(reader *r, line *l)
{
    const size_t left = (size_t)(r->d->text + r->d->length - r->at);
    const char *end = memchr(r->at, '\n', left);
    *l = (line){ r->at, end ? (size_t)(end - r->at) : left, 0, r->number + 1 };
    l->whole = l->length + (end != NULL);
    l->length -= l->length && l->text[l->length - 1] == '\r';
    r->at += l->whole;
    r->number += left > 0;
    return left > 0;
}

static size_t run_of(const line *l, size_t at, const char *among)
{
    size_t count = 0;
    while (at + count < l->length && strchr(among, l->text[at + count]))
        count++;
    return count;
}

/* ---- paragraphs ---- */

static void end_paragraph(reader *r)
{
    if (!r->paragraph_line)
        return;
    r->failed |= r->paragraph.failed || !et_document_add_md(r->d, r->paragraph.data,
                                                            r->paragraph.length, r->paragraph_line);
    et_document_keep(r->d, r->after, r->after_length);
    et_strbuf_reset(&r->paragraph);
    r->paragraph_line = 0;
}

/* Adds a line from `at` on to the paragraph. */
static void add_line(reader *r, const line *l, size_t at)
{
    size_t end = l->length;
    const size_t blanks_max = end > at ? end - at : 0;
    size_t blanks = 0;
    while (blanks < blanks_max && l->text[end - 1 - blanks] == ' ')
        blanks++;
    const bool slash =
        end > at && l->text[end - 1] == '\\' && !(end - 1 > at && l->text[end - 2] == '\\');
    end -= slash ? 1 : blanks;
    if (r->paragraph_line)
        et_strbuf_append_char(&r->paragraph, '\n');
    else
        r->paragraph_line = l->number;
    et_strbuf_append_bytes(&r->paragraph, l->text + at, end > at ? end - at : 0);
    r->after = l->text + end;
    r->after_length = l->whole - end;
    if (slash || blanks >= 2) /* a hard break */
        end_paragraph(r);
}

static void keep_line(reader *r, const line *l)
{
    end_paragraph(r);
    et_document_keep(r->d, l->text, l->whole);
}

/* ---- blocks ---- */

/* Whether the line, from `at` on, has just these characters, and one of them. */
static bool is_only(const line *l, size_t at, const char *among)
{
    return at < l->length && run_of(l, at, among) == l->length - at;
}

static bool is_rule(const line *l, size_t at)
{
    return is_only(l, at, "- \t") || is_only(l, at, "* \t") || is_only(l, at, "_ \t") ||
           is_only(l, at, "= \t");
}

/* Bytes of a list marker with the blanks after it; 0: none. */
static size_t list_marker(const line *l, size_t at)
{
    size_t count = run_of(l, at, "-*+") ? 1 : run_of(l, at, "0123456789");
    const bool digit = count && l->text[at] >= '0' && l->text[at] <= '9';
    if (digit && count < 10 && run_of(l, at + count, ".)"))
        count++;
    else if (digit)
        return 0;
    const size_t blanks = count ? run_of(l, at + count, " \t") : 0;
    if (!blanks)
        return 0;
    return count + blanks;
}

/* "[ ] " and "[x] " of a list of tasks. */
static size_t task_box(const line *l, size_t at)
{
    const bool box = l->length > at + 3 && l->text[at] == '[' && run_of(l, at + 1, " xX") &&
                     l->text[at + 2] == ']' && l->text[at + 3] == ' ';
    return box ? 4 : 0;
}

static size_t heading_marker(const line *l, size_t at)
{
    const size_t count = run_of(l, at, "#");
    const size_t blanks = run_of(l, at + count, " \t");
    return count && count <= 6 && (blanks || at + count == l->length) ? count + blanks : 0;
}

/* [^name]: with the blanks after it; 0: none. */
static size_t footnote_marker(const line *l, size_t at)
{
    if (l->length < at + 5 || memcmp(l->text + at, "[^", 2) != 0)
        return 0;
    const char *end = memchr(l->text + at, ']', l->length - at);
    const size_t name = end ? (size_t)(end - l->text) : l->length;
    if (name == at + 2 || name + 1 >= l->length || l->text[name + 1] != ':')
        return 0;
    return name + 2 + run_of(l, name + 2, " \t") - at;
}

static bool has_text(const line *l, size_t at, const char *text)
{
    const size_t length = strlen(text);
    for (; at + length <= l->length; at++)
        if (!strncasecmp(l->text + at, text, length))
            return true;
    return false;
}

/* Whether a block of HTML begins that ends only with *end. It may contain empty lines. */
static bool begins_closed_html(const line *l, size_t at, const char **end)
{
    static const struct {
        const char *begin, *end;
    } blocks[] = {
        { "<!--", "-->" },          { "<?", "?>" },
        { "<![CDATA[", "]]>" },     { "<!", ">" },
        { "<script", "</script>" }, { "<style", "</style>" },
        { "<pre", "</pre>" },       { "<textarea", "</textarea>" },
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const size_t length = strlen(blocks[i].begin), after = at + length;
        const bool name = blocks[i].end[1] == '/';
        if (after > l->length || strncasecmp(l->text + at, blocks[i].begin, length) != 0 ||
            (name && after < l->length && !strchr(" \t>", l->text[after])))
            continue;
        *end = blocks[i].end;
        return true;
    }
    return false;
}

/* Whether a block of HTML begins: its lines stay up to an empty one. */
static bool begins_html(const line *l, size_t at)
{
    static const char *const names[] = {
        "address", "article", "aside",   "blockquote", "body",     "center", "details", "dialog",
        "dd",      "div",     "dl",      "dt",         "fieldset", "figure", "footer",  "form",
        "h1",      "h2",      "h3",      "h4",         "h5",       "h6",     "head",    "header",
        "hr",      "html",    "iframe",  "li",         "link",     "main",   "nav",     "ol",
        "p",       "section", "summary", "table",      "tbody",    "td",     "tfoot",   "th",
        "thead",   "title",   "tr",      "ul",         NULL,
    };
    if (at >= l->length || l->text[at] != '<')
        return false;
    at += 1 + run_of(l, at + 1, "/");
    const size_t name =
        run_of(l, at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    for (size_t i = 0; names[i]; i++)
        if (strlen(names[i]) == name && !strncasecmp(names[i], l->text + at, name))
            return true;
    return false;
}

/* [name]: address */
static bool is_definition(const line *l, size_t at)
{
    const char *end =
        at < l->length && l->text[at] == '[' ? memmem(l->text + at, l->length - at, "]:", 2) : NULL;
    return end != NULL && l->text[at + 1] != '^';
}

static bool is_delimiter_row(const line *l, size_t at)
{
    return is_only(l, at, "|:- \t") && memchr(l->text + at, '-', l->length - at) &&
           memchr(l->text + at, '|', l->length - at);
}

/* Each cell is a paragraph of its own. */
static void add_row(reader *r, const line *l, size_t at)
{
    size_t from = at;
    end_paragraph(r);
    et_document_keep(r->d, l->text, at);
    for (size_t i = at; i <= l->length; i++) {
        if (i < l->length && l->text[i] == '\\') {
            i++;
        } else if (i >= l->length || l->text[i] == '|') {
            const size_t end = i < l->length ? i : l->length;
            r->failed |= !et_document_add_md(r->d, l->text + from, end - from, l->number);
            et_document_end(r->d);
            if (end < l->length)
                et_document_keep(r->d, "|", 1);
            from = end + 1;
        }
    }
    et_document_keep(r->d, l->text + l->length, l->whole - l->length);
}

/* Of code, or a line of $$ around a formula. */
static bool is_fence(const line *l, size_t at, size_t *count)
{
    if ((*count = run_of(l, at, "$")) != 0)
        return *count == 2 && at + 2 == l->length;
    *count = run_of(l, at, "`");
    if (*count)
        return *count >= 3 && !memchr(l->text + at + *count, '`', l->length - at - *count);
    *count = run_of(l, at, "~");
    return *count >= 3;
}

static bool closes_fence(const reader *r, const line *l, size_t at)
{
    const size_t count = run_of(l, at, (const char[]){ r->fence, 0 });
    return count >= r->fence_length && run_of(l, at + count, " \t") == l->length - at - count;
}

/* A block that is indented less ends the list. */
static void leave_list(reader *r, size_t indent)
{
    if (indent < r->list)
        r->list = 0;
}

/* Whether the line belongs to a block of HTML. */
static bool take_html(reader *r, const line *l, size_t indent)
{
    if (!r->html) {
        const char *end = NULL;
        if (!begins_closed_html(l, indent, &end) && !begins_html(l, indent))
            return false;
        r->html = true;
        r->html_end = end;
        leave_list(r, indent);
    }
    if (r->html_end)
        r->html = !has_text(l, 0, r->html_end);
    return true;
}

/* Whether the next line makes this one the head of a table. */
static bool is_table_head(const reader *r, const line *l, size_t at)
{
    reader copy = *r;
    line next;
    return memchr(l->text + at, '|', l->length - at) && next_line(&copy, &next) &&
           is_delimiter_row(&next, run_of(&next, 0, " >"));
}

/* Lines of code, of HTML and empty ones. false: another line. */
static bool take_plain(reader *r, const line *l, size_t indent)
{
    const bool empty = !l->length || is_only(l, 0, " \t>");
    const bool code = !r->paragraph_line && indent >= (r->list ? r->list + 4 : 4) && l->length &&
                      l->text[0] != '>';
    size_t count;
    if (r->fence) {
        if (closes_fence(r, l, indent))
            r->fence = 0;
    } else if (empty && !(r->html && r->html_end)) {
        r->html = r->table = false;
    } else if (!r->html && is_fence(l, indent, &count)) {
        r->fence = l->text[indent];
        r->fence_length = count;
        leave_list(r, indent);
    } else if (!take_html(r, l, indent) && !code) {
        return false;
    }
    keep_line(r, l);
    return true;
}

static size_t depth_of(const line *l, size_t indent)
{
    size_t depth = 0;
    for (size_t i = 0; i < indent; i++)
        depth += l->text[i] == '>';
    return depth;
}

/* Skips markers of quotes, lists, footnotes and headings at the start of the line. Returns where
 * the text begins. A line of a quote may omit its markers, but a deeper quote begins a block. */
static size_t take_marks(reader *r, const line *l, size_t indent)
{
    size_t at = indent, marker;
    const size_t depth = depth_of(l, indent);
    bool begins = depth > r->quotes, item = false;
    while ((marker = list_marker(l, at)) != 0) {
        at += marker;
        r->list = at;
        at += task_box(l, at);
        at += run_of(l, at, " \t>");
        item = true;
    }
    marker = heading_marker(l, at);
    if (!marker)
        marker = footnote_marker(l, at);
    begins |= item || marker != 0;
    at += marker;
    if (!begins && r->paragraph_line)
        return at;
    end_paragraph(r);
    r->quotes = depth;
    if (!item)
        leave_list(r, indent);
    et_document_keep(r->d, l->text, at);
    return at;
}

static void take_line(reader *r, const line *l)
{
    const size_t indent = run_of(l, 0, " \t>");
    if (take_plain(r, l, indent))
        return;
    if (is_rule(l, indent) || is_definition(l, indent) || is_delimiter_row(l, indent)) {
        r->table |= is_delimiter_row(l, indent);
        leave_list(r, indent);
        keep_line(r, l);
        return;
    }
    if (r->table || is_table_head(r, l, indent)) {
        add_row(r, l, indent);
        return;
    }
    const bool heading = heading_marker(l, indent) != 0;
    size_t at = take_marks(r, l, indent);
    line text = *l;
    if (heading) {
        size_t closing = text.length;
        while (closing > at && strchr("# \t", text.text[closing - 1]))
            closing--;
        text.length = closing;
    }
    add_line(r, &text, at);
    if (heading)
        end_paragraph(r);
}

static bool is_line(const line *l, const char *text)
{
    return l->length == strlen(text) && !memcmp(l->text, text, l->length);
}

/* Front matter: between lines of ---, or of +++, at the start of the document. */
static void take_front_matter(reader *r)
{
    reader copy = *r;
    line l;
    const char *from = r->at;
    if (!next_line(&copy, &l) || (!is_line(&l, "---") && !is_line(&l, "+++")))
        return;
    const bool yaml = *l.text == '-';
    while (next_line(&copy, &l))
        if (yaml ? is_line(&l, "---") || is_line(&l, "...") : is_line(&l, "+++")) {
            et_document_keep(r->d, from, (size_t)(copy.at - from));
            r->at = copy.at;
            r->number = copy.number;
            return;
        }
}

int et_document_read_md(et_document *d, et_error *error)
{
    reader r = { .d = d, .at = d->text };
    line l;
    take_front_matter(&r);
    while (next_line(&r, &l))
        take_line(&r, &l);
    end_paragraph(&r);
    et_strbuf_release(&r.paragraph);
    return r.failed ? et_fail(error, ET_ENOMEM, "%s: out of memory", d->name) : ET_OK;
}
