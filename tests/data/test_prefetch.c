#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "data/pairs_fixture.h"

static const pair_shape shape = { 600, 640, 64 };

static et_source *open_prefetch(et_source *inner, int depth)
{
    et_source *source = NULL;
    et_error error = ET_ERROR_INIT;
    if (et_prefetch_open(&source, inner, depth, &error))
        fail_msg("%s", error.text);
    return source;
}

/* Batches and positions are those of the inner source, for any depth. */
static void test_prefetch__same_as_without(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(700);
    et_batches_options options = ENDLESS;
    et_batch *left, *right;
    open_batch(&left, &shape);
    open_batch(&right, &shape);
    for (int depth = 1; depth <= 7; depth += 3) {
        et_source *plain = open_source(&encoded, &shape, &options);
        et_source *ahead = open_prefetch(open_source(&encoded, &shape, &options), depth);
        for (int i = 0; i < 70; i++) {
            et_position one, other;
            et_source_position(plain, &one);
            et_source_position(ahead, &other);
            assert_same_position(&one, &other);
            next_batch(plain, left);
            next_batch(ahead, right);
            assert_same_batch(left, right);
        }
        et_source_close(plain);
        et_source_close(ahead);
    }
    et_batch_free(left);
    et_batch_free(right);
    release_encoded(&encoded);
}

/* One pass ends, and stays at its end. */
static void test_prefetch__end(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(300);
    et_batches_options options = ONE_PASS;
    et_source *source = open_prefetch(open_source(&encoded, &shape, &options), 3);
    et_batch *batch;
    int pairs = 0;
    open_batch(&batch, &shape);
    for (next_batch(source, batch); batch->filled[ET_PAIR_SEGMENTS]; next_batch(source, batch))
        pairs += batch->filled[ET_PAIR_SEGMENTS];
    assert_int_equal(pairs, 300);
    next_batch(source, batch);
    assert_int_equal(batch->filled[ET_PAIR_SEGMENTS], 0);
    et_source_close(source);
    et_batch_free(batch);
    release_encoded(&encoded);
}

/* Restoring goes back and forth while the thread is ahead, and after the end. */
static void test_prefetch__restore(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    et_encoded encoded = make_encoded(300);
    et_batches_options options = ONE_PASS;
    et_source *source = open_prefetch(open_source(&encoded, &shape, &options), 4);
    et_position positions[COUNT];
    uint64_t digests[COUNT];
    et_batch *batch;
    int count = 0;
    open_batch(&batch, &shape);
    do {
        et_source_position(source, &positions[count]);
        next_batch(source, batch);
        digests[count++] = batch_digest(batch);
    } while (batch->filled[ET_PAIR_SEGMENTS]);
    for (int i = 0; i < 2 * count; i++) {
        int at = i * 7 % count;
        assert_int_equal(et_source_seek(source, &positions[at], NULL), ET_OK);
        next_batch(source, batch);
        assert_int_equal(batch_digest(batch), digests[at]);
    }
    et_source_close(source);
    et_batch_free(batch);
    release_encoded(&encoded);
}

/* After an invalid position, the source reports the error and does not continue. */
static void test_prefetch__restore_fails(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(300);
    et_batches_options options = ENDLESS;
    et_source *source = open_prefetch(open_source(&encoded, &shape, &options), 2);
    et_position good, bad;
    et_batch *batch;
    et_error error = ET_ERROR_INIT;
    open_batch(&batch, &shape);
    et_source_position(source, &good);
    bad = good;
    bad.value[3]++;
    assert_int_equal(et_source_seek(source, &bad, &error), ET_EDATA);
    assert_contains(error.text, "other data");
    assert_int_equal(et_source_next(source, batch, &error), ET_EDATA);
    assert_int_equal(et_source_seek(source, &good, &error), ET_OK);
    next_batch(source, batch);
    assert_true(batch->filled[ET_PAIR_SEGMENTS] > 0);
    et_source_close(source);
    et_batch_free(batch);
    release_encoded(&encoded);
}

