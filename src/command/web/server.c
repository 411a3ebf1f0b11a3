/* The HTTP server with libmicrohttpd, which parses requests and writes answers. Only this file uses
 * the library. It runs in the caller's thread (MHD_run with an epoll descriptor), so handlers need
 * no locks.
 *
 *   headers --judge--> body, kept or dropped --> handle --> answered, or suspended until answered
 *
 * A refused request is still read to its end, within the bounds, because a client that still sends
 * may lose an early answer. If the end of a request is uncertain, the server closes the connection
 * without reading on: the following bytes could be mistaken for another request. The library itself
 * answers input that is no request (an invalid line or header).
 *
 * Invariants: (1) a request is freed when its connection has finished with it, never before its
 * answer: until then its connection is suspended, and the library does not touch it. (2) The time
 * limit of a connection runs from the accept, or from the end of its last answer, to the whole next
 * request, and again from the reply on. (3) At most one connection above the limit has not sent a
 * complete request. */
#include "command/web/server.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/library.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "command/web/form.h"

/* MHD_run is mhd.run, and so on: loaded by the first server. */
#define CALLS(X)                                                                                   \
    X(MHD_, add_response_header)                                                                   \
    X(MHD_, create_response_from_buffer)                                                           \
    X(MHD_, destroy_response)                                                                      \
    X(MHD_, get_connection_info)                                                                   \
    X(MHD_, get_connection_values_n)                                                               \
    X(MHD_, get_daemon_info)                                                                       \
    X(MHD_, get_timeout)                                                                           \
    X(MHD_, lookup_connection_value)                                                               \
    X(MHD_, lookup_connection_value_n)                                                             \
    X(MHD_, queue_response)                                                                        \
    X(MHD_, quiesce_daemon)                                                                        \
    X(MHD_, resume_connection)                                                                     \
    X(MHD_, run)                                                                                   \
    X(MHD_, start_daemon)                                                                          \
    X(MHD_, stop_daemon)                                                                           \
    X(MHD_, suspend_connection)

ET_LIBRARY(mhd, CALLS, ET_HTTP_FILE, "libmicrohttpd");

/* Bytes. The library has POOL bytes for a connection, and refuses requests that exceed them itself.
 */
#define POOL       ((size_t)64 << 10)
#define HEADER_MAX ((size_t)16 << 10)
#define TARGET_MAX 4096
/* libmicrohttpd's limit is higher by this number, so that it accepts a new connection, which then
 * replaces an old one. */
#define SPARE 16

/* At a stop, requests that the system has already received are read for at most so many seconds. */
#define LAST_READ 1.0

/* A refused body is read to its end if it has at most this many times the allowed length. */
#define PATIENCE 4

/* Seconds between two searches for connections that are too slow. */
#define CHECK_INTERVAL 0.5

typedef struct connection {
    struct connection *next, **link; /* in the server's list */
    int fd;
    double since;             /* when its time began */
    et_http_request *request; /* NULL: no request has begun */
    bool used;                /* a request of this connection was answered */
    bool cut;                 /* the library is to find it closed */
    bool probed;              /* the server has checked whether the client still exists */
    bool spoiled;             /* the path of the next request has a 0 */
    const char *target; /* of the next request, in the library's buffer: only its position is used
                         */
    size_t target_length;
} connection;

struct et_http {
    et_http_options options;
    struct MHD_Daemon *daemon;
    int poll_fd, wake_fd;
    connection *connections;
    int connected, busy;
    unsigned arrived; /* changes with whatever comes in */
    double checked;   /* when connections were */
    bool resumed;     /* the library has work without any traffic */
    bool draining;
};

