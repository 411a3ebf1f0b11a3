/* TFSnippet, tests/scaffold/test_logs.py. The loop has the logger. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"
#include "systems/tfsnippet/paper.h"

/* ---- variables ---- */

static void keep(void *payload, const char *text)
{
    snprintf(payload, 1024, "%s", text);
}

static void expect(const et_variable_shape *variables, int count,
                   const et_variables_options *options, const char *text)
{
    char printed[1024] = "?";
    assert_ok(et_summarize_variables(variables, count, options, keep, printed, error));
    assert_string_equal(printed, text);
}

static void test_logs__summarize_variables(void **state)
{
    (void)state;
    const et_shape a = et_shape_1(2), b = et_shape_3(3, 4, 5), c = et_shape_1(30000);
    const et_variable_shape listed[] = { { "a", a }, { "nested/b", b }, { "c", c } };
    const et_variable_shape named[] = { { "a", a }, { "c", c }, { "b", b } };
    const et_variable_shape grouped[] = {
        { "pfx1/a", a }, { "pfx1/b", b }, { "pfx2/a", a }, { "pfx2/b", b }, { "c", c }
    };
    static const char *const groups[] = { "pfx1", "pfx2" };
    const et_variables_options sorted = { .sort_by_names = true };
    const et_variables_options by_groups = { .groups = groups,
                                             .group_count = 2,
                                             .sort_by_names = true };
    expect(NULL, 0, NULL, "");
    expect(listed, 1, NULL,
           "Variables Summary (2 in total)\n"
           "------------------------------\n"
           "a                      (2,)  2");
    expect(listed, 3, NULL,
           "Variables Summary (30,062 in total)\n"
           "-----------------------------------\n"
           "a                 (2,)            2\n"
           "nested/b          (3, 4, 5)      60\n"
           "c                 (30000,)   30,000");
    expect(listed, 3, &sorted,
           "Variables Summary (30,062 in total)\n"
           "-----------------------------------\n"
           "a                 (2,)            2\n"
           "c                 (30000,)   30,000\n"
           "nested/b          (3, 4, 5)      60");
    expect(named, 3, NULL,
           "Variables Summary (30,062 in total)\n"
           "-----------------------------------\n"
           "a                 (2,)            2\n"
           "c                 (30000,)   30,000\n"
           "b                 (3, 4, 5)      60");
    expect(named, 3, &by_groups,
           "Variables Summary (30,062 in total)\n"
           "-----------------------------------\n"
           "a                 (2,)            2\n"
           "b                 (3, 4, 5)      60\n"
           "c                 (30000,)   30,000");
    expect(grouped, 5, &by_groups,
           "Variables Summary (30,124 in total)\n"
           "===================================\n"
           "pfx1/                 (62 in total)\n"
           "-----------------------------------\n"
           "a                     (2,)        2\n"
           "b                     (3, 4, 5)  60\n"
           "\n"
           "pfx2/                 (62 in total)\n"
           "-----------------------------------\n"
           "a                     (2,)        2\n"
           "b                     (3, 4, 5)  60\n"
           "\n"
           "Other Variables   (30,000 in total)\n"
           "-----------------------------------\n"
           "c                  (30000,)  30,000");
    expect(grouped, 4, &by_groups,
           "Variables Summary (124 in total)\n"
           "================================\n"
           "pfx1/              (62 in total)\n"
           "--------------------------------\n"
           "a                  (2,)        2\n"
           "b                  (3, 4, 5)  60\n"
           "\n"
           "pfx2/              (62 in total)\n"
           "--------------------------------\n"
           "a                  (2,)        2\n"
           "b                  (3, 4, 5)  60");
}

/* ---- metrics ---- */

static void test_logs__basic_logging(void **state)
{
    (void)state;
    static const et_loop_metric metrics[] = {
        { .name = "loss", .value = 1 },         { .name = "loss", .value = 2 },
        { .name = "valid_loss", .value = 3 },   { .name = "valid_timer", .value = .1 },
        { .name = "loss", .value = 4 },         { .name = "valid_acc", .value = 5 },
        { .name = "train_time", .value = .2 },  { .name = "loss", .value = 6 },
        { .name = "valid_acc", .value = 7 },    { .name = "train_time", .value = .3 },
        { .name = "other_metric", .value = 5 },
    };
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.no_eta = true;
    l.options.valid_metric_name = "";
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    et_loop_print_logs(l.loop); /* the epoch's time, and no metric */
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        assert_int_equal(et_loop_collect_metrics(l.loop, &metrics[i], 1), 0);
    et_loop_print_logs(l.loop);
    et_loop_print_logs(l.loop);
    et_loop_collect(l.loop, "loss", 1);
    et_loop_print_logs(l.loop);
    assert_int_equal(strncmp(l.printed, "[Step 0] epoch time: ", 21), 0);
    const char *lines = strchr(l.printed, '\n');
    assert_non_null(lines);
    assert_int_equal(strcspn(l.printed, ";"), strcspn(lines, ";") + (size_t)(lines - l.printed));
    assert_string_equal(lines + 1, "[Step 0] train time: 0.25s (±0.05s); valid timer: 0.1s; "
                                   "loss: 3.25 (±1.92029); other metric: 5; valid acc: 6 (±1); "
                                   "valid loss: 3\n"
                                   "[Step 0] \n"
                                   "[Step 0] loss: 1\n");
    et_loop_leave(l.loop);
    looped_end(&l);
    looped_free(&l);
}

static void test_logs__summary_writer(void **state)
{
    (void)state;
    static const et_loop_frequency two = { "every_two", 2 };
    paper p = { .sink = { &paper_class } };
    char wanted[sizeof p.text] = "";
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    l.options.summary_writer = &p.sink;
    l.options.summary_metric_prefix = "";
    l.options.summary_commit_freqs = &two;
    l.options.summary_commit_freq_count = 1;
    et_source *source = rows_source(10, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        const long long epoch = et_loop_epoch(l.loop);
        while (et_loop_next_step(l.loop, source)) {
            const long long step = et_loop_step(l.loop), acc = step * 100 + (step - 1) % 10;
            et_loop_collect(l.loop, "acc", (double)acc);
            et_loop_collect(l.loop, "time", (double)epoch);
            et_loop_collect(l.loop, "every_two", (double)step * 2);
            size_t used = strlen(wanted);
            used +=
                (size_t)snprintf(wanted + used, sizeof wanted - used, "%lld acc %lld\n", step, acc);
            if (step % 2)
                snprintf(wanted + used, sizeof wanted - used, "%lld every_two %lld\n", step,
                         2 * step);
        }
        et_loop_collect(l.loop, "valid_loss", (double)-epoch);
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%lld valid_loss %lld\n", 10 * epoch, -epoch);
    }
    looped_end(&l);
    assert_string_equal(p.text, wanted);
    et_source_close(source);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logs__summarize_variables),
        cmocka_unit_test(test_logs__basic_logging),
        cmocka_unit_test(test_logs__summary_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
