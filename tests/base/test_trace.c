#include "base/threads/trace.h"

#include <string.h>

#include "base/main.h"
#include "base/scarce.h"
#include "base/threads/thread.h"

static const et_activity unit_activity = { .name = "unit", .kind = "a unit" };
static const et_activity op_activity = { .name = "op", .kind = "an op" };

static et_trace *make(size_t spans, void (*over)(void *), void *payload)
{
    et_trace *trace;
    et_trace_options options = ET_TRACE_OPTIONS_INIT;
    options.unit = "unit";
    options.spans = spans;
    options.over = over;
    options.payload = payload;
    assert_int_equal(et_trace_new(&trace, &options, NULL), ET_OK);
    return trace;
}

/* A unit with two ops in it, the second of some cost. */
static void do_unit(et_track *track, int64_t number)
{
    et_track_begin(track, &unit_activity, number);
    et_track_begin(track, &op_activity, -1);
    et_track_end(track);
    et_track_begin(track, &op_activity, 7);
    et_track_end_with(track, (et_cost){ 10, 20 });
    et_track_end(track);
}

/* Spans nest: each begins when its elder sibling has ended, and ends before its parent does. */
static void assert_nested(const et_trace *trace, int i)
{
    size_t spans;
    int64_t free_from[ET_TRACE_DEPTH_MAX + 1] = { 0 }, end[ET_TRACE_DEPTH_MAX + 1];
    int before = -1;
    et_trace_track(trace, i, &spans);
    for (size_t k = 0; k < spans; k++) {
        et_span span = et_trace_span(trace, i, k);
        assert_in_range(span.depth, 0, before + 1);
        assert_true(span.begin >= free_from[span.depth] && span.end >= span.begin);
        assert_true(span.end <= (span.depth ? end[span.depth - 1] : et_trace_facts_of(trace).end));
        end[span.depth] = free_from[span.depth] = span.end;
        free_from[span.depth + 1] = span.begin;
        before = span.depth;
    }
}

static void test_trace__off(void **state)
{
    (void)state;
    et_track *off = et_track_off();
    do_unit(off, 1);
    assert_ptr_equal(et_track_beside(off, "other"), off);
}

/* A window records units by number, with everything in them. */
static void test_trace__window(void **state)
{
    (void)state;
    static const struct {
        int64_t first, last, from, to; /* the window, and the recorded units of 1 to 5 */
    } cases[] = {
        { 0, INT64_MAX, 1, 5 }, { 1, 1, 1, 1 }, { 2, 3, 2, 3 }, { 5, 9, 5, 5 }, { 6, 9, 1, 0 },
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        et_trace *trace = make(100, NULL, NULL);
        et_trace_window(trace, cases[c].first, cases[c].last);
        for (int64_t i = 1; i <= 5; i++)
            do_unit(et_trace_main(trace), 100 + i);
        et_trace_stop(trace);
        size_t spans, wanted = (size_t)(3 * (cases[c].to - cases[c].from + 1));
        assert_string_equal(et_trace_track(trace, 0, &spans), "main");
        assert_int_equal(spans, wanted);
        assert_int_equal(et_trace_facts_of(trace).units, wanted / 3);
        for (size_t k = 0; k < spans; k++) {
            et_span span = et_trace_span(trace, 0, k);
            static const int64_t numbers[] = { 0, -1, 7 };
            assert_int_equal(span.number,
                             k % 3 ? numbers[k % 3] : 100 + cases[c].from + (int64_t)k / 3);
            assert_int_equal(span.depth, k % 3 != 0);
            assert_ptr_equal(span.activity, k % 3 ? &op_activity : &unit_activity);
            assert_true(span.cost.bytes == (k % 3 == 2 ? 20 : 0));
        }
        assert_nested(trace, 0);
        et_trace_free(trace);
    }
}

/* Without a window nothing is recorded. */
static void test_trace__waits(void **state)
{
    (void)state;
    size_t spans;
    et_trace *trace = make(100, NULL, NULL);
    do_unit(et_trace_main(trace), 1);
    et_trace_stop(trace);
    et_trace_facts facts = et_trace_facts_of(trace);
    et_trace_track(trace, 0, &spans);
    assert_int_equal(spans, 0);
    assert_int_equal(facts.begin, facts.end);
    et_trace_free(trace);
}

typedef struct heard {
    et_trace *trace;
    int times;
    size_t spans; /* that were there */
} heard;

static void on_over(void *payload)
{
    heard *h = payload;
    h->times++;
    et_trace_track(h->trace, 0, &h->spans);
    et_trace_facts_of(h->trace); /* may be read */
}

/* Reported once, at the begin of the unit after the last; not if the stop comes from outside. */
static void test_trace__over(void **state)
{
    (void)state;
    heard h = { NULL, 0, 0 };
    h.trace = make(100, on_over, &h);
    et_trace_window(h.trace, 2, 3);
    for (int64_t i = 1; i <= 6; i++) {
        do_unit(et_trace_main(h.trace), i);
        assert_int_equal(h.times, i > 3);
    }
    assert_int_equal(h.spans, 6);
    et_trace_free(h.trace);
    h = (heard){ make(100, on_over, &h), 0, 0 };
    et_trace_window(h.trace, 1, 3);
    do_unit(et_trace_main(h.trace), 1);
    et_trace_stop(h.trace);
    do_unit(et_trace_main(h.trace), 2);
    assert_int_equal(h.times, 0);
    et_trace_free(h.trace);
}

