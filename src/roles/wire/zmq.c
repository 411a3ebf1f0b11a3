/* The transport over ZeroMQ: ZeroMQ's calls, incoming connections (the router, its guard, its
 * sessions), outgoing connections of this task, and messages as chunks.
 *
 * Messages are not ZeroMQ's multipart messages, and a connection has either messages or heartbeats
 * (ZMQ_HEARTBEAT_*). Otherwise libzmq 4.3.4 (Debian 12) ends the whole process. Two programs showed
 * it, each in three of three runs. Each connected DEALER sockets to four peers, sent messages of 32
 * frames of 64 KiB, and killed (kill -9) 200 peers one after another:
 *
 *   heartbeats, and the socket of a killed peer is disconnected or closed:
 *       "Assertion failed: !_io_error (src/stream_engine_base.cpp:331)" with the first killed peer.
 *       Heartbeats write without a look at what has become of the connection.
 *   no heartbeats, and the peer is disconnected while frames are under way and then killed; the
 *   linger time ends (50 ms) before the socket's own thread calls ZeroMQ again:
 *       "Resource temporarily unavailable (src/session_base.cpp:260)", in clean_pipes, with peers
 *       85, 33 and 32. Here a socket's thread computes for seconds, so this happens.
 *
 * Without a disconnect or close, each run survived all 200 killed peers, with and without
 * heartbeats. So did each run of the second program with messages of one frame. But a task must
 * disconnect from a silent peer. So a connection with messages has no heartbeats, a connection with
 * heartbeats carries nothing else, and each chunk (message.h) is a message of one frame. */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <math.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/files/library.h"
#include "base/threads/thread.h"
#include "roles/wire/message.h"
#include "roles/wire/sessions.h"
#include "roles/wire/wire.h"

/* zmq_bind is et_zmq.bind, and so on: loaded by the first call that opens a wire or makes keys. */
#define ET_ZMQ_CALLS(X)                                                                            \
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

typedef struct et_zmq_calls {
    ET_ZMQ_CALLS(ET_LIBRARY_CALL)
} et_zmq_calls;

#define ET_WIRE_HANDSHAKE   4000 /* milliseconds for a handshake */
#define ET_WIRE_SOON        0.25 /* seconds within which ZeroMQ reports a retry, if it retries */
#define ET_WIRE_CURVE_BYTES 64   /* at least as many as encryption adds to a message */
#define ET_WIRE_PART        256  /* most bytes of a part that is read separately */

/* A connection that this task makes. */
typedef struct et_wire_line {
    void *socket, *monitor; /* socket NULL: no connection */
    int descriptor;         /* -1: unknown */
    double alone;           /* since when; 0: connected */
    double again;           /* when ZeroMQ has probably given it up; 0: not yet */
    double pause;           /* seconds from the loss of the connection to the last `again` */
    int64_t chunks;         /* that have come over it */
    int64_t chunks_at_send; /* chunks when something was last sent */
    double tried;           /* when its TCP connection was made */
    bool known;             /* a handshake has succeeded: its keys are right */
    double heard;           /* when something last happened to the connection */
    int failures;           /* handshakes in a row that were refused */
    bool there;             /* ZeroMQ was at the address after failures before these */
} et_wire_line;

enum { ET_WIRE_TALK, ET_WIRE_HEARTBEAT, ET_WIRE_LINES };

typedef struct et_wire_peer {
    et_wire_line line[ET_WIRE_LINES];
    char address[300];  /* host:port */
    char endpoint[400]; /* the same for ZeroMQ */
} et_wire_peer;

struct et_wire {
    et_link link;
    et_job_role role;
    int servers;
    void *context, *router;
    void *zap, *entrance; /* the guard's: requests for admission, events of connections */
    pthread_t guard;
    bool guarded;
    et_sessions *sessions;
    _Atomic int64_t refused; /* connections that were not let in */
    int64_t damaged;         /* connections of this task made anew after invalid data */
    char bound[300];         /* host:port that it listens at */
    et_arena arena;          /* of the arrays */
    et_wire_peer *peer;      /* [1 + servers] */
    uint64_t *via;           /* [ET_TASKS_MAX]: last connection of each task; 0: none */
    zmq_pollitem_t *items;   /* [2 + servers] */
    zmq_msg_t message;       /* the chunk that was received last */
    bool holds;              /* message is in use */
    et_assembly answers;     /* of connections that this task makes */
    et_assembly questions;   /* of connections to this task */
    uint64_t number;         /* of the message that was sent last */
    bool denied;
    char public[ET_JOB_ROLES][ET_KEY_TEXT + 1];
    char own_public[ET_KEY_TEXT + 1], secret[ET_KEY_TEXT + 1];
};

