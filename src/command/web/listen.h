/* The listening socket of a server. Addresses are numbers, IPv4 or IPv6 ("127.0.0.1", "::1",
 * "0.0.0.0"), or "localhost"; no name is looked up.
 *
 *     et_listener listener;
 *     if (et_listener_open(&listener, "127.0.0.1", 8080, &error)) ...
 *     puts(listener.url);                            "http://127.0.0.1:8080/"
 *     et_listener_close(&listener);
 */
#ifndef ETUDE_COMMAND_WEB_LISTEN_H
#define ETUDE_COMMAND_WEB_LISTEN_H

#include <stdbool.h>

#include <etude/error.h>

typedef struct et_listener {
    int fd; /* not blocking; -1: closed */
    int port;
    char url[128];
} et_listener;

/* text: a numeric address; port 0: any free port. ET_EBUSY: another process listens there;
 * ET_EUSAGE: not an address. */
int et_listener_open(et_listener *listener, const char *text, int port, et_error *error);
void et_listener_close(et_listener *listener);

/* Whether only programs of this machine can reach the address. */
bool et_address_is_loopback(const char *address);

/* Whether text is an address in numbers, of an IPv6 one also in brackets. */
bool et_address_is_number(const char *text);

#endif
