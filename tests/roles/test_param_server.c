/* A single parameter server: what it adds up, and when, also for repeated questions; and the
 * predicted weights that it sends to workers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/aborts.h"
#include "roles/param_server.h"
#include "skip.h"

enum { FLOATS = 3, SERVERS = 1, WORKERS = 2, RUN = 7, FINGERPRINT = 77 };

/* Its transport and its store. */
typedef struct bench {
    et_link link;
    et_param_server server;
    float weights[FLOATS], answer[2 * FLOATS];
    et_message said; /* the last answer */
    int updates;
    uint64_t sequence;
    int64_t ticket[WORKERS];
} bench;

static void hear(et_link *self, int to, const et_message *message)
{
    bench *b = (bench *)(void *)self;
    (void)to;
    b->said = *message;
    if (message->size <= sizeof b->answer && message->size)
        memcpy(b->answer, message->bytes, message->size);
}

static const et_link_class heard = { "heard", hear, NULL };

static void weigh(void *self, float *weights)
{
    memcpy(weights, ((bench *)self)->weights, sizeof((bench *)self)->weights);
}

static void read_state(void *self, float *state)
{
    weigh(self, state);
    memset(state + FLOATS, 0, FLOATS * sizeof *state);
}

static void write_state(void *self, const float *state, int64_t iterations, int64_t slots_from)
{
    (void)iterations, (void)slots_from;
    memcpy(((bench *)self)->weights, state, sizeof((bench *)self)->weights);
}

static void update(void *self, float *gradient, double scale, double norm)
{
    bench *b = self;
    (void)norm;
    for (int i = 0; i < FLOATS; i++)
        b->weights[i] -= (float)scale * gradient[i];
    b->updates++;
}

static void order_again(bench *b, et_message m)
{
    m.run = RUN;
    m.from = ET_TASK_MASTER;
    m.sequence = b->sequence;
    b->said.kind = 0;
    et_param_server_receive(&b->server, &m);
}

static void order(bench *b, et_message m)
{
    b->sequence++;
    order_again(b, m);
}

static void bench_open(bench *b, bool predicts)
{
    static const float state[2 * FLOATS] = { 10, 20, 30 };
    *b = (bench){ .link = { &heard } };
    et_param_server_store store = { b,          FLOATS,      2 * FLOATS, weigh,
                                    read_state, write_state, update,     predicts };
    assert_int_equal(
        et_param_server_open(&b->server, &b->link, 0, SERVERS, WORKERS, FINGERPRINT, &store, NULL),
        0);
    order(b, (et_message){ .kind = ET_MESSAGE_OPEN,
                           .extra = FINGERPRINT,
                           .bytes = state,
                           .size = sizeof state });
    for (int i = 0; i < WORKERS; i++)
        order(b, (et_message){ .kind = ET_MESSAGE_ADMIT, .number = i, .extra = 1 + i });
}

static et_param_server_push push(bench *b, int worker, float value)
{
    float gradient[FLOATS] = { value, 2 * value, 3 * value };
    et_message m = { .kind = ET_MESSAGE_PUSH,
                     .from = 1 + SERVERS + worker,
                     .run = RUN,
                     .session = 1 + (uint64_t)worker,
                     .number = ++b->ticket[worker],
                     .bytes = gradient,
                     .size = sizeof gradient };
    et_param_server_receive(&b->server, &m);
    assert_int_equal(b->said.kind, ET_MESSAGE_STAGED);
    return (et_param_server_push){ worker, 1 + (uint64_t)worker, b->ticket[worker] };
}

static et_message add(const bench *b, const et_param_server_push *part)
{
    return (et_message){
        .kind = ET_MESSAGE_ADD, .number = b->server.version + 1, .bytes = part, .size = sizeof *part
    };
}

static et_message apply(const bench *b, double scale)
{
    return (et_message){ .kind = ET_MESSAGE_APPLY,
                         .number = b->server.version + 1,
                         .value = { scale, 1 } };
}

static float pull(bench *b, int64_t version, double before)
{
    et_message m = { .kind = ET_MESSAGE_PULL,
                     .from = 1 + SERVERS,
                     .run = RUN,
                     .session = 1,
                     .number = version,
                     .value = { before } };
    b->said.kind = 0;
    et_param_server_receive(&b->server, &m);
    assert_int_equal(b->said.kind, ET_MESSAGE_VALUES);
    return b->answer[0];
}

