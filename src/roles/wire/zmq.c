#include <linux/tcp.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/threads/thread.h"
#include "roles/wire/zmq_private.h"

#define ID_MAX     7    /* bytes of a connection's number in a router (5, as ZeroMQ gives them) */
#define TURNS      1024 /* chunks received in one look for a message */
#define SEAL_BYTES 33   /* what encryption adds to a chunk */

#define HEARTBEAT      5000 /* milliseconds */
#define SILENCE        20000
#define FAILURES_MAX   8   /* a client with the wrong key of a server gets no reason */
#define FAILURES_THERE 3   /* so many more */
#define DEAD           5.0 /* seconds without a connection and without an attempt */
#define AT_ONCE        3.0 /* seconds: a refusal comes within this time */

/* ---- connections that this task makes ---- */

static bool set_heartbeat(void *socket)
{
    return et_wire_set(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT) &&
           et_wire_set(socket, ZMQ_HEARTBEAT_TIMEOUT, SILENCE) &&
           et_wire_set(socket, ZMQ_HEARTBEAT_TTL, SILENCE);
}

static bool connect_line(et_wire *wire, int task, int which, int queue)
{
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECT_RETRIED |
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    et_wire_line *l = &wire->peer[task].line[which];
    const char *theirs = wire->public[task ? ET_JOB_PARAM_SERVER : ET_JOB_MASTER];
    l->alone = l->heard = et_clock_monotonic();
    l->descriptor = -1;
    l->pause = ET_WIRE_SOON;
    l->socket = et_zmq.socket(wire->context, ZMQ_DEALER);
    return l->socket && et_wire_set_common(l->socket, wire, queue, queue) &&
           (which == ET_WIRE_TALK || set_heartbeat(l->socket)) &&
           !et_zmq.setsockopt(l->socket, ZMQ_CURVE_PUBLICKEY, wire->own_public, ET_KEY_TEXT + 1) &&
           !et_zmq.setsockopt(l->socket, ZMQ_CURVE_SERVERKEY, theirs, ET_KEY_TEXT + 1) &&
           et_wire_set(l->socket, ZMQ_RECONNECT_IVL_MAX, 2000) &&
           (l->monitor = et_wire_monitor(wire, l->socket, ET_WIRE_LINES * task + which, events)) &&
           !et_zmq.connect(l->socket, wire->peer[task].endpoint);
}

static int connect_to(et_wire *wire, const et_wire_setup *setup, int task, et_error *error)
{
    et_wire_peer *p = &wire->peer[task];
    int status = et_wire_resolve(p->endpoint, sizeof p->endpoint, setup->connect[task], error);
    if (status)
        return status;
    snprintf(p->address, sizeof p->address, "%s", setup->connect[task]);
    bool talks = wire->role != ET_JOB_PARAM_SERVER;
    int queue = et_wire_queue(setup->largest);
    bool ok = (!talks || connect_line(wire, task, ET_WIRE_TALK, queue)) &&
              connect_line(wire, task, ET_WIRE_HEARTBEAT, queue);
    return ok ? ET_OK : et_wire_fail(error, setup->connect[task]);
}

/* Whether ZeroMQ is at an address; ZeroMQ begins to speak at once. A proxy accepts connections for
 * absent tasks and closes them without a message. */
static bool is_there(const char *address)
{
    struct addrinfo *found;
    const struct timeval limit = { .tv_sec = 2 };
    unsigned char first = 0;
    if (et_address_find(&found, address, NULL))
        return false;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) &&
                 !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) &&
                 !connect(fd, found->ai_addr, found->ai_addrlen) && recv(fd, &first, 1, 0) == 1 &&
                 first == 0xff;
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return there;
}

/* Bytes that are no ZeroMQ end a connection for good: ZeroMQ does not try again. */
static void make_again(const et_wire_peer *p, et_wire_line *l)
{
    l->heard = et_clock_monotonic();
    l->again = 0;
    l->descriptor = -1;
    et_zmq.disconnect(l->socket, p->endpoint);
    et_zmq.connect(l->socket, p->endpoint);
}

