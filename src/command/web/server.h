/* An HTTP server that runs in the caller's thread. It passes whole requests to a table of routes,
 * which answers them immediately or later.
 *
 *     static const et_http_route routes[] = {
 *         { "GET", "/health", true, health, NULL, false },
 *         { NULL, NULL, false, NULL, NULL, false },
 *     };
 *     et_http_options options = { .routes = routes, .payload = self, .guard = { .token = NULL } };
 *     if (et_http_open(&http, &listener, &options, &error)) ...
 *     while (!stop)
 *         et_http_run(http, 0.5);
 *     et_http_drain(http);
 *     while (et_http_busy(http))
 *         et_http_run(http, 0.5);
 *     et_http_close(http);
 *
 * The server itself refuses wrong hosts, origins and tokens (guard.h), unknown paths and methods,
 * headers and bodies that are too long, and 0 bytes in a path. Errors are JSON, {"error": "..."}.
 * If the guard shares answers with other origins, the server answers OPTIONS of their browsers. If
 * the end of a request is uncertain (two different lengths, a Transfer-Encoding other than
 * chunked), it is refused and the connection is closed.
 *
 * The number of connections, their bytes, and the times for a request to arrive and an answer to
 * leave are limited. At the limit of connections, a new connection replaces the oldest connection
 * whose next request is not complete. If all connections have complete requests, the new connection
 * waits to be accepted. */
#ifndef ETUDE_COMMAND_WEB_SERVER_H
#define ETUDE_COMMAND_WEB_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/web/guard.h"

/* For the headers of a connection's first request, unless seconds_max is less. */
#define ET_HTTP_HEADER_SECONDS 10

typedef struct et_http et_http;
/* A complete request; valid until it is answered. */
typedef struct et_http_request et_http_request;

typedef struct et_http_route {
    const char *method; /* "GET", also for HEAD, or "POST" */
    const char *path;   /* the whole path */
    bool open;          /* no token is required */
    /* Answers, or keeps the request and has it answered later by the thread of et_http_run. */
    void (*handle)(void *payload, et_http_request *request);
    const char *accept; /* only requests whose header Accept names this type; NULL: all. Must come
                           before a row of the same path for all */
    bool ignores_body;  /* a GET may have a body, which is ignored */
} et_http_route;

typedef struct et_http_options {
    et_http_guard guard;
    const et_http_route *routes; /* ended by a row without a method */
    void *payload;               /* of handle */
    size_t body_max;             /* bytes */
    int connections_max;
    double seconds_max; /* for a request to arrive, and for an answer to leave */
    /* NULL, or called when a client closes the connection of a request that handle has kept. The
     * program must still reply; the reply is dropped. */
    void (*gone)(void *payload, et_http_request *request);
    /* NULL, or called for each answer and each refusal. seconds: since the request began. */
    void (*answered)(void *payload, const et_http_request *request, int status, double seconds);
} et_http_options;

/* Adopts the listener's socket, even after a failure; url and port stay. ET_EFAIL: built without
 * libmicrohttpd. */
int et_http_open(et_http **out, et_listener *listener, const et_http_options *options,
                 et_error *error);
/* Requests that are not answered by then are, with 503. NULL allowed. */
void et_http_close(et_http *http);

/* Waits up to so many seconds for something to do and does it; a signal or et_http_wake ends the
 * wait. */
void et_http_run(et_http *http, double seconds);
/* Call from any thread. */
void et_http_wake(et_http *http);

/* Stops accepting connections. Answers complete requests and then closes their connections. Closes
 * all other connections immediately. */
void et_http_drain(et_http *http);
/* Number of requests that have begun to arrive and are not yet answered completely. After a drain,
 * only requests that have arrived completely count. */
int et_http_busy(const et_http *http);
int et_http_connections(const et_http *http);

/* ---- of a request; texts live as long as the request ---- */

const char *et_http_path(const et_http_request *request);
const char *et_http_header(const et_http_request *request, const char *name); /* NULL: none */
const char *et_http_query(const et_http_request *request, const char *name);  /* NULL: none */
/* The body, terminated; owned by the caller afterwards, free with et_free. NULL: no body. */
char *et_http_take_body(et_http_request *request, size_t *length);

typedef struct et_http_answer {
    int status;       /* of HTTP */
    const char *type; /* "application/json" */
    const void *bytes;
    size_t length;
    bool lasting;       /* bytes outlive the server; otherwise they are copied */
    int retry_after;    /* seconds; 0: not sent */
    const char *policy; /* Content-Security-Policy; NULL: nothing may be loaded */
} et_http_answer;

/* Call once for each request, on the thread of et_http_run. Afterwards the request is freed. */
void et_http_reply(et_http_request *request, const et_http_answer *answer);
/* {"error": text}. */
void et_http_refuse(et_http_request *request, int status, const char *text);

#endif
