/* The order of events, and what handlers may do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

#include "base/alloc.h"
#include "base/arena.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- events ---- */

typedef struct recorder {
    char text[2048];
    const char *mark;
} recorder;

static int record(void *payload, const char *event, const void *what, et_error *error)
{
    recorder *r = payload;
    const et_loop_event *e = what;
    (void)error;
    assert_non_null(e->loop);
    size_t used = strlen(r->text);
    used += (size_t)snprintf(r->text + used, sizeof r->text - used, "%s", event);
    for (int i = 0; i < e->count; i++)
        used += (size_t)snprintf(r->text + used, sizeof r->text - used, "%s%s", i ? "," : ":",
                                 e->metrics ? e->metrics[i].name : e->stats[i].name);
    snprintf(r->text + used, sizeof r->text - used, "%s ", e->summary ? ":summary" : "");
    return ET_OK;
}

static int second(void *payload, const char *event, const void *what, et_error *error)
{
    recorder *r = payload;
    (void)event, (void)what, (void)error;
    strcat(r->text, "2 ");
    return ET_OK;
}

static const char *const every_event[] = {
    ET_EVENT_ENTER_LOOP,           ET_EVENT_EXIT_LOOP,
    ET_EVENT_BEFORE_EPOCH,         ET_EVENT_AFTER_EPOCH,
    ET_EVENT_BEFORE_STEP,          ET_EVENT_AFTER_STEP,
    ET_EVENT_METRICS_COLLECTED,    ET_EVENT_TIME_METRICS_COLLECTED,
    ET_EVENT_METRIC_STATS_PRINTED, ET_EVENT_TIME_METRIC_STATS_PRINTED,
    ET_EVENT_SUMMARY_ADDED,
};

static void record_all(et_loop *loop, recorder *r)
{
    *r = (recorder){ .text = "" };
    for (size_t i = 0; i < COUNT(every_event); i++)
        assert_ok(et_event_hub_on(et_loop_events(loop), every_event[i], record, r, error));
}

/* All that happens in a loop, in order. AFTER events are fired in reverse. */
static void test_loop_events__order_of_events(void **state)
{
    looped l;
    recorder r;
    looped_init(&l);
    l.options.max_epoch = 2;
    l.options.summary_dir = in(state, "order");
    et_arena arena = ET_ARENA_INIT;
    et_value *summary = et_value_dict(&arena);
    et_value_set_float(summary, "weight", 1);
    et_source *source = rows_source(2, true, false);
    looped_open(&l);
    record_all(l.loop, &r);
    et_event_hub *events = et_loop_events(l.loop);
    assert_ok(et_event_hub_on(events, ET_EVENT_AFTER_STEP, second, &r, error));
    assert_ok(et_event_hub_on(events, ET_EVENT_BEFORE_STEP, second, &r, error));
    assert_ok(et_event_hub_on(events, ET_EVENT_AFTER_EPOCH, second, &r, error));
    assert_ok(et_event_hub_on(events, ET_EVENT_BEFORE_EPOCH, second, &r, error));
    assert_ok(et_loop_begin(l.loop, error));
    assert_string_equal(r.text, "enter_loop ");
    *r.text = 0;
    while (et_loop_next_epoch(l.loop)) {
        bool first = et_loop_epoch(l.loop) == 1;
        while (et_loop_next_step(l.loop, source)) {
            if (first)
                et_loop_collect(l.loop, "loss", 1);
            if (et_loop_step(l.loop) == 2)
                et_loop_print_logs(l.loop);
        }
        if (first) {
            et_loop_time_begin(l.loop, "valid_time");
            et_loop_time_end(l.loop, "valid_time");
            et_loop_add_summary(l.loop, summary);
        }
        if (first)
            et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    assert_string_equal(
        r.text, "before_epoch 2 before_step 2 metrics_collected:loss 2 after_step "
                "time_metrics_collected:step_time before_step 2 metrics_collected:loss "
                "time_metrics_collected:step_time metric_stats_printed:loss "
                "time_metric_stats_printed:step_time 2 after_step "
                "time_metrics_collected:valid_time summary_added:summary "
                "time_metrics_collected:epoch_time metric_stats_printed:loss "
                "time_metric_stats_printed:epoch_time,step_time,valid_time 2 after_epoch "
                "before_epoch 2 before_step 2 2 after_step time_metrics_collected:step_time "
                "before_step 2 2 after_step time_metrics_collected:step_time "
                "2 after_epoch time_metrics_collected:epoch_time exit_loop ");
    et_source_close(source);
    et_arena_release(&arena);
    looped_free(&l);
}

/* A step or epoch that is left has no AFTER event, and no time. */
static void test_loop_events__events_after_break(void **state)
{
    (void)state;
    looped l;
    recorder r;
    looped_init(&l);
    l.options.max_epoch = 2;
    et_source *source = rows_source(4, true, false);
    looped_begin(&l);
    record_all(l.loop, &r);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source))
            break;
        if (et_loop_epoch(l.loop) == 2)
            break;
    }
    looped_end(&l);
    assert_string_equal(r.text, "before_epoch before_step after_epoch "
                                "time_metrics_collected:epoch_time before_epoch before_step "
                                "exit_loop ");
    et_source_close(source);
    looped_free(&l);
}

