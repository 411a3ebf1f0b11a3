/* A loop: counters, order of events, metrics, logs, progress, summaries. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "loop/looped.h"

#include "base/alloc.h"
#include "base/arena.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- counters ---- */

static void test_loop__counters(void **state)
{
    (void)state;
    static const struct {
        int64_t max_epoch, max_step, rows; /* rows 0: no data */
        int64_t epochs, steps;
    } cases[] = { { 2, 0, 4, 2, 8 },
                  { 0, 10, 0, 1, 10 },
                  { 0, 10, 4, 3, 10 },
                  { 2, 10, 4, 2, 8 },
                  { 3, 10, 4, 3, 10 } };
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        bool repeat = i % 2;
        const int64_t max_epoch = cases[i / 2].max_epoch, rows = cases[i / 2].rows;
        looped l;
        looped_init(&l);
        l.options.max_epoch = max_epoch;
        l.options.max_step = cases[i / 2].max_step;
        et_source *source = rows ? rows_source(rows, repeat, false) : NULL;
        looped_begin(&l);
        assert_int_equal(et_loop_epoch(l.loop), 0);
        assert_int_equal(et_loop_step(l.loop), 0);
        int64_t epochs = 0, steps = 0;
        while (et_loop_next_epoch(l.loop)) {
            int64_t row = 0;
            assert_int_equal(et_loop_epoch(l.loop), ++epochs);
            assert_true(et_loop_within_epoch(l.loop) && !et_loop_within_step(l.loop));
            while (et_loop_next_step(l.loop, source)) {
                assert_int_equal(et_loop_step(l.loop), ++steps);
                assert_true(et_loop_within_step(l.loop));
                if (source)
                    assert_true(row_of(l.loop) == (double)row++);
                else
                    assert_null(et_loop_step_data(l.loop));
            }
            assert_null(et_loop_step_data(l.loop));
            assert_false(et_loop_within_step(l.loop));
        }
        assert_false(et_loop_within_epoch(l.loop));
        assert_int_equal(epochs, cases[i / 2].epochs);
        assert_int_equal(steps, cases[i / 2].steps);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

static void test_loop__limits_are_set_in_it(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    et_source *source = rows_source(4, true, false);
    looped_begin(&l);
    int steps = 0;
    while (et_loop_next_epoch(l.loop)) {
        if (et_loop_epoch(l.loop) == 1)
            assert_int_equal(et_loop_set_max_epoch(l.loop, 20), 0);
        while (et_loop_next_step(l.loop, source))
            if (++steps == 6)
                assert_int_equal(et_loop_set_max_step(l.loop, 7), 0);
    }
    assert_int_equal(steps, 7);
    assert_int_equal(et_loop_epoch(l.loop), 2);
    assert_int_equal(et_loop_max_epoch(l.loop), 20);
    assert_int_equal(et_loop_max_step(l.loop), 7);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* A pass that is left goes on in the next epoch, and ends where it would have ended. */
static void test_loop__break_leaves_it_usable(void **state)
{
    (void)state;
    for (int repeat = 0; repeat < 2; repeat++) {
        looped l;
        looped_init(&l);
        l.options.max_epoch = 3;
        et_source *source = rows_source(4, repeat, false);
        char rows[64] = "";
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop)) {
            while (et_loop_next_step(l.loop, source)) {
                size_t used = strlen(rows);
                snprintf(rows + used, sizeof rows - used, "%g", row_of(l.loop));
                if (et_loop_step(l.loop) == 3)
                    break;
            }
            size_t used = strlen(rows);
            snprintf(rows + used, sizeof rows - used, "|");
            if (et_loop_epoch(l.loop) == 2)
                break;
        }
        assert_int_equal(et_loop_leave(l.loop), 0);
        assert_false(et_loop_within_epoch(l.loop));
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, source)) {
                size_t used = strlen(rows);
                snprintf(rows + used, sizeof rows - used, "%g", row_of(l.loop));
            }
        assert_string_equal(rows, "012|3|0123");
        assert_int_equal(et_loop_epoch(l.loop), 3);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

