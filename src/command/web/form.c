#include "command/web/form.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/text/unicode.h"

/* ---- headers ---- */

#define BLANKS " \t"
/* Characters of names and values without quotes. */
#define TOKEN                                                                                      \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"                               \
    "!#$%&'*+-.^_`|~"

/* Longest value of a charset that could be UTF-8. */
#define CHARSET_MAX 16

static void skip(const char **at, const char *bytes)
{
    *at += strspn(*at, bytes);
}

/* Moves over a token; its length. */
static size_t take_token(const char **at)
{
    const size_t length = strspn(*at, TOKEN);
    *at += length;
    return length;
}

/* Reads a quoted text at *at, and copies its contents. false: the closing quote is missing. *fits:
 * the contents fit. */
static bool take_quoted(const char **at, char *out, size_t size, bool *fits)
{
    size_t length = 0;
    for (++*at; **at && **at != '"'; ++*at) {
        *at += **at == '\\' && (*at)[1];
        if (length + 1 < size)
            out[length] = **at;
        length++;
    }
    *fits = length < size;
    out[*fits ? length : size - 1] = 0;
    const bool ends = **at == '"';
    *at += ends;
    return ends;
}

static bool take_value(const char **at, char *out, size_t size, bool *fits)
{
    if (**at == '"')
        return take_quoted(at, out, size, fits);
    const char *from = *at;
    const size_t length = take_token(at), kept = length < size ? length : size - 1;
    memcpy(out, from, kept);
    out[kept] = 0;
    *fits = kept == length;
    return length > 0;
}

/* A parameter, and whether its value is whole. length 0: an empty one. */
typedef struct parameter {
    const char *name;
    size_t length;
    bool fits;
} parameter;

/* Reads "; name=value". false: another form. */
static bool take_parameter(const char **at, parameter *p, char *value, size_t size)
{
    ++*at;
    skip(at, BLANKS);
    *p = (parameter){ .name = *at };
    if (!**at || **at == ';')
        return true; /* an empty one, which may be */
    p->length = take_token(at);
    if (!p->length || **at != '=')
        return false;
    ++*at;
    if (!take_value(at, value, size, &p->fits))
        return false;
    skip(at, BLANKS);
    return true;
}

static bool is_named(const parameter *p, const char *name)
{
    return p->length == strlen(name) && !strncasecmp(p->name, name, p->length);
}

bool et_http_parameter(const char *header, const char *name, char *value, size_t size)
{
    et_assert(header && name && size > 0);
    char other[CHARSET_MAX];
    const char *at = header + strcspn(header, ";");
    parameter p;
    bool found = false;
    while (*at == ';') {
        const char *from = at;
        if (!take_parameter(&at, &p, other, sizeof other))
            return false;
        if (!is_named(&p, name))
            continue;
        if (found || !take_parameter(&from, &p, value, size) || !p.fits)
            return false;
        found = true;
    }
    return found && !*at;
}

bool et_http_type_read(char type[ET_HTTP_TYPE_MAX], const char *header)
{
    const char *at = header ? header : "";
    char value[CHARSET_MAX];
    parameter p;
    skip(&at, BLANKS);
    const char *from = at;
    bool whole = take_token(&at) && *at++ == '/' && take_token(&at);
    const size_t length = (size_t)(at - from);
    if (!whole || length >= ET_HTTP_TYPE_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        type[i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] + 32 : from[i]);
    type[length] = 0;
    skip(&at, BLANKS);
    while (*at == ';')
        if (!take_parameter(&at, &p, value, sizeof value) ||
            (is_named(&p, "charset") &&
             !(p.fits && (!strcasecmp(value, "utf-8") || !strcasecmp(value, "utf8")))))
            return false;
    return !*at;
}

double et_http_accepts(const char *header, const char *type)
{
    double most = 0;
    for (const char *at = header ? header : ""; *at; at += *at == ',') {
        double weight = 1;
        char value[CHARSET_MAX];
        parameter p;
        skip(&at, BLANKS);
        const size_t length = strcspn(at, ";," BLANKS);
        const bool same = length == strlen(type) && !strncasecmp(at, type, length);
        at += length;
        skip(&at, BLANKS);
        while (*at == ';' && take_parameter(&at, &p, value, sizeof value))
            if (is_named(&p, "q"))
                et_decimal_parse(&weight, value, strlen(value));
        most = same && weight > most ? weight : most;
        at += strcspn(at, ",");
    }
    return most;
}

