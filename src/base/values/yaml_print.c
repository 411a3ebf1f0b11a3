/* Prints YAML that every reader understands in the same way, without libyaml's printer, which would
 * copy the tree into events first, and quotes by the rules of YAML 1.1 or never. Strings are plain
 * if they are unambiguous, otherwise in double quotes, the one style that can hold anything.
 *
 *   dict of scalars, list of scalars, list of dicts:
 *     name: demo
 *     sizes: [1, 2]
 *     hooks:
 *       - kind: log
 *         every: 10
 *
 * Invariants: yaml.c reads the printed text back as the same tree (of texts that are UTF-8); a
 * string is quoted whenever et_yaml_resolve, or a reader of YAML 1.1, would not read it as this
 * string. */
#include "base/values/json.h"
#include "base/values/yaml.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text/unicode.h"
#include "base/values/value.h"

/* Columns of a level, and the width of "- ", so that a dict in a list is level with its first
 * key. */
#define INDENT 2

/* Truth values in YAML 1.1 and so for most readers written in Python. */
static const char *const old_truths[] = { "y", "n", "yes", "no", "on", "off", NULL };

/* Only ASCII: isalnum would follow the locale. */
static bool is_alphanumeric(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Whether a string may be printed without quotes: its characters have no meaning in YAML, and it
 * would not be read as another kind. Stricter than YAML, because quotes never harm. */
static bool is_plain(const char *text)
{
    size_t length = strlen(text);
    /* Paths are common in settings and mean nothing in YAML, but a lone "." or ".5" could. */
    bool relative = strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0;
    if (length == 0 || (!is_alphanumeric((unsigned char)text[0]) && text[0] != '/' && !relative))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_alphanumeric((unsigned char)text[i]) && !strchr("./-+=@% ", text[i]))
            return false;
    /* Other readers have more numbers, and dates: 1_000, 0b101, 0X1F, 2024-06-01T12:00:00Z. */
    if (*text >= '0' && *text <= '9' &&
        strspn(text, "0123456789abcdefABCDEFxXoOTZtz_:.+- ") == strlen(text))
        return false;
    for (const char *const *word = old_truths; *word; word++)
        if (strcasecmp(text, *word) == 0)
            return false;
    /* The reader's own rule, asked whether it would take text for a number, a truth value or
     * null. */
    et_value value = { .kind = ET_VALUE_STRING };
    return text[length - 1] != ' ' && et_yaml_resolve(&value, text) &&
           value.kind == ET_VALUE_STRING;
}

/* YAML's printable characters (1.2.2, section 5.1) that are no line break for any reader. */
static bool is_printable(uint32_t code)
{
    return (code >= 0x20 && code < 0x7f) || (code >= 0xa0 && code < 0x2028) ||
           (code > 0x2029 && code < 0xfeff) || (code > 0xfeff && code < 0xfffe) || code >= 0x10000;
}

/* length bytes of valid UTF-8, between the quotes. Escapes of YAML 1.2.2, section 5.7: \" \\ \n \t,
 * \xNN below 0x100, \uNNNN above. No code above 0xffff is unprintable, so \U is not needed. */
static void print_valid(et_strbuf *out, const char *text, size_t length)
{
    for (size_t i = 0, size; i < length; i += size) {
        uint32_t code;
        size = et_utf8_decode(text + i, length - i, &code);
        if (code == '"' || code == '\\')
            et_strbuf_printf(out, "\\%c", (char)code);
        else if (is_printable(code))
            et_strbuf_append_bytes(out, text + i, size);
        else if (code == '\n')
            et_strbuf_append(out, "\\n");
        else if (code == '\t')
            et_strbuf_append(out, "\\t");
        else if (code < 0x100)
            et_strbuf_printf(out, "\\x%02" PRIx32, code);
        else
            et_strbuf_printf(out, "\\u%04" PRIx32, code);
    }
}

/* Prints a string plain or in double quotes. YAML cannot contain bytes that are not UTF-8: each
 * becomes U+FFFD. */
static void print_string(et_strbuf *out, const char *text)
{
    if (is_plain(text)) {
        et_strbuf_append(out, text);
        return;
    }
    et_strbuf_append_char(out, '"');
    et_json_print_mended(out, text, print_valid);
    et_strbuf_append_char(out, '"');
}

/* Values that fit after a key or dash: scalars, empty containers, lists without containers. */
static bool is_inline(const et_value *value)
{
    if (!et_value_is_container(value) || !value->first)
        return true;
    if (value->kind == ET_VALUE_DICT)
        return false;
    for (const et_value *child = value->first; child; child = child->next)
        if (et_value_is_container(child))
            return false;
    return true;
}

/* Prints a value that is_inline accepts on the current line: [a, b], [], {} and scalars. */
static void print_inline(et_strbuf *out, const et_value *value)
{
    switch (value->kind) {
    case ET_VALUE_NULL:
    case ET_VALUE_BOOL:
    case ET_VALUE_INT:
        et_json_print(out, value, 0);
        break;
    case ET_VALUE_FLOAT:
        if (isfinite(value->real))
            et_json_print(out, value, 0);
        else /* JSON has no words for these */
            et_strbuf_append(out, isnan(value->real) ? ".nan" : value->real < 0 ? "-.inf" : ".inf");
        break;
    case ET_VALUE_STRING:
        print_string(out, value->string);
        break;
    case ET_VALUE_DICT:
        et_strbuf_append(out, "{}");
        break;
    case ET_VALUE_LIST:
        et_strbuf_append_char(out, '[');
        for (const et_value *child = value->first; child; child = child->next) {
            print_inline(out, child);
            et_strbuf_append(out, child->next ? ", " : "");
        }
        et_strbuf_append_char(out, ']');
        break;
    }
}

/* Prints the children of a container, one per line. The first follows the caller's text, the others
 * start their own lines at `column`: so a dict in a list begins after its dash. Recursion is as
 * deep as the tree. */
static void print_block(et_strbuf *out, const et_value *value, int column)
{
    for (const et_value *child = value->first; child; child = child->next) {
        if (child != value->first)
            et_strbuf_append_blanks(out, column);
        if (value->kind == ET_VALUE_LIST)
            et_strbuf_append_char(out, '-');
        else
            print_string(out, child->key);
        et_strbuf_append(out, value->kind == ET_VALUE_LIST ? "" : ":");
        if (is_inline(child)) {
            et_strbuf_append_char(out, ' ');
            print_inline(out, child);
            et_strbuf_append_char(out, '\n');
            continue;
        }
        if (value->kind == ET_VALUE_LIST) {
            et_strbuf_append_char(out, ' ');
        } else {
            et_strbuf_append_char(out, '\n');
            et_strbuf_append_blanks(out, column + INDENT);
        }
        print_block(out, child, column + INDENT);
    }
}

/* Ends in a line break, always. */
void et_yaml_print(et_strbuf *out, const et_value *value)
{
    if (is_inline(value)) {
        print_inline(out, value);
        et_strbuf_append_char(out, '\n');
        return;
    }
    print_block(out, value, 0);
}
