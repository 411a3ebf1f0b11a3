/* Writes text in the form of a document: escapes, entities and marks of keys. Also counts texts
 * that stay. */
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/unicode.h"
#include "tasks/translation/documents/document_private.h"

/* The entity for the character at text; NULL: none. */
static const et_entity *entity_of(const et_document *d, const char *text, size_t length)
{
    for (size_t i = 0; i < d->entity_count; i++) {
        const size_t count = strlen(d->entities[i].bytes);
        if ((d->entities[i].only || d->written >> i & 1) && count <= length &&
            !memcmp(d->entities[i].bytes, text, count))
            return &d->entities[i];
    }
    return NULL;
}

/* Whether c may be markup of Markdown in a line that begins with out. */
static bool is_mark(char c, const et_strbuf *out)
{
    size_t digits = 0;
    while (digits < out->length && et_ascii_is_digit(out->data[digits]))
        digits++;
    return strchr("\\`*_[]<>~|&", c) || (!out->length && strchr("#-+=:!", c)) ||
           (digits && digits == out->length && strchr(".)", c));
}

/* The text that replaces c, or in Markdown precedes it. xml: the text must not contain ]]>. */
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
               : c == '\n' ? "\\n"
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

/* Bytes of the longest name. */
#define NAME_MAX_BYTES 32

/* HTML's names of U+00A0 to U+00FF, in order. */
static const char latin1[] =
    " nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg "
    "macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 "
    "frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave "
    "Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc "
    "Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave "
    "aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave "
    "iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash "
    "ugrave uacute ucirc uuml yacute thorn yuml ";

static const struct {
    const char *name;
    uint32_t code;
} others[] = {
    { "amp", '&' },      { "apos", '\'' },     { "bull", 0x2022 },  { "euro", 0x20AC },
    { "gt", '>' },       { "hellip", 0x2026 }, { "ldquo", 0x201C }, { "lsaquo", 0x2039 },
    { "lsquo", 0x2018 }, { "lt", '<' },        { "mdash", 0x2014 }, { "ndash", 0x2013 },
    { "bdquo", 0x201E }, { "OElig", 0x152 },   { "oelig", 0x153 },  { "quot", '"' },
    { "rdquo", 0x201D }, { "rsaquo", 0x203A }, { "rsquo", 0x2019 }, { "sbquo", 0x201A },
    { "Scaron", 0x160 }, { "scaron", 0x161 },  { "trade", 0x2122 }, { "zwj", 0x200D },
    { "zwnj", 0x200C },  { "ensp", 0x2002 },   { "emsp", 0x2003 },  { "thinsp", 0x2009 },
};

static uint32_t code_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].name) == length && !memcmp(others[i].name, name, length))
            return others[i].code;
    uint32_t code = 0xA0;
    for (const char *at = latin1 + 1, *end; *at; at = end + 1, code++) {
        end = at + strcspn(at, " ");
        if ((size_t)(end - at) == length && !memcmp(at, name, length))
            return code;
    }
    return 0;
}

/* "160;" or "xA0;". 0: no character. */
static uint32_t code_of_number(const char *digits, size_t length)
{
    static const char values[] = "0123456789abcdef";
    const uint32_t base = *digits == 'x' || *digits == 'X' ? 16 : 10;
    uint32_t code = 0;
    for (size_t i = base == 16; i < length && code < 0x110000; i++) {
        const char c = (char)(digits[i] >= 'A' && digits[i] <= 'F' ? digits[i] + 32 : digits[i]);
        const char *value = memchr(values, c, base);
        if (!value)
            return 0;
        code = code * base + (uint32_t)(value - values);
    }
    return code < 0x20 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : code;
}

static bool is_word(char c)
{
    return et_ascii_is_letter(c) || et_ascii_is_digit(c);
}

/* Letters and digits at text[from], at most NAME_MAX_BYTES. length: of the text. */
static size_t name_length(const char *text, size_t from, size_t length)
{
    size_t count = 0;
    while (from + count < length && count < NAME_MAX_BYTES && is_word(text[from + count]))
        count++;
    return count;
}

size_t et_entity_read(const char *text, size_t length, uint32_t *code)
{
    et_assert(text && code);
    const bool number = length > 1 && text[1] == '#';
    const size_t start = number ? 2 : 1;
    const size_t count = name_length(text, start, length);
    *code = 0;
    if (!count || start + count >= length || text[start + count] != ';')
        return 0;
    *code = number ? code_of_number(text + start, count) : code_of(text + start, count);
    return start + count + 1;
}