/* A list, whose members may be empty. */
bool et_http_coding_is_identity(const char *header)
{
    static const char identity[] = "identity";
    for (const char *at = header ? header : ""; *at;) {
        skip(&at, BLANKS ",");
        const char *from = at;
        const size_t length = take_token(&at);
        if (length ? length != sizeof identity - 1 || strncasecmp(from, identity, length) != 0
                   : *at != 0)
            return false;
    }
    return true;
}

/* ---- fields ---- */

/* Bytes of a header of a part. */
#define HEADER_MAX 4096

/* value: [length] bytes and a 0. */
static int add_field(et_value *dict, const char *name, char *value, size_t length, et_error *error)
{
    char *to = value;
    size_t bad;
    if (dict->count == ET_FORM_FIELDS_MAX || strlen(name) > ET_FORM_NAME_MAX)
        return et_fail(error, ET_EDATA,
                       "the form has more than %d fields, or a name of more than %d bytes: %.20s",
                       ET_FORM_FIELDS_MAX, ET_FORM_NAME_MAX, name);
    if (memchr(value, 0, length))
        return et_fail(error, ET_EDATA, "the form: %s has a byte 0", name);
    if (!et_utf8_valid(name, strlen(name), &bad))
        return et_fail(error, ET_EDATA, "the form: a name is not UTF-8");
    if (!et_utf8_valid(value, length, &bad))
        return et_fail(error, ET_EDATA, "the form: byte %zu of %s is not UTF-8", bad + 1, name);
    if (et_value_get(dict, name))
        return et_fail(error, ET_EDATA, "the form has %s twice", name);
    for (const char *at = value; *at; at++)
        if (at[0] != '\r' || at[1] != '\n')
            *to++ = *at;
    *to = 0;
    et_value_set_string(dict, name, value);
    return ET_OK;
}

/* ---- urlencoded ---- */

