/* Counters of a server, and their text for Prometheus. One thread. */
#ifndef ETUDE_COMMAND_WEB_SERVING_METRICS_H
#define ETUDE_COMMAND_WEB_SERVING_METRICS_H

#include "command/web/batcher.h"

typedef struct et_serving_counts {
    int64_t requests, items; /* answered with 200 */
    int64_t refused;         /* 4xx except the next */
    int64_t gone;            /* ET_SERVING_GONE */
    int64_t busy, late;      /* 503, 504 */
    int64_t failed;          /* other 5xx */
} et_serving_counts;

/* The status of a request whose client closed the connection before the answer; HTTP has no such
 * status. */
#define ET_SERVING_GONE 499

#define ET_SERVING_CODES   64
#define ET_SERVING_BUCKETS 11

typedef struct et_serving_metrics {
    et_serving_counts counts; /* of requests for items */
    struct {
        int status;
        int64_t count;
    } code[ET_SERVING_CODES]; /* of all requests, in the order in which they were first seen */
    int64_t bucket[ET_SERVING_BUCKETS]; /* of requests for items: seconds up to a limit, see .c */
    int64_t timed;
    double seconds;
} et_serving_metrics;

/* An answer: whether it was of a request for items, its status, seconds from the request's headers
 * to the answer's last byte. items of counts are the caller's. */
void et_serving_metrics_add(et_serving_metrics *metrics, bool of_items, int status, double seconds);

/* Appends all counters, with those of the batcher. items: "lines". */
void et_serving_metrics_print(const et_serving_metrics *metrics, et_strbuf *out,
                              const et_batcher_counts *batcher, int64_t queue, int connections,
                              const char *items);

/* Appends a service's counters: a list from its class's count (service.h). */
void et_serving_counters_print(const et_value *counters, et_strbuf *out);

#endif
