/* Two tasks in one process, a server and a worker that talk over ZeroMQ; for cmocka tests, which
 * include its headers first. */
#ifndef ETUDE_TESTS_CLUSTER_WIRE_PAIR_H
#define ETUDE_TESTS_CLUSTER_WIRE_PAIR_H

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "roles/wire/wire.h"

typedef struct pair {
    et_keys keys[ET_JOB_ROLES];
    int port;
    char address[64]; /* the address that the worker connects to: the server's, unless it is set */
    et_wire *server, *worker;
} pair;

/* A socket that listens at a port of the loopback. */
static inline int listen_somewhere(int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_return_code(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_return_code(listen(fd, 100), 0);
    assert_return_code(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void open_server(pair *p, size_t largest)
{
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_keys_make(p->keys, &error), 0);
    int fd = listen_somewhere(&p->port);
    snprintf(p->address, sizeof p->address, "127.0.0.1:%d", p->port);
    et_wire_setup setup = { .keys = &p->keys[ET_JOB_PARAM_SERVER],
                            .role = ET_JOB_PARAM_SERVER,
                            .servers = 1,
                            .bind = p->address,
                            .bind_fd = fd,
                            .senders = 2,
                            .largest = largest,
                            .asked = largest };
    if (et_wire_open(&p->server, &setup, &error))
        fail_msg("%s", error.text);
    close(fd);
}

static inline void open_worker(pair *p, const et_keys *keys, et_job_role role, size_t largest)
{
    et_error error = ET_ERROR_INIT;
    const char *connect[] = { NULL, p->address };
    et_wire_setup setup = {
        .keys = keys, .role = role, .servers = 1, .connect = connect, .largest = largest
    };
    if (et_wire_open(&p->worker, &setup, &error))
        fail_msg("%s", error.text);
}

static inline void close_pair(pair *p)
{
    et_wire_close(p->worker);
    et_wire_close(p->server);
    *p = (pair){ 0 };
}

/* Both receive until one has a message or the time is over. */
static inline bool wait_for(et_wire *wire, et_wire *other, double seconds, et_message *out)
{
    double until = et_clock_monotonic() + seconds;
    et_error error = ET_ERROR_INIT;
    while (et_clock_monotonic() < until) {
        bool got, ignored;
        et_message nothing;
        if (et_wire_receive(wire, 0.01, out, &got, &error))
            return false;
        if (got)
            return true;
        if (other && et_wire_receive(other, 0, &nothing, &ignored, &error))
            return false;
    }
    return false;
}

/* The worker has both connections to the server, or has not within 30 seconds. */
static inline bool is_connected(pair *p)
{
    et_message nothing;
    double until = et_clock_monotonic() + 30;
    while (et_wire_alone(p->worker, 1) > 0 && et_clock_monotonic() < until)
        assert_false(wait_for(p->worker, NULL, 0.02, &nothing));
    return et_wire_alone(p->worker, 1) == 0;
}

static inline void say(et_wire *wire, int from, int to, const void *bytes, size_t size)
{
    et_message message = { .kind = ET_MESSAGE_PUSH,
                           .from = from,
                           .run = 7,
                           .session = 8,
                           .sequence = 9,
                           .number = -10,
                           .extra = 11,
                           .value = { 0.5, -2 },
                           .bytes = bytes,
                           .size = size };
    et_link_send(et_wire_link(wire), to, &message);
}

#endif
