/* The transport over ZeroMQ where a connection stands still and breaks in the middle of a long
 * message, while its task computes. Between both tasks is a gate: what goes through it stops, and
 * is cut off, when the test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/wire_pair.h"

#define LARGEST  (16 << 20) /* more than TCP takes from who sends */
#define GIVEN_UP 5.1        /* seconds without heartbeats */

enum { THROUGH = 64, PIECE = 16384 };

/* What becomes of what comes: it goes on; nobody is let in, the connection that has carried least
 * is cut and the others stand still; those are cut as well. */
typedef enum gate_mode { GATE_OPEN, GATE_STILL, GATE_CUT, GATE_ENDS } gate_mode;

typedef struct through {
    int side[2]; /* near and far; -1: closed */
    long carried;
} through;

typedef struct gate {
    pthread_t thread;
    int listen, port, target;
    _Atomic(gate_mode) wanted, mode;
    through each[THROUGH];
    int count;
} gate;

/* Whoever is there hears of it at once (RST). */
static void cut(through *t)
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

static void change(gate *g, gate_mode mode)
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

static void let_in(gate *g)
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

/* What has come to a side goes to the other, whole. */
static void pass_on(through *t, int from)
{
    char data[PIECE];
    ssize_t got = recv(t->side[from], data, sizeof data, MSG_DONTWAIT), sent = 0;
    for (ssize_t put = 1; put > 0 && sent < got; sent += put)
        put = send(t->side[1 - from], data + sent, (size_t)(got - sent), MSG_NOSIGNAL);
    if (got > 0 && sent >= got)
        t->carried += got;
    else if (!(got < 0 && errno == EAGAIN))
        cut(t);
}

static void *be_gate(void *payload)
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
                pass_on(&g->each[i / 2], i % 2);
        if (open && items[0].revents)
            let_in(g);
        if (g->wanted != g->mode)
            change(g, g->wanted);
    }
    return NULL;
}

static void be(gate *g, gate_mode mode)
{
    g->wanted = mode;
    for (int i = 0; g->mode != mode && i < 3000; i++)
        et_clock_sleep(0.01);
    assert_int_equal(g->mode, mode);
}

static void open_gate(gate *g, pair *p)
{
    *g = (gate){ .target = p->port };
    g->listen = listen_somewhere(&g->port);
    snprintf(p->address, sizeof p->address, "127.0.0.1:%d", g->port);
    assert_int_equal(pthread_create(&g->thread, NULL, be_gate, g), 0);
}

static void close_gate(gate *g)
{
    be(g, GATE_ENDS);
    pthread_join(g->thread, NULL);
    close(g->listen);
}

/* A worker sends what TCP does not take; the connection stands still and is given up (five seconds
 * after that of heartbeats is lost); the worker computes at once, and it breaks. ZeroMQ's own
 * assertion (session_base.cpp) must not be met; and what is asked again arrives. */
static void test_wire__broken_in_the_middle(void **state)
{
    (void)state;
    static pair p;
    static gate g;
    static unsigned char bytes[LARGEST];
    et_message got;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    open_server(&p, LARGEST);
    open_gate(&g, &p);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    assert_true(is_connected(&p));
    say(p.worker, 2, 1, bytes, 100000);
    assert_true(wait_for(p.server, p.worker, 30, &got));
    be(&g, GATE_STILL);
    say(p.worker, 2, 1, bytes, sizeof bytes);
    double until = et_clock_monotonic() + 60;
    while (et_wire_alone(p.worker, 1) < GIVEN_UP && et_clock_monotonic() < until)
        assert_false(wait_for(p.worker, NULL, 0.02, &got));
    assert_true(et_wire_alone(p.worker, 1) >= GIVEN_UP);
    et_clock_sleep(1.5); /* longer than ZeroMQ lingers */
    be(&g, GATE_CUT);
    et_clock_sleep(0.5);
    be(&g, GATE_OPEN);
    assert_true(is_connected(&p));
    bool there = false;
    for (int i = 0; !there && i < 10; i++) {
        say(p.worker, 2, 1, bytes, sizeof bytes);
        there = wait_for(p.server, p.worker, 20, &got);
    }
    assert_true(there);
    assert_int_equal(got.size, sizeof bytes);
    assert_memory_equal(got.bytes, bytes, sizeof bytes);
    close_pair(&p);
    close_gate(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__broken_in_the_middle),
    };
    return cmocka_run_group_tests_name("wire_broken", tests, NULL, NULL);
}
