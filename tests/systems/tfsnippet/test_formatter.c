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

/* Seconds are rounded before they are divided into units. */
static void test_formatter__durations(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *words;
    } cases[] = { { 119.9999, "2 minutes" },
                  { 3599.9999, "1 hour" },
                  { 93784.5, "1 day 2 hours 3 minutes 4.5 seconds" } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[ET_DURATION_TEXT_MAX];
        et_humanize_duration(cases[i].seconds, true, text);
        assert_string_equal(text, cases[i].words);
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
