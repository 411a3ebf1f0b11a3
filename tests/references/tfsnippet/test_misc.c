/* TFSnippet, tests/utils/test_misc.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

static const struct {
    double seconds;
    const char *words, *text;
} durations[] = {
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
    { 120, "2 minutes", "2m" },
    { 121, "2 minutes 1 second", "2m 1s" },
    { 122, "2 minutes 2 seconds", "2m 2s" },
    { 3599, "59 minutes 59 seconds", "59m 59s" },
    { 3600, "1 hour", "1h" },
    { 3601, "1 hour 1 second", "1h 1s" },
    { 3661, "1 hour 1 minute 1 second", "1h 1m 1s" },
    { 86399, "23 hours 59 minutes 59 seconds", "23h 59m 59s" },
    { 86400, "1 day", "1d" },
    { 86401, "1 day 1 second", "1d 1s" },
    { 172799, "1 day 23 hours 59 minutes 59 seconds", "1d 23h 59m 59s" },
    { 259199, "2 days 23 hours 59 minutes 59 seconds", "2d 23h 59m 59s" },
};

static void test_misc__positive(void **state)
{
    (void)state;
    char text[ET_DURATION_TEXT_MAX];
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        et_humanize_duration(durations[i].seconds, true, text);
        assert_string_equal(text, durations[i].words);
        et_humanize_duration(durations[i].seconds, false, text);
        assert_string_equal(text, durations[i].text);
    }
}

static void test_misc__negative(void **state)
{
    (void)state;
    char text[ET_DURATION_TEXT_MAX], ago[ET_DURATION_TEXT_MAX + 8];
    for (size_t i = 1; i < sizeof durations / sizeof *durations; i++) {
        et_humanize_duration(-durations[i].seconds, true, text);
        snprintf(ago, sizeof ago, "%s ago", durations[i].words);
        assert_string_equal(text, ago);
        et_humanize_duration(-durations[i].seconds, false, text);
        snprintf(ago, sizeof ago, "%s ago", durations[i].text);
        assert_string_equal(text, ago);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* After 1 s at 1 % the estimate is 99 s, after 3 s at 5 % 57 s, after 1 s at 25 % 3 s: always this
 * multiple of the time since the begin. */
static void test_misc__get_eta(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        double times;
    } cases[] = { { 1, 99. / 1 }, { 5, 57. / 3 }, { 25, 3. / 1 } };
    looped l;
    looped_init(&l);
    l.options.max_step = 100;
    looped_open(&l);
    assert_true(isnan(et_loop_eta(l.loop)));
    const double before = now();
    assert_ok(et_loop_begin(l.loop, error));
    const double after = now();
    assert_true(et_loop_next_epoch(l.loop));
    for (int i = 0; i < 3; i++) {
        while (et_loop_step(l.loop) <= cases[i].step)
            assert_true(et_loop_next_step(l.loop, NULL));
        const double least = (now() - after) * cases[i].times;
        const double eta = et_loop_eta(l.loop);
        const double most = (now() - before) * cases[i].times;
        assert_true(eta >= least * (1 - 1e-9) && eta <= most * (1 + 1e-9));
    }
    et_loop_leave(l.loop);
    looped_end(&l);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misc__positive),
        cmocka_unit_test(test_misc__negative),
        cmocka_unit_test(test_misc__get_eta),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
