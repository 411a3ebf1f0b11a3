#include "command/runs/chart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static et_strbuf draw(const et_chart *chart, int width, int height)
{
    et_error error = ET_ERROR_INIT;
    et_strbuf out = ET_STRBUF_INIT;
    if (et_chart_svg(&out, chart, width, height, &error))
        fail_msg("%s", error.text);
    return out;
}

static int count(const char *text, const char *word)
{
    int found = 0;
    for (; (text = strstr(text, word)); text++)
        found++;
    return found;
}

/* The corners of the frame are at the ends of the axes. */
static void test_svg__places(void **state)
{
    (void)state;
    const double x[] = { 0, 50, 100 }, y[] = { 0, 8, 4 };
    const et_chart_curve curve = { "a<b>&\"c\"\033", x, y, 3 };
    const et_chart chart = { .title = "t", .x_label = "step", .curves = &curve, .count = 1 };
    et_strbuf out = draw(&chart, 400, 300);
    assert_non_null(strstr(out.data, "width=\"400\" height=\"300\" viewBox=\"0 0 400 300\""));
    const char *frame = strstr(out.data, "class=\"frame\" d=\"M");
    assert_non_null(frame);
    double left = strtod(frame + 18, (char **)&frame), top = strtod(frame, (char **)&frame);
    double bottom = strtod(frame + 1, (char **)&frame), right = strtod(frame + 1, (char **)&frame);
    assert_true(left > 0 && left < right && right <= 400 && top > 0 && top < bottom &&
                bottom < 300);
    const char *path = strstr(out.data, " d=\"M");
    path = strstr(strstr(out.data, "class=\"curve\""), " d=\"M");
    double points[3][2];
    for (int i = 0; i < 3; i++) {
        path += i ? 1 : 5;
        points[i][0] = strtod(path, (char **)&path);
        points[i][1] = strtod(path, (char **)&path);
    }
    assert_true(fabs(points[0][0] - left) < 0.11 && fabs(points[0][1] - bottom) < 0.11);
    assert_true(fabs(points[1][0] - (left + right) / 2) < 0.11 && fabs(points[1][1] - top) < 0.11);
    assert_true(fabs(points[2][0] - right) < 0.11 &&
                fabs(points[2][1] - (top + bottom) / 2) < 0.11);
    assert_int_equal(count(out.data, "a&lt;b&gt;&amp;&quot;c&quot;\\u001b<"), 2);
    assert_null(strchr(out.data, '\033'));
    et_strbuf_release(&out);
}

/* Points that are not joined, a line across them, and names at both axes. */
static void test_svg__scattered(void **state)
{
    (void)state;
    const double x[] = { 0, 1, NAN, 3 }, y[] = { 1, 3, 2, 0 };
    const et_chart_curve curves[] = { { "rows", x, y, 4 }, { "perfect", x, y, 2 } };
    const et_chart chart = {
        .x_label = "true", .y_label = "<predicted>", .curves = curves, .count = 2, .dots = 1
    };
    et_strbuf out = draw(&chart, 400, 300);
    assert_int_equal(count(out.data, "class=\"curve dots\""), 2); /* and in the legend */
    const char *rows = strstr(out.data, "class=\"curve dots\""), *end = strstr(rows, "/path>");
    int dots = 0;
    for (const char *c = rows; c < end; c++) {
        dots += !strncmp(c, "h0", 2);
        assert_true(strncmp(c, "L", 1) != 0);
    }
    assert_int_equal(dots, 3);
    assert_non_null(strstr(end, "L"));
    assert_non_null(strstr(out.data, ">&lt;predicted&gt;</text>"));
    assert_non_null(strstr(out.data, ">true</text>"));
    et_strbuf_release(&out);
}

/* A point between two gaps is a dot; on a logarithmic axis, values that are not positive are gaps.
 */
static void test_svg__dots(void **state)
{
    (void)state;
    const double x[] = { 0, 1, 2, 3, 4, 5, 6 }, y[] = { 1, 0, 2, NAN, 3, 4, -1 };
    const et_chart_curve curve = { "\xef\xbf\xbf"
                                   "a\xef\xbf\xbe",
                                   x, y, 7 };
    const et_chart chart = { .curves = &curve, .count = 1, .log = true };
    et_strbuf out = draw(&chart, 400, 300);
    assert_int_equal(count(out.data, "h0"), 2);
    assert_null(strstr(out.data, "\xef\xbf"));
    et_strbuf_release(&out);
}

/* Of many points the lowest and the highest of every column stay. */
static void test_svg__many(void **state)
{
    (void)state;
    enum { POINTS = 200000 };
    double *x = malloc(POINTS * sizeof *x), *y = malloc(POINTS * sizeof *y);
    for (int i = 0; i < POINTS; i++) {
        x[i] = i;
        y[i] = i == 77777 ? 100 : i == 99999 ? -100 : sin(i);
    }
    const et_chart_curve curve = { NULL, x, y, POINTS };
    const et_chart chart = { .curves = &curve, .count = 1 };
    et_strbuf out = draw(&chart, 500, 300);
    assert_true(out.length < 60000);
    const char *frame = strstr(out.data, "class=\"frame\" d=\"M");
    strtod(frame + 18, (char **)&frame);
    char top[40], bottom[40];
    snprintf(top, sizeof top, " %gL", strtod(frame, (char **)&frame));
    snprintf(bottom, sizeof bottom, " %gL", strtod(frame + 1, (char **)&frame));
    const char *path = strstr(out.data, "class=\"curve\"");
    assert_non_null(strstr(path, top));
    assert_non_null(strstr(path, bottom));
    et_strbuf_release(&out);
    free(x);
    free(y);
}

static void test_svg__legend(void **state)
{
    (void)state;
    const double x[] = { 1, 2 }, y[] = { 1, 2 };
    et_chart_curve curves[100];
    for (int i = 0; i < 100; i++)
        curves[i] = (et_chart_curve){ "a name of some length", x, y, 2 };
    const et_chart chart = { .curves = curves, .count = 100 };
    for (int size = ET_CHART_SVG_MIN; size < 1200; size += 97) {
        et_strbuf out = draw(&chart, size, size);
        assert_int_equal(count(out.data, "<title>a name"), 100);
        int named = count(out.data, ">a name of some length</text>");
        assert_true(named >= 1 && named <= ET_CHART_LEGEND_MAX);
        char more[40];
        snprintf(more, sizeof more, "and %d more", 100 - named);
        assert_non_null(strstr(out.data, more));
        et_strbuf_release(&out);
    }
}

/* Numbers have a point, whatever the program has set. */
static void test_svg__locale(void **state)
{
    (void)state;
    const double x[] = { 0, 1, 2 }, y[] = { 0.25, 0.5, 0.75 };
    const et_chart_curve curve = { NULL, x, y, 3 };
    const et_chart chart = { .curves = &curve, .count = 1 };
    et_strbuf c = draw(&chart, 333, 217);
    setlocale(LC_ALL, "de_DE.UTF-8");
    et_strbuf other = draw(&chart, 333, 217);
    setlocale(LC_ALL, "C");
    assert_string_equal(c.data, other.data);
    et_strbuf_release(&c);
    et_strbuf_release(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_svg__places),    cmocka_unit_test(test_svg__dots),
        cmocka_unit_test(test_svg__many),      cmocka_unit_test(test_svg__legend),
        cmocka_unit_test(test_svg__scattered), cmocka_unit_test(test_svg__locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
