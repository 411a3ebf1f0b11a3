#include "cluster/wire.h"

#include <zmq.h>

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
#define AT_ONCE        3.0   /* seconds: who is refused is refused at once */
#define QUEUE          16 /* pieces that wait in a connection beside two messages of the largest */
#define QUEUE_MAX      (1 << 30)
#define TURNS          1024 /* pieces that are taken in one look for a message */
#define CURVE_BYTES    64   /* at least what encryption adds to a message (33) */
#define BACKLOG        1024 /* connections that wait to be taken */
#define DESCRIPTORS    16384
#define ZAP_ENDPOINT   "inproc://zeromq.zap.01"
#define ZAP_FRAME      256 /* most bytes of a part of a ZAP question that are looked at */

/* A connection that this task makes. */
typedef struct line {
    void *socket, *monitor; /* socket NULL: there is none */
    double alone;           /* since when; 0: connected */
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
    _Atomic int64_t refused; /* connections that were not let in */
    char bound[300];         /* host:port that it listens at */
    peer *peer;              /* [1 + servers] */
    uint64_t *via;           /* [ET_TASKS_MAX]: where a task was heard last; 0: nowhere */
    zmq_pollitem_t *items;   /* [2 + servers] */
    zmq_msg_t message;       /* the piece that was received last */
    bool holds;              /* message is in use */
    et_assembly assembly;
    uint64_t number; /* of the message that was sent last */
    int queue;       /* pieces that wait in a connection at most */
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

/* Whose key it is, by role; NULL: nobody's who may connect here. Servers connect to the master to
 * see that it lives. */
static const char *owner_of(const et_wire *wire, const unsigned char *key)
{
    for (int role = 0; role < ET_JOB_ROLES; role++) {
        unsigned char known[32];
        if (role != (int)wire->role && zmq.z85_decode(known, wire->public[role]) &&
            !memcmp(known, key, sizeof known))
            return et_job_role_names[role];
    }
    return NULL;
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
    const char *owner = sound ? owner_of(wire, part[CREDENTIALS]) : NULL;
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

/* A thread of its own: who is let in must not wait until the task has time, and ZeroMQ's thread
 * stands still while nobody reads what it tells of connections. */
static void *guard(void *payload)
{
    et_wire *wire = payload;
    zmq_pollitem_t items[2] = { { .socket = wire->zap, .events = ZMQ_POLLIN },
                                { .socket = wire->door, .events = ZMQ_POLLIN } };
    bool open = true;
    while (open && zmq.poll(items, 2, -1) >= 0) {
        if (items[0].revents)
            open = answer_zap(wire);
        uint32_t value;
        for (int event; items[1].revents && (event = next_event(wire->door, &value));)
            wire->refused += refused_by(event, value);
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

static bool set_common(void *socket, const et_wire *wire)
{
    const int64_t most = ET_PIECE + CURVE_BYTES;
    return zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0 &&
           set(socket, ZMQ_LINGER, 1000) && set(socket, ZMQ_SNDHWM, wire->queue) &&
           set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE) && set(socket, ZMQ_RCVHWM, wire->queue) &&
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
    const int events =
        ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    wire->zap = zmq.socket(wire->context, ZMQ_REP);
    wire->door = monitor_of(wire, wire->router, LINES * ET_TASKS_MAX, events);
    if (!wire->zap || !wire->door || zmq.bind(wire->zap, ZAP_ENDPOINT))
        return fail_zmq(error, "ZeroMQ's authentication");
    int status = et_thread_start(&wire->guard, guard, wire, error);
    wire->guarded = !status;
    return status;
}

static int listen_at(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    char endpoint[400];
    int status = resolve(endpoint, sizeof endpoint, setup->bind, error);
    if (status)
        return status;
    allow_descriptors();
    snprintf(wire->bound, sizeof wire->bound, "%s", setup->bind);
    wire->router = zmq.socket(wire->context, ZMQ_ROUTER);
    if (!wire->router || !set_common(wire->router, wire) ||
        !set(wire->router, ZMQ_CURVE_SERVER, 1) || !set(wire->router, ZMQ_BACKLOG, BACKLOG) ||
        zmq.setsockopt(wire->router, ZMQ_ZAP_DOMAIN, "etude", 5) ||
        (setup->bind_fd && !set(wire->router, ZMQ_USE_FD, setup->bind_fd)))
        return fail_zmq(error, "ZeroMQ");
    status = start_guard(wire, error);
    if (!status && zmq.bind(wire->router, endpoint))
        status = fail_zmq(error, setup->bind);
    return status;
}

static bool connect_line(et_wire *wire, int task, int which)
{
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECT_RETRIED |
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    line *l = &wire->peer[task].line[which];
    const char *theirs = wire->public[task ? ET_JOB_PARAM_SERVER : ET_JOB_MASTER];
    l->alone = l->heard = et_clock_monotonic();
    l->socket = zmq.socket(wire->context, ZMQ_DEALER);
    return l->socket && set_common(l->socket, wire) && (which == TALK || set_watch(l->socket)) &&
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
    bool ok = (!talks || connect_line(wire, task, TALK)) && connect_line(wire, task, WATCH);
    return ok ? ET_OK : fail_zmq(error, setup->connect[task]);
}

static void send_on(et_link *self, int to, const et_message *message);

static const et_link_class wire_class = { "ZeroMQ", send_on };

static int open_sockets(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    int status = setup->bind ? listen_at(wire, setup, error) : ET_OK;
    for (int i = 0; !status && setup->connect && i <= setup->servers; i++)
        if (setup->connect[i])
            status = connect_to(wire, setup, i, error);
    return status;
}

static int queue_for(size_t largest)
{
    int64_t pieces = et_piece_count(largest);
    return pieces < QUEUE_MAX / 4 ? (int)(QUEUE + 2 * pieces) : QUEUE_MAX;
}

static int places_for(const et_wire_setup *setup)
{
    return setup->servers + 1 > setup->senders ? setup->servers + 1 : setup->senders;
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
    wire->queue = queue_for(setup->largest);
    wire->context = zmq.ctx_new();
    status = wire->peer && wire->via && wire->items && wire->context
                 ? et_assembly_open(&wire->assembly, places_for(setup), setup->largest, error)
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
static void say_refused(const et_wire *wire)
{
    long long refused = (long long)wire->refused;
    if (refused > 0)
        et_log(ET_LOG_WARNING,
               "%s: %lld connection%s not let in: no key of this cluster, or damaged on the way",
               wire->bound, refused, refused == 1 ? " was" : "s were");
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
    say_refused(wire);
    et_free(wire->peer);
    et_free(wire->via);
    et_free(wire->items);
    et_assembly_release(&wire->assembly);
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
    zmq.disconnect(l->socket, p->endpoint);
    zmq.connect(l->socket, p->endpoint);
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

static void note_event(et_wire *wire, const peer *p, line *l, int event)
{
    l->heard = et_clock_monotonic();
    if (event == ZMQ_EVENT_CONNECTED) {
        l->tried = l->heard;
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        l->alone = l->failures = 0;
        l->known = true;
        l->there = false;
    } else if (event == ZMQ_EVENT_DISCONNECTED && !l->alone) {
        l->alone = l->heard;
    } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        wire->denied = true;
    } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
               event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
        note_failure(wire, p, l);
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

static void read_monitors(et_wire *wire)
{
    for (int i = 0; i < LINES * (wire->servers + 1); i++) {
        peer *p = &wire->peer[i / LINES];
        line *l = &p->line[i % LINES];
        uint32_t value;
        for (int event; l->monitor && (event = next_event(l->monitor, &value));)
            note_event(wire, p, l, event);
        if (l->socket && l->alone && et_clock_monotonic() - l->heard >= DEAD)
            make_again(p, l);
    }
    for (int i = 0; i <= wire->servers; i++)
        follow_watch(&wire->peer[i]);
}

/* Who says to be the master has its key, and so on. */
static bool is_who_it_says(et_wire *wire, const et_message *message)
{
    const char *user = zmq.msg_gets(&wire->message, "User-Id");
    bool master = message->from == ET_TASK_MASTER;
    bool worker = message->from > wire->servers;
    return user && ((master && !strcmp(user, "master")) || (worker && !strcmp(user, "worker")));
}

typedef enum taken { NOTHING, PIECE, MESSAGE } taken;

/* The next piece of a socket, into wire->message; false: there is none. *alone: as all are that the
 * cluster sends; others are dropped. */
static bool take_piece(et_wire *wire, void *socket, bool *alone)
{
    if (zmq.msg_recv(&wire->message, socket, ZMQ_DONTWAIT) < 0)
        return false;
    *alone = !zmq.msg_more(&wire->message);
    while (zmq.msg_more(&wire->message) &&
           zmq.msg_recv(&wire->message, socket, ZMQ_DONTWAIT) >= 0) {
    }
    return true;
}

/* Whether wire->message makes a message of its connection whole. */
static bool completes(et_wire *wire, uint64_t connection, et_message *out)
{
    const unsigned char *data;
    size_t size;
    return et_assembly_take(&wire->assembly, connection, zmq.msg_data(&wire->message),
                            zmq.msg_size(&wire->message), &data, &size) &&
           et_message_read(out, data, size);
}

/* From a connection that this task has made; from: whose it is. */
static taken take_dealt(et_wire *wire, void *socket, int from, et_message *out)
{
    bool alone;
    if (!take_piece(wire, socket, &alone))
        return NOTHING;
    return alone && completes(wire, (uint64_t)from, out) && out->from == from ? MESSAGE : PIECE;
}

static taken take_routed(et_wire *wire, et_message *out)
{
    unsigned char id[ID_MAX];
    bool alone;
    int length = zmq.recv(wire->router, id, sizeof id, ZMQ_DONTWAIT);
    if (length < 0 || !take_piece(wire, wire->router, &alone))
        return NOTHING;
    if (!alone || length < 1 || length > ID_MAX || !zmq.msg_gets(&wire->message, "User-Id"))
        return PIECE;
    uint64_t via = via_of(id, length);
    if (!completes(wire, via, out) || !is_who_it_says(wire, out))
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
            taken next = take_dealt(wire, wire->peer[i].line[TALK].socket, i, out);
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
