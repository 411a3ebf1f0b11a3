/* The transport over ZeroMQ if a connection stops and breaks in the middle of a long message, while
 * its task computes. A gate between both tasks stops and cuts the connection when the test says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "roles/gate.h"

#define LARGEST  (16 << 20) /* more than TCP takes from a sender */
#define GIVEN_UP 5.1        /* seconds without heartbeats */

/* A worker sends more than TCP takes; the connection stops and is given up (five seconds after the
 * heartbeats' connection is lost). The worker computes at once, and the connection breaks. ZeroMQ's
 * own assertion (session_base.cpp) must not be reached, and a repeated question must arrive. */
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
