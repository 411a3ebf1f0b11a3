/* TFSnippet, tests/dataflows/test_threading_flow.py. Instead of sleeping, tests wait until the
 * thread has read ahead as far as it may: a depth of 3 is the reference's 2 and the batch in its
 * hands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "references/tfsnippet/dataflow.h"

enum { BATCHES = 5, DEPTH = 3 };

/* Batches of 0 .. 9, plus 10 for each pass and 100 for each step of an outside counter. */
typedef struct counters {
    pthread_mutex_t lock;
    pthread_cond_t made_one;
    int external, made, begun;
    bool by_calls; /* the pass is how often begin was called, not its number */
    int pass, at;  /* of the iterator */
} counters;

static int begin_pass(void *payload, int64_t epoch, et_error *error)
{
    counters *self = payload;
    (void)error;
    pthread_mutex_lock(&self->lock);
    self->begun++;
    self->pass = self->by_calls ? self->begun : (int)epoch + 1;
    self->at = 0;
    pthread_cond_broadcast(&self->made_one);
    pthread_mutex_unlock(&self->lock);
    return ET_OK;
}

static int next_batch(void *payload, et_batch *batch, et_error *error)
{
    counters *self = payload;
    (void)error;
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < 2 && self->at < BATCHES; i++)
        ((int32_t *)batch->data[0])[batch->filled[0]++] =
            2 * self->at + i + 10 * self->pass + 100 * self->external;
    self->made += self->at < BATCHES;
    self->at++;
    pthread_cond_broadcast(&self->made_one);
    pthread_mutex_unlock(&self->lock);
    return ET_OK;
}

/* Until so many batches were made, then counts on. */
static void wait_and_count(counters *self, int made)
{
    pthread_mutex_lock(&self->lock);
    while (self->made < made)
        pthread_cond_wait(&self->made_one, &self->lock);
    self->external++;
    pthread_mutex_unlock(&self->lock);
}

static et_source *open_flow_of(counters *self)
{
    const et_layout_field field = { .name = "x", .dtype = ET_I32 };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { 2 }, .field = &field
    };
    const et_factory factory = { .payload = self, .begin = begin_pass, .next = next_batch };
    et_source *source;
    assert_ok(et_factory_open(&source, &layout, &factory, true, error));
    assert_ok(et_prefetch_open(&source, source, DEPTH, error));
    return source;
}

/* The next batch is { first, first + 1 }, or the same with 100 more. */
static void check_batch(et_source *source, et_batch *batch, int32_t first, bool or_later)
{
    take(source, batch, 2);
    const int32_t *x = batch->data[0];
    assert_true(x[0] == first || (or_later && x[0] == first + 100));
    assert_int_equal(x[1], x[0] + 1);
}

static void test_threading_flow__errors(void **state)
{
    (void)state;
    et_source *out, *source = range_flow(0, 10, 2);
    assert_fails(et_prefetch_open(&out, source, 0, error), ET_ECONFIG, "give at least 1");
    et_source_close(source);
}

static void test_threading_flow__threaded(void **state)
{
    (void)state;
    et_source *source = range_flow(0, 10, 2);
    assert_ok(et_prefetch_open(&source, source, 3, error));
    et_batch *batch = batch_of(source);
    for (int b = 0; b < 5; b++)
        assert_next(source, batch, 0, arange(2 * b), 2);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_threading_flow__iterator(void **state)
{
    (void)state;
    counters c = { .lock = PTHREAD_MUTEX_INITIALIZER,
                   .made_one = PTHREAD_COND_INITIALIZER,
                   .external = 1 };
    et_source *source = open_flow_of(&c);
    et_batch *batch = batch_of(source);
    for (int b = 0; b < BATCHES; b++)
        check_batch(source, batch, 110 + 2 * b, false);
    wait_and_count(&c, BATCHES + DEPTH);
    for (int b = 0; b < BATCHES; b++)
        check_batch(source, batch, (b < DEPTH ? 120 : 220) + 2 * b, false);
    wait_and_count(&c, 2 * BATCHES + DEPTH);
    check_batch(source, batch, 230, false);
    wait_and_count(&c, 2 * BATCHES + DEPTH + 1);

    /* The pass was left: the next one begins. */
    const int before = c.made;
    assert_ok(et_source_begin(source, "the fourth pass", error));
    for (int b = 0; b < BATCHES; b++)
        check_batch(source, batch, 340 + 2 * b, true);
    et_source_end(source);
    wait_and_count(&c, before + BATCHES + DEPTH);
    check_batch(source, batch, 450, false);
    wait_and_count(&c, before + BATCHES + DEPTH + 1);
    assert_ok(et_source_begin(source, "the sixth pass", error));
    for (int b = 0; b < BATCHES; b++)
        check_batch(source, batch, 560 + 2 * b, true);
    et_source_end(source);
    et_batch_free(batch);
    et_source_close(source);
}

/* After its close a flow is opened again; the iterator of the third pass was begun ahead. */
static void test_threading_flow__auto_init(void **state)
{
    (void)state;
    counters c = { .lock = PTHREAD_MUTEX_INITIALIZER,
                   .made_one = PTHREAD_COND_INITIALIZER,
                   .by_calls = true };
    et_source *source = open_flow_of(&c);
    et_batch *batch = batch_of(source);
    for (int b = 0; b < 2 * BATCHES; b++)
        check_batch(source, batch, (b < BATCHES ? 10 : 20) + 2 * (b % BATCHES), false);
    pthread_mutex_lock(&c.lock);
    while (c.begun < 3)
        pthread_cond_wait(&c.made_one, &c.lock);
    pthread_mutex_unlock(&c.lock);
    et_batch_free(batch);
    et_source_close(source);
    source = open_flow_of(&c);
    batch = batch_of(source);
    for (int b = 0; b < BATCHES; b++)
        check_batch(source, batch, 40 + 2 * b, false);
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threading_flow__errors),
        cmocka_unit_test(test_threading_flow__threaded),
        cmocka_unit_test(test_threading_flow__iterator),
        cmocka_unit_test(test_threading_flow__auto_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
