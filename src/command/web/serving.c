/* Requests of a service. One thread has HTTP and the list of jobs. It does nothing whose time grows
 * with a request: the batcher's threads parse, check and answer a job.
 *
 *   et_http --handle--> job --> batcher: parsed, checked by the service, answered --> freed
 *
 * A job has copies of the headers that it needs, because its request may be refused meanwhile.
 *
 * Jobs are in a list by deadline, which is also the order of arrival. A job past its deadline is
 * answered with 504, and a job whose client has disconnected is dropped. If the batch of such a job
 * is already being computed, the service skips the job. */
#include "command/web/serving.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/service.h>
#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/flag.h"
#include "base/plain.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/web/form.h"
#include "command/web/web.h"

/* ---- metrics ---- */

/* Metrics in Prometheus' text format 0.0.4: help, type and values of each metric. A bucket counts
 * everything up to its limit, so it includes the buckets before it. */

/* The status of a request whose client closed the connection before the answer. HTTP has no such
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
    int64_t bucket[ET_SERVING_BUCKETS]; /* of requests for items: seconds up to a limit */
    int64_t timed;
    double seconds;
} et_serving_metrics;

/* Upper limits in seconds; the last bucket has no limit (+Inf). */
static const double limits[ET_SERVING_BUCKETS] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                   0.5,   1,    2.5,   5,    10 };

/* Buckets are cumulative, and no bucket exceeds the number of timed requests. */
static void metrics_sane(const et_serving_metrics *m)
{
    et_assert(m->timed >= 0 && m->seconds >= 0);
    et_assert(m->bucket[0] >= 0 && m->bucket[ET_SERVING_BUCKETS - 1] <= m->timed);
    for (int i = 1; i < ET_SERVING_BUCKETS; i++)
        et_assert(m->bucket[i - 1] <= m->bucket[i]);
    for (int i = 1; i < ET_SERVING_CODES; i++)
        et_assert(m->code[i - 1].count || !m->code[i].count);
}

/* Counts an answer: whether the request was for items, its status, and the seconds from the
 * request's headers to the answer's last byte. items of counts are the caller's. */
