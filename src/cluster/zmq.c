#include "cluster/wire.h"

#include <zmq.h>

#include <linux/tcp.h>

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/thread.h"
#include "cluster/address.h"
#include "cluster/piece.h"
#include "cluster/visitors.h"

/* zmq_bind is zmq.bind, and so on: loaded by the first who opens a wire or makes keys. */
#define CALLS(X)                                                                                   \
    X(zmq_, bind)                                                                                  \
    X(zmq_, close)                                                                                 \
    X(zmq_, connect)                                                                               \
    X(zmq_, ctx_new)                                                                               \
    X(zmq_, ctx_shutdown)                                                                          \
    X(zmq_, ctx_term)                                                                              \
    X(zmq_, curve_keypair)                                                                         \
    X(zmq_, disconnect)                                                                            \
    X(zmq_, getsockopt)                                                                            \
    X(zmq_, msg_close)                                                                             \
    X(zmq_, msg_data)                                                                              \
    X(zmq_, msg_get)                                                                               \
    X(zmq_, msg_gets)                                                                              \
    X(zmq_, msg_init)                                                                              \
    X(zmq_, msg_init_size)                                                                         \
    X(zmq_, msg_more)                                                                              \
    X(zmq_, msg_recv)                                                                              \
    X(zmq_, msg_send)                                                                              \
    X(zmq_, msg_size)                                                                              \
    X(zmq_, poll)                                                                                  \
    X(zmq_, recv)                                                                                  \
    X(zmq_, send)                                                                                  \
    X(zmq_, setsockopt)                                                                            \
    X(zmq_, socket)                                                                                \
    X(zmq_, socket_monitor)                                                                        \
    X(zmq_, strerror)                                                                              \
    X(zmq_, z85_decode)

static struct {
    CALLS(ET_LIBRARY_CALL)
} zmq;

static const char *const names[] = { CALLS(ET_LIBRARY_NAME) };

static const et_library library = { ET_ZMQ_FILE, "ZeroMQ", names, sizeof zmq / sizeof(void *) };

#define ID_MAX         7 /* bytes of a connection's number in a router (5, as ZeroMQ gives them) */
#define HEARTBEAT      5000 /* milliseconds */
#define SILENCE        20000
#define KEEPALIVE      10    /* seconds */
#define UNHEARD        60000 /* milliseconds without a word from TCP's other side */
#define HANDSHAKE      4000  /* milliseconds that who connects has for it */
#define FAILURES_MAX   8     /* who has the wrong key of a server hears no reason */
#define FAILURES_THERE 3     /* so many more */
#define DEAD           5.0   /* seconds without a connection in which nothing is tried */
#define SOON           0.25  /* seconds in which ZeroMQ says that it tries again, if it does */
#define AT_ONCE        3.0   /* seconds: who is refused is refused at once */
#define QUEUE          16 /* pieces that wait in a connection beside two messages of the largest */
#define QUEUE_MAX      (1 << 30)
#define TURNS          1024 /* pieces that are taken in one look for a message */
#define CURVE_BYTES    64   /* at least what encryption adds to a message */
#define SEAL_BYTES     33   /* what it adds */
#define LOOK           50   /* milliseconds between two looks at what connections hold */
#define PLACES         32   /* connections with a key beside twice those that tasks make */
#define BACKLOG        1024 /* connections that wait to be taken */
#define DESCRIPTORS    16384
#define ZAP_ENDPOINT   "inproc://zeromq.zap.01"
#define ZAP_FRAME      256 /* most bytes of a part of a ZAP question that are looked at */

/* A connection that this task makes. */
typedef struct line {
    void *socket, *monitor; /* socket NULL: there is none */
    int descriptor;         /* -1: none that is known */
    double alone;           /* since when; 0: connected */
    double again, pause;    /* when ZeroMQ is taken to have given it up, 0: it has not; how long
                               after it was lost that was, the last time */
    int64_t pieces, before; /* that have come over it; when something was last sent */
    double tried;           /* when its TCP connection was made */
    bool known;             /* a handshake has succeeded: its keys are right */
    double heard;           /* when something last happened to the connection */
    int failures;           /* handshakes in a row that were refused */
    bool there;             /* and then somebody was there */
} line;