/* Whether the other side has received all bytes of a connection. */
static bool has_arrived(const et_wire_line *l)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return l->descriptor >= 0 && !getsockopt(l->descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) &&
           !info.tcpi_unacked && !info.tcpi_notsent_bytes;
}

/* A length that was damaged on the way makes the reader wait for bytes that never come. So a line
 * is made again if no whole message has come since the question was repeated. */
static void doubt(et_link *self, int to)
{
    et_wire *wire = (et_wire *)(void *)self;
    et_wire_line *l = to <= wire->servers ? &wire->peer[to].line[ET_WIRE_TALK] : NULL;
    if (l && l->socket && !l->alone && l->chunks == l->chunks_at_send && has_arrived(l))
        make_again(&wire->peer[to], l);
}

/* Counts a failed connection. A slow network that cuts a handshake does not count as a refusal.
 * Neither does a proxy that closes connections to absent tasks: failures count again once the task
 * is there. */
static void note_failure(et_wire *wire, const et_wire_peer *p, et_wire_line *l)
{
    l->failures = l->known || l->heard - l->tried > AT_ONCE ? 0 : l->failures + 1;
    if (l->failures < (l->there ? FAILURES_THERE : FAILURES_MAX))
        return;
    l->failures = 0;
    wire->denied = wire->denied || l->there;
    l->there = is_there(p->address);
}

/* After a connection ends, ZeroMQ reports at once that it tries again, or it has given the line up.
 * If a line can't be opened, it reports that and then often stops: errno has the reason of the
 * report. */
static void note_event(et_wire *wire, const et_wire_peer *p, et_wire_line *l, int event,
                       uint32_t value)
{
    l->heard = et_clock_monotonic();
    l->again = 0;
    if (event == ZMQ_EVENT_CONNECTED) {
        l->tried = l->heard;
        l->descriptor = (int)value;
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        l->alone = l->failures = 0;
        l->known = true;
        l->there = false;
        l->pause = ET_WIRE_SOON;
    } else if (event == ZMQ_EVENT_DISCONNECTED &&
               (l->descriptor < 0 || l->descriptor == (int)value)) {
        l->alone = l->alone ? l->alone : l->heard;
        l->descriptor = -1;
        l->again = l->heard + l->pause;
    } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        wire->denied = true;
    } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
               event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
        l->again = l->heard + (l->alone ? l->pause : 0);
        if (l->alone)
            note_failure(wire, p, l);
        l->alone = l->alone ? l->alone : l->heard;
    }
}

/* A silent task is silent on both lines, and TCP needs longer to see it. Once for each loss. */
static void follow_heartbeat(et_wire_peer *p)
{
    et_wire_line *talk = &p->line[ET_WIRE_TALK];
    const et_wire_line *heartbeat = &p->line[ET_WIRE_HEARTBEAT];
    double now = et_clock_monotonic(), lost = heartbeat->alone + DEAD;
    if (!talk->socket || talk->alone || !heartbeat->known || !heartbeat->alone || now < lost ||
        talk->heard > lost)
        return;
    talk->alone = now;
    make_again(p, talk);
}

static void look_at_lines(et_wire *wire)
{
    for (int i = 0; i < ET_WIRE_LINES * (wire->servers + 1); i++) {
        et_wire_peer *p = &wire->peer[i / ET_WIRE_LINES];
        et_wire_line *l = &p->line[i % ET_WIRE_LINES];
        uint32_t value;
        for (int event; l->monitor && (event = et_wire_next_event(l->monitor, &value));)
            note_event(wire, p, l, event, value);
        double now = et_clock_monotonic();
        if (l->socket && l->again && now >= l->again) {
            /* ZeroMQ has given the line up, because bytes came that were not ZeroMQ's. */
            wire->damaged += l->known && l->pause == ET_WIRE_SOON;
            l->pause = fmin(2 * l->pause, DEAD);
            make_again(p, l);
        } else if (l->socket && l->alone && now - l->heard >= DEAD) {
            make_again(p, l);
        }
    }
    for (int i = 0; i <= wire->servers; i++)
        follow_heartbeat(&wire->peer[i]);
}

/* ---- a wire's life ---- */