struct et_http_request {
    et_http *http;
    struct MHD_Connection *from;
    connection *connection;
    const et_http_route *route; /* NULL: refused */
    const char *path;
    bool answered; /* the request has a response, or no memory was left for it */
    double begun;
    char *body; /* owned, terminated */
    size_t length, capacity;
    size_t come; /* bytes received, including dropped ones */
    int refused; /* status; 0: not */
    char reason[256];
    char allow[64];                /* methods, of 405 */
    struct MHD_Response *response; /* owned; NULL: no response yet */
    int status;                    /* of it */
    bool handed, suspended;
    bool knows_interim; /* HTTP/1.1: answers before the answer */
    bool preflight;     /* a browser asks whether a page of another site may send a request */
    bool closes;        /* its connection ends with the answer */
};

/* ---- answers ---- */

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return mhd.add_response_header(response, name, value) == MHD_YES; /* fails without memory */
}

/* Lets a page of another site read the answer, if the guard does. */
static bool add_sharing(const et_http_request *r, struct MHD_Response *response)
{
    const et_http_guard *guard = &r->http->options.guard;
    const char *origin = guard->origin_count ? et_http_header(r, "Origin") : NULL;
    const char *shared = origin ? et_http_guard_shared(guard, origin) : NULL;
    if (!guard->origin_count)
        return true;
    return add_header(response, "Vary", "Origin") &&
           (!shared || add_header(response, "Access-Control-Allow-Origin", shared)) &&
           (!r->preflight ||
            (add_header(response, "Access-Control-Allow-Methods", "GET, POST") &&
             add_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type") &&
             add_header(response, "Access-Control-Max-Age", "86400")));
}

static bool add_headers(const et_http_request *r, struct MHD_Response *response,
                        const et_http_answer *answer)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", answer->retry_after);
    return (!answer->type || add_header(response, "Content-Type", answer->type)) &&
           add_sharing(r, response) && add_header(response, "Cache-Control", "no-store") &&
           add_header(response, "X-Content-Type-Options", "nosniff") &&
           add_header(response, "X-Frame-Options", "DENY") &&
           add_header(response, "Referrer-Policy", "no-referrer") &&
           add_header(response, "Content-Security-Policy",
                      answer->policy ? answer->policy : "default-src 'none'") &&
           (!answer->retry_after || add_header(response, "Retry-After", seconds)) &&
           (answer->status != 401 || add_header(response, "WWW-Authenticate", "Bearer")) &&
           (answer->status != 405 || add_header(response, "Allow", r->allow)) &&
           (!(r->http->draining || r->closes) || add_header(response, "Connection", "close"));
}

/* NULL: no memory. A missing header would change the answer, so no answer is sent without all of
 * them. */
static struct MHD_Response *response_of(const et_http_request *r, const et_http_answer *answer)
{
    struct MHD_Response *response = mhd.create_response_from_buffer(
        answer->length, (void *)answer->bytes,
        answer->lasting ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY);
    if (response && !add_headers(r, response, answer)) {
        mhd.destroy_response(response);
        return NULL;
    }
    return response;
}

#define SHORT_OF_MEMORY "{\"error\": \"out of memory\"}\n"

/* Needs the least memory. */
static const et_http_answer short_of_memory = { .status = 503,
                                                .type = "application/json",
                                                .bytes = SHORT_OF_MEMORY,
                                                .length = sizeof SHORT_OF_MEMORY - 1,
                                                .lasting = true,
                                                .retry_after = 1 };

/* If there is no memory for the error answer either, the connection is closed. The time limit for
 * sending the answer counts from here. */
static void make_response(et_http_request *r, const et_http_answer *answer)
{
    et_assert(!r->answered);
    r->answered = true;
    r->connection->since = et_clock_monotonic();
    r->response = response_of(r, answer);
    r->status = answer->status;
    if (r->response)
        return;
    r->response = response_of(r, &short_of_memory);
    r->status = short_of_memory.status;
}

static void make_refusal(et_http_request *r, int status, const char *text)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, "{\"error\": ");
    et_json_print_string(&out, text);
    et_strbuf_append(&out, "}\n");
    const et_http_answer answer = { .status = status,
                                    .type = "application/json",
                                    .bytes = et_strbuf_text(&out),
                                    .length = out.length,
                                    .retry_after = status == 503 ? 1 : 0 };
    make_response(r, out.failed ? &short_of_memory : &answer);
    et_strbuf_release(&out);
}