static int digit(char c)
{
    const char lower = (char)(c | 32);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* In place, and adds a 0. A % that begins no byte stays. Returns the length. */
static size_t decode(char *text, size_t length)
{
    char *to = text;
    for (const char *at = text, *end = text + length; at < end; at++) {
        const int high = *at == '%' && end - at > 2 ? digit(at[1]) : -1;
        const int low = high >= 0 ? digit(at[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high << 4 | low);
            at += 2;
        } else {
            *to++ = *at == '+' ? ' ' : *at;
        }
    }
    *to = 0;
    return (size_t)(to - text);
}

static int read_pairs(et_value *dict, char *text, size_t length, et_error *error)
{
    int status = ET_OK;
    for (char *at = text, *end = text + length, *next; at < end && !status; at = next) {
        char *stop = memchr(at, '&', (size_t)(end - at));
        next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        if (stop == at)
            continue;
        char *equals = memchr(at, '=', (size_t)(stop - at));
        char *value = equals ? equals + 1 : stop;
        const size_t count = decode(value, (size_t)(stop - value));
        const size_t name = decode(at, (size_t)((equals ? equals : stop) - at));
        if (memchr(at, 0, name))
            return et_fail(error, ET_EDATA, "the form: a name has a byte 0");
        status = add_field(dict, at, value, count, error);
    }
    return status;
}

/* ---- parts ---- */

/* A line that separates parts. */
typedef struct delimiter {
    char *line;  /* begin of the delimiter, including the line end before it; NULL: none */
    char *after; /* begin of the next part; NULL: this is the last delimiter */
} delimiter;

/* The next delimiter, from `at` on, which is the begin of a line. mark: "\r\n--" and the boundary.
 * A line that only begins like a delimiter belongs to a value. */
static delimiter find_delimiter(char *at, const char *end, const char *mark)
{
    const size_t size = strlen(mark);
    for (bool first = true;; first = false) {
        const bool begins =
            first && (size_t)(end - at) >= size - 2 && !memcmp(at, mark + 2, size - 2);
        char *line = begins ? at : memmem(at, (size_t)(end - at), mark, size);
        if (!line)
            return (delimiter){ .line = NULL };
        char *rest = line + (begins ? size - 2 : size);
        const bool last = end - rest >= 2 && rest[0] == '-' && rest[1] == '-';
        rest += last ? 2 : 0;
        while (rest < end && (*rest == ' ' || *rest == '\t'))
            rest++;
        if (end - rest >= 2 && rest[0] == '\r' && rest[1] == '\n')
            return (delimiter){ line, last ? NULL : rest + 2 };
        if (last && rest == end)
            return (delimiter){ line, NULL };
        at = rest;
    }
}

/* Reads the headers of a part, up to an empty line. *at: moves to the value. */
static int read_headers(char **at, const char *end, int number, char name[ET_FORM_NAME_MAX + 1],
                        et_error *error)
{
    static const char disposition[] = "Content-Disposition:",
                      coding[] = "Content-Transfer-Encoding:";
    bool named = false;
    for (;;) {
        char *stop = memmem(*at, (size_t)(end - *at), "\r\n", 2);
        if (!stop || stop - *at > HEADER_MAX)
            return et_fail(error, ET_EDATA, "the form: part %d has no end of its headers", number);
        char *line = *at;
        *at = stop + 2;
        *stop = 0;
        if (stop == line)
            break;
        if (strlen(line) != (size_t)(stop - line))
            return et_fail(error, ET_EDATA, "the form: a header of part %d has a byte 0", number);
        if (!strncasecmp(line, disposition, sizeof disposition - 1)) {
            if (named || !et_http_parameter(line, "name", name, ET_FORM_NAME_MAX + 1))
                return et_fail(error, ET_EDATA,
                               "the form: part %d needs one name of at most %d bytes: %.100s",
                               number, ET_FORM_NAME_MAX, line);
            named = true;
        } else if (!strncasecmp(line, coding, sizeof coding - 1)) {
            const char *value = line + sizeof coding - 1;
            value += strspn(value, " \t");
            if (strcasecmp(value, "binary") != 0 && strcasecmp(value, "8bit") != 0 &&
                strcasecmp(value, "7bit") != 0)
                return et_fail(error, ET_EDATA,
                               "the form: part %d is encoded (%.100s); send the value as it is",
                               number, line);
        }
    }
    return named ? ET_OK
                 : et_fail(error, ET_EDATA,
                           "the form: part %d has no name; expected the header "
                           "Content-Disposition: form-data; name=\"q\"",
                           number);
}

static int read_parts(et_value *dict, const char *boundary, char *text, size_t length,
                      et_error *error)
{
    char name[ET_FORM_NAME_MAX + 1];
    char *end = text + length;
    const char *mark = et_arena_printf(dict->arena, "\r\n--%s", boundary);
    if (!mark)
        return et_alloc_failed(error, "a form");
    delimiter d = find_delimiter(text, end, mark);
    if (!d.line)
        return et_fail(error, ET_EDATA,
                       "the body is not a form of the type multipart/form-data: no line is "
                       "--%.100s; lines end in CR LF",
                       boundary);
    for (int number = 1; d.after; number++) {
        char *value = d.after;
        int status = read_headers(&value, end, number, name, error);
        if (status)
            return status;
        d = find_delimiter(value, end, mark);
        if (!d.line)
            return et_fail(error, ET_EDATA,
                           "the form ends within part %d: the line --%.100s-- is "
                           "missing",
                           number, boundary);
        *d.line = 0;
        status = add_field(dict, name, value, (size_t)(d.line - value), error);
        if (status)
            return status;
    }
    return ET_OK;
}

int et_form_read(et_value **out, et_arena *arena, const char *boundary, char *text, size_t length,
                 et_error *error)
{
    et_assert(text && !text[length]);
    *out = et_value_dict(arena);
    int status = et_value_failed(*out) ? et_alloc_failed(error, "a form")
                 : boundary            ? read_parts(*out, boundary, text, length, error)
                                       : read_pairs(*out, text, length, error);
    if (!status && et_value_failed(*out))
        status = et_alloc_failed(error, "a form");
    return status;
}
