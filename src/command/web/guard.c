#include "command/web/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"

/* Longest name of a host that is examined. */
#define NAME_MAX_BYTES 256

/* ---- addresses ---- */

#define BACKLOG 128

/* An address of either family. */
typedef struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    };
    socklen_t size;
} address;

static bool parse(address *out, const char *text)
{
    memset(out, 0, sizeof *out);
    if (!strcasecmp(text, "localhost"))
        text = "127.0.0.1";
    if (inet_pton(AF_INET, text, &out->four.sin_addr) == 1) {
        out->four.sin_family = AF_INET;
        out->size = sizeof out->four;
        return true;
    }
    if (inet_pton(AF_INET6, text, &out->six.sin6_addr) == 1) {
        out->six.sin6_family = AF_INET6;
        out->size = sizeof out->six;
        return true;
    }
    return false;
}

bool et_address_is_loopback(const char *text)
{
    address found;
    if (!parse(&found, text))
        return false;
    if (found.any.sa_family == AF_INET)
        return ntohl(found.four.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&found.six.sin6_addr);
}

bool et_address_is_number(const char *text)
{
    et_assert(text);
    char plain[64];
    size_t length = strlen(text);
    address found;
    if (length > 2 && text[0] == '[' && text[length - 1] == ']' && length < sizeof plain) {
        memcpy(plain, text + 1, length - 2);
        plain[length - 2] = 0;
        return parse(&found, plain) && found.any.sa_family == AF_INET6;
    }
    return strcasecmp(text, "localhost") != 0 && parse(&found, text);
}

/* An IPv6 socket accepts only IPv6, so the reachable addresses do not depend on the system's
 * settings. */
static int bind_to(int fd, address *to, int port)
{
    const int on = 1;
    if (to->any.sa_family == AF_INET6)
        to->six.sin6_port = htons((uint16_t)port);
    else
        to->four.sin_port = htons((uint16_t)port);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        (to->any.sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on)))
        return -1;
    if (bind(fd, &to->any, to->size) || listen(fd, BACKLOG))
        return -1;
    return getsockname(fd, &to->any, &to->size);
}

static int fail(const char *text, int port, et_error *error)
{
    if (errno == EADDRINUSE)
        return et_fail(error, ET_EBUSY,
                       "port %d of %s is in use by another server; give another --port N, or "
                       "--port 0 for a free port",
                       port, text);
    if (errno == EADDRNOTAVAIL)
        return et_fail(error, ET_EUSAGE, "--listen %s: this machine has no such address", text);
    if (errno == EACCES)
        return et_fail(error, ET_EDENIED,
                       "no permission to listen on port %d of %s; give a --port of at least 1024",
                       port, text);
    return et_fail_errno(error, "cannot listen on port %d of %s", port, text);
}

int et_listener_open(et_listener *listener, const char *text, int port, et_error *error)
{
    et_assert(text && port >= 0 && port <= 65535);
    address to;
    *listener = (et_listener){ .fd = -1 };
    if (!parse(&to, text))
        return et_fail(
            error, ET_EUSAGE,
            "--listen %s: not a numeric address; give one such as 127.0.0.1, 0.0.0.0 or ::1", text);
    listener->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0 || bind_to(listener->fd, &to, port)) {
        int status = fail(text, port, error);
        et_listener_close(listener);
        return status;
    }
    bool six = to.any.sa_family == AF_INET6;
    char number[INET6_ADDRSTRLEN] = "";
    inet_ntop(to.any.sa_family,
              six ? (const void *)&to.six.sin6_addr : (const void *)&to.four.sin_addr, number,
              sizeof number);
    listener->port = ntohs(six ? to.six.sin6_port : to.four.sin_port);
    snprintf(listener->url, sizeof listener->url, six ? "http://[%s]:%d/" : "http://%s:%d/", number,
             listener->port);
    return ET_OK;
}

void et_listener_close(et_listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}

/* ---- names ---- */

/* "localhost:8080" to "localhost", "[::1]:8080" to "[::1]"; false: not a host and a port. */
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

/* usual: the port of origins without a port. */
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
    /* Also "[::1]" and "127.0.0.2". */
    char plain[NAME_MAX_BYTES];
    snprintf(plain, sizeof plain, "%s", *name == '[' ? name + 1 : name);
    plain[strcspn(plain, "]")] = 0;
    const bool loopback = et_address_is_number(name) && et_address_is_loopback(plain);
    return guard->port && port == guard->port && (loopback || is_this_machine(name));
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

/* Compares every byte of `given` in any case, so that the time does not reveal where the texts
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