static enum MHD_Result send_response(et_http_request *r)
{
    if (!r->response)
        return MHD_NO;
    return mhd.queue_response(r->from, (unsigned)r->status, r->response);
}

static void resume(et_http_request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    r->http->resumed = true;
    mhd.resume_connection(r->from);
}

void et_http_reply(et_http_request *request, const et_http_answer *answer)
{
    et_assert(request->handed);
    make_response(request, answer);
    resume(request);
}

void et_http_refuse(et_http_request *request, int status, const char *text)
{
    et_assert(request->handed);
    make_refusal(request, status, text);
    resume(request);
}

/* ---- headers ---- */

static void refuse(et_http_request *r, int status, const char *text)
{
    if (r->refused)
        return;
    r->refused = status;
    snprintf(r->reason, sizeof r->reason, "%s", text);
}

/* Properties of the headers together. */
typedef struct headers {
    size_t bytes;
    int hosts, lengths, encodings;
    const char *host, *length, *encoding;
    bool spoiled; /* an invalid name, or a byte 0 */
} headers;

/* Every value ends with a 0, and may contain others. */
static enum MHD_Result count_header(void *payload, enum MHD_ValueKind kind, const char *name,
                                    size_t name_length, const char *value, size_t length)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "!#$%&'*+-.^_`|~";
    headers *h = payload;
    (void)kind;
    h->bytes += name_length + length + 4;
    h->spoiled |= !name_length || strspn(name, letters) != name_length;
    h->spoiled |= value && strlen(value) != length;
    if (!strcasecmp(name, "Host")) {
        h->hosts++;
        h->host = value;
    }
    if (!strcasecmp(name, "Content-Length")) {
        h->lengths++;
        h->length = value;
    }
    if (!strcasecmp(name, "Transfer-Encoding")) {
        h->encodings++;
        h->encoding = value;
    }
    return MHD_YES;
}

const char *et_http_header(const et_http_request *request, const char *name)
{
    et_assert(request->from && name);
    return mhd.lookup_connection_value(request->from, MHD_HEADER_KIND, name);
}

const char *et_http_query(const et_http_request *request, const char *name)
{
    et_assert(request->from && name);
    const char *value;
    size_t length;
    /* A value with a byte 0 counts as missing. */
    if (mhd.lookup_connection_value_n(request->from, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                      &value, &length) != MHD_YES)
        return NULL;
    return value && strlen(value) == length ? value : NULL;
}

/* The row of path and method; NULL: refused. */
static const et_http_route *find_route(et_http_request *r, const char *method)
{
    const char *accept = et_http_header(r, "Accept");
    const char *wanted = strcmp(method, "HEAD") ? method : "GET";
    const et_http_route *other = NULL;
    for (const et_http_route *route = r->http->options.routes; route->method; route++) {
        if (strcmp(route->path, r->path) != 0 ||
            (route->accept && et_http_accepts(accept, route->accept) <= 0))
            continue;
        if (!strcmp(route->method, wanted))
            return route;
        size_t used = strlen(r->allow);
        snprintf(r->allow + used, sizeof r->allow - used, "%s%s", used ? ", " : "",
                 !strcmp(route->method, "GET") ? "GET, HEAD" : route->method);
        other = route;
    }
    if (other) {
        char text[128];
        snprintf(text, sizeof text, "this path supports only %s", r->allow);
        refuse(r, 405, text);
    } else {
        refuse(r, 404, "no such path; GET / lists the paths");
    }
    return NULL;
}

/* Accepts digits only, RFC 9110 section 8.6. A length above 64 bits becomes the largest number. */
static bool read_length(const char *text, unsigned long long *length)
{
    char *end;
    *length = 0;
    if (*text < '0' || *text > '9')
        return false;
    *length = strtoull(text, &end, 10);
    return !*end;
}

