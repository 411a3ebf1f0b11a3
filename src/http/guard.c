#include "http/guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"
#include "http/listen.h"

/* Longest name of a host that is looked at. */
#define NAME_MAX_BYTES 256

/* ---- names ---- */

/* "localhost:8080" to "localhost", "[::1]:8080" to "[::1]"; false: it is no host and port. */
static bool split(const char *host, char name[NAME_MAX_BYTES])
{
    const char *end = *host == '[' ? strchr(host, ']') : strchr(host, ':');
    size_t length = !end ? strlen(host) : (size_t)(end - host) + (*host == '[');
    if (*host == '[' && !end)
        return false;
    if (!length || length >= NAME_MAX_BYTES)
        return false;
    memcpy(name, host, length);
    name[length] = 0;
    const char *port = host + length;
    return !*port || (*port == ':' && strspn(port + 1, "0123456789") == strlen(port + 1) &&
                      strlen(port + 1) <= 5);
}

static bool is_ours(const et_http_guard *guard, const char *name)
{
    char own[NAME_MAX_BYTES];
    if (!strcasecmp(name, "localhost") || et_address_is_number(name))
        return true;
    for (int i = 0; i < guard->host_count; i++)
        if (!strcasecmp(name, guard->hosts[i]))
            return true;
    if (gethostname(own, sizeof own))
        return false;
    own[sizeof own - 1] = 0;
    return *own && !strcasecmp(name, own);
}

bool et_http_guard_host(const et_http_guard *guard, const char *host)
{
    char name[NAME_MAX_BYTES];
    return split(host, name) && is_ours(guard, name);
}

bool et_http_guard_origin(const et_http_guard *guard, const char *origin)
{
    static const char *const schemes[] = { "http://", "https://", NULL };
    for (const char *const *scheme = schemes; *scheme; scheme++)
        if (!strncasecmp(origin, *scheme, strlen(*scheme)))
            return et_http_guard_host(guard, origin + strlen(*scheme));
    return false;
}

/* ---- tokens ---- */

/* Looks at every byte of what was given, whatever it finds. */
static bool is_equal(const char *given, const char *token)
{
    size_t length = strlen(token), count = strlen(given);
    unsigned different = length != count;
    for (size_t i = 0; i < count; i++)
        different |= (unsigned char)given[i] ^ (unsigned char)token[i % length];
    return !different;
}

bool et_http_guard_token(const et_http_guard *guard, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (!guard->token)
        return true;
    et_assert(*guard->token);
    if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    return is_equal(authorization + sizeof scheme - 1, guard->token);
}

int et_http_token_read(char token[ET_TOKEN_MAX + 1], const char *path, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, (size_t)1 << 16, error);
    if (status)
        return status;
    size_t count = strcspn(text, "\r\n");
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "-._~+/=");
    if (good < count)
        status = et_fail(error, ET_EDATA,
                         "%s:1: byte %zu cannot be of a token: letters, digits and -._~+/= can",
                         path, good + 1);
    else if (count < ET_TOKEN_MIN || count > ET_TOKEN_MAX)
        status = et_fail(error, ET_EDATA,
                         "%s:1: a token of %zu characters; it needs %d to %d, as from "
                         "`openssl rand -hex 32`",
                         path, count, ET_TOKEN_MIN, ET_TOKEN_MAX);
    if (!status) {
        memcpy(token, text, count);
        token[count] = 0;
    }
    memset(text, 0, length);
    et_free(text);
    return status;
}

int et_http_token_make(char token[ET_TOKEN_MAX + 1], et_error *error)
{
    unsigned char bytes[32];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return et_fail_errno(error, "no random bytes for a token");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return ET_OK;
}
