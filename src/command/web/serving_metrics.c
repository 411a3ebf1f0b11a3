/* Metrics in Prometheus' text format 0.0.4: help, type and values of each metric. A bucket counts
 * everything up to its limit, so it includes the buckets before it. */
#include "command/web/serving_metrics.h"

#include <etude/version.h>
#include <inttypes.h>

#include "base/assert.h"
#include "base/plain.h"

/* Upper limits in seconds; above the last there is +Inf. */
static const double limits[ET_SERVING_BUCKETS] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                   0.5,   1,    2.5,   5,    10 };

static void count_code(et_serving_metrics *m, int status)
{
    for (int i = 0; i < ET_SERVING_CODES; i++) {
        if (m->code[i].count && m->code[i].status != status)
            continue;
        m->code[i].status = status;
        m->code[i].count++;
        return;
    }
}

/* Buckets are cumulative, and no bucket exceeds the number of timed requests. */
static void sane(const et_serving_metrics *m)
{
    et_assert(m->timed >= 0 && m->seconds >= 0);
    et_assert(m->bucket[0] >= 0 && m->bucket[ET_SERVING_BUCKETS - 1] <= m->timed);
    for (int i = 1; i < ET_SERVING_BUCKETS; i++)
        et_assert(m->bucket[i - 1] <= m->bucket[i]);
    for (int i = 1; i < ET_SERVING_CODES; i++)
        et_assert(m->code[i - 1].count || !m->code[i].count);
}

void et_serving_metrics_add(et_serving_metrics *m, bool of_items, int status, double seconds)
{
    sane(m);
    et_assert(status >= 100 && seconds >= 0);
    et_serving_counts *counts = &m->counts;
    count_code(m, status);
    if (!of_items)
        return;
    counts->requests += status == 200;
    counts->refused += status >= 400 && status < 500 && status != ET_SERVING_GONE;
    counts->gone += status == ET_SERVING_GONE;
    counts->busy += status == 503;
    counts->late += status == 504;
    counts->failed += status >= 500 && status != 503 && status != 504;
    m->timed++;
    m->seconds += seconds;
    for (int i = ET_SERVING_BUCKETS; i-- > 0 && seconds <= limits[i];)
        m->bucket[i]++;
}

static void head(et_strbuf *out, const char *name, const char *type, const char *help)
{
    et_strbuf_printf(out, "# HELP etude_%s %s\n# TYPE etude_%s %s\n", name, help, name, type);
}

static void print_int(et_strbuf *out, const char *name, const char *type, const char *help,
                      int64_t value)
{
    head(out, name, type, help);
    et_strbuf_printf(out, "etude_%s %" PRId64 "\n", name, value);
}

static void print_seconds(const et_serving_metrics *m, et_strbuf *out)
{
    head(out, "request_seconds", "histogram", "From a request's headers to its whole answer.");
    for (int i = 0; i < ET_SERVING_BUCKETS; i++)
        et_strbuf_printf(out, "etude_request_seconds_bucket{le=\"%g\"} %" PRId64 "\n", limits[i],
                         m->bucket[i]);
    et_strbuf_printf(out, "etude_request_seconds_bucket{le=\"+Inf\"} %" PRId64 "\n", m->timed);
    et_strbuf_printf(out, "etude_request_seconds_sum %.6f\n", m->seconds);
    et_strbuf_printf(out, "etude_request_seconds_count %" PRId64 "\n", m->timed);
}

void et_serving_metrics_print(const et_serving_metrics *m, et_strbuf *out,
                              const et_batcher_counts *batcher, int64_t queue, int connections,
                              const char *items)
{
    head(out, "info", "gauge", "What serves, and what items are.");
    et_strbuf_printf(out, "etude_info{version=\"%s\",items=\"%s\"} 1\n", ET_VERSION, items);
    head(out, "requests_total", "counter", "Requests by the status that they were answered with.");
    for (int i = 0; i < ET_SERVING_CODES && m->code[i].count; i++)
        et_strbuf_printf(out, "etude_requests_total{code=\"%d\"} %" PRId64 "\n", m->code[i].status,
                         m->code[i].count);
    print_seconds(m, out);
    print_int(out, "items_total", "counter", "Items answered.", m->counts.items);
    print_int(out, "batches_total", "counter", "Batches of items computed.", batcher->batches);
    head(out, "busy_seconds_total", "counter", "Seconds spent computing batches.");
    et_strbuf_printf(out, "etude_busy_seconds_total %.6f\n", batcher->busy);
    print_int(out, "queue_items", "gauge",
              "Items that wait; a request that is not read yet counts as one.", batcher->waiting);
    print_int(out, "queue_items_max", "gauge", "Items that may wait.", queue);
    print_int(out, "batch_items", "gauge", "Items that are being computed.", batcher->answering);
    print_int(out, "connections", "gauge", "Connections that are open.", connections);
}

/* Prints a label's value: control characters as "\u001b", and the format's special characters
 * escaped. */
static void print_label(et_strbuf *out, const char *value)
{
    char plain[256];
    et_plain_copy(plain, sizeof plain, value);
    for (const char *c = plain; *c; c++) {
        if (*c == '\\' || *c == '"')
            et_strbuf_append_char(out, '\\');
        et_strbuf_append_char(out, *c);
    }
}

void et_serving_counters_print(const et_value *counters, et_strbuf *out)
{
    for (const et_value *c = counters ? counters->first : NULL; c; c = c->next) {
        const char *name = et_value_get(c, "name")->string;
        const char *label = et_value_get(c, "label")->string;
        head(out, name, "counter", et_value_get(c, "help")->string);
        for (const et_value *v = et_value_get(c, "values")->first; v; v = v->next) {
            et_strbuf_printf(out, "etude_%s{%s=\"", name, label);
            print_label(out, v->key);
            et_strbuf_printf(out, "\"} %" PRId64 "\n", v->integer);
        }
    }
}