/* ZeroMQ 4.3.4 ends the process (`Assertion failed: !_io_error`) where a connection breaks whose
 * messages wait for their reader, and a heartbeat of its own comes next: its timer writes without a
 * look at what has become of the connection. So what carries messages has no heartbeat, and what
 * has one carries nothing else.
 *
 * It ends the process as well (`Resource temporarily unavailable`, session_base.cpp's clean_pipes)
 * where a connection breaks in the middle of a message of several frames and its socket is being
 * closed or disconnected: from the end of what it may linger until the socket's own thread calls
 * ZeroMQ, which here computes for seconds. So no message has several frames: each piece is one. */
enum { TALK, WATCH, LINES };

typedef struct peer {
    line line[LINES];
    char address[300];  /* host:port */
    char endpoint[400]; /* the same for ZeroMQ */
} peer;

struct et_wire {
    et_link link;
    et_job_role role;
    int servers;
    void *context, *router;
    void *zap, *door; /* the guard's: who asks to be let in, what became of connections */
    pthread_t guard;
    bool guarded;
    et_visitors *visitors;
    _Atomic int64_t refused; /* connections that were not let in */
    int64_t damaged;         /* connections of ours that were made again for what came over them */
    char bound[300];         /* host:port that it listens at */
    peer *peer;              /* [1 + servers] */
    uint64_t *via;           /* [ET_TASKS_MAX]: where a task was heard last; 0: nowhere */
    zmq_pollitem_t *items;   /* [2 + servers] */
    zmq_msg_t message;       /* the piece that was received last */
    bool holds;              /* message is in use */
    et_assembly answers;     /* of those that this task connects to */
    et_assembly questions;   /* of those that connect to it */
    uint64_t number;         /* of the message that was sent last */
    bool denied;
    char public[ET_JOB_ROLES][ET_KEY_TEXT + 1];
    char own_public[ET_KEY_TEXT + 1], secret[ET_KEY_TEXT + 1];
};

static int fail_zmq(et_error *error, const char *what)
{
    return et_fail(error, ET_EIO, "%s: %s", what, zmq.strerror(errno));
}

/* ---- who may connect ----------------------------------------------------------------------- */

/* A part of a ZAP question, cut; -1: the context is at its end. more: others follow. */
static int read_part(void *socket, unsigned char *part, bool *more)
{
    int flag = 0;
    size_t size = sizeof flag;
    int length = zmq.recv(socket, part, ZAP_FRAME, 0);
    zmq.getsockopt(socket, ZMQ_RCVMORE, &flag, &size);
    *more = flag != 0;
    return length;
}

/* Whose key it is, by role; ET_JOB_ROLES: nobody's who may connect here. Servers connect to the
 * master to see that it lives. */
static et_job_role owner_of(const et_wire *wire, const unsigned char *key)
{
    for (int role = 0; role < ET_JOB_ROLES; role++) {
        unsigned char known[32];
        if (role != (int)wire->role && zmq.z85_decode(known, wire->public[role]) &&
            !memcmp(known, key, sizeof known))
            return (et_job_role)role;
    }
    return ET_JOB_ROLES;
}

/* Bound before anything listens: without it ZeroMQ would let in whoever knows a server's key; and
 * what has come without a user of ours is dropped once more (is_who_it_says).
 *
 * ZeroMQ's authentication protocol (RFC 27): version, request, domain, address, identity,
 * mechanism, credentials. */
