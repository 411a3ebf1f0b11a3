/* Addresses of a cluster, "host:port" or "[::1]:port", as socket addresses. */
#ifndef ETUDE_ROLES_WIRE_ADDRESS_H
#define ETUDE_ROLES_WIRE_ADDRESS_H

#include <etude/error.h>

struct addrinfo;

/* Free *out with freeaddrinfo. ET_ECONFIG: not an address, or its host is unknown. */
int et_address_find(struct addrinfo **out, const char *address, et_error *error);

#endif