/* Behind a break out of steps, what follows is the epoch's. */
static void test_loop__break_out_of_steps(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    l.options.no_eta = true;
    et_source *source = rows_source(4, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source)) {
            et_loop_collect(l.loop, "x", row_of(l.loop));
            if (et_loop_step(l.loop) == 2) {
                assert_int_equal(et_loop_leave_steps(l.loop), 0);
                break;
            }
        }
        assert_int_equal(et_loop_leave_steps(l.loop), 0); /* nothing is open */
        assert_true(et_loop_within_epoch(l.loop) && !et_loop_within_step(l.loop));
        assert_null(et_loop_step_data(l.loop));
        et_loop_collect(l.loop, "y", 7);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    hide_times(l.printed);
    assert_string_equal(l.printed,
                        "[Epoch 1/2, Step 2] epoch time: T; step time: T; x: 0.5 (±0.5); y: 7\n"
                        "[Epoch 2/2, Step 4] epoch time: T; step time: T; x: 2.5 (±0.5); y: 7\n");
    et_source_close(source);
    looped_free(&l);
}

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
        assert_ok(et_event_source_on(et_loop_events(loop), every_event[i], record, r, error));
}

/* All that happens in a loop, in order. AFTER events are fired in reverse. */
static void test_loop__order_of_events(void **state)
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
    et_event_source *events = et_loop_events(l.loop);
    assert_ok(et_event_source_on(events, ET_EVENT_AFTER_STEP, second, &r, error));
    assert_ok(et_event_source_on(events, ET_EVENT_BEFORE_STEP, second, &r, error));
    assert_ok(et_event_source_on(events, ET_EVENT_AFTER_EPOCH, second, &r, error));
    assert_ok(et_event_source_on(events, ET_EVENT_BEFORE_EPOCH, second, &r, error));
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

/* What is left has no AFTER event, and no time. */
static void test_loop__events_after_break(void **state)
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

static void test_loop__println_at_any_time(void **state)
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

/* ---- logs ---- */

static void check_printed(looped *l, const char *wanted)
{
    hide_times(l->printed);
    assert_string_equal(l->printed, wanted);
}

static void run_logs(looped *l, int64_t rows)
{
    et_source *source = rows_source(rows, true, false);
    looped_begin(l);
    while (et_loop_next_epoch(l->loop)) {
        while (et_loop_next_step(l->loop, source)) {
            et_loop_collect(l->loop, "x", row_of(l->loop));
            if (et_loop_step(l->loop) % 2 == 0)
                et_loop_print_logs(l->loop);
        }
        et_loop_collect(l->loop, "y", (double)et_loop_epoch(l->loop));
        et_loop_print_logs(l->loop);
    }
    looped_end(l);
    et_source_close(source);
}

static void test_loop__logs(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_step = 6;
    run_logs(&l, 4);
    check_printed(&l, "[Epoch 1, Step 2/6, ETA T] step time: T; x: 0.5 (±0.5)\n"
                      "[Epoch 1, Step 4/6, ETA T] step time: T; x: 2.5 (±0.5)\n"
                      "[Epoch 1, Step 4/6, ETA T] epoch time: T; step time: T; "
                      "x: 1.5 (±1.11803); y: 1\n"
                      "[Epoch 2, Step 6/6, ETA T] step time: T; x: 0.5 (±0.5)\n"
                      "[Epoch 2, Step 6/6, ETA T] epoch time: T; step time: T; "
                      "x: 0.5 (±0.5); y: 2\n");
    looped_free(&l);
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.no_eta = true;
    run_logs(&l, 4);
    check_printed(&l, "[Step 2] step time: T; x: 0.5 (±0.5)\n"
                      "[Step 4] step time: T; x: 2.5 (±0.5)\n"
                      "[Step 4] epoch time: T; step time: T; x: 1.5 (±1.11803); y: 1\n");
    looped_free(&l);
}