/* Three gradients, two of one worker; each question comes twice, and a gradient is added once. */
static void test_param_server__adds_up(void **state)
{
    bench b;
    (void)state;
    bench_open(&b, false);
    const float values[] = { 1, 2, 4 };
    const int workers[] = { 0, 1, 0 };
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        et_param_server_push part = push(&b, workers[i], values[i]);
        sum += values[i];
        order(&b, add(&b, &part));
        for (int k = 0; k < 2; k++) {
            assert_int_equal(b.said.kind, ET_MESSAGE_DONE);
            assert_float_equal(b.said.value[0], 14 * sum * sum, 1e-9);
            order_again(&b, add(&b, &part));
        }
    }
    assert_int_equal(b.updates, 0);
    assert_float_equal(pull(&b, 0, 0), 10, 0);
    order(&b, (et_message){ .kind = ET_MESSAGE_READ });
    assert_int_equal(b.said.kind, ET_MESSAGE_STATE);
    assert_float_equal(b.answer[0], 10, 0);
    et_message done = apply(&b, 0.5);
    order(&b, done);
    order_again(&b, done);
    assert_int_equal(b.said.kind, ET_MESSAGE_DONE);
    assert_int_equal(b.updates, 1);
    assert_float_equal(b.weights[0], 10 - 0.5 * 7, 1e-6);
    assert_float_equal(b.weights[2], 30 - 0.5 * 21, 1e-6);
    et_param_server_push part = push(&b, 1, 8);
    order(&b, add(&b, &part)); /* the next sum begins at nothing */
    assert_float_equal(b.said.value[0], 14 * 64, 1e-9);
    et_param_server_release(&b.server);
}

static void assert_refused(bench *b, et_message m)
{
    order(b, m);
    assert_int_equal(b->said.kind, ET_MESSAGE_REFUSED);
    assert_int_equal(b->updates, 0);
}

/* A gradient that was added before, one that was not pushed, or none: no update. */
static void test_param_server__refuses(void **state)
{
    bench b;
    (void)state;
    bench_open(&b, false);
    assert_refused(&b, apply(&b, 1));
    et_param_server_push part = push(&b, 0, 1e38f), never = { 1, 2, 1 };
    order(&b, add(&b, &part));
    assert_int_equal(b.said.kind, ET_MESSAGE_DONE);
    assert_refused(&b, add(&b, &part));
    assert_refused(&b, add(&b, &never));
    part = push(&b, 1, 1e38f); /* finite, but the sum is not */
    assert_refused(&b, add(&b, &part));
    et_param_server_release(&b.server);
}

/* Predicted weights continue the last update, for the expected updates minus those that have been
 * done since. If the expected number is not finite, nothing is predicted. */
static void test_param_server__predicts(void **state)
{
    bench b;
    (void)state;
    bench_open(&b, true);
    assert_float_equal(pull(&b, 0, 2), 10, 0); /* nothing has moved yet */
    for (int i = 1; i <= 2; i++) {
        et_param_server_push part = push(&b, 0, (float)i);
        order(&b, add(&b, &part));
        order(&b, apply(&b, 1));
    }
    assert_float_equal(b.weights[0], 7, 1e-6); /* the last change: -2 */
    assert_float_equal(pull(&b, 2, 0), 7, 1e-6);
    assert_float_equal(pull(&b, 2, 1), 5, 1e-6);
    assert_float_equal(pull(&b, 2, 3), 1, 1e-6);
    assert_float_equal(pull(&b, 1, 3), 3, 1e-6); /* one of three has been done */
    assert_float_equal(pull(&b, 0, 1), 7, 1e-6);
    assert_float_equal(pull(&b, 2, 1e300), 7 - 2 * 8, 1e-6);
    const double none[] = { -1, NAN, -INFINITY };
    for (int i = 0; i < 3; i++)
        assert_float_equal(pull(&b, 2, none[i]), 7, 1e-6);
    assert_float_equal(b.weights[0], 7, 1e-6);
    et_param_server_release(&b.server);
    bench_open(&b, false);
    et_param_server_push part = push(&b, 0, 1);
    order(&b, add(&b, &part));
    order(&b, apply(&b, 1));
    assert_float_equal(pull(&b, 1, 1), 9, 1e-6);
    et_param_server_release(&b.server);
}

static void receive_anything(void *payload)
{
    bench *b = payload;
    order(b, (et_message){ .kind = ET_MESSAGE_READ });
}

/* Invariants are checked when a message comes. */
static void test_param_server__asserts(void **state)
{
    (void)state;
#ifdef NDEBUG
    test_skip("assertions are off");
#endif
    bench b;
    bench_open(&b, false);
    b.server.worker[1].staged = true;
    assert_asserts(receive_anything, &b, "!w->staged || (w->session && w->gradient");
    b.server.worker[1].staged = false;
    b.server.version = -1;
    assert_asserts(receive_anything, &b, "s->version >= 0");
    b.server.version = 0;
    receive_anything(&b);
    assert_int_equal(b.said.kind, ET_MESSAGE_STATE);
    et_param_server_release(&b.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_param_server__adds_up),
        cmocka_unit_test(test_param_server__refuses),
        cmocka_unit_test(test_param_server__predicts),
        cmocka_unit_test(test_param_server__asserts),
    };
    return cmocka_run_group_tests_name("param_server", tests, NULL, NULL);
}
