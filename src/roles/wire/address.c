#include "roles/wire/wire.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <etude/job_config.h>

const char *const et_job_role_names[] = { "master", "ps", "worker", NULL };

int et_address_find(struct addrinfo **out, const char *address, et_error *error)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    *out = NULL;
    if (!length || length >= sizeof host)
        return et_fail(error, ET_ECONFIG, "%s: not of the form host:port", address);
    bool bracketed = address[0] == '[' && address[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)length - 2 * bracketed, address + bracketed);
    int reason = getaddrinfo(host, colon + 1, &hints, out);
    return reason ? et_fail(error, ET_ECONFIG, "%s: %s", address, gai_strerror(reason)) : ET_OK;
}
