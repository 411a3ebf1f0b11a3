/* The listening side: the router, its guard, and its connections. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads/thread.h"
#include "roles/wire/zmq_private.h"

#define LOOK         50   /* milliseconds between two looks at what connections hold */
#define KEYED_MORE   32   /* connections with a key in addition to twice those that tasks make */
#define BACKLOG      1024 /* connections that wait to be taken */
#define DESCRIPTORS  16384
#define ZAP_ENDPOINT "inproc://zeromq.zap.01"

/* ---- the guard ---- */

/* The role of the key's owner; ET_JOB_ROLES: not allowed to connect here. Servers connect to the
 * master to see that it lives. */
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

/* The socket is bound before any other listens: otherwise ZeroMQ would admit everyone who knows a
 * server's key. Messages without one of our user names are dropped as well.
 * ZeroMQ's authentication protocol (RFC 27): version, request, domain, address, identity,
 * mechanism, credentials. */
static bool answer_zap(et_wire *wire)
{
    enum { VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, PARTS };
    unsigned char part[PARTS + 1][ET_WIRE_PART];
    int length[PARTS + 1] = { 0 }, count = 0;
    for (bool more = true; more; count++) {
        int at = count < PARTS ? count : PARTS;
        length[at] = et_wire_read_part(wire->zap, part[at], &more);
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

/* The change of the number of refused connections. ZeroMQ does not report all of them, so this
 * counts accepted connections minus admitted ones, minus those that left by themselves, as a task
 * does that comes too early. */
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
        for (int event; items[1].revents && (event = et_wire_next_event(wire->entrance, &value));) {
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
    wire->entrance = et_wire_monitor(wire, wire->router, ET_WIRE_LINES * ET_TASKS_MAX, events);
    if (!wire->zap || !wire->entrance || et_zmq.bind(wire->zap, ZAP_ENDPOINT))
        return et_wire_fail(error, "ZeroMQ's authentication");
    int status = et_thread_start(&wire->guard, guard, wire, error);
    wire->guarded = !status;
    return status;
}

/* The limit for one connection is two queues, because its sent bytes are known a little later than
 * the bytes taken from it. The limit for all is that of every task that may send. */
static int receive_sessions(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    int senders = setup->senders > 0 ? setup->senders : 1;
    const int64_t most =
        2 * (int64_t)et_wire_queue(setup->asked) * (ET_CHUNK + ET_WIRE_CURVE_BYTES);
    et_sessions_setup sessions = { .address = wire->bound,
                                   .most = most,
                                   .all = most * senders,
                                   .keyed_most = 2 * ET_WIRE_LINES * senders + KEYED_MORE,
                                   .handshake = 3 * ET_WIRE_HANDSHAKE * 1e-3 };
    int status = et_sessions_open(&wire->sessions, &sessions, error);
    return status ? status : et_assembly_open(&wire->questions, senders, setup->asked, error);
}

int et_wire_listen(et_wire *wire, const et_wire_setup *setup, et_error *error)
{
    char endpoint[400];
    int status = et_wire_resolve(endpoint, sizeof endpoint, setup->bind, error);
    if (status)
        return status;
    allow_descriptors();
    snprintf(wire->bound, sizeof wire->bound, "%s", setup->bind);
    status = receive_sessions(wire, setup, error);
    if (status)
        return status;
    int in = et_wire_queue(setup->asked), out = et_wire_queue(setup->largest);
    wire->router = et_zmq.socket(wire->context, ZMQ_ROUTER);
    if (!wire->router || !et_wire_set_common(wire->router, wire, in, out) ||
        !et_wire_set(wire->router, ZMQ_CURVE_SERVER, 1) ||
        !et_wire_set(wire->router, ZMQ_BACKLOG, BACKLOG) ||
        et_zmq.setsockopt(wire->router, ZMQ_ZAP_DOMAIN, "etude", 5))
        return et_wire_fail(error, "ZeroMQ");
    status = start_guard(wire, error);
    if (status)
        return status;
    /* ZeroMQ closes its listening descriptor, so it gets its own. */
    int fd = setup->bind_fd > 0 ? fcntl(setup->bind_fd, F_DUPFD_CLOEXEC, 3) : 0;
    if (fd < 0)
        return et_fail_errno(error, "a second descriptor of the socket that listens");
    if (fd && !et_wire_set(wire->router, ZMQ_USE_FD, fd)) {
        close(fd);
        return et_wire_fail(error, "ZeroMQ");
    }
    return et_zmq.bind(wire->router, endpoint) ? et_wire_fail(error, setup->bind) : ET_OK;
}