static void send_on(et_link *self, int to, const et_message *message);

static const et_link_class wire_class = { "ZeroMQ", send_on, doubt };

int et_wire_open(et_wire **out, const et_wire_setup *setup, et_error *error)
{
    *out = NULL;
    int status = et_zmq_load(error);
    if (status)
        return status;
    et_wire *wire = et_alloc_zero(1, sizeof *wire);
    if (!wire)
        return et_alloc_failed(error, sizeof *wire, "a connection");
    wire->link.class = &wire_class;
    wire->role = setup->role;
    wire->servers = setup->servers;
    memcpy(wire->public, setup->keys->public, sizeof wire->public);
    memcpy(wire->own_public, setup->keys->public[setup->role], sizeof wire->own_public);
    memcpy(wire->secret, setup->keys->secret, sizeof wire->secret);
    wire->peer = et_alloc_zero((size_t)setup->servers + 1, sizeof *wire->peer);
    wire->via = et_alloc_zero(ET_TASKS_MAX, sizeof *wire->via);
    wire->items = et_alloc_zero((size_t)setup->servers + 2, sizeof *wire->items);
    wire->context = et_zmq.ctx_new();
    status = wire->peer && wire->via && wire->items && wire->context
                 ? et_assembly_open(&wire->answers, setup->servers + 1, setup->largest, error)
                 : et_alloc_failed(error, sizeof *wire, "a connection");
    if (!status && setup->bind)
        status = et_wire_listen(wire, setup, error);
    for (int i = 0; !status && setup->connect && i <= setup->servers; i++)
        if (setup->connect[i])
            status = connect_to(wire, setup, i, error);
    if (status)
        et_wire_close(wire);
    else
        *out = wire;
    return status;
}

/* monitor: NULL if another thread closes it. */
static void close_socket(void *socket, void *monitor)
{
    if (socket)
        et_zmq.socket_monitor(socket, NULL, 0);
    if (monitor)
        et_zmq.close(monitor);
    if (socket)
        et_zmq.close(socket);
}

void et_wire_close(et_wire *wire)
{
    if (!wire)
        return;
    if (wire->holds)
        et_zmq.msg_close(&wire->message);
    for (int i = 0; wire->peer && i < ET_WIRE_LINES * (wire->servers + 1); i++) {
        et_wire_line *l = &wire->peer[i / ET_WIRE_LINES].line[i % ET_WIRE_LINES];
        close_socket(l->socket, l->monitor);
    }
    close_socket(wire->router, wire->guarded ? NULL : wire->entrance);
    if (wire->context)
        et_zmq.ctx_shutdown(wire->context);
    if (wire->guarded)
        et_thread_join(wire->guard);
    else if (wire->zap)
        et_zmq.close(wire->zap);
    if (wire->context)
        et_zmq.ctx_term(wire->context);
    /* Logs each number once, at the close. */
    long long refused = (long long)wire->refused, damaged = (long long)wire->damaged;
    if (refused > 0)
        et_log(ET_LOG_WARNING,
               "%s: %lld connection%s refused: no key of this cluster, or damaged in transit",
               wire->bound, refused, refused == 1 ? " was" : "s were");
    if (damaged > 0)
        et_log(ET_LOG_WARNING, "%lld connection%s made again at once: damaged in transit", damaged,
               damaged == 1 ? " was" : "s were");
    et_sessions_close(wire->sessions);
    et_free(wire->peer);
    et_free(wire->via);
    et_free(wire->items);
    et_assembly_release(&wire->answers);
    et_assembly_release(&wire->questions);
    et_free(wire);
}

et_link *et_wire_link(et_wire *wire)
{
    return &wire->link;
}

/* ---- messages ---- */

