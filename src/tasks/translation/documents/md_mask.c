/* Masks whole lines first, also in code, because nobody reads the copy there. Masks markup within
 * lines when the code is known, because markup must not begin or end in code. */

#include "tasks/translation/documents/document_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/unicode.h"

/* Bytes of the longest inline markup. */
#define MARKUP_MAX 2048

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define NAMES  LOWER UPPER DIGITS "_-"

typedef struct line {
    size_t from, at, end, next; /* at: after blanks and markers of quotes; end: of its text */
    bool quote;
} line;

static line line_at(const et_md_mask *m, size_t from)
{
    const char *stop = memchr(m->original + from, '\n', m->length - from);
    line l = { .from = from, .at = from, .end = m->length, .next = m->length };
    if (stop) {
        l.end = (size_t)(stop - m->original);
        l.next = l.end + 1;
    }
    for (; l.at < l.end && strchr(" \t>", m->original[l.at]); l.at++)
        l.quote |= m->original[l.at] == '>';
    while (l.end > l.at && strchr(" \t\r", m->original[l.end - 1]))
        l.end--;
    return l;
}

/* Bytes from `at` on, before end, that are among these. */
static size_t run(const et_md_mask *m, size_t at, size_t end, const char *among)
{
    size_t count = 0;
    while (at + count < end && m->original[at + count] && strchr(among, m->original[at + count]))
        count++;
    return count;
}

static bool begins(const et_md_mask *m, size_t at, size_t end, const char *words)
{
    const size_t length = strlen(words);
    return end - at >= length && !memcmp(m->original + at, words, length);
}

static size_t find(const et_md_mask *m, size_t at, size_t end, const char *words)
{
    const char *found = at < end ? memmem(m->original + at, end - at, words, strlen(words)) : NULL;
    return found ? (size_t)(found - m->original) : end;
}

static void blank(et_md_mask *m, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (!strchr("\r\n", m->text[i]))
            m->text[i] = ' ';
}

/* Letters in place of markup, which stays. */
static bool keep(et_md_mask *m, size_t from, size_t to)
{
    if (from >= to)
        return true;
    memset(m->text + from, 'x', to - from);
    return et_spans_add(&m->kept, (et_span){ .start = from, .length = to - from });
}

/* Turns a line into another block, whose marker is shorter than the markup. [title, title_end) is
 * the text of the line. */
static bool mask_line(et_md_mask *m, const line *l, const char *markers, size_t title,
                      size_t title_end)
{
    const size_t count = strlen(markers);
    memcpy(m->text + l->at, markers, count);
    return keep(m, l->at + count, title) && keep(m, title_end, l->end);
}

/* ---- lines ---- */

/* "::: name", with a title in brackets or without. ":::{figure} a.png" of MyST has a file, and
 * ":::image source="a.png":::" of Microsoft's attributes. */
static bool mask_container(et_md_mask *m, const line *l)
{
    size_t at = l->at + run(m, l->at, l->end, ":"), end = l->end;
    at += run(m, at, end, " \t");
    at += begins(m, at, end, "{") ? find(m, at, end, "}") - at + 1 : run(m, at, end, NAMES "/.");
    if (at < end && m->original[at] == '[') {
        at++;
        end = find(m, at, end, "]");
    } else {
        at += at < end ? run(m, at, end, " \t") : 0;
        end = find(m, at < end ? at : end, end, "{");
        while (end > at && strchr(": \t", m->original[end - 1]))
            end--;
    }
    const bool file = (begins(m, l->at + run(m, l->at, l->end, ":"), l->end, "{") &&
                       find(m, at, end, " ") == end && find(m, at, end, ".") < end) ||
                      find(m, at, end, "=\"") < end;
    if (at < end && !file && et_text_has_letter(m->original + at, end - at))
        return mask_line(m, l, "# ", at, end);
    blank(m, l->at, l->end);
    return true;
}

/* The end of a line that is not part of a paragraph after it stays. */
static bool keep_line_end(et_md_mask *m, const line *l)
{
    return m->original[l->next - 1] != '\n' ||
           et_spans_add(&m->kept, (et_span){ .start = l->next - 1, .length = 1 });
}