/* Metrics of all epochs since the last log. */
static void test_loop__metrics_wait_for_the_log(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 4;
    l.options.no_eta = true;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        const double values[] = { 1, 3 };
        const et_loop_metric two[] = { { .name = "x", .value = (double)et_loop_epoch(l.loop) },
                                       { .name = "many", .values = values, .count = 2 },
                                       { .name = "none", .values = values, .count = 0 } };
        assert_int_equal(et_loop_collect_metrics(l.loop, two, 3), 0);
        assert_int_equal(et_loop_collect_metrics(l.loop, NULL, 0), 0);
        if (et_loop_epoch(l.loop) % 2 == 0)
            et_loop_print_logs(l.loop);
        et_loop_println(l.loop, "hello", et_loop_epoch(l.loop) == 3);
    }
    looped_end(&l);
    check_printed(&l, "hello\n"
                      "[Epoch 2/4, Step 0] epoch time: T; many: 2 (±1); x: 1.5 (±0.5)\nhello\n"
                      "[Epoch 3/4, Step 0] hello\n"
                      "[Epoch 4/4, Step 0] epoch time: T; many: 2 (±1); x: 3.5 (±0.5)\nhello\n");
    looped_free(&l);
}

static int backwards(void *payload, const char *a, const char *b)
{
    (void)payload;
    return strcmp(b, a);
}

static void in_brackets(void *payload, const char *name, double value, char *text, size_t size)
{
    (void)name;
    snprintf(text, size, "%s%g>", (const char *)payload, value);
}

static void test_loop__formatter(void **state)
{
    (void)state;
    char bracket[] = "<";
    const et_metric_formatter formatter = { bracket, backwards, in_brackets };
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.formatter = &formatter;
    l.options.no_eta = true;
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    et_loop_collect(l.loop, "a_a", 1);
    et_loop_collect(l.loop, "z", 2);
    et_loop_print_logs(l.loop);
    assert_int_equal(strncmp(l.printed, "[Step 0] z: <2>; epoch time: <", 30), 0);
    assert_non_null(strstr(l.printed, ">; a a: <1>\n"));
    looped_end(&l);
    looped_free(&l);
}

static void test_loop__collectors_and_timers(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.no_eta = true;
    et_statistics *collector, *other;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        assert_int_equal(et_loop_time_begin(l.loop, "x_timer"), 0);
        assert_int_equal(et_loop_time_begin(l.loop, "y_time"), 0);
        assert_int_equal(et_loop_collector_begin(l.loop, "x", &collector), 0);
        assert_int_equal(et_loop_collector_begin(l.loop, "y_time", &other), 0);
        et_statistics_collect(collector, 2, 1);
        et_statistics_collect(collector, 3, 3);
        assert_int_equal(et_loop_collector_end(l.loop, "x"), 0);
        assert_int_equal(et_loop_collector_end(l.loop, "y_time"), 0); /* nothing in it */
        assert_int_equal(et_loop_time_end(l.loop, "x_timer"), 0);
        assert_int_equal(et_loop_time_end(l.loop, "y_time"), 0);
        assert_int_equal(et_loop_collector_begin(l.loop, "x", &collector), 0);
        assert_int_equal(et_statistics_counter(collector), 0);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    check_printed(&l, "[Step 0] epoch time: T; x timer: T; y time: T; x: 2.75\n");
    looped_free(&l);
}

