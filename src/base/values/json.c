/* Reading goes text -> depth check -> jansson -> values. jansson itself refuses duplicate keys, bad
 * UTF-8, NUL, trailing text and numbers out of range. The depth is checked before, because jansson
 * allows 2048 levels and its tree has no lines.
 *
 * jansson's tree also lacks the texts of numbers. Values are in the order of the text, so the n-th
 * number of the tree is the n-th of the text. */
#include "base/values/json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/numbers/decimal.h"
#include "base/text/unicode.h"
#include "base/values/value.h"

/* Far beyond any file written here; convert's recursion needs little stack for it. */
#define DEPTH_MAX  64
#define LENGTH_MAX ((size_t)128 << 20)

/* Puts the position before the recorded text. name NULL: the caller knows the only line. */
static int fail_at(et_error *error, const char *name, int line, size_t column)
{
    return name ? et_fail_while(error, ET_EFORMAT, "%s:%d:%zu", name, line, column)
                : et_fail_while(error, ET_EFORMAT, "column %zu", column);
}

/* ET_EFORMAT where text nests too deep. Scans the bytes outside strings. jansson refuses unmatched
 * brackets; a text that is not JSON may be refused for its depth. jansson's tree has a few times
 * the size of the text, so LENGTH_MAX is checked too. */
static int check_depth(const char *text, size_t length, const char *name, et_error *error)
{
    int depth = 0, line = 1;
    size_t line_start = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        /* Also counts line ends inside quotes. There the text is not valid JSON, so nobody uses the
         * column. */
        if (c == '\n') {
            line++;
            line_start = i + 1;
        } else if (quoted) {
            i += c == '\\'; /* the byte after it cannot end the string */
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if ((c == '[' || c == '{') && ++depth > DEPTH_MAX) {
            et_fail(error, ET_EFORMAT, "nested deeper than %d levels", DEPTH_MAX);
            return fail_at(error, name, line, i - line_start + 1);
        }
    }
    return ET_OK;
}

/* ---- numbers as written ---- */

/* The part of a text that has not been searched for numbers; it begins outside strings. NULL: no
 * search. */
typedef struct rest {
    const char *at, *end;
} rest;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The next number outside strings, of a text that may not be JSON; NULL: none. */
static const char *next_number(rest *r, size_t *length)
{
    bool quoted = false;
    for (const char *c = r->at; c < r->end; c++) {
        if (quoted) {
            quoted = *c != '"';
            c += *c == '\\'; /* the byte after it cannot end the string */
        } else if (*c == '"') {
            quoted = true;
        } else if (*c == '-' || is_digit(*c)) {
            const char *end = c + 1;
            while (end < r->end && (is_digit(*end) || memchr("+-.eE", *end, 5)))
                end++;
            *length = (size_t)(end - c);
            r->at = end;
            return c;
        }
    }
    r->at = r->end;
    return NULL;
}

/* False: there was no digit. */
static bool skip_digits(const char **at, const char *end)
{
    const char *begin = *at;
    while (*at < end && is_digit(**at))
        ++*at;
    return *at > begin;
}

/* As RFC 8259 has it. */
static bool is_number(const char *at, const char *end)
{
    at += *at == '-';
    if (at + 1 < end && *at == '0' && is_digit(at[1]))
        return false;
    bool sound = skip_digits(&at, end);
    if (sound && at < end && *at == '.')
        sound = ++at < end && skip_digits(&at, end);
    if (sound && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        sound = skip_digits(&at, end);
    }
    return sound && at == end;
}

/* A copy with each number replaced by 0 and blanks, so that jansson reads numbers of any size.
 * Anything else stays for jansson to check. NULL: no memory. */
static char *without_numbers(const char *text, size_t length, et_arena *arena)
{
    char *copy = et_arena_strndup(arena, text, length);
    if (!copy)
        return NULL;
    rest r = { text, text + length };
    size_t size;
    for (const char *number; (number = next_number(&r, &size)) != NULL;)
        if (is_number(number, number + size)) {
            char *to = copy + (number - text);
            memset(to, ' ', size);
            *to = '0';
        }
    return copy;
}

/* The next of r, jansson having found one there. */
static bool convert_number(et_value *to, rest *r)
{
    size_t length;
    const char *number = next_number(r, &length);
    et_assert(number != NULL);
    to->text = et_arena_strndup(to->arena, number, length);
    if (!to->text)
        return false;
    errno = 0;
    const bool whole = strcspn(to->text, ".eE") == length;
    const long long integer = whole ? strtoll(to->text, NULL, 10) : 0;
    to->kind = whole && !errno ? ET_VALUE_INT : ET_VALUE_FLOAT;
    if (to->kind == ET_VALUE_INT)
        to->integer = integer;
    else
        to->real = et_decimal_read(to->text, NULL);
    return true;
}

/* ---- values ---- */

