/* Addresses of a cluster, "host:port" or "[::1]:port", as socket addresses. */
#ifndef ETUDE_ROLES_WIRE_ADDRESS_H
#define ETUDE_ROLES_WIRE_ADDRESS_H

#include <etude/error.h>

struct addrinfo;

/* *out is yours to free (freeaddrinfo). ET_ECONFIG: it is none, or its host is not known. */
int et_address_find(struct addrinfo **out, const char *address, et_error *error);

#endif