/* Values of no weight have no mean. */
static void test_loop__collector_without_weight(void **state)
{
    (void)state;
    looped l;
    et_statistics *collector;
    looped_init(&l);
    l.options.max_epoch = 1;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        assert_int_equal(et_loop_collector_begin(l.loop, "x", &collector), 0);
        et_statistics_collect(collector, 2, 0);
        assert_int_equal(et_loop_collector_end(l.loop, "x"), 0);
        et_loop_collect(l.loop, "x", 4);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    assert_non_null(strstr(l.printed, "x: 4\n"));
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

static void test_loop__collects_while_it_prints(void **state)
{
    (void)state;
    int seen = 0;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    looped_open(&l);
    assert_ok(et_event_source_on(et_loop_events(l.loop), ET_EVENT_METRIC_STATS_PRINTED, derive,
                                 &seen, error));
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
static void test_loop__allocates_nothing_in_a_step(void **state)
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
        assert_ok(et_event_source_clear(et_loop_events(l.loop), NULL, error));
        if (et_loop_epoch(l.loop) == 4)
            before = et_alloc_count();
        if (et_loop_epoch(l.loop) == 8)
            assert_int_equal(et_alloc_count(), before);
    }
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* ---- the valid metric ---- */

static void test_loop__valid_metric(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int better;
        double values[3];
        const char *marks[3];
        double best;
        bool smaller;
    } cases[] = {
        { NULL, 0, { 0.8, 0.6, 0.7 }, { " (*)", " (*)", "" }, 0.6, true },
        { "y", ET_LOOP_BETTER_LARGER, { 0.7, 0.6, 0.8 }, { " (*)", "", " (*)" }, 0.8, false },
        { "valid_acc", 0, { 0.7, 0.7, 0.8 }, { " (*)", "", " (*)" }, 0.8, false },
        { "accuracy", ET_LOOP_BETTER_SMALLER, { 2, 1, 3 }, { " (*)", " (*)", "" }, 1, true },
        { "y", 0, { NAN, 2, NAN }, { "", " (*)", "" }, 2, true },
        { "", 0, { 1, 2, 3 }, { "", "", "" }, NAN, true },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *name = cases[i].name ? cases[i].name : "valid_loss";
        looped l;
        looped_init(&l);
        l.options.no_eta = true;
        l.options.max_step = 3;
        l.options.valid_metric_name = cases[i].name;
        l.options.valid_metric_better = cases[i].better;
        looped_begin(&l);
        assert_true(isnan(et_loop_best_valid_metric(l.loop)));
        assert_int_equal(et_loop_valid_metric_smaller_is_better(l.loop), cases[i].smaller);
        assert_false(et_loop_use_early_stopping(l.loop));
        assert_true(et_loop_next_epoch(l.loop));
        for (int k = 0; et_loop_next_step(l.loop, NULL); k++) {
            et_loop_collect(l.loop, *name ? name : "y", cases[i].values[k]);
            et_loop_print_logs(l.loop);
            char *line = strrchr(l.printed, ';');
            assert_non_null(line);
            char *mark = strstr(line, " (*)");
            assert_string_equal(mark ? " (*)" : "", cases[i].marks[k]);
        }
        et_loop_print_logs(l.loop);
        double best = et_loop_best_valid_metric(l.loop);
        assert_true(best == cases[i].best || (isnan(best) && isnan(cases[i].best)));
        looped_end(&l);
        looped_free(&l);
    }
}

/* ---- progress ---- */

static void near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-12);
}

static void test_loop__progress(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    looped_begin(&l);
    assert_true(isnan(et_loop_progress(l.loop)) && isnan(et_loop_eta(l.loop)));
    looped_end(&l);
    l.options.max_epoch = 10;
    looped_begin(&l);
    near(et_loop_progress(l.loop), 0);
    while (et_loop_next_epoch(l.loop)) {
        near(et_loop_progress(l.loop), (double)(et_loop_epoch(l.loop) - 1) * 0.1);
        et_loop_print_logs(l.loop);
        near(et_loop_progress(l.loop), (double)et_loop_epoch(l.loop) * 0.1);
        assert_true(et_loop_eta(l.loop) >= 0);
    }
    near(et_loop_progress(l.loop), 1);
    near(et_loop_eta(l.loop), 0);
    looped_end(&l);
    et_source *source = rows_source(5, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        bool first = et_loop_epoch(l.loop) == 1;
        double before = (double)(et_loop_epoch(l.loop) - 1) * 0.1;
        for (int k = 0; et_loop_next_step(l.loop, source); k++) {
            near(et_loop_progress(l.loop), first ? 0 : before + k * 0.02);
            et_loop_print_logs(l.loop);
            near(et_loop_progress(l.loop), first ? 0 : before + (k + 1) * 0.02);
        }
        et_loop_print_logs(l.loop);
        near(et_loop_progress(l.loop), before + 0.1);
    }
    near(et_loop_progress(l.loop), 1);
    looped_end(&l);
    et_source_close(source);
    l.options.max_epoch = 0;
    l.options.max_step = 100;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, NULL)) {
            near(et_loop_progress(l.loop), (double)(et_loop_step(l.loop) - 1) * 0.01);
            et_loop_print_logs(l.loop);
            near(et_loop_progress(l.loop), (double)et_loop_step(l.loop) * 0.01);
        }
    looped_end(&l);
    looped_free(&l);
}

