/* The outgoing connections of a task: making, watching and remaking them. */
#include <linux/tcp.h>

#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "roles/wire/address.h"
#include "roles/wire/zmq_private.h"

#define HEARTBEAT      5000 /* milliseconds */
#define SILENCE        20000
#define FAILURES_MAX   8   /* a client with the wrong key of a server gets no reason */
#define FAILURES_THERE 3   /* so many more */
#define DEAD           5.0 /* seconds without a connection and without an attempt */
#define AT_ONCE        3.0 /* seconds: a refusal comes within this time */

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

int et_wire_connect(et_wire *wire, const et_wire_setup *setup, int task, et_error *error)
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

/* ---- what becomes of them ---- */

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
void et_wire_make_again(const et_wire_peer *p, et_wire_line *l)
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
void et_wire_doubt(et_link *self, int to)
{
    et_wire *wire = (et_wire *)(void *)self;
    et_wire_line *l = to <= wire->servers ? &wire->peer[to].line[ET_WIRE_TALK] : NULL;
    if (l && l->socket && !l->alone && l->chunks == l->chunks_at_send && has_arrived(l))
        et_wire_make_again(&wire->peer[to], l);
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
    et_wire_make_again(p, talk);
}

/* The line is there and ZeroMQ has given it up: the bytes that came were not ZeroMQ's. */
static void try_again(et_wire *wire, const et_wire_peer *p, et_wire_line *l)
{
    wire->damaged += l->known && l->pause == ET_WIRE_SOON;
    l->pause = fmin(2 * l->pause, DEAD);
    et_wire_make_again(p, l);
}

void et_wire_look_at_lines(et_wire *wire)
{
    for (int i = 0; i < ET_WIRE_LINES * (wire->servers + 1); i++) {
        et_wire_peer *p = &wire->peer[i / ET_WIRE_LINES];
        et_wire_line *l = &p->line[i % ET_WIRE_LINES];
        uint32_t value;
        for (int event; l->monitor && (event = et_wire_next_event(l->monitor, &value));)
            note_event(wire, p, l, event, value);
        double now = et_clock_monotonic();
        if (l->socket && l->again && now >= l->again)
            try_again(wire, p, l);
        else if (l->socket && l->alone && now - l->heard >= DEAD)
            et_wire_make_again(p, l);
    }
    for (int i = 0; i <= wire->servers; i++)
        follow_heartbeat(&wire->peer[i]);
}