static void test_loop_events__println_at_any_time(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    looped_open(&l);
    assert_int_equal(et_loop_println(l.loop, "before", false), 0);
    assert_ok(et_loop_begin(l.loop, error));
    assert_true(et_loop_next_epoch(l.loop));
    assert_ok(et_loop_end(l.loop, error));
    assert_int_equal(et_loop_println(l.loop, "behind", false), 0);
    assert_string_equal(l.printed, "before\nbehind\n");
    looped_free(&l);
}

enum { DERIVED = 20 };

/* Collects under new names while it reads. */
static int derive(void *payload, const char *event, const void *what, et_error *error)
{
    const et_loop_event *e = what;
    (void)event, (void)error;
    assert_int_equal(e->count, DERIVED);
    for (int i = 0; i < e->count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_of_%d", e->stats[i].name, i);
        assert_true(et_statistics_mean(e->stats[i].statistics) == atoi(e->stats[i].name + 1));
        et_loop_collect(e->loop, name, 1);
        ++*(int *)payload;
    }
    return ET_OK;
}

static void test_loop_events__collects_while_it_prints(void **state)
{
    (void)state;
    int seen = 0;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    looped_open(&l);
    assert_ok(et_event_hub_on(et_loop_events(l.loop), ET_EVENT_METRIC_STATS_PRINTED, derive, &seen,
                              error));
    assert_ok(et_loop_begin(l.loop, error));
    while (et_loop_next_epoch(l.loop)) {
        for (int i = 0; i < DERIVED; i++) {
            char name[16];
            snprintf(name, sizeof name, "m%d", i);
            et_loop_collect(l.loop, name, i);
        }
        assert_int_equal(et_loop_print_logs(l.loop), 0);
    }
    looped_end(&l);
    assert_int_equal(seen, DERIVED);
    looped_free(&l);
}

/* Steps, events, metrics and logs take no memory once their names are known. */
static void test_loop_events__allocates_nothing_in_a_step(void **state)
{
    (void)state;
    size_t before = 0;
    recorder r;
    looped l;
    looped_init(&l);
    l.options.max_step = 40;
    et_source *source = rows_source(4, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        record_all(l.loop, &r);
        while (et_loop_next_step(l.loop, source)) {
            *r.text = 0;
            et_loop_time_begin(l.loop, "x_time");
            et_loop_collect(l.loop, "loss", row_of(l.loop));
            et_loop_time_end(l.loop, "x_time");
            et_loop_print_logs(l.loop);
            *l.printed = 0;
        }
        *r.text = 0;
        assert_ok(et_event_hub_clear(et_loop_events(l.loop), NULL, error));
        if (et_loop_epoch(l.loop) == 4)
            before = et_alloc_count();
        if (et_loop_epoch(l.loop) == 8)
            assert_int_equal(et_alloc_count(), before);
    }
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_events__order_of_events),
        cmocka_unit_test(test_loop_events__events_after_break),
        cmocka_unit_test(test_loop_events__println_at_any_time),
        cmocka_unit_test(test_loop_events__collects_while_it_prints),
        cmocka_unit_test(test_loop_events__allocates_nothing_in_a_step),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