static et_zmq_calls et_zmq;

static const char *const names[] = { ET_ZMQ_CALLS(ET_LIBRARY_NAME) };

static const et_library library = { ET_ZMQ_FILE, "ZeroMQ", names, sizeof et_zmq / sizeof(void *) };

#define KEEPALIVE 10    /* seconds */
#define UNHEARD   60000 /* milliseconds without a word from TCP's other side */
#define QUEUE     16    /* waiting chunks of a connection, besides two of the largest messages */
#define QUEUE_MAX (1 << 30)

/* Loads the library before the first call. ET_ENOTFOUND: the library is missing. */
static int load_library(et_error *error)
{
    return et_library_load(&library, &et_zmq, error);
}

/* ET_EIO with errno in ZeroMQ's words. */
static int fail(et_error *error, const char *what)
{
    return et_fail(error, ET_EIO, "%s: %s", what, et_zmq.strerror(errno));
}

/* An option that is an int. */
static bool set_option(void *socket, int option, int value)
{
    return et_zmq.setsockopt(socket, option, &value, sizeof value) == 0;
}

/* Options of every socket for messages or monitoring; in, out: the most chunks that may wait. */
static bool set_options(void *socket, const et_wire *wire, int in, int out)
{
    const int64_t most = ET_CHUNK + ET_WIRE_CURVE_BYTES;
    return et_zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0 &&
           set_option(socket, ZMQ_LINGER, 1000) && set_option(socket, ZMQ_SNDHWM, out) &&
           set_option(socket, ZMQ_HANDSHAKE_IVL, ET_WIRE_HANDSHAKE) &&
           set_option(socket, ZMQ_RCVHWM, in) && set_option(socket, ZMQ_IPV6, 1) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE_CNT, 3) &&
           set_option(socket, ZMQ_TCP_MAXRT, UNHEARD) &&
           et_zmq.setsockopt(socket, ZMQ_CURVE_SECRETKEY, wire->secret, ET_KEY_TEXT + 1) == 0;
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

/* Most chunks that may wait on a connection with messages of at most `largest` bytes. */
static int queue_of(size_t largest)
{
    int64_t chunks = et_chunk_count(largest);
    return chunks < QUEUE_MAX / 4 ? (int)(QUEUE + 2 * chunks) : QUEUE_MAX;
}

/* Makes a monitor of a socket's connections, for these events. number: different for each. NULL: it
 * failed. The number of reports is not limited: at a limit ZeroMQ's thread would wait for its
 * reader, and all connections with it. */
static void *open_monitor(et_wire *wire, void *socket, int number, int events)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://monitor-%d", number);
    if (et_zmq.socket_monitor(socket, endpoint, events))
        return NULL;
    void *monitor = et_zmq.socket(wire->context, ZMQ_PAIR);
    if (monitor && (!set_option(monitor, ZMQ_LINGER, 0) || !set_option(monitor, ZMQ_RCVHWM, 0) ||
                    et_zmq.connect(monitor, endpoint))) {
        et_zmq.close(monitor);
        return NULL;
    }
    return monitor;
}

/* A part of a message of several, cut; -1: the context is at its end. more: others follow. part has
 * ET_WIRE_PART bytes. */
static int read_part(void *socket, unsigned char *part, bool *more)
{
    int flag = 0;
    size_t size = sizeof flag;
    int length = et_zmq.recv(socket, part, ET_WIRE_PART, 0);
    et_zmq.getsockopt(socket, ZMQ_RCVMORE, &flag, &size);
    *more = flag != 0;
    return length;
}

/* The next event of a monitor, and its value; 0: no event. */
static int next_event(void *monitor, uint32_t *value)
{
    unsigned char part[ET_WIRE_PART];
    uint16_t event;
    bool more;
    int length = et_zmq.recv(monitor, part, sizeof part, ZMQ_DONTWAIT);
    if (length < (int)(sizeof event + sizeof *value))
        return 0;
    memcpy(&event, part, sizeof event);
    memcpy(value, part + sizeof event, sizeof *value);
    read_part(monitor, part, &more); /* the address */
    return event;
}