static void serving_metrics_add(et_serving_metrics *m, bool of_items, int status, double seconds)
{
    metrics_sane(m);
    et_assert(status >= 100 && seconds >= 0);
    et_serving_counts *counts = &m->counts;
    for (int i = 0; i < ET_SERVING_CODES; i++)
        if (!m->code[i].count || m->code[i].status == status) {
            m->code[i].status = status;
            m->code[i].count++;
            break;
        }
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

/* ---- the server ---- */

/* Seconds that a request may take to arrive, and an answer to leave. */
#define TRANSFER 60
/* Seconds for transfers after a stop, in addition to the time that requests may wait. */
#define LEAVING 10
/* Seconds between two checks while nothing happens. */
#define IDLE 0.5

#define BUSY "too many requests wait; try again later"

#define ROUTES_MAX     16
#define PATH_MAX_BYTES 80

/* Bytes of the longest boundary of parts (RFC 2046, 5.1.1), with its 0. */
#define BOUNDARY_MAX 71

struct et_serving {
    et_serving_options options;
    const et_service_class *class;
    et_batcher *batcher;
    et_http *http;
    et_http_route routes[ROUTES_MAX];
    char path[PATH_MAX_BYTES]; /* "/" and the name of the class */
    et_job *waiting, **end;    /* for an answer, the earliest deadline first */
    bool stopping;
    et_serving_metrics metrics;
};

/* ---- jobs ---- */

static et_job *new_job(const et_serving *s)
{
    et_job *job = et_alloc_zero(1, sizeof *job);
    if (!job)
        return NULL;
    job->class = s->class;
    job->request.arena = &job->arena;
    job->request.type = job->request.accept = "";
    return job;
}

static void free_job(et_job *job)
{
    if (job->class->release && job->request.payload)
        job->class->release(&job->request);
    et_strbuf_release(&job->answer);
    et_arena_release(&job->arena);
    et_free(job->body);
    et_free(job);
}

/* The list of waiting jobs is sorted by deadline, and each job has its request. */
static void sane(const et_serving *s)
{
    double before = -INFINITY;
    et_job *const *link = &s->waiting;
    et_assert(s->http && s->batcher && s->class);
    et_assert(s->metrics.counts.items >= 0);
    for (; *link; link = &(*link)->later) {
        const et_job *job = *link;
        et_assert(job->link == link);
        et_assert(job->asker && !atomic_load(&job->ended));
        et_assert(job->deadline >= before);
        before = job->deadline;
    }
    et_assert(s->end == link);
}

static void strike_off(et_serving *s, et_job *job)
{
    *job->link = job->later;
    if (job->later)
        job->later->link = job->link;
    else
        s->end = job->link;
}

void et_service_answer(et_service_request *request, const char *bytes, size_t length)
{
    et_job *job = (et_job *)(void *)request; /* its first member */
    et_strbuf_append_bytes(&job->answer, bytes, length);
}

void et_service_answer_text(et_service_request *request, et_strbuf *text)
{
    if (text->failed)
        request->status = et_alloc_failed(&request->error, "an answer");
    else
        et_service_answer(request, et_strbuf_text(text), text->length);
    et_strbuf_release(text);
}

bool et_service_ended(const et_service_request *request)
{
    return atomic_load(&((const et_job *)(const void *)request)->ended);
}

/* The HTTP status tells whose fault a failure is. */
static int http_status(int status)
{
    switch (status) {
    case ET_EUSAGE:
    case ET_ECONFIG:
    case ET_EDATA:
    case ET_EFORMAT:
        return 400;
    case ET_ENOMEM:
        return 503;
    default:
        return 500;
    }
}

/* Answers and frees a job, or reports its failure. */
static void reply(et_http_request *to, et_job *job)
{
    et_service_request *r = &job->request;
    if (!job->refused && !r->status && job->answer.failed)
        r->status = et_alloc_failed(&r->error, "an answer");
    if (job->full) {
        et_http_refuse(to, 503, BUSY);
    } else if (job->refused) {
        et_http_refuse(to, job->refused, r->error.text);
    } else if (r->status) {
        et_http_refuse(to, http_status(r->status), r->error.text);
    } else {
        const et_http_answer answer = { .status = 200,
                                        .type =
                                            r->answer_type ? r->answer_type : "application/json",
                                        .bytes = et_strbuf_text(&job->answer),
                                        .length = job->answer.length };
        et_http_reply(to, &answer);
    }
    free_job(job);
}

/* ---- reading, by a thread of the batcher ---- */

static int refuse_unknown(et_error *error)
{
    et_fail(error, ET_EDENIED, "a token is required: Authorization: Bearer TOKEN");
    return 401;
}

/* Reads the body. 0, or the status of HTTP. */
static int read_body(const et_serving *s, et_job *job, et_error *error)
{
    et_service_request *r = &job->request;
    const size_t mark = et_utf8_mark(r->text, r->length);
    et_value *value = NULL;
    int status = ET_OK;
    if (!strcmp(r->type, ET_SERVICE_FORM) || !strcmp(r->type, ET_SERVICE_PARTS))
        status = et_form_read(&value, &job->arena, job->boundary, r->text, r->length, error);
    else if (!strcmp(r->type, "application/json"))
        status = et_json_parse_written(&value, &job->arena, r->text + mark, r->length - mark,
                                       "the body", error);
    if (!status && value && value->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EDATA, "the body: expected an object, found %s",
                         et_json_kind_name(value->kind));
    if (status)
        return http_status(status);
    r->json = value;
    const et_value *key = job->allowed ? NULL : et_value_get(value, s->class->key);
    if (!job->allowed &&
        !(key && key->kind == ET_VALUE_STRING && et_http_guard_key(&s->options.guard, key->string)))
        return refuse_unknown(error);
    return 0;
}

/* Whether the service is to answer it. */
static bool read_job(void *payload, et_job *job)
{
    const et_serving *s = payload;
    et_service_request *r = &job->request;
    et_service *service = et_batcher_service(s->batcher);
    const int64_t most = s->options.batcher.service.items_max;
    job->refused = read_body(s, job, &r->error);
    if (job->refused)
        return false;
    int status = job->path ? job->path->answer(service, r, &r->error)
                           : s->class->read(service, r, &r->error);
    job->refused = status ? http_status(status) : 0;
    et_assert(r->items >= 0);
    if (!status && r->items > most) {
        et_fail(&r->error, ET_EDATA,
                "%lld %s in one request, more than %lld: send several requests",
                (long long)r->items, s->class->items, (long long)most);
        job->refused = 413;
    }
    return !job->refused && !job->path && r->items;
}

/* ---- requests ---- */

/* Copies the parts of the request that the job needs. Returns 0, or the HTTP status. */
static int take_request(et_serving *s, et_job *job, et_http_request *from, et_error *error)
{
    et_service_request *r = &job->request;
    const char *authorization = et_http_header(from, "Authorization");
    const char *accept = et_http_header(from, "Accept");
    char boundary[BOUNDARY_MAX];
    job->allowed = et_http_guard_token(&s->options.guard, authorization);
    if (!job->allowed && (authorization || !s->class->key))
        return refuse_unknown(error);
    int refused = et_web_check_type(from, s->class->types, &r->type, error);
    if (refused)
        return refused;
    const bool parts = !strcmp(r->type, ET_SERVICE_PARTS);
    if (parts && (!et_http_parameter(et_http_header(from, "Content-Type"), "boundary", boundary,
                                     sizeof boundary) ||
                  !*boundary)) {
        et_fail(error, ET_EDATA, "Content-Type %s: expected one boundary of 1 to %d characters",
                et_http_header(from, "Content-Type"), BOUNDARY_MAX - 1);
        return 400;
    }
    job->body = r->text = et_http_take_body(from, &r->length);
    if (!r->text) {
        et_fail(error, ET_EDATA, "the request has no body");
        return 400;
    }
    r->accept = et_arena_strdup(&job->arena, accept ? accept : "");
    job->boundary = parts ? et_arena_strdup(&job->arena, boundary) : NULL;
    if (r->accept && (job->boundary || !parts))
        return 0;
    et_alloc_failed(error, "a header");
    return 503;
}

/* path NULL: the class's name. */
static void accept_request(et_serving *s, et_http_request *from, const et_service_path *path)
{
    et_error error = ET_ERROR_INIT;
    if (s->stopping) {
        et_http_refuse(from, 503, "the server stops");
        return;
    }
    et_job *job = new_job(s);
    if (!job) {
        et_http_refuse(from, 503, "no memory for the request");
        return;
    }
    int refused = take_request(s, job, from, &error);
    if (refused) {
        et_http_refuse(from, refused, error.text);
        free_job(job);
        return;
    }
    job->path = path;
    job->asker = from;
    job->deadline = et_clock_monotonic() + s->options.batcher.patience;
    job->later = NULL;
    job->link = s->end;
    *s->end = job;
    s->end = &job->later;
    if (et_batcher_put(s->batcher, job))
        return;
    strike_off(s, job);
    free_job(job);
    et_http_refuse(from, 503, BUSY);
}

static void handle_items(void *payload, et_http_request *from)
{
    accept_request(payload, from, NULL);
}

/* ---- other paths ---- */

/* Handles a path of the class. Without a body, answers immediately. */
static void handle_path(void *payload, et_http_request *from)
{
    et_serving *s = payload;
    const et_service_path *path = s->class->paths;
    while (strcmp(path->path, et_http_path(from)) != 0)
        path++;
    if (path->asks) {
        accept_request(s, from, path);
        return;
    }
    et_job *job = new_job(s);
    if (!job) {
        et_http_refuse(from, 503, "no memory for the request");
        return;
    }
    job->request.status =
        path->answer(et_batcher_service(s->batcher), &job->request, &job->request.error);
    reply(from, job);
}

static void reply_value(et_http_request *to, int status, const et_value *value)
{
    et_strbuf out = ET_STRBUF_INIT;
    if (et_value_failed(value)) {
        et_http_refuse(to, 503, "no memory for the answer");
        return;
    }
    et_json_print(&out, value, 2);
    et_strbuf_append_char(&out, '\n');
    et_web_reply_text(to, status, "application/json", &out);
    et_strbuf_release(&out);
}

static void handle_health(void *payload, et_http_request *from)
{
    const et_serving *s = payload;
    et_arena arena = ET_ARENA_INIT;
    et_value *facts = et_value_dict(&arena);
    et_value_set_string(facts, "status", s->stopping ? "stopping" : "ok");
    reply_value(from, s->stopping ? 503 : 200, facts);
    et_arena_release(&arena);
}

static void handle_metrics(void *payload, et_http_request *from)
{
    et_serving *s = payload;
    et_strbuf out = ET_STRBUF_INIT;
    const et_batcher_counts counts = et_batcher_count(s->batcher);
    const et_serving_metrics *m = &s->metrics;
    head(&out, "info", "gauge", "Version of the server, and the unit that an item is.");
    et_strbuf_printf(&out, "etude_info{version=\"%s\",items=\"%s\"} 1\n", ET_VERSION,
                     s->class->items);
    head(&out, "requests_total", "counter", "Requests by the status that they were answered with.");
    for (int i = 0; i < ET_SERVING_CODES && m->code[i].count; i++)
        et_strbuf_printf(&out, "etude_requests_total{code=\"%d\"} %" PRId64 "\n", m->code[i].status,
                         m->code[i].count);
    head(&out, "request_seconds", "histogram", "From a request's headers to its whole answer.");
    for (int i = 0; i < ET_SERVING_BUCKETS; i++)
        et_strbuf_printf(&out, "etude_request_seconds_bucket{le=\"%g\"} %" PRId64 "\n", limits[i],
                         m->bucket[i]);
    et_strbuf_printf(&out, "etude_request_seconds_bucket{le=\"+Inf\"} %" PRId64 "\n", m->timed);
    et_strbuf_printf(&out, "etude_request_seconds_sum %.6f\n", m->seconds);
    et_strbuf_printf(&out, "etude_request_seconds_count %" PRId64 "\n", m->timed);
    print_int(&out, "items_total", "counter", "Items answered.", m->counts.items);
    print_int(&out, "batches_total", "counter", "Batches of items computed.", counts.batches);
    head(&out, "busy_seconds_total", "counter", "Seconds spent computing batches.");
    et_strbuf_printf(&out, "etude_busy_seconds_total %.6f\n", counts.busy);
    print_int(&out, "queue_items", "gauge",
              "Waiting items; a request that is not read yet counts as one item.", counts.waiting);
    print_int(&out, "queue_items_max", "gauge", "Items that may wait.", s->options.batcher.queue);
    print_int(&out, "batch_items", "gauge", "Items that are being computed.", counts.answering);
    print_int(&out, "connections", "gauge", "Connections that are open.",
              et_http_connections(s->http));
    et_arena arena = ET_ARENA_INIT;
    et_value *counters = et_value_list(&arena);
    if (s->class->count)
        s->class->count(et_batcher_service(s->batcher), counters);
    if (et_value_failed(counters))
        out.failed = true;
    else {
        /* Appends a service's counters: a list from its class's count (service.h). */
        for (const et_value *c = counters ? counters->first : NULL; c; c = c->next) {
            const char *name = et_value_get(c, "name")->string;
            const char *label = et_value_get(c, "label")->string;
            head(&out, name, "counter", et_value_get(c, "help")->string);
            for (const et_value *v = et_value_get(c, "values")->first; v; v = v->next) {
                et_strbuf_printf(&out, "etude_%s{%s=\"", name, label);
                print_label(&out, v->key);
                et_strbuf_printf(&out, "\"} %" PRId64 "\n", v->integer);
            }
        }
    }
    et_web_reply_text(from, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
    et_arena_release(&arena);
    et_strbuf_release(&out);
}

/* The page where a person types input and sees the model's answer; its script requests the other
 * paths. */
static void handle_page(void *payload, et_http_request *from)
{
    (void)payload;
    et_web_reply_page(from, et_serve_page, et_serve_page_length);
}

static void handle_root(void *payload, et_http_request *from)
{
    et_serving *s = payload;
    et_arena arena = ET_ARENA_INIT;
    et_value *all = et_value_dict(&arena), *paths;
    et_value_set_string(all, "server", "etude " ET_VERSION);
    et_value_set_string(all, "run", s->options.run);
    if (s->class->describe)
        s->class->describe(et_batcher_service(s->batcher), all);
    et_value_set_int(all, "items_max", s->options.batcher.service.items_max);
    if (!et_value_get(all, "example"))
        et_value_set_string(all, "example", s->class->example);
    paths = et_value_set_list(all, "paths");
    for (const et_http_route *route = s->routes; route->method; route++)
        if (!route->accept)
            et_value_add_string(paths,
                                et_arena_printf(&arena, "%s %s", route->method, route->path));
    reply_value(from, 200, all);
    et_arena_release(&arena);
}

/* ---- the loop ---- */

static void wake(void *payload)
{
    et_http_wake(((et_serving *)payload)->http);
}

static void count_answer(void *payload, const et_http_request *request, int status, double seconds)
{
    et_serving *s = payload;
    const char *path = et_http_path(request);
    serving_metrics_add(&s->metrics, path && !strcmp(path, s->path), status, seconds);
}

static void reply_to_done(et_serving *s)
{
    et_job *job;
    while ((job = et_batcher_take(s->batcher)) != NULL) {
        if (!job->asker) { /* nobody waits */
            free_job(job);
            continue;
        }
        et_assert(s->waiting);
        strike_off(s, job);
        if (!job->request.status && !job->refused && !job->full)
            s->metrics.counts.items += job->request.items;
        reply(job->asker, job);
    }
}

/* Refuses a waiting request. If its job is being answered, the service skips the job. */
static void give_up(et_serving *s, et_job *job, int status, const char *why)
{
    et_http_request *to = job->asker;
    et_assert(to && status >= 400);
    strike_off(s, job);
    job->asker = NULL;
    if (et_batcher_withdraw(s->batcher, job))
        free_job(job);
    et_http_refuse(to, status, why);
}

static void give_up_gone(void *payload, et_http_request *request)
{
    et_serving *s = payload;
    et_job *job = s->waiting;
    while (job && job->asker != request)
        job = job->later;
    et_assert(job);
    give_up(s, job, ET_SERVING_GONE, "the client has closed the connection");
}

static void turn(et_serving *s)
{
    double wait = IDLE;
    sane(s);
    if (s->waiting) {
        double left = s->waiting->deadline - et_clock_monotonic();
        wait = left < 0 ? 0 : left < wait ? left : wait;
    }
    et_http_run(s->http, wait);
    reply_to_done(s);
    double now = et_clock_monotonic();
    while (s->waiting && s->waiting->deadline <= now)
        give_up(s, s->waiting, 504, "no answer within the time limit of a request");
}

int et_serving_run(et_serving *s, const volatile sig_atomic_t *stop)
{
    while (!et_flag_is_set(stop))
        turn(s);
    et_http_drain(s->http);
    /* Accepts requests that arrived before. */
    turn(s);
    s->stopping = true;
    const double until = et_clock_monotonic() + s->options.batcher.patience + LEAVING;
    while (et_http_busy(s->http) && et_clock_monotonic() < until)
        turn(s);
    return et_http_busy(s->http);
}

et_serving_counts et_serving_count(const et_serving *s)
{
    return s->metrics.counts;
}

/* ---- opening ---- */

static void set_routes(et_serving *s)
{
    snprintf(s->path, sizeof s->path, "/%s", s->class->name);
    /* A body may have the token, so the handler looks for it. */
    const bool keyed = s->class->key != NULL;
    const et_http_route rows[] = {
        { "GET", "/", true, handle_page, "text/html", false },
        { "GET", "/", false, handle_root, NULL, false },
        { "POST", s->path, keyed, handle_items, NULL, false },
        { "GET", "/health", true, handle_health, NULL, false },
        { "GET", "/metrics", false, handle_metrics, NULL, false },
    };
    _Static_assert(sizeof rows < sizeof s->routes, "the last row ends them");
    memcpy(s->routes, rows, sizeof rows);
    et_http_route *next = s->routes + sizeof rows / sizeof *rows;
    for (const et_service_path *p = s->class->paths; p && p->path; p++) {
        et_assert(next + 2 < s->routes + ROUTES_MAX);
        if (!p->asks)
            *next++ = (et_http_route){ "GET", p->path, p->open, handle_path, NULL, true };
        *next++ = (et_http_route){ "POST", p->path, p->open || keyed, handle_path, NULL, false };
    }
}

static int open_all(et_serving *s, et_listener *listener, et_error *error)
{
    const et_http_options http = { .guard = s->options.guard,
                                   .routes = s->routes,
                                   .payload = s,
                                   .body_max = s->options.body_max,
                                   .connections_max = s->options.connections_max,
                                   .seconds_max = TRANSFER,
                                   .gone = give_up_gone,
                                   .answered = count_answer };
    et_batcher_options batcher = s->options.batcher;
    batcher.read = read_job;
    batcher.done = wake;
    batcher.payload = s;
    int status = et_http_open(&s->http, listener, &http, error);
    return status ? status : et_batcher_open(&s->batcher, &batcher, error);
}

int et_serving_open(et_serving **out, et_listener *listener, const et_serving_options *options,
                    et_error *error)
{
    *out = NULL;
    et_serving *s;
    if (ET_ALLOC_ZERO(s, 1, "a server", error)) {
        et_listener_close(listener);
        return ET_ENOMEM;
    }
    s->options = *options;
    s->class = options->batcher.class;
    s->end = &s->waiting;
    set_routes(s);
    int status = open_all(s, listener, error);
    if (status)
        et_serving_close(s);
    else
        *out = s;
    return status;
}

/* Jobs that nobody gets are freed: the batcher's thread is over before. */
void et_serving_close(et_serving *s)
{
    if (!s)
        return;
    while (s->waiting)
        give_up(s, s->waiting, 503, "the server stops");
    if (s->batcher)
        et_batcher_stop(s->batcher);
    for (et_job *job; s->batcher && (job = et_batcher_take(s->batcher));)
        free_job(job);
    et_batcher_close(s->batcher);
    et_http_close(s->http);
    et_free(s);
}

/* ---- values of a request's JSON, for all services ---- */

int et_service_number(const et_service_request *request, const char *key, int64_t least,
                      int64_t most, int64_t otherwise, int64_t *out, et_error *error)
{
    et_assert(key && least <= most && out);
    const et_value *value = et_value_get(request->json, key);
    *out = otherwise;
    if (!value)
        return ET_OK;
    if (value->kind != ET_VALUE_INT || value->integer < least || value->integer > most)
        return et_fail(error, ET_EDATA, "%s: expected a whole number from %lld to %lld", key,
                       (long long)least, (long long)most);
    *out = value->integer;
    return ET_OK;
}

int et_service_keys(const et_service_request *request, const char *const *keys, et_error *error)
{
    et_assert(keys);
    for (const et_value *v = request->json ? request->json->first : NULL; v; v = v->next) {
        if (et_is_one_of(v->key, keys))
            continue;
        char all[256] = "";
        for (size_t i = 0; keys[i]; i++) {
            size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", keys[i]);
        }
        return et_fail(error, ET_EDATA, "unknown key %.64s%s; known keys: %s", v->key,
                       et_nearest_hint(v->key, keys, "").text, all);
    }
    return ET_OK;
}