static bool answer_zap(et_wire *wire)
{
    enum { VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, PARTS };
    unsigned char part[PARTS + 1][ZAP_FRAME];
    int length[PARTS + 1] = { 0 }, count = 0;
    for (bool more = true; more; count++) {
        int at = count < PARTS ? count : PARTS;
        length[at] = read_part(wire->zap, part[at], &more);
        if (length[at] < 0)
            return false;
    }
    bool sound = count == PARTS && length[REQUEST] <= ZAP_FRAME && length[CREDENTIALS] == 32 &&
                 length[MECHANISM] == 5 && !memcmp(part[MECHANISM], "CURVE", 5);
    et_job_role role = sound ? owner_of(wire, part[CREDENTIALS]) : ET_JOB_ROLES;
    const char *owner = role < ET_JOB_ROLES ? et_job_role_names[role] : NULL;
    if (owner)
        et_visitors_showed(wire->visitors, role, et_clock_monotonic());
    size_t request = length[REQUEST] <= ZAP_FRAME ? (size_t)length[REQUEST] : 0;
    zmq.send(wire->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq.send(wire->zap, part[REQUEST], request, ZMQ_SNDMORE);
    zmq.send(wire->zap, owner ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq.send(wire->zap, owner ? "OK" : "no key of this cluster", owner ? 2 : 22, ZMQ_SNDMORE);
    zmq.send(wire->zap, owner ? owner : "", owner ? strlen(owner) : 0, ZMQ_SNDMORE);
    return zmq.send(wire->zap, "", 0, 0) >= 0;
}

/* The next event of a monitor and what belongs to it; 0: there is none. */
static int next_event(void *monitor, uint32_t *value)
{
    unsigned char part[ZAP_FRAME];
    uint16_t event;
    bool more;
    int length = zmq.recv(monitor, part, sizeof part, ZMQ_DONTWAIT);
    if (length < (int)(sizeof event + sizeof *value))
        return 0;
    memcpy(&event, part, sizeof event);
    memcpy(value, part + sizeof event, sizeof *value);
    read_part(monitor, part, &more); /* the address */
    return event;
}

/* Who has come, less who got in and who left by itself, as one of the cluster does that comes too
 * early: those who were shown the door, of whom ZeroMQ does not tell all. */
static int refused_by(int event, uint32_t value)
{
    if (event == ZMQ_EVENT_ACCEPTED)
        return 1;
    bool left =
        event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL && (value == EPIPE || value == ECONNRESET);
    return left || event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? -1 : 0;
}

static void note_visitor(et_wire *wire, int event, uint32_t value, double now)
{
    wire->refused += refused_by(event, value);
    if (event == ZMQ_EVENT_ACCEPTED)
        et_visitors_came(wire->visitors, (int)value, now);
    else if (event == ZMQ_EVENT_DISCONNECTED)
        et_visitors_left(wire->visitors, (int)value);
}

/* A thread of its own: who is let in must not wait until the task has time, and ZeroMQ's thread
 * stands still while nobody reads what it tells of connections. */
static void *guard(void *payload)
{
    et_wire *wire = payload;
    zmq_pollitem_t items[2] = { { .socket = wire->zap, .events = ZMQ_POLLIN },
                                { .socket = wire->door, .events = ZMQ_POLLIN } };
    double looked = 0;
    bool open = true;
    while (open && zmq.poll(items, 2, LOOK) >= 0) {
        double now = et_clock_monotonic();
        if (items[0].revents)
            open = answer_zap(wire);
        uint32_t value;
        for (int event; items[1].revents && (event = next_event(wire->door, &value));)
            note_visitor(wire, event, value, now);
        if (now - looked < LOOK * 1e-3)
            continue;
        looked = now;
        et_visitors_look(wire->visitors, now);
    }
    zmq.close(wire->door);
    zmq.close(wire->zap);
    return NULL;
}

/* ---- sockets ------------------------------------------------------------------------------- */

static bool set(void *socket, int option, int value)
{
    return zmq.setsockopt(socket, option, &value, sizeof value) == 0;
}

/* in, out: pieces that wait at most. */
static bool set_common(void *socket, const et_wire *wire, int in, int out)
{
    const int64_t most = ET_PIECE + CURVE_BYTES;
    return zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0 &&
           set(socket, ZMQ_LINGER, 1000) && set(socket, ZMQ_SNDHWM, out) &&
           set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE) && set(socket, ZMQ_RCVHWM, in) &&
           set(socket, ZMQ_IPV6, 1) && set(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE) &&
           set(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE) &&
           set(socket, ZMQ_TCP_KEEPALIVE_CNT, 3) && set(socket, ZMQ_TCP_MAXRT, UNHEARD) &&
           zmq.setsockopt(socket, ZMQ_CURVE_SECRETKEY, wire->secret, ET_KEY_TEXT + 1) == 0;
}

static bool set_watch(void *socket)
{
    return set(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT) &&
           set(socket, ZMQ_HEARTBEAT_TIMEOUT, SILENCE) && set(socket, ZMQ_HEARTBEAT_TTL, SILENCE);
}

/* host:port as ZeroMQ takes it to bind: numbers. */
static int resolve(char *endpoint, size_t space, const char *address, et_error *error)
{
    char number[INET6_ADDRSTRLEN];
    struct addrinfo *found;
    int status = et_address_find(&found, address, error);
    if (status)
        return status;
    getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST);
    snprintf(endpoint, space, found->ai_family == AF_INET6 ? "tcp://[%s]:%s" : "tcp://%s:%s",
             number, strrchr(address, ':') + 1);
    freeaddrinfo(found);
    return ET_OK;
}