/* ---- a source that fails ---- */

typedef struct failing {
    et_source source;
    int64_t given, fails_at;
    useconds_t pause;
    bool *closed;
} failing;

static int failing_next(et_source *source, et_batch *batch, et_error *error)
{
    failing *self = (failing *)source;
    usleep(self->pause);
    if (self->given == self->fails_at)
        return et_fail(error, ET_EIO, "train.de: the disk is gone");
    et_batch_clear(batch);
    batch->filled[ET_PAIR_SEGMENTS] = 1;
    batch->sample[0] = (uint32_t)self->given++;
    return ET_OK;
}

static void failing_position(const et_source *source, et_position *position)
{
    et_position_put(position, "batch", ((const failing *)source)->given);
}

static int failing_seek(et_source *source, const et_position *position, et_error *error)
{
    return et_position_get(position, "batch", &((failing *)source)->given, error);
}

static void failing_close(et_source *source)
{
    *((failing *)source)->closed = true;
}

static const et_source_class failing_class = {
    .name = "failing",
    .next = failing_next,
    .position = failing_position,
    .seek = failing_seek,
    .close = failing_close,
};

/* The error comes in its place, after the batches before it, and again at each call. */
static void test_prefetch__error_comes_through(void **state)
{
    (void)state;
    bool closed;
    et_batch *batch;
    open_batch(&batch, &shape);
    for (int fails_at = 0; fails_at < 9; fails_at += 4) {
        failing inner = {
            { .class = &failing_class, .layout = pair_layout(&shape) }, 0, fails_at, 0, &closed
        };
        et_source *source = open_prefetch(&inner.source, 3);
        for (int i = 0; i < fails_at; i++) {
            next_batch(source, batch);
            assert_int_equal(batch->sample[0], i);
        }
        for (int again = 0; again < 3; again++) {
            et_error error = ET_ERROR_INIT;
            assert_int_equal(et_source_next(source, batch, &error), ET_EIO);
            assert_string_equal(error.text, "train.de: the disk is gone");
        }
        et_position position;
        et_source_position(source, &position);
        assert_int_equal(position_at(&position, "batch"), fails_at);
        et_source_close(source);
    }
    et_batch_free(batch);
}

/* Closing does not wait for batches that nobody wants, whatever the thread is doing. */
static void test_prefetch__close_at_any_time(void **state)
{
    (void)state;
    et_batch *batch;
    open_batch(&batch, &shape);
    for (int i = 0; i < 60; i++) {
        bool closed = false;
        failing inner = { { .class = &failing_class, .layout = pair_layout(&shape) },
                          0,
                          i % 3 ? 1000000 : 5,
                          100,
                          &closed };
        et_source *source = open_prefetch(&inner.source, 1 + i % 4);
        for (int k = 0; k < i % 5; k++)
            next_batch(source, batch);
        usleep((useconds_t)(i * 17 % 400));
        et_source_close(source);
        assert_true(closed);
    }
    et_batch_free(batch);
}

static void test_prefetch__allocates_nothing(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(300);
    et_batches_options options = ENDLESS;
    et_source *source = open_prefetch(open_source(&encoded, &shape, &options), 4);
    et_batch *batch;
    open_batch(&batch, &shape);
    next_batch(source, batch);
    size_t before = et_alloc_count();
    for (int i = 0; i < 100; i++)
        next_batch(source, batch);
    assert_int_equal(et_alloc_count(), before);
    et_source_close(source);
    et_batch_free(batch);
    release_encoded(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefetch__same_as_without),
        cmocka_unit_test(test_prefetch__end),
        cmocka_unit_test(test_prefetch__restore),
        cmocka_unit_test(test_prefetch__restore_fails),
        cmocka_unit_test(test_prefetch__error_comes_through),
        cmocka_unit_test(test_prefetch__close_at_any_time),
        cmocka_unit_test(test_prefetch__allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