static bool send_id(void *socket, uint64_t via)
{
    unsigned char id[ID_MAX];
    size_t length = (size_t)(via >> 8 * ID_MAX);
    for (size_t i = length; i-- > 0; via >>= 8)
        id[i] = (unsigned char)via;
    return et_zmq.send(socket, id, length, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
}

/* Sends the next chunk; via: 0 in a dealer. False: the rest of the message is dropped. */
static bool send_chunk(void *socket, uint64_t via, et_chunking *cutting)
{
    zmq_msg_t out;
    if (et_zmq.msg_init_size(&out, et_chunking_next(cutting)))
        return false;
    et_chunking_write(cutting, et_zmq.msg_data(&out));
    if ((!via || send_id(socket, via)) && et_zmq.msg_send(&out, socket, ZMQ_DONTWAIT) >= 0)
        return true;
    et_zmq.msg_close(&out);
    return false;
}

static void send_on(et_link *self, int to, const et_message *message)
{
    et_wire *wire = (et_wire *)(void *)self;
    bool dealt = to <= wire->servers && wire->peer[to].line[ET_WIRE_TALK].socket;
    uint64_t via = dealt ? 0 : message->via ? message->via : wire->via[to];
    void *socket = dealt ? wire->peer[to].line[ET_WIRE_TALK].socket : wire->router;
    et_chunking cutting;
    if (!socket || !(dealt || via))
        return;
    if (dealt)
        wire->peer[to].line[ET_WIRE_TALK].chunks_at_send = wire->peer[to].line[ET_WIRE_TALK].chunks;
    et_chunking_begin(&cutting, message, ++wire->number);
    while (et_chunking_next(&cutting) && send_chunk(socket, via, &cutting)) {
    }
}

/* The role of a message's key; ET_JOB_ROLES: no known key. */
static et_job_role role_of(et_wire *wire)
{
    const char *user = et_zmq.msg_gets(&wire->message, "User-Id");
    int role = 0;
    while (role < ET_JOB_ROLES && !(user && !strcmp(user, et_job_role_names[role])))
        role++;
    return (et_job_role)role;
}

typedef enum taken { NOTHING, CHUNK, MESSAGE } taken;

/* Receives the next chunk of a socket into wire->message. Returns its bytes on the wire; 0: none.
 * *alone: the message has one frame, as all chunks of a cluster; otherwise it is dropped. */
static size_t take_chunk(et_wire *wire, void *socket, bool *alone)
{
    size_t bytes = 0;
    *alone = true;
    while (et_zmq.msg_recv(&wire->message, socket, ZMQ_DONTWAIT) >= 0) {
        size_t size = et_zmq.msg_size(&wire->message) + SEAL_BYTES;
        bytes += size + (size > 255 ? 9 : 2);
        if (!et_zmq.msg_more(&wire->message))
            break;
        *alone = false;
    }
    return bytes;
}

/* Classifies wire->message: a chunk of a message of its connection; WRONG: no task sends this. */
static et_chunk_state completes(et_wire *wire, et_assembly *assembly, uint64_t connection,
                                et_message *out)
{
    const unsigned char *data;
    size_t size;
    et_chunk_state what = et_assembly_take(assembly, connection, et_zmq.msg_data(&wire->message),
                                           et_zmq.msg_size(&wire->message), &data, &size);
    return what == ET_CHUNK_LAST && !et_message_read(out, data, size) ? ET_CHUNK_WRONG : what;
}

/* Receives from a connection that this task has made; from: the other task. */
static taken take_dealt(et_wire *wire, int from, et_message *out)
{
    bool alone;
    et_wire_line *l = &wire->peer[from].line[ET_WIRE_TALK];
    if (!take_chunk(wire, l->socket, &alone))
        return NOTHING;
    l->chunks++;
    et_chunk_state what =
        alone ? completes(wire, &wire->answers, (uint64_t)from, out) : ET_CHUNK_WRONG;
    if (what == ET_CHUNK_LAST && out->from == from)
        return MESSAGE;
    if (what == ET_CHUNK_WRONG) {
        wire->damaged++;
        make_again(&wire->peer[from], l);
    }
    return CHUNK;
}

static taken take_routed(et_wire *wire, et_message *out)
{
    unsigned char id[ID_MAX];
    bool alone;
    int length = et_zmq.recv(wire->router, id, sizeof id, ZMQ_DONTWAIT);
    size_t bytes = length < 0 ? 0 : take_chunk(wire, wire->router, &alone);
    if (!bytes)
        return NOTHING;
    et_job_role role = role_of(wire);
    int descriptor = et_zmq.msg_get(&wire->message, ZMQ_SRCFD);
    if (length < 1 || length > ID_MAX || role == ET_JOB_ROLES)
        return CHUNK;
    et_sessions_took(wire->sessions, descriptor, role, bytes);
    /* A connection's number in the router, and how long it is. */
    uint64_t via = 0;
    for (int i = 0; i < length; i++)
        via = via << 8 | id[i];
    via |= (uint64_t)length << 8 * ID_MAX;
    et_chunk_state what = alone ? completes(wire, &wire->questions, via, out) : ET_CHUNK_WRONG;
    /* A message from the master needs the master's key, and so on. */
    if (what == ET_CHUNK_LAST && !((out->from == ET_TASK_MASTER && role == ET_JOB_MASTER) ||
                                   (out->from > wire->servers && role == ET_JOB_WORKER)))
        what = ET_CHUNK_WRONG;
    if (what == ET_CHUNK_WRONG)
        et_sessions_refuse(wire->sessions, descriptor, "sent a message that no task sends");
    if (what != ET_CHUNK_LAST)
        return CHUNK;
    out->via = wire->via[out->from] = via;
    return MESSAGE;
}

/* One look at each socket. */
static taken take_any(et_wire *wire, et_message *out)
{
    taken what = wire->router ? take_routed(wire, out) : NOTHING;
    for (int i = 0; what != MESSAGE && i <= wire->servers; i++)
        if (wire->peer[i].line[ET_WIRE_TALK].socket) {
            taken next = take_dealt(wire, i, out);
            what = next > what ? next : what;
        }
    return what;
}

/* Takes one of the waiting messages; incomplete ones are dropped. */
static bool take_message(et_wire *wire, et_message *out)
{
    taken what = CHUNK;
    for (int i = 0; what == CHUNK && i < TURNS; i++)
        what = take_any(wire, out);
    return what == MESSAGE;
}

/* Waits until a chunk is there; false: none came. */
static bool wait_for_any(et_wire *wire, double seconds)
{
    int count = 0;
    if (wire->router)
        wire->items[count++] = (zmq_pollitem_t){ .socket = wire->router, .events = ZMQ_POLLIN };
    for (int i = 0; i <= wire->servers; i++)
        if (wire->peer[i].line[ET_WIRE_TALK].socket)
            wire->items[count++] =
                (zmq_pollitem_t){ .socket = wire->peer[i].line[ET_WIRE_TALK].socket,
                                  .events = ZMQ_POLLIN };
    return et_zmq.poll(wire->items, count, (long)(seconds * 1000 + 0.999)) > 0;
}

int et_wire_receive(et_wire *wire, double seconds, et_message *out, bool *got, et_error *error)
{
    if (wire->holds)
        et_zmq.msg_close(&wire->message);
    et_zmq.msg_init(&wire->message);
    wire->holds = true;
    double until = et_clock_monotonic() + seconds, left = seconds;
    while (!(*got = take_message(wire, out)) && left > 0 && wait_for_any(wire, left))
        left = until - et_clock_monotonic();
    look_at_lines(wire);
    return wire->denied ? et_fail(error, ET_EDENIED,
                                  "the other tasks refuse the key of this task: make all keys of a "
                                  "cluster with one `etude keys DIR`")
                        : ET_OK;
}

double et_wire_alone(const et_wire *wire, int task)
{
    double talk = wire->peer[task].line[ET_WIRE_TALK].alone,
           heartbeat = wire->peer[task].line[ET_WIRE_HEARTBEAT].alone;
    double since = talk && heartbeat ? fmin(talk, heartbeat) : talk + heartbeat;
    return since ? et_clock_monotonic() - since : 0;
}

int et_wire_check(et_error *error)
{
    (void)error;
    return ET_OK;
}

int et_wire_keypair(char *public, char *secret, et_error *error)
{
    int status;
    if ((status = et_zmq_load(error)))
        return status;
    return et_zmq.curve_keypair(public, secret) ? et_wire_fail(error, "a pair of keys (CURVE)")
                                                : ET_OK;
}
