#include "command/runs/axis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Labels with blanks between them. */
static const char *labels_of(const et_axis *axis)
{
    static char text[1000];
    *text = 0;
    for (int i = 0; i < axis->count; i++) {
        strcat(text, *text ? " " : "");
        strcat(text, et_axis_label(axis, i).text);
    }
    return text;
}

static void test_axis__ticks(void **state)
{
    (void)state;
    static const struct {
        double low, high;
        bool log, time;
        int most;
        const char *labels;
    } rows[] = {
        { 0, 10, false, false, 5, "0 2 4 6 8 10" },
        { 10, 400, false, false, 6, "100 200 300 400" },
        { 0.28, 0.36, false, false, 5, "0.28 0.30 0.32 0.34 0.36" },
        { -3, 2, false, false, 5, "-3 -2 -1 0 1 2" },
        { 1, 4000, false, false, 6, "1,000 2,000 3,000 4,000" },
        { 0, 5e6, false, false, 5, "0 1.0M 2.0M 3.0M 4.0M 5.0M" },
        { 0, 1e6, false, false, 5, "0 200k 400k 600k 800k 1.0M" },
        { 1000000, 1000004, false, false, 5, "1,000,000 1,000,001 1,000,002 1,000,003 1,000,004" },
        { -1e300, 1e300, false, false, 3, "-1e+300 0 1e+300" },
        { 0.5, 20000, true, false, 8, "1 10 100 1000 10000" },
        { 1e-8, 1, true, false, 3, "1e-08 1e-05 0.01" },
        { 2, 7, true, false, 5, "2 3 4 5 6 7" },
        { 0, 600, false, true, 5, "0:00 2:00 4:00 6:00 8:00 10:00" },
        { 0, 90000, false, true, 4, "0:00 6:00:00 12:00:00 18:00:00 1d 00:00" },
        { 0.17, 0.34, false, false, 4, "0.18 0.20 0.22 0.24 0.26 0.28 0.30 0.32 0.34" },
        { 0.1, 10, true, false, 6, "0.1 0.2 0.5 1 2 5 10" },
        { 0, 1e7, false, true, 3, "0:00 50d 00:00 100d 00:00" },
        { 7, 7, false, false, 5, "6.4 6.6 6.8 7.0 7.2 7.4 7.6" },
        { 0, 0, false, false, 5, "-1.0 -0.5 0 0.5 1.0" },
        { 3, 3, true, false, 5, "2 3 4 5 6" },
        { 1e6, 1.1e6, false, false, 5,
          "1,000,000 1,020,000 1,040,000 1,060,000 1,080,000 1,100,000" },
        { 1.2e9, 1.2016e9, false, false, 4,
          "1,200,000,000 1,200,500,000 1,201,000,000 1,201,500,000" },
        { 1, 1.0000019, false, false, 4, "1 1.0000005 1.000001 1.0000015" },
        { 1e12, 1e12 + 3500, false, false, 4,
          "1e+12 1.000000001e+12 1.000000002e+12 1.000000003e+12" },
        { 90000, 90090, false, true, 3, "1d 01:00:00 1d 01:00:30 1d 01:01:00 1d 01:01:30" },
        { 0, 0, false, true, 2, "-1 0 1" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_axis axis =
            et_axis_make(rows[i].low, rows[i].high, rows[i].log, rows[i].time, rows[i].most);
        if (strcmp(labels_of(&axis), rows[i].labels) != 0)
            fail_msg("row %zu: %s, not %s", i, labels_of(&axis), rows[i].labels);
    }
}

static void assert_ticks(const et_axis *a)
{
    assert_true(a->count >= 0 && a->count <= ET_AXIS_TICKS_MAX);
    for (int t = 0; t < a->count; t++) {
        const et_format label = et_axis_label(a, t);
        assert_true(!t || a->ticks[t] > a->ticks[t - 1]);
        assert_false(isnan(et_axis_position(a, a->ticks[t])));
        assert_true(strlen(label.text) < sizeof label.text - 1);
        if (t && strcmp(label.text, et_axis_label(a, t - 1).text) == 0)
            fail_msg("%.17g to %.17g: two ticks have the label %s", a->low, a->high, label.text);
    }
}

/* For any arguments, ticks ascend, are within the axis, and have a position and a label of their
 * own; both ends have a position. */
static void test_axis__any(void **state)
{
    (void)state;
    static const double ends[] = { -DBL_MAX, -1e300, -1e9,    -1.5,   -1e-300, 0,
                                   DBL_MIN,  1e-300, 1e-9,    0.1,    1,       1.0000000000000002,
                                   1.000001, 7,      86399.5, 86400,  86410,   1e6,
                                   1.03e6,   99.9e6, 1e9,     1.01e9, 1e12,    1.000000000003e12,
                                   1e300,    DBL_MAX };
    for (size_t i = 0; i < COUNT(ends); i++)
        for (size_t k = i; k < COUNT(ends); k++)
            for (int most = 0; most < 40; most += 13)
                for (int kind = 0; kind < (ends[i] > 0 ? 3 : 2); kind++) {
                    et_axis a = et_axis_make(ends[i], ends[k], kind == 2, kind == 1, most);
                    assert_ticks(&a);
                    double place = et_axis_position(&a, ends[i]);
                    assert_true(isnan(place) || (place >= 0 && place <= 1));
                }
}

static void test_axis__position(void **state)
{
    (void)state;
    et_axis straight = et_axis_make(10, 20, false, false, 5);
    assert_true(et_axis_position(&straight, 15) == 0.5);
    assert_true(isnan(et_axis_position(&straight, 9)) && isnan(et_axis_position(&straight, 21)));
    assert_true(isnan(et_axis_position(&straight, (double)NAN)));
    assert_true(isnan(et_axis_position(&straight, (double)INFINITY)));
    et_axis log = et_axis_make(1, 100, true, false, 5);
    assert_true(fabs(et_axis_position(&log, 10) - 0.5) < 1e-12);
    assert_true(isnan(et_axis_position(&log, 0)) && isnan(et_axis_position(&log, -1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axis__ticks),
        cmocka_unit_test(test_axis__any),
        cmocka_unit_test(test_axis__position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