/* !!! note "A title", with an indented text. */
static bool mask_admonition(et_md_mask *m, const line *l)
{
    size_t from = find(m, l->at, l->end, "\"") + 1, end = l->end;
    while (end > from && m->original[end - 1] != '"')
        end--;
    if (from >= l->end)
        from = end = l->end;
    return mask_line(m, l, "- ", from, end > from ? end - 1 : l->end) && keep_line_end(m, l);
}

static bool is_admonition(const et_md_mask *m, const line *l)
{
    const size_t mark = l->at + 3 + run(m, l->at + 3, l->end, "+!");
    const size_t blanks = run(m, mark, l->end, " ");
    const bool tab =
        begins(m, l->at, l->end, "===") && blanks && begins(m, mark + blanks, l->end, "\"");
    const size_t at = l->at + 3 + begins(m, l->at, l->end, "???+") + 1;
    return tab || ((begins(m, l->at, l->end, "!!! ") || begins(m, l->at, l->end, "??? ") ||
                    begins(m, l->at, l->end, "???+ ")) &&
                   run(m, at, l->end, LOWER UPPER "\"") > 0);
}

/* Bytes of "[^name]:" or of "*[abbreviation]:" and the blanks after it; 0: none. */
static size_t footnote(const et_md_mask *m, const line *l)
{
    const size_t end = find(m, l->at, l->end, "]");
    if (!(begins(m, l->at, l->end, "[^") || begins(m, l->at, l->end, "*[")) || end == l->at + 2 ||
        !begins(m, end, l->end, "]:"))
        return 0;
    return end + 2 + run(m, end + 2, l->end, " \t") - l->at;
}

/* import and export of MDX, and +---+---+, a grid table of Pandoc, whose columns are positions;
 * they end at an empty line, or where their code ends. */
static bool is_module(const et_md_mask *m, const line *l)
{
    static const char *const exports[] = { "export const ", "export default ", "export function ",
                                           "export let ",   "export {",        "export * " };
    if (begins(m, l->at, l->end, "+-") && find(m, l->at, l->end, "-+") < l->end &&
        run(m, l->at, l->end, "+-:") == l->end - l->at)
        return true;
    for (size_t i = 0; i < sizeof exports / sizeof *exports; i++)
        if (begins(m, l->from, l->end, exports[i]))
            return true;
    return begins(m, l->from, l->end, "import ") &&
           (begins(m, l->from, l->end, "import {") || strchr("'\"", m->original[l->from + 7]) ||
            (strchr("'\";", m->original[l->end - 1]) &&
             (find(m, l->from, l->end, " from '") < l->end ||
              find(m, l->from, l->end, " from \"") < l->end)));
}

/* After the markers of list items and quotes that the line begins with. */
static line in_items(const et_md_mask *m, line l)
{
    for (;;) {
        const size_t skipped = run(m, l.at, l.end, " \t>");
        l.quote |= memchr(m->original + l.at, '>', skipped) != NULL;
        l.at += skipped;
        const size_t digits = run(m, l.at, l.end, DIGITS), mark = l.at + digits;
        const size_t blanks = run(m, mark + 1, l.end, " ");
        if (!run(m, mark, l.end, digits ? ".)" : "-+*") || digits > 9 || !blanks || blanks > 4)
            return l;
        l.at = mark + 1 + blanks;
    }
}

/* ::name{file=a}, ::name[title]: a directive without content. */
static bool is_leaf(const et_md_mask *m, const line *l)
{
    const size_t name = run(m, l->at + 2, l->end, NAMES);
    return name && begins(m, l->at, l->end, "::") && run(m, l->at + 2 + name, l->end, "[{") &&
           strchr("]}", m->original[l->end - 1]);
}

/* \newpage, \vspace{1em} of LaTeX; the lines of pymdownx and VitePress that include a file; (name)=
 * and +++ {"tags": []} of MyST, a target of references and a break between cells. */