/* Refuses a request whose target or end is ambiguous (RFC 9112, 6.3). */
static void judge_framing(et_http_request *r, const headers *h, const char *version)
{
    if (h->lengths > 1 || h->encodings > 1 || (h->lengths && h->encodings))
        refuse(r, 400, "the length of the body is given twice");
    if (h->encodings &&
        (!h->encoding || strcasecmp(h->encoding, "chunked") != 0 || !strcmp(version, "HTTP/1.0")))
        refuse(r, 400, "Transfer-Encoding: only chunked of HTTP/1.1 is supported");
    if (h->spoiled)
        refuse(r, 400, "a header has an invalid name, or a byte 0");
    /* A 0 in the request's line ends the library's text of it, which the version follows. */
    const connection *c = r->connection;
    const uintptr_t from = (uintptr_t)c->target, to = (uintptr_t)version;
    bool beside = c->target && from < to && to - from < POOL;
    if (c->spoiled || (beside && to - from != c->target_length + 1))
        refuse(r, 400, "the path has a byte 0, or a space");
    r->closes = r->refused != 0;
}

/* Checks in this order: is the request valid, who sends it, which path, how long is the body. */
static void judge(et_http_request *r, const char *method, const char *version)
{
    const et_http_guard *guard = &r->http->options.guard;
    headers h = { .bytes = 0 };
    mhd.get_connection_values_n(r->from, MHD_HEADER_KIND, count_header, &h);
    judge_framing(r, &h, version);
    if (strlen(r->path) > TARGET_MAX)
        refuse(r, 414, "the path is too long");
    if (h.bytes > HEADER_MAX)
        refuse(r, 431, "the headers have more than 16 KB");
    if (h.hosts != 1)
        refuse(r, 400, "exactly one header Host is required");
    else if (!et_http_guard_host(guard, h.host ? h.host : ""))
        refuse(r, 403,
               "this server does not have this name (header Host); add it with --host NAME");
    const char *origin = et_http_header(r, "Origin");
    if (origin && !et_http_guard_origin(guard, origin, h.host ? h.host : ""))
        refuse(r, 403, "pages of other sites may not send requests (header Origin)");
    r->preflight = !r->refused && !strcmp(method, "OPTIONS") && origin &&
                   et_http_guard_shared(guard, origin) &&
                   et_http_header(r, "Access-Control-Request-Method");
    const et_http_route *route = r->refused || r->preflight ? NULL : find_route(r, method);
    if (!r->preflight && (!r->refused || r->refused == 404 || r->refused == 405))
        if (!(route && route->open) &&
            !et_http_guard_token(guard, et_http_header(r, "Authorization"))) {
            r->refused = 0;
            refuse(r, 401, "a token is required: Authorization: Bearer TOKEN");
        }
    const unsigned long long most = r->http->options.body_max;
    char text[128];
    unsigned long long length = 0;
    if (h.length && !read_length(h.length, &length))
        refuse(r, 400, "Content-Length is not a number");
    if ((length || h.encodings) && strcmp(method, "POST") != 0 && !(route && route->ignores_body))
        refuse(r, 400, "only POST may have a body");
    if (length > most) {
        snprintf(text, sizeof text, "the body has %llu bytes, more than %llu", length, most);
        refuse(r, 413, text);
    }
    r->route = r->refused ? NULL : route;
}

/* Whether to answer before the body is read: the end of the request is uncertain, the body is much
 * too long, or the client waits for permission to send it. */
static bool answers_early(const et_http_request *r)
{
    const char *length = et_http_header(r, "Content-Length");
    unsigned long long bytes = 0;
    if (!r->refused)
        return false;
    if (r->closes)
        return true;
    if (length && read_length(length, &bytes) && bytes / PATIENCE > r->http->options.body_max)
        return true;
    return et_http_header(r, "Expect") != NULL;
}

