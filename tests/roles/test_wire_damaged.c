/* The transport over ZeroMQ if a bit is changed on the way: a question is still answered soon,
 * whichever bit it was. A gate is between both tasks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <etude/log.h>

#include "roles/gate.h"

#define LARGEST 300000
#define SIZE    600 /* bytes of a question or an answer: a frame whose length has eight bytes */
#define LEAST   300 /* more than a heartbeat */

/* Of a frame: flags, eight bytes of its length, then the sealed bytes. */
enum { IN_SEAL = 8 * 200 + 3, SHORTER = 8 * 7 + 1, LONGER = 8 * 7 + 6, SHORT_FRAME = 1 };

typedef struct talk {
    pair pair;
    gate gate;
    uint64_t asked; /* questions so far */
    char said[400];
} talk;

static char bytes[SIZE];

static void keep_text(void *payload, et_log_level level, const char *text)
{
    talk *t = payload;
    (void)level;
    if (strstr(text, "damaged in transit") && strstr(text, "again"))
        snprintf(t->said, sizeof t->said, "%s", text);
}

static void open_talk(talk *t)
{
    *t = (talk){ .asked = 0 };
    open_server(&t->pair, LARGEST);
    open_gate(&t->gate, &t->pair);
    open_worker(&t->pair, &t->pair.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    assert_true(is_connected(&t->pair));
    et_log_set(keep_text, t);
}

static void close_talk(talk *t)
{
    close_pair(&t->pair);
    close_gate(&t->gate);
    et_log_set(NULL, NULL);
}

static void answer_all(et_wire *server)
{
    et_error error = ET_ERROR_INIT;
    et_message question;
    bool got = true;
    while (got) {
        assert_int_equal(et_wire_receive(server, 0, &question, &got, &error), 0);
        if (got)
            et_link_answer(
                et_wire_link(server), &question,
                (et_message){
                    .kind = ET_MESSAGE_STAGED, .from = 1, .bytes = bytes, .size = sizeof bytes });
    }
}

/* Seconds until a question is answered; it is repeated as tasks do. */
static double ask(talk *t)
{
    et_error error = ET_ERROR_INIT;
    et_link *link = et_wire_link(t->pair.worker);
    et_asking asking;
    et_message question = { .kind = ET_MESSAGE_PUSH,
                            .from = 2,
                            .sequence = ++t->asked,
                            .bytes = bytes,
                            .size = sizeof bytes };
    double begun = et_clock_monotonic(), now = begun;
    et_asking_begin(&asking, link, begun, 1, &question);
    while (now - begun < 40) {
        et_message got;
        bool there;
        assert_int_equal(et_wire_receive(t->pair.worker, 0.01, &got, &there, &error), 0);
        if (there && et_asking_takes(&asking, &got))
            break;
        answer_all(t->pair.server);
        now = et_clock_monotonic();
        et_asking_tick(&asking, link, now);
    }
    return now - begun;
}

/* from: 0 the question, 1 its answer. */
static double ask_through(talk *t, int from, int bit)
{
    assert_true(ask(t) < 30);
    t->gate.flip_from = from;
    t->gate.flip_least = LEAST;
    t->gate.flip = bit + 1;
    double took = ask(t);
    print_message("bit %d, side %d: %.1f seconds\n", bit, from, took);
    assert_int_equal(t->gate.flip, 0); /* it was met */
    return took;
}

/* The seal or a length is damaged, so that the next frame is invalid: ZeroMQ ends the connection,
 * and the task that made it makes it again. */
static void test_wire__damaged(void **state)
{
    (void)state;
    static talk t;
    const int bits[] = { IN_SEAL, SHORTER };
    open_talk(&t);
    for (int i = 0; i < 2; i++)
        for (int from = 0; from < 2; from++)
            assert_true(ask_through(&t, from, bits[i]) < 30);
    close_talk(&t);
    /* If damaged bytes came to the other side, that side ended the connection. */
    assert_non_null(strstr(t.said, "2 connections were made again"));
}

/* A frame announces more bytes than it has: the reader waits for the rest. */
static void test_wire__longer(void **state)
{
    (void)state;
    static talk t;
    open_talk(&t);
    for (int from = 0; from < 2; from++)
        assert_true(ask_through(&t, from, LONGER) < 20);
    assert_true(ask_through(&t, 0, SHORT_FRAME) < 20);
    assert_true(ask_through(&t, 1, SHORT_FRAME) < 20);
    close_talk(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__damaged),
        cmocka_unit_test(test_wire__longer),
    };
    return cmocka_run_group_tests_name("wire_damaged", tests, NULL, NULL);
}