static bool is_command(const et_md_mask *m, const line *l)
{
    const size_t name = run(m, l->at + 1, l->end, LOWER UPPER);
    const size_t after = l->at + 1 + name;
    return begins(m, l->at, l->end, "--8<--") ||
           (begins(m, l->at, l->end, "<<< ") && run(m, l->at + 4, l->end, "@./~")) ||
           (begins(m, l->at, l->end, "(") && l->end - l->at > 3 &&
            begins(m, l->end - 2, l->end, ")=") && find(m, l->at, l->end, " ") == l->end) ||
           (begins(m, l->at, l->end, "+++ {") && begins(m, l->end - 1, l->end, "}")) ||
           (name > 1 && begins(m, l->at, l->end, "\\") && !begins(m, l->at, l->end, "\\begin{") &&
            (after == l->end ||
             (run(m, after, l->end, "[{") && strchr("]}", m->original[l->end - 1]) &&
              find(m, after, l->end, " ") == l->end)));
}

/* ":width: 10px", after a line ":::{name}" of MyST. */
static bool is_option(const et_md_mask *m, const line *l)
{
    const size_t name = run(m, l->at + 1, l->end, NAMES), after = l->at + 1 + name;
    return name && begins(m, l->at, l->end, ":") && begins(m, after, l->end, ":") &&
           (after + 1 == l->end || m->original[after + 1] == ' ');
}

/* Bytes of ``` or ~~~ at `at`; 0: none. ```a``` is code within a line. */
static size_t fence_at(const et_md_mask *m, size_t at, size_t end)
{
    const size_t tildes = begins(m, at, end, "~~~") ? run(m, at, end, "~") : 0;
    const size_t marks = begins(m, at, end, "```") ? run(m, at, end, "`") : 0;
    return marks && find(m, at + marks, end, "`") < end ? 0 : marks + tildes;
}

static bool begins_empty(const et_md_mask *m, size_t at)
{
    at += run(m, at, m->length, " \t\r");
    return at < m->length && m->original[at] == '\n';
}

/* Bytes up to after the end of a tag or an expression of JSX, which begins before `at`. Values may
 * be in braces. */
static size_t balanced(const et_md_mask *m, size_t at, char end)
{
    int depth = 0;
    char quote = 0;
    for (size_t i = at; i < m->length && i - at < MARKUP_MAX; i++) {
        const char c = m->original[i];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (depth <= 0 && c == end)
            return i + 2 - at;
        else if (c == '\n' && begins_empty(m, i + 1))
            return 0;
        else if (c == '"' || (c == '\'' && depth > 0))
            quote = c;
        else
            depth += (c == '{') - (c == '}');
    }
    return 0;
}

/* The position after a tag of a component, such as <Tabs>, at `at`; without one: at. */
static size_t after_component(const et_md_mask *m, size_t at, size_t end)
{
    const size_t name = at + 1 + begins(m, at, end, "</"), count = run(m, name, end, NAMES ".");
    return begins(m, at, end, "<") && run(m, name, end, UPPER) &&
                   run(m, name, end, UPPER DIGITS) < count && run(m, name + count, end, " \t/>") &&
                   !et_is_listed("pre script style textarea", m->original + name, count)
               ? at + balanced(m, at + 1, '>')
               : at;
}

/* Whether the line is a row of dashes with a cell of fewer than three bytes, whose table MD4C
 * before 0.5 does not read. */
static bool is_short_row(const et_md_mask *m, const line *l)
{
    if (find(m, l->at, l->end, "|") == l->end || run(m, l->at, l->end, "-:| \t") < l->end - l->at)
        return false;
    for (size_t at = l->at, count; at < l->end; at += count + 1) {
        count = run(m, at, l->end, "-:");
        if (count == 1 || count == 2)
            return true;
    }
    return false;
}

/* Keeps a row of such a table on a line of its own, with its bars. */
static bool keep_bars(et_md_mask *m, const line *l)
{
    bool good = true;
    for (size_t i = l->at; good && i < l->end; i++)
        good = m->original[i] != '|' || keep(m, i, i + 1);
    return good && keep_line_end(m, l);
}