/* ---- bodies ---- */

static void drop_body(et_http_request *r)
{
    et_free(r->body);
    r->body = NULL;
    r->length = r->capacity = 0;
}

/* The buffer grows with the received bytes, not with the announced length. false: the body has
 * PATIENCE times the allowed bytes. */
static bool add_body(et_http_request *r, const char *bytes, size_t count)
{
    const size_t most = r->http->options.body_max;
    r->come += count;
    if (r->come > most && !r->refused) {
        char text[96];
        snprintf(text, sizeof text, "the body has more than %zu bytes", most);
        refuse(r, 413, text);
    }
    if (r->refused) {
        drop_body(r);
        return r->come / PATIENCE <= most;
    }
    if (!ET_VECTOR_GROW(r->body, r->capacity, r->length + count + 1)) {
        refuse(r, 503, "no memory for the request");
        return true;
    }
    memcpy(r->body + r->length, bytes, count);
    r->length += count;
    r->body[r->length] = 0;
    return true;
}

const char *et_http_path(const et_http_request *request)
{
    return request->path;
}

char *et_http_take_body(et_http_request *request, size_t *length)
{
    char *body = request->body;
    *length = request->length;
    request->body = NULL;
    request->length = request->capacity = 0;
    return body;
}

/* ---- the library's calls ---- */

