/* A loop's lines about metrics: logs, formatters, collectors and timers, the valid metric. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- logs ---- */

static void check_printed(looped *l, const char *wanted)
{
    hide_times(l->printed);
    assert_string_equal(l->printed, wanted);
}

/* Metrics of all epochs since the last log. */
static void test_loop_logs__metrics_wait_for_the_log(void **state)
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
    check_printed(&l,
                  "hello\n"
                  "[Epoch 2/4, Step 0] epoch time: T (±T); many: 2 (±1); x: 1.5 (±0.5)\nhello\n"
                  "[Epoch 3/4, Step 0] hello\n"
                  "[Epoch 4/4, Step 0] epoch time: T (±T); many: 2 (±1); x: 3.5 (±0.5)\nhello\n");
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

static void test_loop_logs__formatter(void **state)
{
    (void)state;
    char bracket[] = "<";
    et_metric_formatter formatter = { bracket, backwards, in_brackets };
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.formatter = &formatter;
    l.options.no_eta = true;
    looped_begin(&l);
    formatter = (et_metric_formatter){ .payload = NULL }; /* copied */
    assert_true(et_loop_next_epoch(l.loop));
    et_loop_collect(l.loop, "a_a", 1);
    et_loop_collect(l.loop, "z", 2);
    et_loop_print_logs(l.loop);
    assert_int_equal(strncmp(l.printed, "[Step 0] z: <2>; epoch time: <", 30), 0);
    assert_non_null(strstr(l.printed, ">; a a: <1>\n"));
    looped_end(&l);
    looped_free(&l);
}

static void test_loop_logs__collectors_and_timers(void **state)
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
static void test_loop_logs__collector_without_weight(void **state)
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

/* ---- the valid metric ---- */

static void test_loop_logs__valid_metric(void **state)
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

/* The last collected value of a step decides whether it is marked: a worse value, or NaN, is not.
 */
static void test_loop_logs__valid_metric_of_a_step(void **state)
{
    (void)state;
    static const double last[] = { 2, NAN, 1 };
    for (size_t i = 0; i < COUNT(last); i++) {
        looped l;
        looped_init(&l);
        l.options.no_eta = true;
        l.options.max_step = 1;
        l.options.valid_metric_name = "y";
        looped_begin(&l);
        assert_true(et_loop_next_epoch(l.loop));
        assert_true(et_loop_next_step(l.loop, NULL));
        et_loop_collect(l.loop, "y", 1.5);
        et_loop_collect(l.loop, "y", last[i]);
        et_loop_print_logs(l.loop);
        assert_int_equal(strstr(strrchr(l.printed, ';'), " (*)") != NULL, last[i] < 1.5);
        assert_true(et_loop_best_valid_metric(l.loop) == (last[i] < 1.5 ? last[i] : 1.5));
        looped_end(&l);
        looped_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_logs__metrics_wait_for_the_log),
        cmocka_unit_test(test_loop_logs__formatter),
        cmocka_unit_test(test_loop_logs__collectors_and_timers),
        cmocka_unit_test(test_loop_logs__collector_without_weight),
        cmocka_unit_test(test_loop_logs__valid_metric),
        cmocka_unit_test(test_loop_logs__valid_metric_of_a_step),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