size_t et_entity_read_open(const char *text, size_t length, bool value)
{
    et_assert(text);
    size_t count = 1 + name_length(text, 1, length);
    if (value && count < length && text[count] == '=')
        return 0;
    for (; count > 1; count = value ? 0 : count - 1) {
        const uint32_t code = code_of(text + 1, count - 1);
        if (code && code <= 0xFF && code != '\'')
            return count;
    }
    return 0;
}

/* Whether the mark at text[at] is one of a key. */
static bool is_key(const char *text, size_t at)
{
    const char before = at ? text[at - 1] : 0, next = text[at + 1];
    size_t word = at, blanks = 0;
    uint32_t code;
    et_span span;
    for (const char *c = text; *c; c++)
        blanks += *c == ' ';
    while (word && (is_word(text[word - 1]) || text[word - 1] == '_'))
        word--;
    if (!is_word(next) || (text[at] == '&' && et_entity_read(text + at, strlen(text + at), &code)))
        return false;
    for (size_t from = 0; et_span_find(text, strlen(text), from, &span);
         from = span.start + span.length)
        if (at >= span.start && at < span.start + span.length)
            return false;
    if (is_word(before)) /* E_xit, not max_size, R&D or Bad_name in a sentence */
        return et_ascii_is_upper(text[word]) && !et_ascii_is_upper(next) &&
               !et_ascii_is_digit(next) && blanks < 5;
    return text[at] == '&' || et_ascii_is_upper(next) || blanks;
}

bool et_accelerator_find(const char *text, et_accelerator *accelerator, size_t *at)
{
    et_assert(text && accelerator && at);
    if (strchr(text, '\n') || (strchr(text, '&') && strchr(text, '_')))
        return false;
    for (const char *mark = "&_"; *mark; mark++) {
        const char *found = strchr(text, *mark);
        if (!found || strchr(found + 1, *mark) || !is_key(text, (size_t)(found - text)))
            continue;
        *accelerator = (et_accelerator){ *mark, found[1] };
        *at = (size_t)(found - text);
        return true;
    }
    return false;
}

/* Finds the first position of text for the mark. key: 0: any letter or digit. inner: also within a
 * word. Returns text.length if there is none. */
static size_t position_for(const et_strbuf *text, char key, bool inner)
{
    const char *at = et_strbuf_text(text);
    et_span span = { .start = 0 };
    bool more = et_span_find(at, text->length, 0, &span), tag = false;
    for (size_t i = 0; i < text->length; i++) {
        while (more && i >= span.start + span.length)
            more = et_span_find(at, text->length, span.start + span.length, &span);
        tag = at[i] == '<' || (tag && at[i - 1] != '>');
        if (tag || (more && span.kind != ET_SPAN_NUMBER && i >= span.start))
            continue;
        if (at[i] == '\\') {
            i++;
            continue;
        }
        const bool begins = !i || !(is_word(at[i - 1]) || (at[i - 1] & 0x80));
        if (is_word(at[i]) && (begins || inner) &&
            (!key || tolower((unsigned char)at[i]) == tolower((unsigned char)key)))
            return i;
    }
    return text->length;
}

void et_accelerator_insert(et_strbuf *text, et_accelerator a)
{
    et_assert(a.mark);
    et_strbuf out = ET_STRBUF_INIT;
    size_t at = position_for(text, a.key, false);
    if (at == text->length)
        at = position_for(text, a.key, true);
    if (at == text->length)
        at = position_for(text, 0, false);
    if (at < text->length) {
        et_strbuf_append_bytes(&out, text->data, at);
        et_strbuf_append_char(&out, a.mark);
        et_strbuf_append_bytes(&out, text->data + at, text->length - at);
    } else {
        while (at && strchr(".: ", text->data[at - 1]))
            at--;
        et_strbuf_append_bytes(&out, et_strbuf_text(text), at);
        et_strbuf_printf(&out, "(%c%c)", a.mark, toupper((unsigned char)a.key));
        et_strbuf_append_bytes(&out, et_strbuf_text(text) + at, text->length - at);
    }
    et_strbuf_reset(text);
    et_strbuf_append_bytes(text, et_strbuf_text(&out), out.length);
    text->failed |= out.failed;
    et_strbuf_release(&out);
}
