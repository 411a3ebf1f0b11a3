#include "command/web/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

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

/* An IPv6 socket accepts IPv6 only, so that the system's settings do not change which addresses
 * reach it. */
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
