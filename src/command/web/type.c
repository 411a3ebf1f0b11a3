#include "command/web/type.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"

#define BLANKS " \t"
/* What names and values without quotes are made of. */
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

/* Reads a quoted text that begins at *at, and copies its contents. false: the closing quote is
 * missing. *fits: whether there was room. */
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

static bool is_utf8(const char *charset)
{
    return !strcasecmp(charset, "utf-8") || !strcasecmp(charset, "utf8");
}

/* A parameter, and whether its value is whole. length 0: an empty one. */
typedef struct parameter {
    const char *name;
    size_t length;
    bool fits;
} parameter;

/* Reads "; name=value". false: it has another form. */
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
            (is_named(&p, "charset") && !(p.fits && is_utf8(value))))
            return false;
    return !*at;
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
