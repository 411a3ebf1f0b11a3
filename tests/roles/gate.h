/* A gate between the two tasks of a pair (wire_pair.h). On request of the test, it stops bytes,
 * cuts connections or changes a bit. For cmocka tests, which include cmocka's headers first. */
#ifndef ETUDE_TESTS_CLUSTER_GATE_H
#define ETUDE_TESTS_CLUSTER_GATE_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "roles/wire_pair.h"

enum { THROUGH = 64, PIECE = 16384 };

/* OPEN passes everything on. The other modes pass nothing and admit no connection: STILL cuts the
 * connection that has carried least, CUT cuts all, ENDS ends the gate too. */
typedef enum gate_mode { GATE_OPEN, GATE_STILL, GATE_CUT, GATE_ENDS } gate_mode;

typedef struct through {
    int side[2]; /* near and far; -1: closed */
    long carried;
} through;

typedef struct gate {
    pthread_t thread;
    int listen, port, target;
    _Atomic(gate_mode) wanted, mode;
    _Atomic int flip; /* number of a bit to change in the next bytes of a side, plus 1; 0: none */
    int flip_from;    /* 0: near */
    long flip_least;  /* bytes: of less that comes at once none is changed */
    through each[THROUGH];
    int count;
} gate;

/* The other side notices at once (RST). */
static inline void cut(through *t)
{
    const struct linger at_once = { .l_onoff = 1 };
    for (int i = 0; i < 2; i++) {
        if (t->side[i] < 0)
            continue;
        setsockopt(t->side[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(t->side[i]);
        t->side[i] = -1;
    }
}

static inline void change(gate *g, gate_mode mode)
{
    through *least = NULL;
    for (int i = 0; i < g->count; i++)
        if (g->each[i].side[0] >= 0 && (!least || g->each[i].carried < least->carried))
            least = &g->each[i];
    if (mode == GATE_STILL && least)
        cut(least);
    for (int i = 0; mode >= GATE_CUT && i < g->count; i++)
        cut(&g->each[i]);
    g->mode = mode;
}

static inline void let_in(gate *g)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)g->target),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int near = g->count < THROUGH ? accept(g->listen, NULL, NULL) : -1;
    if (near < 0)
        return;
    through *t = &g->each[g->count++];
    *t = (through){ .side = { near, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) } };
    if (connect(t->side[1], (struct sockaddr *)&at, sizeof at))
        cut(t);
}

/* Passes all bytes that have come from one side to the other. */
static inline void pass_on(gate *g, through *t, int from)
{
    char data[PIECE];
    ssize_t got = recv(t->side[from], data, sizeof data, MSG_DONTWAIT), sent = 0;
    if (g->flip && from == g->flip_from && got >= g->flip_least) {
        data[(g->flip - 1) / 8] ^= (char)(1u << (g->flip - 1) % 8);
        g->flip = 0;
    }
    for (ssize_t put = 1; put > 0 && sent < got; sent += put)
        put = send(t->side[1 - from], data + sent, (size_t)(got - sent), MSG_NOSIGNAL);
    if (got > 0 && sent >= got)
        t->carried += got;
    else if (!(got < 0 && errno == EAGAIN))
        cut(t);
}

static inline void *be_gate(void *payload)
{
    gate *g = payload;
    while (g->mode != GATE_ENDS) {
        struct pollfd items[1 + 2 * THROUGH] = { { .fd = g->listen, .events = POLLIN } };
        for (int i = 0; i < 2 * g->count; i++)
            items[1 + i] = (struct pollfd){ .fd = g->each[i / 2].side[i % 2], .events = POLLIN };
        int known = g->count;
        bool open = g->mode == GATE_OPEN;
        poll(items, open ? 1 + 2 * (nfds_t)known : 0, 5);
        for (int i = 0; open && i < 2 * known; i++)
            if (items[1 + i].revents && g->each[i / 2].side[i % 2] >= 0)
                pass_on(g, &g->each[i / 2], i % 2);
        if (open && items[0].revents)
            let_in(g);
        if (g->wanted != g->mode)
            change(g, g->wanted);
    }
    return NULL;
}

static inline void be(gate *g, gate_mode mode)
{
    g->wanted = mode;
    for (int i = 0; g->mode != mode && i < 3000; i++)
        et_clock_sleep(0.01);
    assert_int_equal(g->mode, mode);
}

static inline void open_gate(gate *g, pair *p)
{
    *g = (gate){ .target = p->port };
    g->listen = listen_somewhere(&g->port);
    snprintf(p->address, sizeof p->address, "127.0.0.1:%d", g->port);
    assert_int_equal(pthread_create(&g->thread, NULL, be_gate, g), 0);
}

static inline void close_gate(gate *g)
{
    be(g, GATE_ENDS);
    pthread_join(g->thread, NULL);
    close(g->listen);
}

#endif
