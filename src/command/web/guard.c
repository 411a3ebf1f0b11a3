#include "command/web/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/web/listen.h"

/* Longest name of a host that is examined. */
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

static bool is_added(const et_http_guard *guard, const char *name)
{
    for (int i = 0; i < guard->host_count; i++)
        if (!strcasecmp(name, guard->hosts[i]))
            return true;
    return false;
}

static bool is_this_machine(const char *name)
{
    char own[NAME_MAX_BYTES];
    if (!strcasecmp(name, "localhost"))
        return true;
    if (gethostname(own, sizeof own))
        return false;
    own[sizeof own - 1] = 0;
    return *own && !strcasecmp(name, own);
}

bool et_http_guard_host(const et_http_guard *guard, const char *host)
{
    et_assert(guard && host);
    char name[NAME_MAX_BYTES];
    return split(host, name) &&
           (et_address_is_number(name) || is_added(guard, name) || is_this_machine(name));
}

/* The port of a host that split has taken. */
static int port_of(const char *host, const char *name, int usual)
{
    const char *port = host + strlen(name);
    return port[0] && port[1] ? (int)strtol(port + 1, NULL, 10) : usual;
}

/* "[::1]" and "127.0.0.2" too. */
static bool is_loopback(const char *name)
{
    char plain[NAME_MAX_BYTES];
    snprintf(plain, sizeof plain, "%s", *name == '[' ? name + 1 : name);
    plain[strcspn(plain, "]")] = 0;
    return et_address_is_number(name) && et_address_is_loopback(plain);
}

/* usual: the port of origins that name none. */
static bool is_own_origin(const et_http_guard *guard, const char *origin, int usual,
                          const char *host)
{
    char name[NAME_MAX_BYTES], asked[NAME_MAX_BYTES];
    if (!split(origin, name))
        return false;
    const int port = port_of(origin, name, usual);
    if (is_added(guard, name))
        return true;
    if (split(host, asked) && !strcasecmp(name, asked) && port == port_of(host, asked, usual))
        return true;
    return guard->port && port == guard->port && (is_loopback(name) || is_this_machine(name));
}

static const struct {
    const char *name;
    int port;
} schemes[] = { { "http://", 80 }, { "https://", 443 } };

bool et_http_guard_origin(const et_http_guard *guard, const char *origin, const char *host)
{
    et_assert(guard && origin && host);
    if (et_http_guard_shared(guard, origin))
        return true;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const size_t length = strlen(schemes[i].name);
        if (!strncasecmp(origin, schemes[i].name, length))
            return is_own_origin(guard, origin + length, schemes[i].port, host);
    }
    return false;
}

const char *et_http_guard_shared(const et_http_guard *guard, const char *origin)
{
    et_assert(guard->origin_count >= 0 && origin);
    for (int i = 0; i < guard->origin_count; i++)
        if (!strcmp(guard->origins[i], "*") || !strcmp(guard->origins[i], origin))
            return guard->origins[i];
    return NULL;
}

bool et_http_is_origin(const char *text)
{
    char name[NAME_MAX_BYTES];
    if (!strcmp(text, "*"))
        return true;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const char *host = text + strlen(schemes[i].name);
        if (strncmp(text, schemes[i].name, strlen(schemes[i].name)) != 0 || !split(host, name) ||
            text[strlen(text) - 1] == ':')
            continue;
        return strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") == strlen(host);
    }
    return false;
}

/* ---- tokens ---- */

/* Compares every byte of `given`, whatever it finds, so that the time does not show where the texts
 * differ. */
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

bool et_http_guard_key(const et_http_guard *guard, const char *key)
{
    return !guard->token || (key && is_equal(key, guard->token));
}

int et_http_token_read(char token[ET_TOKEN_MAX + 1], const char *path, et_error *error)
{
    et_assert(path);
    char *text;
    size_t length;
    int status = et_file_read_secret(&text, &length, path, (size_t)1 << 16, error);
    if (status)
        return status;
    size_t count = strcspn(text, "\r\n");
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "-._~+/=");
    if (good < count)
        status = et_fail(
            error, ET_EDATA,
            "%s:1: byte %zu is not allowed in a token; use letters, digits and -._~+/=", path,
            good + 1);
    else if (count < ET_TOKEN_MIN || count > ET_TOKEN_MAX)
        status = et_fail(error, ET_EDATA,
                         "%s:1: the token has %zu characters, not %d to %d; make one with `openssl "
                         "rand -hex 32`",
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
        return et_fail_errno(error, "cannot get random bytes for a token");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return ET_OK;
}