/* ORDER json_type, by designator. Lines of values stay 0: jansson does not report them. */
static const et_value_kind kinds[] = {
    [JSON_OBJECT] = ET_VALUE_DICT, [JSON_ARRAY] = ET_VALUE_LIST, [JSON_STRING] = ET_VALUE_STRING,
    [JSON_INTEGER] = ET_VALUE_INT, [JSON_REAL] = ET_VALUE_FLOAT, [JSON_TRUE] = ET_VALUE_BOOL,
    [JSON_FALSE] = ET_VALUE_BOOL,  [JSON_NULL] = ET_VALUE_NULL,
};

/* Recursion is bounded by check_depth. An item that did not fit into memory fails the whole tree.
 * NULL: no memory. */
static et_value *convert(const json_t *json, et_arena *arena, rest *numbers)
{
    et_value *value = et_value_new(arena, kinds[json_typeof(json)]);
    if (!value)
        return NULL;
    if (numbers->at && json_is_number(json))
        return convert_number(value, numbers) ? value : NULL;
    bool whole = true;
    const char *key;
    json_t *member;
    switch (json_typeof(json)) {
    case JSON_OBJECT: /* in the order of the text: jansson keeps it */
        json_object_foreach((json_t *)json, key, member)
        {
            char *name = et_arena_strdup(arena, key);
            et_value *child = name ? convert(member, arena, numbers) : NULL;
            if (!child)
                return NULL;
            et_value_append(value, name, child);
        }
        break;
    case JSON_ARRAY:
        for (size_t i = 0; i < json_array_size(json); i++) {
            et_value *child = convert(json_array_get(json, i), arena, numbers);
            if (!child)
                return NULL;
            et_value_append(value, NULL, child);
        }
        break;
    case JSON_STRING:
        value->string = et_arena_strdup(arena, json_string_value(json));
        whole = value->string != NULL;
        break;
    case JSON_INTEGER:
        value->integer = json_integer_value(json);
        break;
    case JSON_REAL:
        value->real = json_real_value(json);
        break;
    /* Truth values, and null, for which `boolean` is false. */
    default:
        value->boolean = json_is_true(json);
        break;
    }
    return whole ? value : NULL;
}

/* ---- memory ---- */

/* jansson does not survive a failed allocation: it then refuses most texts, drops a byte of some,
 * and aborts on others. So while it reads for us, its memory comes from an arena, and a failed
 * allocation leaves jansson by longjmp; nothing of it is used afterwards. Allocators that a program
 * has set for jansson keep serving the program. */
typedef struct reading {
    et_arena memory;
    jmp_buf refused;
} reading;

/* initial-exec: exists without an allocation, even if a program loads the library late. */
static _Thread_local reading *current __attribute__((tls_model("initial-exec")));
static json_malloc_t allocate_for_program;
static json_free_t release_for_program;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void *allocate(size_t size)
{
    if (!current)
        return allocate_for_program(size);
    void *memory = et_arena_alloc(&current->memory, size ? size : 1);
    if (!memory)
        longjmp(current->refused, 1);
    return memory;
}

static void release(void *memory)
{
    if (!current)
        release_for_program(memory);
}

static void install(void)
{
    json_get_alloc_funcs(&allocate_for_program, &release_for_program);
    json_set_alloc_funcs(allocate, release);
}

/* ---- reading ---- */

/* JSON_DECODE_ANY: a text may be one number or word. NULL: reason has why. */
static json_t *load(const char *text, size_t length, json_error_t *reason)
{
    return json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, reason);
}

/* written: keeps numbers as they are written. */
static int read_text(et_value **out, et_arena *arena, const char *text, size_t length,
                     const char *name, bool written, et_error *error)
{
    json_error_t reason;
    json_t *json = load(text, length, &reason);
    /* jansson refuses integers beyond 64 bits and reals beyond a double, as et_yaml_resolve does.
     */
    if (!json && written && json_error_code(&reason) == json_error_numeric_overflow) {
        const char *copy = without_numbers(text, length, &current->memory);
        if (!copy)
            return et_alloc_failed(error, name);
        json = load(copy, length, &reason);
    }
    /* Only possible if the program has set other allocators since. */
    if (!json && json_error_code(&reason) == json_error_out_of_memory)
        return et_alloc_failed(error, name);
    /* jansson's own message, with line and column; its column counts characters of that line. */
    if (!json) {
        if (json_error_code(&reason) == json_error_null_character)
            snprintf(reason.text, sizeof reason.text, "\\u0000 is not allowed in a text");
        et_fail(error, ET_EFORMAT, "not JSON: %s%s", reason.text,
                strstr(reason.text, "'NaN'") || strstr(reason.text, "'Infinity'")
                    ? "; JSON has no such number: write null"
                    : "");
        return fail_at(error, name, reason.line, (size_t)reason.column);
    }
    rest numbers = { written ? text : NULL, text + length };
    et_value *value = convert(json, arena, &numbers);
    json_decref(json);
    if (!value)
        return et_alloc_failed(error, name);
    *out = value;
    return ET_OK;
}