/* ---- incoming connections ---- */

#define LOOK         50   /* milliseconds between two checks of the memory that connections hold */
#define KEYED_MORE   32   /* connections with a key beyond twice the tasks' own */
#define BACKLOG      1024 /* connections that wait to be taken */
#define DESCRIPTORS  16384
#define ZAP_ENDPOINT "inproc://zeromq.zap.01"

/* ---- the guard ---- */

/* The role of the key's owner; ET_JOB_ROLES: not allowed to connect here. Servers connect to the
 * master to notice its end. */
static et_job_role owner_of(const et_wire *wire, const unsigned char *key)
{
    for (int role = 0; role < ET_JOB_ROLES; role++) {
        unsigned char known[32];
        if (role != (int)wire->role && et_zmq.z85_decode(known, wire->public[role]) &&
            !memcmp(known, key, sizeof known))
            return (et_job_role)role;
    }
    return ET_JOB_ROLES;
}

/* This socket is bound before any other socket listens. Otherwise ZeroMQ would admit everyone who
 * knows a server's key. Messages without one of our user names are dropped as well. ZeroMQ's
 * authentication protocol (RFC 27): version, request, domain, address, identity, mechanism,
 * credentials. */
static bool answer_zap(et_wire *wire)
{
    enum { VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, PARTS };
    unsigned char part[PARTS + 1][ET_WIRE_PART];
    int length[PARTS + 1] = { 0 }, count = 0;
    for (bool more = true; more; count++) {
        int at = count < PARTS ? count : PARTS;
        length[at] = read_part(wire->zap, part[at], &more);
        if (length[at] < 0)
            return false;
    }
    bool sound = count == PARTS && length[REQUEST] <= ET_WIRE_PART && length[CREDENTIALS] == 32 &&
                 length[MECHANISM] == 5 && !memcmp(part[MECHANISM], "CURVE", 5);
    et_job_role role = sound ? owner_of(wire, part[CREDENTIALS]) : ET_JOB_ROLES;
    const char *owner = role < ET_JOB_ROLES ? et_job_role_names[role] : NULL;
    if (owner)
        et_sessions_showed(wire->sessions, role, et_clock_monotonic());
    size_t request = length[REQUEST] <= ET_WIRE_PART ? (size_t)length[REQUEST] : 0;
    et_zmq.send(wire->zap, "1.0", 3, ZMQ_SNDMORE);
    et_zmq.send(wire->zap, part[REQUEST], request, ZMQ_SNDMORE);
    et_zmq.send(wire->zap, owner ? "200" : "400", 3, ZMQ_SNDMORE);
    et_zmq.send(wire->zap, owner ? "OK" : "no key of this cluster", owner ? 2 : 22, ZMQ_SNDMORE);
    et_zmq.send(wire->zap, owner ? owner : "", owner ? strlen(owner) : 0, ZMQ_SNDMORE);
    return et_zmq.send(wire->zap, "", 0, 0) >= 0;
}

/* The change of the number of refused connections. ZeroMQ does not report all refusals. So the
 * number is computed: accepted connections, minus admitted ones, minus connections that the peer
 * closed. A task that starts too early closes its connection. */
static int refused_by(int event, uint32_t value)
{
    if (event == ZMQ_EVENT_ACCEPTED)
        return 1;
    bool left =
        event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL && (value == EPIPE || value == ECONNRESET);
    return left || event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? -1 : 0;
}

/* A separate thread: admission must not wait until the task has time, and ZeroMQ's thread stops
 * while its reports of connections are not read. */