static connection *connection_of(struct MHD_Connection *from)
{
    return mhd.get_connection_info(from, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static enum MHD_Result begin(et_http *http, struct MHD_Connection *from, const char *path,
                             const char *method, const char *version, void **out)
{
    connection *c = connection_of(from);
    et_http_request *r = c ? et_alloc_zero(1, sizeof *r) : NULL;
    if (!r)
        return MHD_NO;
    r->http = http;
    r->from = from;
    r->connection = c;
    r->path = path;
    r->begun = et_clock_monotonic();
    r->knows_interim = !strcmp(version, "HTTP/1.1");
    c->request = r;
    c->probed = false;
    http->busy++;
    *out = r;
    judge(r, method, version);
    if (!answers_early(r))
        return MHD_YES;
    r->closes = true;
    make_refusal(r, r->refused, r->reason);
    return send_response(r);
}

/* The request is complete. */
static enum MHD_Result finish(et_http_request *r)
{
    if (r->answered)
        return send_response(r);
    et_assert(!r->handed);
    if (r->refused) {
        make_refusal(r, r->refused, r->reason);
        return send_response(r);
    }
    if (r->preflight) {
        const et_http_answer yes = { .status = 204, .bytes = "", .lasting = true };
        make_response(r, &yes);
        return send_response(r);
    }
    r->handed = true;
    r->route->handle(r->http->options.payload, r);
    if (r->answered)
        return send_response(r);
    r->suspended = true;
    mhd.suspend_connection(r->from);
    return MHD_YES;
}

static enum MHD_Result on_request(void *payload, struct MHD_Connection *from, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *size, void **out)
{
    et_http *http = payload;
    et_http_request *r = *out;
    http->arrived++;
    if (!r)
        return begin(http, from, url, method, version, out);
    if (!*size)
        return finish(r);
    bool more = add_body(r, upload, *size);
    *size = 0;
    return more ? MHD_YES : MHD_NO;
}

/* The library then finds it closed. */
static void cut(connection *c)
{
    shutdown(c->fd, SHUT_RDWR);
    c->cut = true;
}

static bool is_whole(const et_http_request *r)
{
    return r && (r->handed || r->response);
}

/* If there are too many connections, closes the oldest one without a complete request. newest: is
 * not closed; NULL: any may be closed. */
static void make_room(et_http *http, const connection *newest)
{
    connection *oldest = NULL;
    int count = 0;
    if (http->connected <= http->options.connections_max)
        return;
    for (connection *c = http->connections; c; c = c->next) {
        count += !c->cut;
        if (!c->cut && c != newest && !is_whole(c->request) &&
            (!oldest || c->since <= oldest->since))
            oldest = c;
    }
    if (count > http->options.connections_max && oldest)
        cut(oldest);
}

static void on_completed(void *payload, struct MHD_Connection *from, void **out,
                         enum MHD_RequestTerminationCode code)
{
    et_http *http = payload;
    et_http_request *r = *out;
    (void)from;
    (void)code;
    if (!r)
        return;
    et_assert(!r->suspended);
    if (http->options.answered && r->response)
        http->options.answered(http->options.payload, r, r->status,
                               et_clock_monotonic() - r->begun);
    if (r->response)
        mhd.destroy_response(r->response);
    r->connection->request = NULL;
    r->connection->used = true;
    r->connection->since = et_clock_monotonic();
    http->busy--;
    drop_body(r);
    et_free(r);
    *out = NULL;
    make_room(http, NULL);
}

/* Called for each request, before its first line is parsed. */
static void *on_target(void *payload, const char *target, struct MHD_Connection *from)
{
    connection *c = connection_of(from);
    (void)payload;
    if (!c)
        return NULL;
    const char *zero = strstr(target, "%00");
    c->target = target;
    c->target_length = strlen(target);
    c->spoiled = zero && (size_t)(zero - target) < strcspn(target, "?");
    return NULL; /* on_request gets this value in *out */
}

static void on_connection(void *payload, struct MHD_Connection *from, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    et_http *http = payload;
    connection *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (!c)
            return;
        *c->link = c->next;
        if (c->next)
            c->next->link = c->link;
        http->connected--;
        et_free(c);
        *context = NULL;
        return;
    }
    c = et_alloc_zero(1, sizeof *c);
    *context = c;
    if (!c)
        return;
    c->fd = mhd.get_connection_info(from, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    c->since = et_clock_monotonic();
    c->next = http->connections;
    c->link = &http->connections;
    if (c->next)
        c->next->link = &c->next;
    http->connections = c;
    http->connected++;
    http->arrived++;
    make_room(http, c);
}

/* ---- the server ---- */

static int start(et_http *http, et_listener *listener, et_error *error)
{
    const et_http_options *o = &http->options;
    const unsigned idle = (unsigned)o->seconds_max;
    int status = et_library_load(&library, &mhd, error);
    if (status)
        return status;
    http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (http->wake_fd < 0)
        return et_fail_errno(error, "a server");
    http->daemon =
        mhd.start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http,
                         MHD_OPTION_LISTEN_SOCKET, listener->fd, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)o->connections_max + SPARE, MHD_OPTION_CONNECTION_TIMEOUT, idle,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL, MHD_OPTION_NOTIFY_COMPLETED,
                         on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
                         MHD_OPTION_URI_LOG_CALLBACK, on_target, http, MHD_OPTION_END);
    if (!http->daemon)
        return et_fail(error, ET_EFAIL, "libmicrohttpd cannot start a server on %s", listener->url);
    listener->fd = -1; /* the library's now */
    const union MHD_DaemonInfo *info = mhd.get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    http->poll_fd = info ? info->epoll_fd : -1;
    return http->poll_fd >= 0 ? ET_OK
                              : et_fail(error, ET_EFAIL, "libmicrohttpd was built without epoll");
}

int et_http_open(et_http **out, et_listener *listener, const et_http_options *options,
                 et_error *error)
{
    *out = NULL;
    et_assert(options->body_max && options->connections_max > 0 && options->seconds_max >= 1);
    et_http *http;
    if (ET_ALLOC_ZERO(http, 1, "a server", error)) {
        et_listener_close(listener);
        return ET_ENOMEM;
    }
    http->options = *options;
    http->wake_fd = -1;
    int status = start(http, listener, error);
    if (status) {
        et_listener_close(listener);
        et_http_close(http);
    } else {
        *out = http;
    }
    return status;
}

