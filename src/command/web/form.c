#include "command/web/form.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "base/values/value.h"
#include "command/web/type.h"

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
    char *line;  /* its line end before it belongs to it; NULL: there is none */
    char *after; /* where the next part begins; NULL: it is the last delimiter */
} delimiter;

/* The next delimiter from at on, where a line begins. mark: "\r\n--" and the boundary. A line that
 * only begins like a delimiter belongs to a value. */
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
        return et_alloc_failed(error, strlen(boundary), "a form");
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
    int status = et_value_failed(*out) ? et_alloc_failed(error, length, "a form")
                 : boundary            ? read_parts(*out, boundary, text, length, error)
                                       : read_pairs(*out, text, length, error);
    if (!status && et_value_failed(*out))
        status = et_alloc_failed(error, length, "a form");
    return status;
}