static void *guard(void *payload)
{
    et_wire *wire = payload;
    zmq_pollitem_t items[2] = { { .socket = wire->zap, .events = ZMQ_POLLIN },
                                { .socket = wire->entrance, .events = ZMQ_POLLIN } };
    double looked = 0;
    bool open = true;
    while (open && et_zmq.poll(items, 2, LOOK) >= 0) {
        double now = et_clock_monotonic();
        if (items[0].revents)
            open = answer_zap(wire);
        uint32_t value;
        for (int event; items[1].revents && (event = next_event(wire->entrance, &value));) {
            wire->refused += refused_by(event, value);
            if (event == ZMQ_EVENT_ACCEPTED)
                et_sessions_came(wire->sessions, (int)value, now);
            else if (event == ZMQ_EVENT_DISCONNECTED)
                et_sessions_left(wire->sessions, (int)value);
        }
        if (now - looked < LOOK * 1e-3)
            continue;
        looked = now;
        et_sessions_look(wire->sessions, now);
    }
    et_zmq.close(wire->entrance);
    et_zmq.close(wire->zap);
    return NULL;
}

/* ---- listening ---- */

/* Strangers hold a descriptor as long as a handshake may take. A few thousand strangers a second
 * must leave descriptors for a checkpoint. */
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
    wire->zap = et_zmq.socket(wire->context, ZMQ_REP);
    wire->entrance = open_monitor(wire, wire->router, ET_WIRE_LINES * ET_TASKS_MAX, events);
    if (!wire->zap || !wire->entrance || et_zmq.bind(wire->zap, ZAP_ENDPOINT))
        return fail(error, "ZeroMQ's authentication");
    int status = et_thread_start(&wire->guard, guard, wire, error);
    wire->guarded = !status;
    return status;
}

/* The limit for one connection is two queues, because its sent bytes are known a little later than
 * the bytes taken from it. The limit for all is the sum for all tasks that may send. */
static int receive_sessions(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    int senders = setup->senders > 0 ? setup->senders : 1;
    const int64_t most = 2 * (int64_t)queue_of(setup->asked) * (ET_CHUNK + ET_WIRE_CURVE_BYTES);
    et_sessions_setup sessions = { .address = wire->bound,
                                   .most = most,
                                   .all = most * senders,
                                   .keyed_most = 2 * ET_WIRE_LINES * senders + KEYED_MORE,
                                   .handshake = 3 * ET_WIRE_HANDSHAKE * 1e-3 };
    int status = et_sessions_open(&wire->sessions, &sessions, error);
    return status ? status : et_assembly_open(&wire->questions, senders, setup->asked, error);
}

static int start_listening(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    char endpoint[400];
    int status = resolve(endpoint, sizeof endpoint, setup->bind, error);
    if (status)
        return status;
    allow_descriptors();
    snprintf(wire->bound, sizeof wire->bound, "%s", setup->bind);
    if ((status = receive_sessions(wire, setup, error)))
        return status;
    int in = queue_of(setup->asked), out = queue_of(setup->largest);
    wire->router = et_zmq.socket(wire->context, ZMQ_ROUTER);
    if (!wire->router || !set_options(wire->router, wire, in, out) ||
        !set_option(wire->router, ZMQ_CURVE_SERVER, 1) ||
        !set_option(wire->router, ZMQ_BACKLOG, BACKLOG) ||
        et_zmq.setsockopt(wire->router, ZMQ_ZAP_DOMAIN, "etude", 5))
        return fail(error, "ZeroMQ");
    if ((status = start_guard(wire, error)))
        return status;
    /* ZeroMQ closes its listening descriptor, so it gets its own. */
    int fd = setup->bind_fd > 0 ? fcntl(setup->bind_fd, F_DUPFD_CLOEXEC, 3) : 0;
    if (fd < 0)
        return et_fail_errno(error, "a second descriptor of the socket that listens");
    if (fd && !set_option(wire->router, ZMQ_USE_FD, fd)) {
        close(fd);
        return fail(error, "ZeroMQ");
    }
    return et_zmq.bind(wire->router, endpoint)
               ? et_fail_errno(error, "%s: this task's address in the cluster", setup->bind)
               : ET_OK;
}

#define ID_MAX     7    /* bytes of a connection's number in a router (5, as ZeroMQ gives them) */
#define TURNS      1024 /* chunks received in one look for a message */
#define SEAL_BYTES 33   /* bytes that encryption adds to a chunk */

#define HEARTBEAT      5000 /* milliseconds */
#define SILENCE        20000
#define FAILURES_MAX   8   /* a client with the wrong key of a server gets no reason */
#define FAILURES_THERE 3   /* so many more */
#define DEAD           5.0 /* seconds without a connection and without an attempt */
#define AT_ONCE        3.0 /* seconds: a refusal comes within this time */