/* What is told is not limited: at the limit ZeroMQ's thread would wait for its reader, and all
 * connections with it. */
static void *monitor_of(et_wire *wire, void *socket, int number, int events)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://monitor-%d", number);
    if (zmq.socket_monitor(socket, endpoint, events))
        return NULL;
    void *monitor = zmq.socket(wire->context, ZMQ_PAIR);
    if (monitor && (!set(monitor, ZMQ_LINGER, 0) || !set(monitor, ZMQ_RCVHWM, 0) ||
                    zmq.connect(monitor, endpoint))) {
        zmq.close(monitor);
        return NULL;
    }
    return monitor;
}

/* Strangers hold descriptors for as long as a handshake may take: those of a few thousand a second
 * are not to leave none for a checkpoint. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= DESCRIPTORS)
        return;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int start_guard(et_wire *wire, et_error *error)
{
    const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_DISCONNECTED;
    wire->zap = zmq.socket(wire->context, ZMQ_REP);
    wire->door = monitor_of(wire, wire->router, LINES * ET_TASKS_MAX, events);
    if (!wire->zap || !wire->door || zmq.bind(wire->zap, ZAP_ENDPOINT))
        return fail_zmq(error, "ZeroMQ's authentication");
    int status = et_thread_start(&wire->guard, guard, wire, error);
    wire->guarded = !status;
    return status;
}

static int queue_for(size_t largest)
{
    int64_t pieces = et_piece_count(largest);
    return pieces < QUEUE_MAX / 4 ? (int)(QUEUE + 2 * pieces) : QUEUE_MAX;
}

/* Bytes of who comes: two queues, since what it has sent is known a little later than what was
 * taken of it. Of all: as if each task that may send had sent as much. */
static int receive_visitors(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    int senders = setup->senders > 0 ? setup->senders : 1;
    const int64_t most = 2 * (int64_t)queue_for(setup->asked) * (ET_PIECE + CURVE_BYTES);
    et_visitors_setup visitors = { .address = wire->bound,
                                   .most = most,
                                   .all = most * senders,
                                   .places = 2 * LINES * senders + PLACES,
                                   .handshake = 3 * HANDSHAKE * 1e-3 };
    int status = et_visitors_open(&wire->visitors, &visitors, error);
    return status ? status : et_assembly_open(&wire->questions, senders, setup->asked, error);
}

static int listen_at(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    char endpoint[400];
    int status = resolve(endpoint, sizeof endpoint, setup->bind, error);
    if (status)
        return status;
    allow_descriptors();
    snprintf(wire->bound, sizeof wire->bound, "%s", setup->bind);
    status = receive_visitors(wire, setup, error);
    if (status)
        return status;
    int in = queue_for(setup->asked), out = queue_for(setup->largest);
    wire->router = zmq.socket(wire->context, ZMQ_ROUTER);
    if (!wire->router || !set_common(wire->router, wire, in, out) ||
        !set(wire->router, ZMQ_CURVE_SERVER, 1) || !set(wire->router, ZMQ_BACKLOG, BACKLOG) ||
        zmq.setsockopt(wire->router, ZMQ_ZAP_DOMAIN, "etude", 5) ||
        (setup->bind_fd && !set(wire->router, ZMQ_USE_FD, setup->bind_fd)))
        return fail_zmq(error, "ZeroMQ");
    status = start_guard(wire, error);
    if (!status && zmq.bind(wire->router, endpoint))
        status = fail_zmq(error, setup->bind);
    return status;
}