/* The leading track is full in the middle of the second unit: the trace ends there. */
static void test_trace__full(void **state)
{
    (void)state;
    heard h = { NULL, 0, 0 };
    size_t spans;
    h.trace = make(4, on_over, &h);
    et_track *main = et_trace_main(h.trace);
    et_trace_window(h.trace, 0, INT64_MAX);
    do_unit(main, 1);
    do_unit(main, 2);
    et_trace_track(h.trace, 0, &spans);
    assert_int_equal(spans, 4);
    et_trace_facts facts = et_trace_facts_of(h.trace);
    assert_int_equal(facts.dropped, 1); /* events after the end are not recorded */
    assert_int_equal(facts.units, 2);
    assert_int_equal(et_trace_span(h.trace, 0, 3).end, facts.end);
    assert_nested(h.trace, 0);
    assert_int_equal(h.times, 0);
    do_unit(main, 3);
    assert_int_equal(h.times, 1);
    et_trace_free(h.trace);
}

/* A span that is open when the trace ends, ends there; its cost is not counted. */
static void test_trace__open_span(void **state)
{
    (void)state;
    et_trace *trace = make(10, NULL, NULL);
    et_track *main = et_trace_main(trace);
    et_trace_window(trace, 0, INT64_MAX);
    et_track_begin(main, &op_activity, -1);
    et_trace_stop(trace);
    et_track_end_with(main, (et_cost){ 1, 1 });
    et_span span = et_trace_span(trace, 0, 0);
    assert_int_equal(span.end, et_trace_facts_of(trace).end);
    assert_true(span.cost.flops == 0);
    et_trace_free(trace);
}

/* A thread may be in the middle of a unit when the window opens. That unit is not recorded; spans
 * that begin in it later are at the top level. */
static void test_trace__opens_within(void **state)
{
    (void)state;
    static const struct {
        const et_activity *activity;
        int depth;
    } wanted[] = { { &op_activity, 0 },   { &op_activity, 0 }, { &op_activity, 1 },
                   { &unit_activity, 0 }, { &op_activity, 1 }, { &op_activity, 1 } };
    size_t spans;
    et_trace *trace = make(100, NULL, NULL);
    et_track *side = et_track_beside(et_trace_main(trace), "side");
    et_trace_window(trace, 1, 1);
    et_track_begin(side, &unit_activity, 1);
    et_track_begin(side, &op_activity, -1);
    do_unit(et_trace_main(trace), 1); /* opens */
    et_track_begin(side, &op_activity, -1);
    et_track_end(side);
    et_track_end(side);
    et_track_begin(side, &op_activity, -1);
    et_track_begin(side, &op_activity, -1);
    et_track_end(side);
    et_track_end(side);
    et_track_end(side);
    do_unit(side, 2);
    et_trace_stop(trace);
    et_trace_track(trace, 1, &spans);
    assert_int_equal(spans, COUNT(wanted));
    for (size_t i = 0; i < spans; i++) {
        assert_ptr_equal(et_trace_span(trace, 1, i).activity, wanted[i].activity);
        assert_int_equal(et_trace_span(trace, 1, i).depth, wanted[i].depth);
    }
    assert_nested(trace, 1);
    et_trace_free(trace);
}

static void *work(void *payload)
{
    for (int64_t i = 0; i < 20000; i++)
        do_unit(payload, i);
    return NULL;
}

/* Threads record on their own tracks while the leading thread ends the trace; a full track drops
 * its own spans and does not end the trace. */
static void test_trace__threads(void **state)
{
    (void)state;
    enum { THREADS = 3, ROOM = 6000 };
    pthread_t thread[THREADS];
    size_t spans;
    et_trace *trace = make(ROOM, NULL, NULL);
    et_track *main = et_trace_main(trace);
    et_trace_window(trace, 1, 500);
    for (int i = 0; i < THREADS; i++) {
        char name[8] = { (char)('a' + i), 0 };
        et_track *track = et_track_beside(main, name);
        assert_int_equal(et_thread_start(&thread[i], work, track, NULL), ET_OK);
    }
    for (int64_t i = 1; i <= 600; i++)
        do_unit(main, i);
    for (int i = 0; i <= THREADS; i++)
        assert_nested(trace, i); /* others still record */
    for (int i = 0; i < THREADS; i++)
        et_thread_join(thread[i]);
    et_trace_track(trace, 0, &spans);
    assert_int_equal(spans, 1500);
    assert_string_equal(et_trace_track(trace, THREADS, &spans), "c");
    assert_true(spans <= ROOM);
    et_trace_free(trace);
}

static void test_trace__out_of_memory(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_trace_options options = ET_TRACE_OPTIONS_INIT;
    bool whole = false;
    for (long n = 0; !whole; n++) {
        et_trace *trace;
        scarce_begin(n);
        int status = et_trace_new(&trace, &options, &error);
        if (!status) {
            et_track *other = et_track_beside(et_trace_main(trace), "other");
            assert_true((other == et_track_off()) == scarce_failed);
            do_unit(other, 1);
        } else {
            assert_int_equal(status, ET_ENOMEM);
            assert_null(trace);
        }
        whole = !scarce_failed;
        et_trace_free(trace);
        scarce_end();
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace__off),           cmocka_unit_test(test_trace__window),
        cmocka_unit_test(test_trace__waits),         cmocka_unit_test(test_trace__over),
        cmocka_unit_test(test_trace__full),          cmocka_unit_test(test_trace__open_span),
        cmocka_unit_test(test_trace__opens_within),  cmocka_unit_test(test_trace__threads),
        cmocka_unit_test(test_trace__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
