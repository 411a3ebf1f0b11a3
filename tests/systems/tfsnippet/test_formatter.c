/* Durations and the default order and form of metrics. */
#include <etude/loop_log.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/loop_private.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_formatter__durations(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *words, *text;
    } cases[] = {
        { 0, "0 second", "0s" },
        { 1e-8, "1e-08 second", "1e-08s" },
        { 0.1, "0.1 second", "0.1s" },
        { 1, "1 second", "1s" },
        { 1.1, "1.1 seconds", "1.1s" },
        { 59, "59 seconds", "59s" },
        { 59.9, "59.9 seconds", "59.9s" },
        { 60, "1 minute", "1m" },
        { 61, "1 minute 1 second", "1m 1s" },
        { 62, "1 minute 2 seconds", "1m 2s" },
        { 119, "1 minute 59 seconds", "1m 59s" },
        { 119.9999, "2 minutes", "2m" },
        { 120, "2 minutes", "2m" },
        { 121, "2 minutes 1 second", "2m 1s" },
        { 3599, "59 minutes 59 seconds", "59m 59s" },
        { 3599.9999, "1 hour", "1h" },
        { 3600, "1 hour", "1h" },
        { 3601, "1 hour 1 second", "1h 1s" },
        { 3661, "1 hour 1 minute 1 second", "1h 1m 1s" },
        { 86399, "23 hours 59 minutes 59 seconds", "23h 59m 59s" },
        { 86400, "1 day", "1d" },
        { 86401, "1 day 1 second", "1d 1s" },
        { 172799, "1 day 23 hours 59 minutes 59 seconds", "1d 23h 59m 59s" },
        { 259199, "2 days 23 hours 59 minutes 59 seconds", "2d 23h 59m 59s" },
        { 93784.5, "1 day 2 hours 3 minutes 4.5 seconds", "1d 2h 3m 4.5s" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[ET_DURATION_TEXT_MAX], ago[ET_DURATION_TEXT_MAX + 8];
        et_humanize_duration(cases[i].seconds, true, text);
        assert_string_equal(text, cases[i].words);
        et_humanize_duration(cases[i].seconds, false, text);
        assert_string_equal(text, cases[i].text);
        snprintf(ago, sizeof ago, "%s ago", cases[i].text);
        et_humanize_duration(-cases[i].seconds, false, text);
        if (cases[i].seconds > 0)
            assert_string_equal(text, ago);
    }
}

static void test_formatter__order_and_form(void **state)
{
    (void)state;
    static const char *const ordered[] = { "epoch_time", "x_timer", "acc", "loss", "valid_loss" };
    static const struct {
        const char *name;
        double value;
        const char *text;
    } cases[] = {
        { "loss", 0.5, "0.5" },
        { "loss", 1.118033988749895, "1.11803" },
        { "loss", 1234567, "1.23457e+06" },
        { "step_time", 62, "1m 2s" },
        { "x_timer", 0.012344, "0.01234s" },
        { "timed", 62, "62" },
        { "loss", -(double)NAN, "nan" },
        { "loss", -(double)INFINITY, "-inf" },
        { "step_time", -(double)NAN, "nan" },
    };
    const et_metric_formatter *f = &et_metric_formatter_default;
    for (size_t i = 0; i < COUNT(ordered); i++)
        for (size_t k = 0; k < COUNT(ordered); k++) {
            int order = f->compare(f->payload, ordered[i], ordered[k]);
            assert_true((order > 0) - (order < 0) == (i > k) - (i < k));
        }
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[64];
        f->format(f->payload, cases[i].name, cases[i].value, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formatter__durations),
        cmocka_unit_test(test_formatter__order_and_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