static bool connect_line(et_wire *wire, int task, int which, int queue)
{
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECT_RETRIED |
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    line *l = &wire->peer[task].line[which];
    const char *theirs = wire->public[task ? ET_JOB_PARAM_SERVER : ET_JOB_MASTER];
    l->alone = l->heard = et_clock_monotonic();
    l->descriptor = -1;
    l->pause = SOON;
    l->socket = zmq.socket(wire->context, ZMQ_DEALER);
    return l->socket && set_common(l->socket, wire, queue, queue) &&
           (which == TALK || set_watch(l->socket)) &&
           !zmq.setsockopt(l->socket, ZMQ_CURVE_PUBLICKEY, wire->own_public, ET_KEY_TEXT + 1) &&
           !zmq.setsockopt(l->socket, ZMQ_CURVE_SERVERKEY, theirs, ET_KEY_TEXT + 1) &&
           set(l->socket, ZMQ_RECONNECT_IVL_MAX, 2000) &&
           (l->monitor = monitor_of(wire, l->socket, LINES * task + which, events)) &&
           !zmq.connect(l->socket, wire->peer[task].endpoint);
}

/* A server answers those who have come to it; it connects to see that the master lives. */
static int connect_to(et_wire *wire, const et_wire_setup *setup, int task, et_error *error)
{
    peer *p = &wire->peer[task];
    int status = resolve(p->endpoint, sizeof p->endpoint, setup->connect[task], error);
    if (status)
        return status;
    snprintf(p->address, sizeof p->address, "%s", setup->connect[task]);
    bool talks = wire->role != ET_JOB_PARAM_SERVER;
    int queue = queue_for(setup->largest);
    bool ok =
        (!talks || connect_line(wire, task, TALK, queue)) && connect_line(wire, task, WATCH, queue);
    return ok ? ET_OK : fail_zmq(error, setup->connect[task]);
}

static void send_on(et_link *self, int to, const et_message *message);

static void doubt_on(et_link *self, int to);

static const et_link_class wire_class = { "ZeroMQ", send_on, doubt_on };

static int open_sockets(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    int status = setup->bind ? listen_at(wire, setup, error) : ET_OK;
    for (int i = 0; !status && setup->connect && i <= setup->servers; i++)
        if (setup->connect[i])
            status = connect_to(wire, setup, i, error);
    return status;
}

int et_wire_open(et_wire **out, const et_wire_setup *setup, et_error *error)
{
    *out = NULL;
    int status = et_library_load(&library, &zmq, error);
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
    wire->context = zmq.ctx_new();
    status = wire->peer && wire->via && wire->items && wire->context
                 ? et_assembly_open(&wire->answers, setup->servers + 1, setup->largest, error)
                 : et_alloc_failed(error, sizeof *wire, "a connection");
    status = status ? status : open_sockets(wire, setup, error);
    if (status)
        et_wire_close(wire);
    else
        *out = wire;
    return status;
}

/* monitor: NULL where another thread closes it. */
static void close_socket(void *socket, void *monitor)
{
    if (socket)
        zmq.socket_monitor(socket, NULL, 0);
    if (monitor)
        zmq.close(monitor);
    if (socket)
        zmq.close(socket);
}

/* Once, however many they were. */
static void say_how_many(const et_wire *wire)
{
    long long refused = (long long)wire->refused, damaged = (long long)wire->damaged;
    if (refused > 0)
        et_log(ET_LOG_WARNING,
               "%s: %lld connection%s not let in: no key of this cluster, or damaged on the way",
               wire->bound, refused, refused == 1 ? " was" : "s were");
    if (damaged > 0)
        et_log(ET_LOG_WARNING, "%lld connection%s made again at once: damaged on the way", damaged,
               damaged == 1 ? " was" : "s were");
}

