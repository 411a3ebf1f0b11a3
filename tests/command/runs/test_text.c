#include "command/runs/chart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static const double x[] = { 0, 10, 20, 30, 40 }, up[] = { 0, 1, 2, 3, 4 },
                    down[] = { 4, 3, 2, 1, 0 };

/* Free with et_strbuf_release. */
static et_strbuf draw(const et_chart *chart, et_chart_text_style style)
{
    et_error error = ET_ERROR_INIT;
    et_strbuf out = ET_STRBUF_INIT;
    if (et_chart_text(&out, chart, &style, &error))
        fail_msg("%s", error.text);
    return out;
}

static void assert_drawn(const et_chart *chart, et_chart_text_style style, const char *expected)
{
    et_strbuf out = draw(chart, style);
    assert_string_equal(et_strbuf_text(&out), expected);
    et_strbuf_release(&out);
}

static void test_text__one(void **state)
{
    (void)state;
    const et_chart_curve curve = { NULL, x, up, 5 };
    const et_chart chart = { .title = "up", .x_label = "step", .curves = &curve, .count = 1 };
    assert_drawn(&chart, (et_chart_text_style){ 30, 5, false, true },
                 "   up\n"
                 " 4 +                      ****\n"
                 "   |                ******\n"
                 " 2 +          ******\n"
                 "   |   *******\n"
                 " 0 +***\n"
                 "   ++------------+-----------+\n"
                 "    0           20          40\n"
                 "                          step\n");
    assert_drawn(&chart, (et_chart_text_style){ 30, 3, false, false },
                 "   up\n"
                 " 4 ┤                  ⣀⣀⡠⠤⠔⠒⠊⠉\n"
                 " 2 ┤        ⢀⣀⣀⡠⠤⠤⠒⠒⠉⠉\n"
                 " 0 ┤⣀⡠⠤⠔⠒⠊⠉⠉⠁\n"
                 "   └┬────────────┬───────────┬\n"
                 "    0           20          40\n"
                 "                          step\n");
}

/* Curves that cross: letters, or colours; a gap for NaN. */
static void test_text__several(void **state)
{
    (void)state;
    double gap[] = { 4, 3, (double)NAN, 1, 0 };
    const et_chart_curve curves[] = { { "up", x, up, 5 }, { "do\033wn", x, gap, 5 } };
    const et_chart chart = { .curves = curves, .count = 2 };
    et_strbuf ascii = draw(&chart, (et_chart_text_style){ 40, 9, false, true });
    assert_non_null(strstr(ascii.data, "aaaa"));
    assert_non_null(strstr(ascii.data, "bbbb"));
    assert_non_null(strstr(ascii.data, "a up\n"));
    assert_non_null(strstr(ascii.data, "b do\\u001bwn\n"));
    for (const char *c = ascii.data; *c; c++)
        assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
    et_strbuf_release(&ascii);
    et_strbuf color = draw(&chart, (et_chart_text_style){ 40, 9, true, false });
    assert_non_null(strstr(color.data, "\033[36m"));
    assert_non_null(strstr(color.data, "\033[33m"));
    assert_null(strstr(color.data, "a up"));
    et_strbuf_release(&color);
}

static void test_text__nothing(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_strbuf out = ET_STRBUF_INIT;
    const double none[] = { (double)NAN, (double)INFINITY, -(double)INFINITY };
    const et_chart_curve curve = { "none", x, none, 3 };
    et_chart chart = { .curves = &curve, .count = 1 };
    const et_chart_text_style style = { 40, 5, false, false };
    assert_int_equal(et_chart_text(&out, &chart, &style, &error), ET_EDATA);
    chart.count = 0;
    assert_int_equal(et_chart_text(&out, &chart, &style, &error), ET_EDATA);
    const et_chart_curve negative = { "below", x, (const double[]){ -1, 0 }, 2 };
    chart = (et_chart){ .curves = &negative, .count = 1, .log = true };
    assert_int_equal(et_chart_text(&out, &chart, &style, &error), ET_EDATA);
    assert_non_null(strstr(error.text, "above 0"));
    et_strbuf_release(&out);
}

/* Any size within the bounds, also of a single point and of values that fill a double. */
static void test_text__sizes(void **state)
{
    (void)state;
    const double wide[] = { -1e308, 1e308, 0, 1e-300, 5 };
    const et_chart_curve curves[] = { { "one", x, up, 1 },
                                      { "wide", x, wide, 5 },
                                      { "down", x, down, 5 } };
    for (int width = ET_CHART_TEXT_WIDTH_MIN; width < 200; width += 17)
        for (int height = ET_CHART_TEXT_HEIGHT_MIN; height < 60; height += 11)
            for (size_t first = 0; first < 3; first++) {
                const et_chart chart = { .curves = curves + first, .count = 3 - first };
                et_strbuf out =
                    draw(&chart, (et_chart_text_style){ width, height, height % 2, width % 2 });
                assert_true(out.length > 0 && out.data[out.length - 1] == '\n');
                et_strbuf_release(&out);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text__one),
        cmocka_unit_test(test_text__several),
        cmocka_unit_test(test_text__nothing),
        cmocka_unit_test(test_text__sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