/* Checks in this order: length, depth, jansson's own checks. Converts only if all pass. */
static int parse(et_value **out, et_arena *arena, const char *text, size_t length, const char *name,
                 bool written, et_error *error)
{
    const char *whole = name ? name : "the line";
    et_assert(out && arena);
    if (!text)
        return et_fail(error, ET_EDATA, "%s: the text is NULL", whole);
    if (length > LENGTH_MAX)
        return et_fail(error, ET_EFORMAT, "%s has %zu bytes of JSON, more than the limit of %zu",
                       whole, length, LENGTH_MAX);
    int status = check_depth(text, length, name, error);
    if (status)
        return status;
    reading own = { .memory = ET_ARENA_INIT };
    pthread_once(&installed, install);
    current = &own;
    status = setjmp(own.refused) ? et_alloc_failed(error, whole)
                                 : read_text(out, arena, text, length, name, written, error);
    current = NULL;
    et_arena_release(&own.memory);
    return status;
}

int et_json_parse(et_value **out, et_arena *arena, const char *text, size_t length,
                  const char *name, et_error *error)
{
    return parse(out, arena, text, length, name, false, error);
}

int et_json_parse_written(et_value **out, et_arena *arena, const char *text, size_t length,
                          const char *name, et_error *error)
{
    return parse(out, arena, text, length, name, true, error);
}

int et_json_lines_open(et_json_lines *lines, const char *path, size_t most, et_error *error)
{
    size_t length;
    *lines = (et_json_lines){ .arena = ET_ARENA_INIT };
    int status = et_file_read(&lines->text, &length, path, most, error);
    if (status)
        return status;
    lines->at = lines->text;
    lines->end = lines->text + length;
    return ET_OK;
}

int et_json_lines_next(et_json_lines *lines, et_value **line, et_error *error)
{
    const char *from = lines->at, *stop = memchr(from, '\n', (size_t)(lines->end - from));
    et_arena_release(&lines->arena);
    *line = NULL;
    if (!stop)
        return ET_OK;
    lines->at = stop + 1;
    lines->number++;
    return et_json_parse(line, &lines->arena, from, (size_t)(stop - from), NULL, error);
}

void et_json_lines_close(et_json_lines *lines)
{
    et_arena_release(&lines->arena);
    et_free(lines->text);
}

int et_json_write(const char *path, const et_value *value, int indent, const char *end,
                  et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (!et_value_failed(value))
        et_json_print(&text, value, indent);
    et_strbuf_append(&text, end);
    int status = et_value_failed(value) || text.failed
                     ? et_alloc_failed(error, path)
                     : et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    return status;
}

const char *et_json_kind_name(et_value_kind kind)
{
    /* ORDER et_value_kind, by designator. */
    static const char *const names[] = {
        [ET_VALUE_NULL] = "null",      [ET_VALUE_BOOL] = "a truth value",
        [ET_VALUE_INT] = "an integer", [ET_VALUE_FLOAT] = "a number",
        [ET_VALUE_STRING] = "text",    [ET_VALUE_LIST] = "a list",
        [ET_VALUE_DICT] = "an object",
    };
    et_assert((size_t)kind < sizeof names / sizeof names[0]);
    return names[kind];
}

/* Prints JSON of RFC 8259 without jansson, which prints only its own trees, and defines neither the
 * digits of numbers nor the text of a NaN.
 *
 *   dict    {"a":1,"b":[]}      indent 0; else each child on its own line, "a": 1
 *   float   1.0e-08, 4.0        always with a point, so it is read as a float again
 *   NaN     null                JSON has no word for it; infinities too
 *
 * The same tree gives the same bytes on every machine, so files can be compared. The buffer
 * remembers failures of memory. */

/* Appends runs whole; between runs is one escape: \n and \t, a backslash before " and \, \u00XX for
 * other control characters. */
static void print_escaped(et_strbuf *out, const char *text, size_t length)
{
    while (length > 0) {
        /* Bytes that JSON allows inside quotes unescaped; all others come one by one. All of UTF-8
         * above ASCII is allowed. */
        size_t run = 0;
        while (run < length && (unsigned char)text[run] >= 0x20 && text[run] != '"' &&
               text[run] != '\\')
            run++;
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

void et_json_print_mended(et_strbuf *out, const char *text, et_json_print_fn *print_valid)
{
    size_t length = strlen(text), bad;
    /* The valid bytes before the bad byte, a replacement for it, then the rest. */
    while (!et_utf8_valid(text, length, &bad)) {
        print_valid(out, text, bad);
        et_strbuf_append(out, "\xef\xbf\xbd");
        text += bad + 1;
        length -= bad + 1;
    }
    print_valid(out, text, length);
}

void et_json_print_string(et_strbuf *out, const char *text)
{
    et_strbuf_append_char(out, '"');
    et_json_print_mended(out, text, print_escaped);
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

bool et_json_same(const et_value *a, const et_value *b)
{
    et_strbuf one = ET_STRBUF_INIT, other = ET_STRBUF_INIT;
    et_json_print(&one, a, 0);
    et_json_print(&other, b, 0);
    const bool same =
        !one.failed && !other.failed && !strcmp(et_strbuf_text(&one), et_strbuf_text(&other));
    et_strbuf_release(&one);
    et_strbuf_release(&other);
    return same;
}