/* ---- connections that this task makes ---- */

static bool set_heartbeat(void *socket)
{
    return set_option(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT) &&
           set_option(socket, ZMQ_HEARTBEAT_TIMEOUT, SILENCE) &&
           set_option(socket, ZMQ_HEARTBEAT_TTL, SILENCE);
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
    return l->socket && set_options(l->socket, wire, queue, queue) &&
           (which == ET_WIRE_TALK || set_heartbeat(l->socket)) &&
           !et_zmq.setsockopt(l->socket, ZMQ_CURVE_PUBLICKEY, wire->own_public, ET_KEY_TEXT + 1) &&
           !et_zmq.setsockopt(l->socket, ZMQ_CURVE_SERVERKEY, theirs, ET_KEY_TEXT + 1) &&
           set_option(l->socket, ZMQ_RECONNECT_IVL_MAX, 2000) &&
           (l->monitor = open_monitor(wire, l->socket, ET_WIRE_LINES * task + which, events)) &&
           !et_zmq.connect(l->socket, wire->peer[task].endpoint);
}

static int connect_to(et_wire *wire, const et_wire_setup *setup, int task, et_error *error)
{
    et_wire_peer *p = &wire->peer[task];
    int status = resolve(p->endpoint, sizeof p->endpoint, setup->connect[task], error);
    if (status)
        return status;
    snprintf(p->address, sizeof p->address, "%s", setup->connect[task]);
    bool talks = wire->role != ET_JOB_PARAM_SERVER;
    int queue = queue_of(setup->largest);
    bool ok = (!talks || connect_line(wire, task, ET_WIRE_TALK, queue)) &&
              connect_line(wire, task, ET_WIRE_HEARTBEAT, queue);
    return ok ? ET_OK : fail(error, setup->connect[task]);
}

/* Whether ZeroMQ is at an address. ZeroMQ sends bytes immediately; a proxy of an absent task
 * accepts the connection and closes it without a byte. */
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

/* After bytes that are not ZeroMQ's protocol, ZeroMQ gives a connection up and does not try
 * again. */
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

/* If a length is damaged on the way, the reader waits for bytes that never come. So the task
 * connects again if no whole message has arrived since it repeated the question. */
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

/* After a connection ends, ZeroMQ reports soon that it tries again; otherwise it has given the
 * connection up. If a connection cannot be opened, ZeroMQ reports a retry and then often stops;
 * errno has the reason of the report. */
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
        for (int event; l->monitor && (event = next_event(l->monitor, &value));)
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
    int status = load_library(error);
    if (status)
        return status;
    et_wire *wire;
    if (ET_ALLOC_ZERO(wire, 1, "a connection", error))
        return ET_ENOMEM;
    wire->link.class = &wire_class;
    wire->role = setup->role;
    wire->servers = setup->servers;
    memcpy(wire->public, setup->keys->public, sizeof wire->public);
    memcpy(wire->own_public, setup->keys->public[setup->role], sizeof wire->own_public);
    memcpy(wire->secret, setup->keys->secret, sizeof wire->secret);
    wire->peer = et_arena_array(&wire->arena, (size_t)setup->servers + 1, sizeof *wire->peer);
    wire->via = et_arena_array(&wire->arena, ET_TASKS_MAX, sizeof *wire->via);
    wire->items = et_arena_array(&wire->arena, (size_t)setup->servers + 2, sizeof *wire->items);
    wire->context = et_zmq.ctx_new();
    status = !wire->arena.failed && wire->context
                 ? et_assembly_open(&wire->answers, setup->servers + 1, setup->largest, error)
                 : et_alloc_failed(error, "a connection");
    if (!status && setup->bind)
        status = start_listening(wire, setup, error);
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
    et_arena_release(&wire->arena);
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

/* Receives the next chunk of a socket into wire->message. Returns its bytes on the wire; 0: no
 * chunk. *alone: the message has one frame, as all chunks of a cluster have. A message of several
 * frames is dropped. */
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
    /* The number of a connection in the router, and the length of this number. */
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

/* Looks at each socket once. */
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

/* Waits for a chunk. false: none arrived. */
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
    if ((status = load_library(error)))
        return status;
    return et_zmq.curve_keypair(public, secret) ? fail(error, "a pair of keys (CURVE)") : ET_OK;
}