/* html: in a block of HTML, whose components are read as HTML, too. */
static bool take_line(et_md_mask *m, const line *l, bool html)
{
    const line item = in_items(m, *l);
    const size_t stop = html ? item.at : after_component(m, item.at, item.end);
    const size_t note = footnote(m, &item);
    const size_t fence = fence_at(m, item.at + note, l->end);
    if (begins(m, item.at, item.end, ":::") || is_leaf(m, &item))
        return mask_container(m, &item);
    if (stop > item.at && stop <= item.end) {
        if (stop < item.end)
            return keep(m, item.at, stop);
        /* The content of a component becomes an item, so indented lines of it are no code. */
        if (m->original[item.at + 1] != '/')
            return mask_line(m, &item, "- ", stop, stop) && keep_line_end(m, &item);
        blank(m, item.at, stop);
    }
    if (is_admonition(m, &item))
        return mask_admonition(m, &item);
    if (note && fence) {
        memcpy(m->text + item.at, "- ", 2);
        memmove(m->text + item.at + 2, m->original + item.at + note, fence);
        blank(m, item.at + 2 + fence, l->end);
        return true;
    }
    if (note)
        return mask_line(m, &item, "- ", item.at + note, l->end) &&
               (begins(m, item.at, l->end, "[^") || keep_line_end(m, &item));
    if (item.quote && begins(m, item.at, l->end, "[!")) {
        size_t at = find(m, item.at, l->end, "]");
        if (at == item.at + 2 + run(m, item.at + 2, l->end, NAMES)) {
            at += at < l->end;
            at += run(m, at, l->end, "+-");
            return mask_line(m, &item, "# ", at + run(m, at, l->end, " \t"), l->end);
        }
    }
    if (begins(m, l->at, l->end, "[TOC]") || begins(m, l->at, l->end, "[[toc]]") ||
        is_command(m, l))
        blank(m, l->at, l->end);
    return true;
}

/* A line of a definition, ": text" or "~ text", becomes an item; lines before it stay lines. */
static bool take_definition(et_md_mask *m, const line *l, const line *before)
{
    if (!run(m, l->at, l->end, ":~") || (l->at + 1 < l->end && !run(m, l->at + 1, l->end, " \t")))
        return true;
    if (l->at + 1 == l->end) /* no definition, unless the next line joins it */
        return keep_line_end(m, l);
    m->text[l->at] = '-';
    if (before->at == before->end)
        return true;
    size_t from = before->from;
    et_spans ends = { NULL, 0, 0 };
    bool good = true;
    while (good && from && m->original[from - 1] == '\n') {
        size_t start = from - 1;
        while (start && m->original[start - 1] != '\n')
            start--;
        const line previous = line_at(m, start);
        if (previous.at >= previous.end || m->text[previous.at] != m->original[previous.at])
            break;
        good = et_spans_add(&ends, (et_span){ .start = from - 1, .length = 1 });
        from = start;
    }
    while (good && ends.count)
        good = et_spans_add(&m->kept, ends.items[--ends.count]);
    et_spans_release(&ends);
    return good;
}

/* Masks front matter: at the start, between two lines of --- or +++, or between { and }. A ---
 * before an empty line is a rule if no key follows. Returns its bytes. */
static size_t front_matter(et_md_mask *m)
{
    line l = line_at(m, 0);
    const bool yaml = l.end == 3 && begins(m, 0, 3, "---"), json = l.end == 1 && *m->text == '{';
    const char *const end = yaml ? "---" : json ? "}" : "+++";
    if (!yaml && !json && !(l.end == 3 && begins(m, 0, 3, "+++")))
        return 0;
    const size_t at = l.next + run(m, l.next, m->length, " \t\r\n");
    const size_t key = at + run(m, at, m->length, LOWER "_-");
    if (yaml && memchr(m->original + l.next, '\n', at - l.next) &&
        (key == at || !begins(m, key, m->length, ":") || !run(m, key + 1, m->length, " \r\n")))
        return 0;
    while (l.next < m->length) {
        l = line_at(m, l.next);
        if (l.at == l.from && l.end == l.from + strlen(end) &&
            (begins(m, l.from, l.end, end) || (yaml && begins(m, l.from, l.end, "...")))) {
            blank(m, 0, l.end);
            return l.next;
        }
    }
    return 0;
}