/* An estimate by the epochs so far is too low where those were left. */
static void test_loop__progress_is_at_most_all(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    et_source *source = rows_source(6, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source)) {
            if (et_loop_epoch(l.loop) == 1)
                break;
            et_loop_print_logs(l.loop);
        }
        assert_true(et_loop_progress(l.loop) <= 1 && !(et_loop_eta(l.loop) < 0));
    }
    looped_end(&l);
    assert_null(strstr(l.printed, "ago"));
    assert_non_null(strstr(l.printed, "[Epoch 2/2, Step 6, ETA 0s]"));
    et_source_close(source);
    looped_free(&l);
}

/* ---- the training summary ---- */

static void test_loop__training_summary(void **state)
{
    (void)state;
    static const char *const groups[] = { "model/hidden/", "nothing", "model/out" };
    looped l;
    looped_init(&l);
    looped_begin(&l);
    et_loop_print_training_summary(l.loop);
    const char *table = strstr(l.printed, "Trainable");
    assert_int_equal(
        strncmp(l.printed, "Execution Environment\n---------------------\nEtude   ", 52), 0);
    assert_non_null(table);
    assert_string_equal(table, "Trainable Parameters (10 in total)\n"
                               "----------------------------------\n"
                               "a                        (2, 3)  6\n"
                               "b                        (4,)    4\n\n");
    looped_end(&l);
    looped_free(&l);

    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int index;
    l = (looped){ .options = { .var_groups = groups, .var_group_count = 3 } };
    l.options.print = looped_print;
    l.options.print_payload = l.printed;
    assert_ok(et_params_new(&l.params, error));
    static const struct {
        const char *name;
        int64_t rows, columns;
    } params[] = { { "model/hidden/weight", 784, 512 },
                   { "scale", 1, 1 },
                   { "model/out/weight", 512, 10 },
                   { "model/hidden/bias", 1, 512 } };
    for (size_t i = 0; i < COUNT(params); i++)
        assert_ok(et_params_declare(l.params, params[i].name,
                                    et_shape_2(params[i].rows, params[i].columns), zeros, &index,
                                    error));
    assert_ok(et_params_declare_variable(l.params, "counter", et_shape_1(1), zeros, &index, error));
    assert_ok(et_params_materialize(l.params, false, error));
    looped_begin(&l);
    et_loop_print_training_summary(l.loop);
    table = strstr(l.printed, "Trainable");
    assert_non_null(table);
    assert_string_equal(table, "Trainable Parameters (407,041 in total)\n"
                               "=======================================\n"
                               "model/hidden/        (401,920 in total)\n"
                               "---------------------------------------\n"
                               "weight              (784, 512)  401,408\n"
                               "bias                (1, 512)        512\n"
                               "\n"
                               "model/out              (5,120 in total)\n"
                               "---------------------------------------\n"
                               "weight                 (512, 10)  5,120\n"
                               "\n"
                               "Other Parameters           (1 in total)\n"
                               "---------------------------------------\n"
                               "scale                         (1, 1)  1\n\n");
    const char *const *kept;
    assert_int_equal(et_loop_var_groups(l.loop, &kept), 3);
    assert_string_equal(kept[2], "model/out");
    looped_end(&l);
    looped_free(&l);
}

