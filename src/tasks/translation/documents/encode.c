/* Text as a document writes it, and the count of what stays as it is. */
#include <string.h>

#include "base/assert.h"
#include "tasks/translation/documents/document_private.h"

/* The entity of the character at text; NULL: none. */
static const et_entity *entity_of(const et_document *d, const char *text, size_t length)
{
    for (size_t i = 0; i < d->entity_count; i++) {
        const size_t count = strlen(d->entities[i].bytes);
        if (count <= length && !memcmp(d->entities[i].bytes, text, count))
            return &d->entities[i];
    }
    return NULL;
}

/* Whether c may be markup of Markdown in a line that begins with out. */
static bool is_mark(char c, const et_strbuf *out)
{
    size_t digits = 0;
    while (digits < out->length && out->data[digits] >= '0' && out->data[digits] <= '9')
        digits++;
    return strchr("\\`*_[]<>~|&", c) || (!out->length && strchr("#-+=:!", c)) ||
           (digits && digits == out->length && strchr(".)", c));
}

/* What is written in place of c; of Markdown, in front of it. xml: its text must not have ]]>. */
static const char *escape_of(et_escape escape, char c, bool xml, const et_strbuf *out)
{
    const bool after_brackets =
        c == '>' && xml && out->length > 1 && !memcmp(out->data + out->length - 2, "]]", 2);
    if (escape == ET_ESCAPE_SINGLE && c == '\'')
        return "&#39;";
    if (escape == ET_ESCAPE_DOUBLE && c == '"')
        return "&quot;";
    if ((escape == ET_ESCAPE_RESOURCE || escape == ET_ESCAPE_RESOURCE_CDATA) &&
        (c == '\'' || c == '"' || c == '\\'))
        return c == '"' ? "\\\"" : c == '\\' ? "\\\\" : "\\'";
    switch (escape) {
    case ET_ESCAPE_SINGLE:
    case ET_ESCAPE_DOUBLE:
    case ET_ESCAPE_MARKUP:
    case ET_ESCAPE_RESOURCE:
        return c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' && after_brackets ? "&gt;" : NULL;
    case ET_ESCAPE_CDATA:
    case ET_ESCAPE_RESOURCE_CDATA:
        return c == '>' && after_brackets ? "]]><![CDATA[>" : NULL;
    case ET_ESCAPE_PO:
        return c == '"'    ? "\\\""
               : c == '\\' ? "\\\\"
               : c == '\t' ? "\\t"
               : c == '\r' ? "\\r"
                           : NULL;
    case ET_ESCAPE_MD_MARKS:
        return is_mark(c, out) ? "\\" : NULL;
    default:
        return NULL;
    }
}

void et_document_encode(const et_document *d, et_escape escape, const char *text, size_t length,
                        et_strbuf *out)
{
    et_assert(text || !length);
    for (size_t i = 0; i < length; i++) {
        const et_entity *entity = escape == ET_ESCAPE_CDATA || escape == ET_ESCAPE_RESOURCE_CDATA
                                      ? NULL
                                      : entity_of(d, text + i, length - i);
        const char *escaped = entity
                                  ? entity->written
                                  : escape_of(escape, text[i], d->format == ET_DOCUMENT_XML, out);
        if (escaped)
            et_strbuf_append(out, escaped);
        if (!escaped && escape == ET_ESCAPE_PO && (unsigned char)text[i] < ' ')
            et_strbuf_printf(out, "\\%03o", (unsigned)text[i]);
        else if (!escaped || (escape == ET_ESCAPE_MD_MARKS && !entity))
            et_strbuf_append_char(out, text[i]);
        if (entity)
            i += strlen(entity->bytes) - 1;
    }
}

void et_document_encode_span(const et_document *d, et_escape escape, const et_span *span,
                             const char *bytes, et_strbuf *out)
{
    et_assert(span && bytes && out);
    if (span->kind == ET_SPAN_TAG)
        et_strbuf_append_bytes(out, bytes, span->length);
    else
        et_document_encode(d, escape, bytes, span->length, out);
}

void et_document_count_kept(et_document *d, size_t line)
{
    size_t *lines = d->counts.kept_lines, i = ET_DOCUMENT_KEPT_LINES;
    d->counts.kept++;
    for (size_t k = 0; k < ET_DOCUMENT_KEPT_LINES; k++)
        if (lines[k] == line)
            return;
    while (i && (!lines[i - 1] || lines[i - 1] > line))
        i--;
    if (i == ET_DOCUMENT_KEPT_LINES)
        return;
    memmove(lines + i + 1, lines + i, (ET_DOCUMENT_KEPT_LINES - i - 1) * sizeof *lines);
    lines[i] = line;
}