/* The end of code that no reader of CommonMark finds: of ::: mermaid of Azure DevOps and
 * :::{code-block} of MyST, before the line that ends it; with fences, also after a fence. 0: no
 * such code. */
static size_t end_of_code(const et_md_mask *m, const line *l, bool fences)
{
    static const char code[] = "mermaid math code code-block code-cell";
    const size_t marks = fences && !l->quote ? fence_at(m, l->at, l->end) : 0;
    const size_t colons = run(m, l->at, l->end, ":");
    const size_t name = l->at + colons + run(m, l->at + colons, l->end, " \t{");
    if (!marks &&
        (colons < 3 || !et_is_listed(code, m->original + name, run(m, name, l->end, NAMES))))
        return 0;
    for (line other = *l;
         other.next < m->length && (marks || other.next - l->from < 8 * MARKUP_MAX);) {
        other = line_at(m, other.next);
        const size_t end = run(m, other.at, other.end, (char[]){ m->original[l->at], 0 });
        if (end >= marks + colons && end == other.end - other.at &&
            other.at - other.from < l->at - l->from + 4)
            return marks ? other.next : other.from;
        if (!marks && (end >= colons || fence_at(m, other.at, other.end)))
            break;
    }
    return 0;
}

bool et_md_mask_open(et_md_mask *m, const char *text, size_t length)
{
    et_assert(text || !length);
    *m = (et_md_mask){ .original = text, .text = et_alloc(length + 1, 1), .length = length };
    if (!m->text)
        return false;
    memcpy(m->text, text, length);
    m->text[length] = 0;
    bool good = true, module = false, options = false, html = false, jsx = false, table = false;
    line before = { 0, 0, 0, 0, false };
    size_t fenced = 0; /* the end of the last fence that MD4C reads */
    for (size_t at = front_matter(m); good && at < length;) {
        const line l = line_at(m, at);
        size_t code = end_of_code(m, &l, at >= fenced);
        const bool empty = l.at == l.end;
        const bool fence = fence_at(m, l.at, l.end);
        const size_t item = in_items(m, l).at;
        const size_t tag = begins(m, item, l.end, "<") ? item + 1 : l.end;
        if (fence && !l.quote && at >= fenced && (!code || (!html && !jsx))) {
            fenced = code ? code : length;
            code = 0;
        }
        html = !empty && !fence && (html || run(m, tag, l.end, LOWER));
        jsx |= at >= fenced && run(m, tag, l.end, UPPER);
        module = !empty && !fence && (module || (before.at == before.end && is_module(m, &l)));
        if (!table && before.at < before.end && is_short_row(m, &l))
            table = good = keep_bars(m, &before);
        table &= !empty;
        const bool option = options && is_option(m, &l);
        options = option || begins(m, l.at, l.end, ":::{");
        if (code || module || option)
            blank(m, l.from, code ? code : l.end);
        else if (table)
            good = good && keep_bars(m, &l);
        else if (!empty)
            good = take_line(m, &l, html) && take_definition(m, &l, &before);
        before = l;
        at = code ? code : l.next;
    }
    return good;
}

void et_md_mask_release(et_md_mask *m)
{
    et_spans_release(&m->kept);
    et_free(m->text);
    m->text = NULL;
}

/* ---- inline ---- */

/* Bytes from `at` to after these words, without an empty line between; 0: they are missing. */
static size_t up_to(const et_md_mask *m, size_t at, size_t skip, const char *words)
{
    const size_t end = m->length - at < MARKUP_MAX ? m->length : at + MARKUP_MAX;
    const size_t found = find(m, at + skip, end, words);
    if (at + skip > end || found == end)
        return 0;
    for (size_t i = at; (i = find(m, i, found, "\n")) < found; i++)
        if (begins_empty(m, i + 1))
            return 0;
    return found + strlen(words) - at;
}

/* Bytes of {{< name >}} with its content up to {{< /name >}}, or of {% name %} up to {% endname %},
 * if the content is code; else 0. */
