/* Prints JSON of RFC 8259 without jansson, which prints only its own trees, and defines neither the
 * digits of numbers nor the text of a NaN.
 *
 *   dict    {"a":1,"b":[]}      indent 0; else each child on its own line, "a": 1
 *   float   1.0e-08, 4.0        always with a point, so it is read as a float again
 *   NaN     null                JSON has no word for it; infinities too
 *
 * The same tree gives the same bytes on every machine, so files can be compared. The buffer
 * remembers failures of memory. */
#include "base/values/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/unicode.h"

/* Bytes that JSON allows inside quotes unescaped; all others come one by one. All of UTF-8 above
 * ASCII is allowed. */
static size_t plain_run(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && (unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\')
        i++;
    return i;
}

/* Appends runs whole; between runs is one escape: \n and \t, a backslash before " and \, \u00XX for
 * other control characters. */
static void print_escaped(et_strbuf *out, const char *text, size_t length)
{
    while (length > 0) {
        size_t run = plain_run(text, length);
        et_strbuf_append_bytes(out, text, run);
        text += run;
        length -= run;
        if (length == 0)
            return;
        /* Short forms where a file may well have them. */
        if (*text == '\n')
            et_strbuf_append(out, "\\n");
        else if (*text == '\t')
            et_strbuf_append(out, "\\t");
        else if (*text == '"' || *text == '\\')
            et_strbuf_printf(out, "\\%c", *text);
        else
            et_strbuf_printf(out, "\\u%04x", (unsigned)(unsigned char)*text);
        text++;
        length--;
    }
}

void et_json_print_string(et_strbuf *out, const char *text)
{
    size_t length = strlen(text), bad;
    et_strbuf_append_char(out, '"');
    /* The valid bytes before the bad byte, a replacement for it, then the rest. */
    while (!et_utf8_valid(text, length, &bad)) {
        print_escaped(out, text, bad);
        et_strbuf_append(out, "\xef\xbf\xbd");
        text += bad + 1;
        length -= bad + 1;
    }
    print_escaped(out, text, length);
    et_strbuf_append_char(out, '"');
}

/* A line break and the columns of depth; nothing in compact style. */
static void print_break(et_strbuf *out, int indent, int depth)
{
    if (indent > 0)
        et_strbuf_append_char(out, '\n');
    et_strbuf_append_blanks(out, indent * depth);
}

/* As deep as the tree, which a reader has limited or a program has written out. */
static void print(et_strbuf *out, const et_value *value, int indent, int depth);

/* An empty container stays on its line: [] and {}. */
static void print_children(et_strbuf *out, const et_value *value, int indent, int depth)
{
    bool dict = value->kind == ET_VALUE_DICT;
    et_strbuf_append_char(out, dict ? '{' : '[');
    for (const et_value *child = value->first; child; child = child->next) {
        print_break(out, indent, depth + 1);
        if (dict) {
            et_json_print_string(out, child->key);
            et_strbuf_append(out, indent > 0 ? ": " : ":");
        }
        print(out, child, indent, depth + 1);
        if (child->next)
            et_strbuf_append_char(out, ',');
    }
    /* The closing bracket is below the line that opened it. */
    if (value->first)
        print_break(out, indent, depth);
    et_strbuf_append_char(out, dict ? '}' : ']');
}

static void print(et_strbuf *out, const et_value *value, int indent, int depth)
{
    /* Without a default: a new kind does not compile unnoticed. */
    switch (value->kind) {
    case ET_VALUE_NULL:
        et_strbuf_append(out, "null");
        break;
    case ET_VALUE_BOOL:
        et_strbuf_append(out, value->boolean ? "true" : "false");
        break;
    case ET_VALUE_INT:
        et_strbuf_printf(out, "%" PRId64, value->integer);
        break;
    /* A finite number reads back with the same bits. */
    case ET_VALUE_FLOAT:
        if (isfinite(value->real))
            et_strbuf_append_double(out, value->real);
        else
            et_strbuf_append(out, "null");
        break;
    case ET_VALUE_STRING:
        et_json_print_string(out, value->string);
        break;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        print_children(out, value, indent, depth);
        break;
    }
}

/* indent: columns of a level. */
void et_json_print(et_strbuf *out, const et_value *value, int indent)
{
    et_assert(value && indent >= 0);
    print(out, value, indent, 0);
}
