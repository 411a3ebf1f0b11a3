#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "command/runs/chart.h"

/* The pixels of the bar of a name; 0: it has none. */
static double width_of(const char *svg, const char *name)
{
    char title[64];
    snprintf(title, sizeof title, "<g><title>%s</title>", name);
    const char *row = strstr(svg, title);
    assert_non_null(row);
    const char *end = strstr(row, "</g>"), *bar = strstr(row, "<rect");
    if (!bar || bar > end)
        return 0;
    return atof(strstr(bar, "width=\"") + 7);
}

static void test_bars__lengths(void **state)
{
    static const char *const names[] = { "a", "b & <c>", "none", "less", "nothing" };
    static const double values[] = { 4, 2, 0, -1, NAN };
    const et_chart_bars bars = {
        .title = "t<", .x_label = "worse", .names = names, .values = values, .count = 5
    };
    et_strbuf out = ET_STRBUF_INIT;
    (void)state;
    assert_ok(et_chart_bars_svg(&out, &bars, 400, error));
    const char *text = et_strbuf_text(&out);
    assert_non_null(strstr(text, "width=\"400\""));
    assert_true(width_of(text, "a") > 150);
    assert_true(fabs(width_of(text, "a") - 2 * width_of(text, "b &amp; &lt;c&gt;")) <= 1);
    assert_true(!width_of(text, "none") && !width_of(text, "less") && !width_of(text, "nothing"));
    assert_non_null(strstr(text, ">t&lt;</text>"));
    assert_non_null(strstr(text, ">worse</text>"));
    assert_non_null(strstr(text, ">-1</text>"));
    et_strbuf_release(&out);
}

/* Long names are cut in the middle, between letters. */
static void test_bars__names(void **state)
{
    static const char *const names[] = {
        "a_name_that_is_much_too_long_for_a_picture_1",
        "a_name_that_is_much_too_long_for_a_picture_2",
        ("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6"
         "\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3"
         "\x9f"),
        "\x01\xff"
    };
    static const double values[] = { 1, 2, 3, 4 };
    const et_chart_bars bars = { .names = names, .values = values, .count = 4 };
    et_strbuf out = ET_STRBUF_INIT;
    (void)state;
    assert_ok(et_chart_bars_svg(&out, &bars, 300, error));
    const char *text = et_strbuf_text(&out);
    assert_non_null(strstr(text, "picture_1</title>"));
    assert_non_null(strstr(text, ">a_name_t\xe2\x80\xa6icture_1</text>"));
    assert_non_null(strstr(text, "icture_2</text>"));
    assert_non_null(strstr(text, "\xc3\xb6\xe2\x80\xa6"));
    assert_non_null(strstr(text, "\xc3\xbc\xc3\x9f</text>"));
    assert_null(strchr(text, '\x01'));
    assert_null(strchr(text, '\xff'));
    et_strbuf_release(&out);
}

static void test_bars__limits(void **state)
{
    et_chart_bars bars = { .count = 0 };
    et_strbuf out = ET_STRBUF_INIT;
    (void)state;
    assert_fails(et_chart_bars_svg(&out, &bars, 300, error), ET_EDATA,
                 "0 bars: 1 to 100 can be drawn");
    bars.count = ET_CHART_BARS_MAX + 1;
    assert_fails(et_chart_bars_svg(&out, &bars, 300, error), ET_EDATA,
                 "101 bars: 1 to 100 can be drawn");
    et_strbuf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bars__lengths),
        cmocka_unit_test(test_bars__names),
        cmocka_unit_test(test_bars__limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