/* ---- summaries ---- */

typedef struct paper {
    et_sink sink;
    char text[2048];
    int closed;
} paper;

static int paper_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    paper *p = (paper *)self;
    (void)error;
    for (const et_value *v = values->first; v; v = v->next) {
        size_t used = strlen(p->text);
        snprintf(p->text + used, sizeof p->text - used, "%lld %s %g\n", (long long)step, v->key,
                 v->kind == ET_VALUE_FLOAT ? v->real : -1);
    }
    return ET_OK;
}

static int paper_flush(et_sink *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

static int paper_close(et_sink *self, et_error *error)
{
    ((paper *)self)->closed++;
    (void)error;
    return ET_OK;
}

static const et_sink_class paper_class = { "paper", paper_write, paper_flush, NULL, paper_close };

static void test_loop__summaries(void **state)
{
    static const et_loop_frequency freqs[] = { { "x", 3 }, { "y", 1 } };
    static const struct {
        const char *prefix, *skip, *text;
    } cases[] = {
        { NULL, NULL,
          "1 metrics/x 1\n1 metrics/y 2\n1 raw 5\n2 metrics/y 2\n3 metrics/y 2\n4 metrics/x 4\n"
          "4 metrics/y 2\n" },
        { "", "y|.*time", "1 x 1\n1 raw 5\n4 x 4\n" },
        { "m/", ".*(_time|[xy])", "1 raw 5\n" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        paper p = { .sink = { &paper_class } };
        et_arena arena = ET_ARENA_INIT;
        et_value *raw = et_value_dict(&arena);
        et_value_set_float(raw, "raw", 5);
        looped l;
        looped_init(&l);
        l.options.max_step = 4;
        l.options.summary_writer = &p.sink;
        l.options.summary_dir = in(state, "unused");
        l.options.summary_metric_prefix = cases[i].prefix;
        l.options.summary_skip_pattern = cases[i].skip;
        l.options.summary_commit_freqs = freqs;
        l.options.summary_commit_freq_count = 2;
        looped_begin(&l);
        assert_ptr_equal(et_loop_summary_writer(l.loop), &p.sink);
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                const double ys[] = { 1, 3 };
                const et_loop_metric both[] = { { .name = "x",
                                                  .value = (double)et_loop_step(l.loop) },
                                                { .name = "y", .values = ys, .count = 2 } };
                et_loop_collect_metrics(l.loop, both, 2);
                if (et_loop_step(l.loop) == 1)
                    et_loop_add_summary(l.loop, raw);
                et_loop_print_logs(l.loop);
            }
        looped_end(&l);
        assert_string_equal(p.text, cases[i].text);
        assert_int_equal(p.closed, 0);
        assert_false(file_is_there(in(state, "unused")));
        et_arena_release(&arena);
        looped_free(&l);
    }
}

typedef struct exit_seen {
    et_params *params;
    const et_value *summary;
    double weight;
    bool saves;
} exit_seen;

static int see_exit(void *payload, const char *event, const void *what, et_error *error)
{
    exit_seen *seen = payload;
    et_loop *loop = ((const et_loop_event *)what)->loop;
    (void)event, (void)error;
    seen->weight = weight_of(seen->params, "a");
    assert_int_equal(et_loop_println(loop, "exit", false), 0);
    assert_int_equal(et_loop_add_summary(loop, seen->summary), 0);
    return seen->saves ? et_loop_make_checkpoint(loop) : ET_OK;
}

/* They print and write, see the best parameters, and save nothing over the last step's. */
static void test_loop__handlers_of_the_exit(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *summary = et_value_dict(&arena);
    et_value_set_float(summary, "last", 5);
    for (int kind = 0; kind < 3; kind++) {
        paper p = { .sink = { &paper_class } };
        et_error told = ET_ERROR_INIT;
        looped l;
        looped_init(&l);
        exit_seen seen = { l.params, summary, 0, kind == 1 };
        l.options.max_step = 2;
        l.options.early_stopping = true;
        l.options.summary_writer = &p.sink;
        l.options.checkpoint_dir = in(state, "exit");
        l.options.restore_checkpoint = ET_LOOP_RESTORE_NONE;
        looped_open(&l);
        assert_ok(
            et_event_source_on(et_loop_events(l.loop), ET_EVENT_EXIT_LOOP, see_exit, &seen, error));
        assert_ok(et_loop_begin(l.loop, error));
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                set_weights(l.params, (double)et_loop_step(l.loop));
                et_loop_collect(l.loop, "valid_loss", (double)et_loop_step(l.loop));
            }
        if (kind == 2)
            et_loop_collect(l.loop, "x", 1); /* outside of an epoch */
        const int wanted[] = { ET_OK, ET_EUSAGE, ET_EUSAGE };
        assert_int_equal(et_loop_end(l.loop, &told), wanted[kind]);
        assert_int_equal(strstr(told.text, "the loop has ended: what is saved") != NULL, kind == 1);
        assert_int_equal(strstr(told.text, "An epoch or a step loop") != NULL, kind == 2);
        assert_true(seen.weight == (kind == 2 ? 2 : 1));
        assert_non_null(strstr(l.printed, "exit\n"));
        assert_non_null(strstr(p.text, "2 last 5\n"));
        looped_free(&l);
    }
    et_arena_release(&arena);
}

