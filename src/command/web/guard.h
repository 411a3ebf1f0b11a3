/* Access control of a server. Three checks of a request's headers:
 *
 *   Host            a numeric address, localhost, this host's name or one of `hosts`. A page from
 *                   elsewhere whose own name points here (DNS rebinding) has another Host.
 *   Origin          the server's own, if a browser sends one: no page of another site may ask, nor
 *                   one of another port of this machine. Exceptions are listed in `origins`.
 *   Authorization   "Bearer TOKEN", if there is a token. The time of the comparison does not depend
 *                   on where the tokens differ.
 *
 * Everything is borrowed; there is no state. */
#ifndef ETUDE_COMMAND_WEB_GUARD_H
#define ETUDE_COMMAND_WEB_GUARD_H

#include <stdbool.h>

#include <etude/error.h>

#define ET_TOKEN_MIN 16
#define ET_TOKEN_MAX 256

typedef struct et_http_guard {
    const char *token;        /* NULL: no token is required */
    const char *const *hosts; /* [host_count]: further names */
    int host_count;
    int port;                   /* that the server listens on; 0: of no use */
    const char *const *origins; /* [origin_count]: origins whose pages may ask (CORS); "*": all */
    int origin_count;
} et_http_guard;

/* host: value of the header, "localhost:8080". */
bool et_http_guard_host(const et_http_guard *guard, const char *host);
/* origin: "http://localhost:8080"; "null" is allowed only by "*". host: the request's header Host.
 * Allowed are: the request's host and port; the loopback, localhost and this machine's name with
 * the guard's port; the guard's hosts with any port, because a proxy may have another port; and
 * shared origins. */
bool et_http_guard_origin(const et_http_guard *guard, const char *origin, const char *host);
/* The value of the header Access-Control-Allow-Origin for a page of this origin: "*" or the origin;
 * NULL: no header. */
const char *et_http_guard_shared(const et_http_guard *guard, const char *origin);
/* Whether text is an origin as browsers write it, "https://example.org:8443", or "*". */
bool et_http_is_origin(const char *text);
/* authorization NULL: no such header. True if no token is required. */
bool et_http_guard_token(const et_http_guard *guard, const char *authorization);
/* Whether a token alone is right; NULL: no token. True if no token is required. */
bool et_http_guard_key(const et_http_guard *guard, const char *key);

/* Reads the first line of a file as a token of ET_TOKEN_MIN to ET_TOKEN_MAX letters, digits and - .
 * _ ~ + / = . ET_EDATA: it is not a token. ET_EDENIED: others than the owner may read the file. */
int et_http_token_read(char token[ET_TOKEN_MAX + 1], const char *path, et_error *error);
/* 256 random bits in letters and digits. */
int et_http_token_make(char token[ET_TOKEN_MAX + 1], et_error *error);

/* ---- the listening socket ---- */

/* The listening socket of a server. Addresses are numbers, IPv4 or IPv6 ("127.0.0.1", "::1",
 * "0.0.0.0"), or "localhost"; no name is looked up.
 *
 *     et_listener listener;
 *     if (et_listener_open(&listener, "127.0.0.1", 8080, &error)) ...
 *     puts(listener.url);                            "http://127.0.0.1:8080/"
 *     et_listener_close(&listener);
 */

typedef struct et_listener {
    int fd; /* not blocking; -1: closed */
    int port;
    char url[128];
} et_listener;

/* text: a numeric address; port 0: any free port. ET_EBUSY: another process listens there.
 * ET_EUSAGE: not an address. */
int et_listener_open(et_listener *listener, const char *text, int port, et_error *error);
void et_listener_close(et_listener *listener);

/* Whether only programs of this machine can reach the address. */
bool et_address_is_loopback(const char *address);

/* Whether text is an address in numbers, of an IPv6 one also in brackets. */
bool et_address_is_number(const char *text);

#endif