static size_t code_block(const et_md_mask *m, size_t at)
{
    static const char code[] =
        "code codeblock code-toggle comment highlight katex math mermaid raw verbatim";
    const bool liquid = begins(m, at, m->length, "{%");
    if (!liquid && !begins(m, at, m->length, "{{<") && !begins(m, at, m->length, "{{%"))
        return 0;
    const size_t most = m->length - at < 8 * MARKUP_MAX ? m->length : at + 8 * MARKUP_MAX;
    const size_t skip = at + (liquid ? 2 : 3), from = skip + run(m, skip, most, " -");
    const size_t length = run(m, from, most, NAMES);
    char end[40];
    if (!et_is_listed(code, m->original + from, length))
        return 0;
    snprintf(end, sizeof end, "%s%.*s ", liquid ? "end" : "/", (int)length, m->original + from);
    /* A tag has no content if it closes itself, or if another tag of this name follows. */
    const char *other =
        memmem(m->original + from, most - from, m->original + at, from + length - at);
    const size_t limit = other ? (size_t)(other - m->original) : most;
    const size_t found = find(m, from + length, limit, end), tag = find(m, from, found, "}");
    if (found == limit || m->original[tag - 2] == '/' || begins(m, tag - 4, found, " / "))
        return 0;
    const size_t close = up_to(m, found, 0, liquid ? "}" : "}}");
    return close ? found + close - at : 0;
}

