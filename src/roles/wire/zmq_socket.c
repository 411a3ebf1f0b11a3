/* Calls of ZeroMQ, and options of every socket. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "roles/wire/zmq_private.h"

et_zmq_calls et_zmq;

static const char *const names[] = { ET_ZMQ_CALLS(ET_LIBRARY_NAME) };

static const et_library library = { ET_ZMQ_FILE, "ZeroMQ", names, sizeof et_zmq / sizeof(void *) };

#define KEEPALIVE 10    /* seconds */
#define UNHEARD   60000 /* milliseconds without a word from TCP's other side */
#define QUEUE     16    /* waiting chunks of a connection, besides two of the largest messages */
#define QUEUE_MAX (1 << 30)

int et_zmq_load(et_error *error)
{
    return et_library_load(&library, &et_zmq, error);
}

int et_wire_fail(et_error *error, const char *what)
{
    return et_fail(error, ET_EIO, "%s: %s", what, et_zmq.strerror(errno));
}

bool et_wire_set(void *socket, int option, int value)
{
    return et_zmq.setsockopt(socket, option, &value, sizeof value) == 0;
}

bool et_wire_set_common(void *socket, const et_wire *wire, int in, int out)
{
    const int64_t most = ET_CHUNK + ET_WIRE_CURVE_BYTES;
    return et_zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0 &&
           et_wire_set(socket, ZMQ_LINGER, 1000) && et_wire_set(socket, ZMQ_SNDHWM, out) &&
           et_wire_set(socket, ZMQ_HANDSHAKE_IVL, ET_WIRE_HANDSHAKE) &&
           et_wire_set(socket, ZMQ_RCVHWM, in) && et_wire_set(socket, ZMQ_IPV6, 1) &&
           et_wire_set(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           et_wire_set(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE) &&
           et_wire_set(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE) &&
           et_wire_set(socket, ZMQ_TCP_KEEPALIVE_CNT, 3) &&
           et_wire_set(socket, ZMQ_TCP_MAXRT, UNHEARD) &&
           et_zmq.setsockopt(socket, ZMQ_CURVE_SECRETKEY, wire->secret, ET_KEY_TEXT + 1) == 0;
}

int et_wire_resolve(char *endpoint, size_t space, const char *address, et_error *error)
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

int et_wire_queue(size_t largest)
{
    int64_t chunks = et_chunk_count(largest);
    return chunks < QUEUE_MAX / 4 ? (int)(QUEUE + 2 * chunks) : QUEUE_MAX;
}

/* The number of reports is not limited: at a limit ZeroMQ's thread would wait for its reader, and
 * all connections with it. */
void *et_wire_monitor(et_wire *wire, void *socket, int number, int events)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://monitor-%d", number);
    if (et_zmq.socket_monitor(socket, endpoint, events))
        return NULL;
    void *monitor = et_zmq.socket(wire->context, ZMQ_PAIR);
    if (monitor && (!et_wire_set(monitor, ZMQ_LINGER, 0) || !et_wire_set(monitor, ZMQ_RCVHWM, 0) ||
                    et_zmq.connect(monitor, endpoint))) {
        et_zmq.close(monitor);
        return NULL;
    }
    return monitor;
}

int et_wire_read_part(void *socket, unsigned char *part, bool *more)
{
    int flag = 0;
    size_t size = sizeof flag;
    int length = et_zmq.recv(socket, part, ET_WIRE_PART, 0);
    et_zmq.getsockopt(socket, ZMQ_RCVMORE, &flag, &size);
    *more = flag != 0;
    return length;
}

int et_wire_next_event(void *monitor, uint32_t *value)
{
    unsigned char part[ET_WIRE_PART];
    uint16_t event;
    bool more;
    int length = et_zmq.recv(monitor, part, sizeof part, ZMQ_DONTWAIT);
    if (length < (int)(sizeof event + sizeof *value))
        return 0;
    memcpy(&event, part, sizeof event);
    memcpy(value, part + sizeof event, sizeof *value);
    et_wire_read_part(monitor, part, &more); /* the address */
    return event;
}