void et_wire_close(et_wire *wire)
{
    if (!wire)
        return;
    if (wire->holds)
        zmq.msg_close(&wire->message);
    for (int i = 0; wire->peer && i < LINES * (wire->servers + 1); i++) {
        line *l = &wire->peer[i / LINES].line[i % LINES];
        close_socket(l->socket, l->monitor);
    }
    close_socket(wire->router, wire->guarded ? NULL : wire->door);
    if (wire->context)
        zmq.ctx_shutdown(wire->context);
    if (wire->guarded)
        et_thread_join(wire->guard);
    else if (wire->zap)
        zmq.close(wire->zap);
    if (wire->context)
        zmq.ctx_term(wire->context);
    say_how_many(wire);
    et_visitors_close(wire->visitors);
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

/* ---- messages ------------------------------------------------------------------------------ */

/* A connection's number in a router, and how long it is. */
static uint64_t via_of(const unsigned char *id, int length)
{
    uint64_t via = 0;
    for (int i = 0; i < length; i++)
        via = via << 8 | id[i];
    return via | (uint64_t)length << 8 * ID_MAX;
}

static bool send_id(void *socket, uint64_t via)
{
    unsigned char id[ID_MAX];
    size_t length = (size_t)(via >> 8 * ID_MAX);
    for (size_t i = length; i-- > 0; via >>= 8)
        id[i] = (unsigned char)via;
    return zmq.send(socket, id, length, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
}

/* The next piece; via: 0 in a dealer. False: what is left of the message is dropped. */
static bool send_piece(void *socket, uint64_t via, et_cutting *cutting)
{
    zmq_msg_t out;
    if (zmq.msg_init_size(&out, et_cutting_next(cutting)))
        return false;
    et_cutting_write(cutting, zmq.msg_data(&out));
    if ((!via || send_id(socket, via)) && zmq.msg_send(&out, socket, ZMQ_DONTWAIT) >= 0)
        return true;
    zmq.msg_close(&out);
    return false;
}

static void send_on(et_link *self, int to, const et_message *message)
{
    et_wire *wire = (et_wire *)(void *)self;
    bool dealt = to <= wire->servers && wire->peer[to].line[TALK].socket;
    uint64_t via = dealt ? 0 : message->via ? message->via : wire->via[to];
    void *socket = dealt ? wire->peer[to].line[TALK].socket : wire->router;
    et_cutting cutting;
    if (!socket || !(dealt || via))
        return;
    if (dealt)
        wire->peer[to].line[TALK].before = wire->peer[to].line[TALK].pieces;
    et_cutting_begin(&cutting, message, ++wire->number);
    while (et_cutting_next(&cutting) && send_piece(socket, via, &cutting)) {
    }
}

/* Whether ZeroMQ is at an address, which begins to speak at once: a proxy takes connections for
 * those who are not there yet, and closes them without a word. */
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
static void make_again(const peer *p, line *l)
{
    l->heard = et_clock_monotonic();
    l->again = 0;
    l->descriptor = -1;
    zmq.disconnect(l->socket, p->endpoint);
    zmq.connect(l->socket, p->endpoint);
}

/* Whether all that was sent over a line is at the other side. */
static bool has_arrived(const line *l)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    return l->descriptor >= 0 && !getsockopt(l->descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) &&
           !info.tcpi_unacked && !info.tcpi_notsent_bytes;
}

/* A length that was changed on the way makes who reads it wait for bytes that nobody sends. So a
 * line is made again where nothing whole has come since the question was asked again. */
static void doubt_on(et_link *self, int to)
{
    et_wire *wire = (et_wire *)(void *)self;
    line *l = to <= wire->servers ? &wire->peer[to].line[TALK] : NULL;
    if (l && l->socket && !l->alone && l->pieces == l->before && has_arrived(l))
        make_again(&wire->peer[to], l);
}

/* A network that cuts a handshake, or one that takes its time, is no refusal; nor is a proxy that
 * closes what it takes for who is not there yet: what failed counts again once they are there. */
static void note_failure(et_wire *wire, const peer *p, line *l)
{
    l->failures = l->known || l->heard - l->tried > AT_ONCE ? 0 : l->failures + 1;
    if (l->failures < (l->there ? FAILURES_THERE : FAILURES_MAX))
        return;
    l->failures = 0;
    wire->denied = wire->denied || l->there;
    l->there = is_there(p->address);
}

/* After a connection ZeroMQ says at once that it tries again, or it has given the line up. Of what
 * can't be opened it tells, and then as often as not stands still: errno is what telling has left.
 */
static void note_event(et_wire *wire, const peer *p, line *l, int event, uint32_t value)
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
        l->pause = SOON;
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

/* Who is silent is silent on both lines, and TCP takes longer to see it. Once for each loss. */
static void follow_watch(peer *p)
{
    line *talk = &p->line[TALK];
    const line *watch = &p->line[WATCH];
    double now = et_clock_monotonic(), lost = watch->alone + DEAD;
    if (!talk->socket || talk->alone || !watch->known || !watch->alone || now < lost ||
        talk->heard > lost)
        return;
    talk->alone = now;
    make_again(p, talk);
}

/* The line is there and ZeroMQ has given it up: what came over it was none of its bytes. */
static void try_again(et_wire *wire, const peer *p, line *l)
{
    wire->damaged += l->known && l->pause == SOON;
    l->pause = fmin(2 * l->pause, DEAD);
    make_again(p, l);
}

static void read_monitors(et_wire *wire)
{
    for (int i = 0; i < LINES * (wire->servers + 1); i++) {
        peer *p = &wire->peer[i / LINES];
        line *l = &p->line[i % LINES];
        uint32_t value;
        for (int event; l->monitor && (event = next_event(l->monitor, &value));)
            note_event(wire, p, l, event, value);
        double now = et_clock_monotonic();
        if (l->socket && l->again && now >= l->again)
            try_again(wire, p, l);
        else if (l->socket && l->alone && now - l->heard >= DEAD)
            make_again(p, l);
    }
    for (int i = 0; i <= wire->servers; i++)
        follow_watch(&wire->peer[i]);
}

/* Whose key a message came with; ET_JOB_ROLES: nobody's. */
static et_job_role role_of(et_wire *wire)
{
    const char *user = zmq.msg_gets(&wire->message, "User-Id");
    int role = 0;
    while (role < ET_JOB_ROLES && !(user && !strcmp(user, et_job_role_names[role])))
        role++;
    return (et_job_role)role;
}

/* Who says to be the master has its key, and so on. */
static bool is_who_it_says(const et_wire *wire, const et_message *message, et_job_role role)
{
    return (message->from == ET_TASK_MASTER && role == ET_JOB_MASTER) ||
           (message->from > wire->servers && role == ET_JOB_WORKER);
}

typedef enum taken { NOTHING, PIECE, MESSAGE } taken;

/* The next piece of a socket, into wire->message; bytes: as it was sent; 0: there is none. *alone:
 * as all are that the cluster sends; others are dropped. */
static size_t take_piece(et_wire *wire, void *socket, bool *alone)
{
    size_t bytes = 0;
    *alone = true;
    while (zmq.msg_recv(&wire->message, socket, ZMQ_DONTWAIT) >= 0) {
        size_t size = zmq.msg_size(&wire->message) + SEAL_BYTES;
        bytes += size + (size > 255 ? 9 : 2);
        if (!zmq.msg_more(&wire->message))
            break;
        *alone = false;
    }
    return bytes;
}

/* What wire->message is: a piece of a message of its connection; WRONG: nothing that a task sends.
 */
static et_piece completes(et_wire *wire, et_assembly *assembly, uint64_t connection,
                          et_message *out)
{
    const unsigned char *data;
    size_t size;
    et_piece what = et_assembly_take(assembly, connection, zmq.msg_data(&wire->message),
                                     zmq.msg_size(&wire->message), &data, &size);
    return what == ET_PIECE_LAST && !et_message_read(out, data, size) ? ET_PIECE_WRONG : what;
}

/* From a connection that this task has made; from: whose it is. */
static taken take_dealt(et_wire *wire, int from, et_message *out)
{
    bool alone;
    line *l = &wire->peer[from].line[TALK];
    if (!take_piece(wire, l->socket, &alone))
        return NOTHING;
    l->pieces++;
    et_piece what = alone ? completes(wire, &wire->answers, (uint64_t)from, out) : ET_PIECE_WRONG;
    if (what == ET_PIECE_LAST && out->from == from)
        return MESSAGE;
    if (what == ET_PIECE_WRONG) {
        wire->damaged++;
        make_again(&wire->peer[from], l);
    }
    return PIECE;
}

static taken take_routed(et_wire *wire, et_message *out)
{
    unsigned char id[ID_MAX];
    bool alone;
    int length = zmq.recv(wire->router, id, sizeof id, ZMQ_DONTWAIT);
    size_t bytes = length < 0 ? 0 : take_piece(wire, wire->router, &alone);
    if (!bytes)
        return NOTHING;
    et_job_role role = role_of(wire);
    int descriptor = zmq.msg_get(&wire->message, ZMQ_SRCFD);
    if (length < 1 || length > ID_MAX || role == ET_JOB_ROLES)
        return PIECE;
    et_visitors_took(wire->visitors, descriptor, role, bytes);
    uint64_t via = via_of(id, length);
    et_piece what = alone ? completes(wire, &wire->questions, via, out) : ET_PIECE_WRONG;
    if (what == ET_PIECE_LAST && !is_who_it_says(wire, out, role))
        what = ET_PIECE_WRONG;
    if (what == ET_PIECE_WRONG)
        et_visitors_refuse(wire->visitors, descriptor, "has sent what no task sends");
    if (what != ET_PIECE_LAST)
        return PIECE;
    out->via = wire->via[out->from] = via;
    return MESSAGE;
}

/* One look at each socket. */
static taken take_any(et_wire *wire, et_message *out)
{
    taken what = wire->router ? take_routed(wire, out) : NOTHING;
    for (int i = 0; what != MESSAGE && i <= wire->servers; i++)
        if (wire->peer[i].line[TALK].socket) {
            taken next = take_dealt(wire, i, out);
            what = next > what ? next : what;
        }
    return what;
}

/* Of what is there; what makes no message is dropped. */
static bool take_message(et_wire *wire, et_message *out)
{
    taken what = PIECE;
    for (int i = 0; what == PIECE && i < TURNS; i++)
        what = take_any(wire, out);
    return what == MESSAGE;
}

/* Whether something is there to take. */
static bool wait_for_any(et_wire *wire, double seconds)
{
    int count = 0;
    if (wire->router)
        wire->items[count++] = (zmq_pollitem_t){ .socket = wire->router, .events = ZMQ_POLLIN };
    for (int i = 0; i <= wire->servers; i++)
        if (wire->peer[i].line[TALK].socket)
            wire->items[count++] =
                (zmq_pollitem_t){ .socket = wire->peer[i].line[TALK].socket, .events = ZMQ_POLLIN };
    return zmq.poll(wire->items, count, (long)(seconds * 1000 + 0.999)) > 0;
}

int et_wire_receive(et_wire *wire, double seconds, et_message *out, bool *got, et_error *error)
{
    if (wire->holds)
        zmq.msg_close(&wire->message);
    zmq.msg_init(&wire->message);
    wire->holds = true;
    double until = et_clock_monotonic() + seconds, left = seconds;
    while (!(*got = take_message(wire, out)) && left > 0 && wait_for_any(wire, left))
        left = until - et_clock_monotonic();
    read_monitors(wire);
    return wire->denied ? et_fail(error, ET_EDENIED,
                                  "the other tasks do not take this one's key: all keys of a "
                                  "cluster come from one `etude keys DIR`")
                        : ET_OK;
}

double et_wire_alone(const et_wire *wire, int task)
{
    double talk = wire->peer[task].line[TALK].alone, watch = wire->peer[task].line[WATCH].alone;
    double since = talk && watch ? fmin(talk, watch) : talk + watch;
    return since ? et_clock_monotonic() - since : 0;
}

int et_wire_check(et_error *error)
{
    (void)error;
    return ET_OK;
}

int et_wire_keypair(char *public, char *secret, et_error *error)
{
    int status = et_library_load(&library, &zmq, error);
    if (!status && zmq.curve_keypair(public, secret))
        status = fail_zmq(error, "a pair of keys (CURVE)");
    return status;
}