static size_t braces(const et_md_mask *m, size_t at)
{
    static const char *const pairs[][2] = { { "{{<", ">}}" }, { "{{%", "%}}" }, { "{{", "}}" },
                                            { "{%", "%}" },   { "{/*", "*/}" }, { "{:", "}" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (begins(m, at, m->length, pairs[i][0]))
            return up_to(m, at, strlen(pairs[i][0]), pairs[i][1]);
    const size_t comment = begins(m, at, m->length, "{#") ? up_to(m, at, 2, "#}") : 0;
    const size_t first = at + 1 + run(m, at + 1, m->length, " ");
    const size_t name = run(m, first, m->length, NAMES "."); /* items.map(...) is an expression */
    if (comment || begins(m, first + name, m->length, "("))
        return comment ? comment : balanced(m, at + 1, '}');
    return (run(m, first, m->length, ".:#") && run(m, first + 1, m->length, NAMES)) ||
                   (name && begins(m, first + name, m->length, "="))
               ? up_to(m, at, 1, "}")
               : 0;
}

/* Whether only markers of items and quotes precede it in its line. */
static bool begins_block(const et_md_mask *m, size_t at)
{
    size_t from = at;
    while (from && m->original[from - 1] && strchr(DIGITS " \t>-+*.)", m->original[from - 1]))
        from--;
    return (!from || m->original[from - 1] == '\n') && in_items(m, line_at(m, from)).at == at;
}

/* $$ ... $$, with empty lines only if it begins a block; and $...$ without blanks inside its ends
 * or a digit after it. */
static size_t math(const et_md_mask *m, size_t at)
{
    if (begins(m, at, m->length, "$$") && !begins_block(m, at))
        return up_to(m, at, 2, "$$");
    if (begins(m, at, m->length, "$$")) {
        const size_t end = m->length - at < MARKUP_MAX ? m->length : at + MARKUP_MAX;
        const size_t found = find(m, at + 2, end, "$$");
        return found < end ? found + 2 - at : 0;
    }
    if (at + 1 == m->length || strchr(" \t\r\n", m->original[at + 1]))
        return 0;
    for (size_t i = at + 1; i < m->length && i - at < MARKUP_MAX; i++) {
        const char c = m->original[i], next = i + 1 < m->length ? m->original[i + 1] : ' ';
        if (c == '\\')
            i++;
        else if (c == '\n' && begins_empty(m, i + 1))
            return 0;
        else if (c == '$')
            return strchr(" \t\n", m->original[i - 1]) || strchr(DIGITS, next) ? 0 : i + 1 - at;
    }
    return 0;
}

/* Returns the number of letters of the word at `at`. *bytes: its bytes. An ideograph counts as many
 * letters as a usual word. */
static size_t letters(const et_md_mask *m, size_t at, size_t end, size_t *bytes)
{
    size_t count = 0;
    uint32_t code;
    for (*bytes = 0; at + *bytes < end; count += code < 0x2E80 ? 1 : 3) {
        const size_t size = et_utf8_decode(m->original + at + *bytes, end - at - *bytes, &code);
        if (!et_unicode_is_letter(code) || code >> 12 == 0x1D) /* U+1D400: of formulas */
            break;
        *bytes += size;
    }
    return count;
}

/* \(...\), \[...\], \\(...\\) and \\[...\\] of LaTeX. \( and \[ are also escaped brackets: a word
 * of three letters that is no command shows text. */
static size_t delimited(const et_md_mask *m, size_t at, bool *block)
{
    const size_t length = 2 + begins(m, at, m->length, "\\\\");
    char end[4] = { 0 };
    memcpy(end, m->original + at, length);
    *block = end[length - 1] == '[';
    end[length - 1] = *block ? ']' : ')';
    const size_t count = up_to(m, at, length, end);
    for (size_t i = at + length, word; length == 2 && i < at + count; i += word ? word : 1) {
        if (letters(m, i, at + count, &word) > 2 && m->original[i - 1] != '\\' &&
            m->original[i - 1] != '{')
            return 0;
    }
    return count;
}

/* @fig-plot of Quarto, @sec:start and -@name of Pandoc, @scope/name of npm; no e-mail address. */
static size_t reference(const et_md_mask *m, size_t at)
{
    size_t count = run(m, at + 1, m->length, NAMES ":./");
    while (count && strchr("-:./", m->original[at + count]))
        count--;
    const size_t from = at - (at && m->original[at - 1] == '-');
    return run(m, at + 1, m->length, LOWER UPPER) && !(from && run(m, from - 1, from, NAMES ".+%"))
               ? count + (count > 0)
               : 0;
}

/* Bytes of the markup at `at`; 0: none. *block: the markup may have separate lines. */
static size_t markup(const et_md_mask *m, size_t at, bool *block)
{
    size_t count;
    *block = true;
    switch (m->original[at]) {
    case '{':
        return braces(m, at);
    case '<': /* MD4C reads no comment that begins at the end of a line */
        if (begins(m, at, m->length, "<!--") || begins(m, at, m->length, "<%"))
            return up_to(m, at, 2, m->original[at + 1] == '%' ? "%>" : "-->");
        count = run(m, at + 1, m->length, LOWER UPPER) ? balanced(m, at + 1, '>') : 0;
        return run(m, at + 1, m->length, UPPER) || find(m, at, at + count, "={") < at + count
                   ? count
                   : 0;
    case '@':
        *block = false;
        return reference(m, at);
    case '%': /* a comment of Obsidian */
        return begins(m, at, m->length, "%%") && (!at || strchr(" \n", m->original[at - 1]))
                   ? up_to(m, at, 2, "%%")
                   : 0;
    case '+': /* ++ctrl+c++ of MkDocs */
        *block = false;
        count = begins(m, at, m->length, "++")
                    ? run(m, at, m->length - at < 64 ? m->length : at + 64, NAMES "+")
                    : 0;
        return count > 4 && begins(m, at + count - 2, m->length, "++") &&
                       m->original[at + 2] != '+' && !(at && run(m, at - 1, at, NAMES)) &&
                       find(m, at + 2, at + count - 2, "+") < at + count - 2
                   ? count
                   : 0;
    case '$':
        *block = begins(m, at, m->length, "$$");
        return math(m, at);
    case '[':
        *block = false;
        if (begins(m, at, m->length, "[["))
            return up_to(m, at, 2, "]]");
        count = begins(m, at, m->length, "[^") ? up_to(m, at, 2, "]") : 0;
        return count && find(m, at, at + count, " ") == at + count ? count : 0;
    case ':': /* :tada: */
        *block = false;
        count = run(m, at + 1, m->length, LOWER DIGITS "_+-");
        return count > 1 && count < 40 && run(m, at + 1, m->length, "-:") < count &&
                       (!at || !run(m, at - 1, at, NAMES ":]")) &&
                       begins(m, at + 1 + count, m->length, ":") &&
                       !run(m, at + 2 + count, m->length, NAMES)
                   ? count + 2
                   : 0;
    case '\\':
        if (begins(m, at, m->length, "\\@ref("))
            return up_to(m, at, 6, ")");
        if (run(m, at + 1 + begins(m, at, m->length, "\\\\"), m->length, "(["))
            return delimited(m, at, block);
        if (begins(m, at, m->length, "\\begin{")) {
            count = up_to(m, at, 7, "}");
            const size_t most = m->length - at < 4 * MARKUP_MAX ? m->length : at + 4 * MARKUP_MAX;
            const size_t end = find(m, at + count, most, "\\end{");
            return count && end < most ? end + up_to(m, end, 5, "}") - at : 0;
        }
        return 0;
    default:
        return 0;
    }
}

/* Whether the markup has lines of its own: before and after it are only blanks and similar
 * markup. */
static bool has_lines(const et_md_mask *m, size_t from, size_t to)
{
    size_t start = from, count = to - from;
    while (start && strchr(" \t>", m->text[start - 1]))
        start--;
    to += run(m, to, m->length, " \t\r");
    for (int i = 0; i < 16 && count && to < m->length && m->original[to] == '{'; i++) {
        count = braces(m, to);
        to += count;
        to += run(m, to, m->length, " \t\r");
    }
    return (!start || m->text[start - 1] == '\n') && (to == m->length || m->original[to] == '\n');
}

/* Whether a link definition is before `at` in its line: [a]: b.png {width=50%} of Pandoc. */
static bool is_in_definition(const et_md_mask *m, size_t at)
{
    size_t from = at;
    while (from && at - from < MARKUP_MAX && m->original[from - 1] != '\n')
        from--;
    from += run(m, from, at, " \t>");
    return begins(m, from, at, "[") && !begins(m, from, at, "[^") && find(m, from, at, "]:") < at;
}

/* Whether code is in markup that ends at `to`; end: only whether its end is in code. next: the
 * first code after its start. */
static bool has_code(const et_spans *code, size_t next, size_t to, bool end)
{
    for (; next < code->count && code->items[next].start < to; next++) {
        const et_span *c = &code->items[next];
        if (c->kind != ET_SPAN_TAG && (!end || c->start + c->length >= to))
            return true;
    }
    return false;
}

/* Sorts spans by position, because the spans of blocks were added first. */
ET_SORT_BY(compare, et_span, ET_UP(start), 0)

bool et_md_mask_inline(et_md_mask *m, const et_spans *code)
{
    et_assert(code);
    bool good = true, block;
    size_t next = 0, masked = 0;
    const size_t blocks = m->kept.count;
    for (size_t i = 0; good && i < m->length; i++) {
        while (next < code->count && code->items[next].start + code->items[next].length <= i)
            next++;
        while (masked < blocks && m->kept.items[masked].start + m->kept.items[masked].length <= i)
            masked++;
        if (next < code->count && code->items[next].start <= i) {
            i = code->items[next].start + code->items[next].length - 1;
            continue;
        }
        if ((masked < blocks && m->kept.items[masked].start <= i) || m->text[i] != m->original[i])
            continue;
        const size_t whole = code_block(m, i);
        const bool taken = whole && !has_code(code, next, i + whole, true);
        block = true;
        const size_t count = taken ? whole : markup(m, i, &block);
        /* Tags, expressions and attributes may have values with code. */
        if (!count || (!taken && has_code(code, next, i + count, strchr("{<", m->original[i])))) {
            i += m->original[i] == '\\';
            continue;
        }
        if (block && (has_lines(m, i, i + count) || is_in_definition(m, i)))
            blank(m, i, i + count);
        else
            good = keep(m, i, i + count);
        i += count - 1;
    }
    if (m->kept.count)
        qsort(m->kept.items, m->kept.count, sizeof *m->kept.items, compare);
    return good;
}
