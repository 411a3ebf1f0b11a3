#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "data/pairs_fixture.h"

static const pair_shape shape = { 600, 640, 64 };

/* The leading track of a trace that records all. */
static et_track *open_trace(et_trace **trace)
{
    et_trace_options options = ET_TRACE_OPTIONS_INIT;
    assert_int_equal(et_trace_new(trace, &options, NULL), ET_OK);
    et_trace_window(*trace, 0, INT64_MAX);
    return et_trace_main(*trace);
}

static et_source *trace_batches(et_source *inner, et_track *track)
{
    et_source *source = NULL;
    assert_int_equal(et_traced_source_open(&source, inner, track, NULL), ET_OK);
    return source;
}

/* Batches and positions are those of the inner source, from a restored position too, and each batch
 * is a span with its number. */
static void test_progress__same_as_without(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(700);
    et_batches_options options = ENDLESS;
    et_batch *left, *right;
    et_position one, other;
    et_trace *trace;
    size_t spans;
    et_source *plain = open_source(&encoded, &shape, &options);
    et_source *traced = trace_batches(open_source(&encoded, &shape, &options), open_trace(&trace));
    open_batch(&left, &shape);
    open_batch(&right, &shape);
    for (int i = 0; i < 20; i++) {
        next_batch(plain, left);
        next_batch(traced, right);
        assert_same_batch(left, right);
        et_source_position(plain, &one);
        et_source_position(traced, &other);
        assert_same_position(&one, &other);
        if (i == 10)
            assert_int_equal(et_source_seek(traced, &one, NULL), ET_OK);
    }
    et_trace_stop(trace);
    et_trace_track(trace, 0, &spans);
    assert_int_equal(spans, 20);
    assert_string_equal(et_trace_span(trace, 0, 19).activity->name, "fill batch");
    assert_int_equal(et_trace_span(trace, 0, 19).number, 20);
    et_source_close(plain);
    et_source_close(traced);
    et_batch_free(left);
    et_batch_free(right);
    release_encoded(&encoded);
    et_trace_free(trace);
}

/* Below a prefetch thread its spans are on that thread's track. */
static void test_progress__prefetch(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(300);
    et_batches_options options = ENDLESS;
    et_batch *batch;
    et_source *source;
    et_trace *trace;
    size_t spans;
    et_track *track = et_track_beside(open_trace(&trace), "prefetch");
    et_source *inner = trace_batches(open_source(&encoded, &shape, &options), track);
    assert_int_equal(et_prefetch_open(&source, inner, 2, NULL), ET_OK);
    open_batch(&batch, &shape);
    for (int i = 0; i < 10; i++)
        next_batch(source, batch);
    et_source_close(source);
    et_trace_stop(trace);
    et_trace_track(trace, 0, &spans);
    assert_int_equal(spans, 0);
    assert_string_equal(et_trace_track(trace, 1, &spans), "prefetch");
    assert_in_range(spans, 10, 13);
    et_batch_free(batch);
    release_encoded(&encoded);
    et_trace_free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress__same_as_without),
        cmocka_unit_test(test_progress__prefetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