/* The loop's own writer: what describes the model stands there once, in a run that begins; one that
 * goes on, if from before its first step, finds it there. */
static void test_loop__graph_and_own_writer(void **state)
{
    looped l;
    looped_init(&l);
    l.options.summary_dir = l.options.checkpoint_dir = in(state, "graph");
    l.options.summary_graph = "x -> y";
    size_t lengths[3];
    for (int part = 0; part < 3; part++) {
        size_t length, found = 0;
        l.options.max_step = 2;
        looped_begin(&l);
        assert_non_null(et_loop_summary_writer(l.loop));
        if (part == 0) {
            assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
            looped_end(&l);
            continue;
        }
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, NULL)) {
                et_loop_collect(l.loop, "x", 1);
                et_loop_make_checkpoint(l.loop);
            }
        looped_end(&l);
        char *bytes = get_file(in(state, "graph/events.out.tfevents.0000000000.etude"), &length);
        for (size_t i = 0; i + 6 <= length; i++)
            found += !memcmp(bytes + i, "x -> y", 6);
        assert_int_equal(found, 1);
        lengths[part] = length;
        free(bytes);
    }
    assert_int_equal(lengths[1], lengths[2]);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop__counters),
        cmocka_unit_test(test_loop__limits_are_set_in_it),
        cmocka_unit_test(test_loop__break_leaves_it_usable),
        cmocka_unit_test(test_loop__break_out_of_steps),
        cmocka_unit_test(test_loop__order_of_events),
        cmocka_unit_test(test_loop__events_after_break),
        cmocka_unit_test(test_loop__println_at_any_time),
        cmocka_unit_test(test_loop__handlers_of_the_exit),
        cmocka_unit_test(test_loop__logs),
        cmocka_unit_test(test_loop__metrics_wait_for_the_log),
        cmocka_unit_test(test_loop__formatter),
        cmocka_unit_test(test_loop__collectors_and_timers),
        cmocka_unit_test(test_loop__collector_without_weight),
        cmocka_unit_test(test_loop__collects_while_it_prints),
        cmocka_unit_test(test_loop__allocates_nothing_in_a_step),
        cmocka_unit_test(test_loop__valid_metric),
        cmocka_unit_test(test_loop__progress),
        cmocka_unit_test(test_loop__progress_is_at_most_all),
        cmocka_unit_test(test_loop__training_summary),
        cmocka_unit_test(test_loop__summaries),
        cmocka_unit_test(test_loop__graph_and_own_writer),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
