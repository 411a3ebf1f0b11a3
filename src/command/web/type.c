#include "command/web/type.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

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

/* Reads a quoted text that begins at *at, and copies its contents as far as there is room. false:
 * the closing quote is missing. */
static bool take_quoted(const char **at, char *out, size_t size)
{
    size_t length = 0;
    for (++*at; **at && **at != '"'; ++*at) {
        *at += **at == '\\' && (*at)[1];
        if (length + 1 < size)
            out[length++] = **at;
    }
    out[length] = 0;
    const bool ends = **at == '"';
    *at += ends;
    return ends;
}

static bool take_value(const char **at, char *out, size_t size)
{
    if (**at == '"')
        return take_quoted(at, out, size);
    const char *from = *at;
    const size_t length = take_token(at), kept = length < size ? length : size - 1;
    memcpy(out, from, kept);
    out[kept] = 0;
    return length > 0;
}

static bool is_utf8(const char *charset)
{
    return !strcasecmp(charset, "utf-8") || !strcasecmp(charset, "utf8");
}

/* Reads "; name=value". false: it has another form, or another character set. */
static bool take_parameter(const char **at)
{
    static const char charset[] = "charset";
    char value[CHARSET_MAX];
    ++*at;
    skip(at, BLANKS);
    if (!**at || **at == ';')
        return true; /* an empty one, which may be */
    const char *name = *at;
    const size_t length = take_token(at);
    if (!length || **at != '=')
        return false;
    ++*at;
    if (!take_value(at, value, sizeof value))
        return false;
    skip(at, BLANKS);
    return length != sizeof charset - 1 || strncasecmp(name, charset, length) != 0 ||
           is_utf8(value);
}

bool et_http_type_read(char type[ET_HTTP_TYPE_MAX], const char *header)
{
    const char *at = header ? header : "";
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
        if (!take_parameter(&at))
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