void et_http_close(et_http *http)
{
    if (!http)
        return;
    for (connection *c = http->connections; c; c = c->next)
        if (c->request && c->request->suspended)
            et_http_refuse(c->request, 503, "the server stops");
    if (http->daemon) {
        mhd.run(http->daemon);
        mhd.stop_daemon(http->daemon);
    }
    et_assert(!http->connections && !http->busy);
    if (http->wake_fd >= 0)
        close(http->wake_fd);
    et_free(http);
}

void et_http_wake(et_http *http)
{
    const uint64_t one = 1;
    ssize_t ignored = write(http->wake_fd, &one, sizeof one);
    (void)ignored;
}

static double seconds_of(const et_http *http, const connection *c)
{
    const double most = http->options.seconds_max;
    return !c->request && !c->used && most > ET_HTTP_HEADER_SECONDS ? ET_HTTP_HEADER_SECONDS : most;
}

/* A client that has only closed its sending side still reads. A client that has gone answers the
 * sent bytes with a reset. Every HTTP/1.1 client skips a 100. */
static bool is_gone(connection *c)
{
    static const char still[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct pollfd fd = { .fd = c->fd, .events = POLLRDHUP };
    if (poll(&fd, 1, 0) <= 0)
        return false;
    if (fd.revents & (POLLHUP | POLLERR))
        return true;
    if (!c->probed && c->request->knows_interim)
        (void)!send(c->fd, still, sizeof still - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    c->probed = true;
    return false;
}

/* Closes connections that are too slow. */
static void check_connections(et_http *http)
{
    double now = et_clock_monotonic();
    if (now - http->checked < CHECK_INTERVAL)
        return;
    http->checked = now;
    if (http->options.gone) {
        /* The library does not touch a suspended connection, so nobody else notices that its client
         * has gone. */
        for (connection *c = http->connections; c; c = c->next)
            if (!c->cut && c->request && c->request->suspended && is_gone(c)) {
                cut(c);
                http->options.gone(http->options.payload, c->request);
            }
    }
    for (connection *c = http->connections; c; c = c->next)
        if (!c->cut && !(c->request && c->request->suspended) &&
            now - c->since > seconds_of(http, c))
            cut(c);
}

void et_http_run(et_http *http, double seconds)
{
    et_assert(http->daemon && seconds >= 0);
    unsigned long long wanted; /* milliseconds, of the library */
    uint64_t ignored;
    double wait = 1e3 * (http->connections && seconds > CHECK_INTERVAL ? CHECK_INTERVAL : seconds);
    if (mhd.get_timeout(http->daemon, &wanted) == MHD_YES && (double)wanted < wait)
        wait = (double)wanted;
    if (http->resumed)
        wait = 0;
    http->resumed = false;
    struct pollfd fds[2] = { { .fd = http->poll_fd, .events = POLLIN },
                             { .fd = http->wake_fd, .events = POLLIN } };
    poll(fds, 2, wait > 0 ? (int)(wait + 0.999) : 0);
    /* The pipe is empty unless a thread woke this one. */
    ssize_t woken = read(http->wake_fd, &ignored, sizeof ignored);
    (void)woken;
    mhd.run(http->daemon);
    check_connections(http);
}

void et_http_drain(et_http *http)
{
    if (http->draining)
        return;
    http->draining = true;
    /* Reads what the system has already received and accepts requests that are complete. */
    const double until = et_clock_monotonic() + LAST_READ;
    unsigned before;
    do {
        before = http->arrived;
        mhd.run(http->daemon);
    } while (http->arrived != before && et_clock_monotonic() < until);
    int fd = mhd.quiesce_daemon(http->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    for (connection *c = http->connections; c; c = c->next)
        if (!c->cut && !is_whole(c->request))
            cut(c);
    mhd.run(http->daemon);
}

int et_http_busy(const et_http *http)
{
    return http->busy;
}

int et_http_connections(const et_http *http)
{
    return http->connected;
}
