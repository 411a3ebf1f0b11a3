/* A service over HTTP: requests become jobs, jobs go to a batcher, and answers go back to the
 * clients.
 *
 *     POST /NAME     of the service's class, and   GET /metrics   for Prometheus
 *                    the class's further paths
 *     GET /          an overview, as JSON          GET /health    200, or 503 once it ends
 *
 * 503 with Retry-After: the queue is full, or the server is ending. 504: the deadline has passed.
 * Accepted requests are answered, also after a stop signal. */
#ifndef ETUDE_COMMAND_WEB_SERVING_H
#define ETUDE_COMMAND_WEB_SERVING_H

#include <signal.h>

#include "command/web/batcher.h"
#include "command/web/server.h"

typedef struct et_serving_counts {
    int64_t requests, items; /* answered with 200 */
    int64_t refused;         /* 4xx except the next */
    int64_t gone;            /* ET_SERVING_GONE */
    int64_t busy, late;      /* 503, 504 */
    int64_t failed;          /* other 5xx */
} et_serving_counts;

typedef struct et_serving_options {
    et_batcher_options batcher; /* all but done and payload */
    et_http_guard guard;
    int connections_max;
    size_t body_max; /* bytes */
    const char *run; /* its directory, for people */
} et_serving_options;

typedef struct et_serving et_serving;

/* Adopts the listener's socket. Answers no requests yet. */
int et_serving_open(et_serving **out, et_listener *listener, const et_serving_options *options,
                    et_error *error);
/* NULL allowed. */
void et_serving_close(et_serving *serving);

/* Serves until *stop is not 0, then answers accepted requests, for at most the time that a client
 * may wait. Returns the number of unanswered requests. */
int et_serving_run(et_serving *serving, const volatile sig_atomic_t *stop);

et_serving_counts et_serving_count(const et_serving *serving);

/* et_service_answer of a text, which it releases. The request fails if the text has failed. */
void et_service_answer_text(et_service_request *request, et_strbuf *text);

#endif
