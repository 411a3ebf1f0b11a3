#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "calls.h"
#include "command/runs/chart.h"

static const char *const rows[] = { "ein", "Hund & \"Katze\"" };
static const char *const columns[] = { "a", "<dog>", "\x01\xff" };

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

/* Cells of no weight are not drawn, weights above 1 count as 1, and NaN counts as 0. */
static void test_heat__cells(void **state)
{
    (void)state;
    static const double first[] = { 0.25, 0, 1.5 }, second[] = { NAN, -1, 0.0004999 };
    const double *const values[] = { first, second };
    const et_chart_heat heat = { .title = "attention",
                                 .rows = rows,
                                 .columns = columns,
                                 .row_count = 2,
                                 .column_count = 3,
                                 .values = values };
    et_strbuf out = ET_STRBUF_INIT;
    assert_ok(et_chart_heat_svg(&out, &heat, error));
    const char *text = et_strbuf_text(&out);
    assert_int_equal(count_of(text, "fill-opacity"), 2);
    assert_non_null(strstr(text, "fill-opacity=\"0.250\""));
    assert_non_null(strstr(text, "fill-opacity=\"1.000\""));
    assert_non_null(strstr(text, ">Hund &amp; &quot;Katze&quot;</text>"));
    assert_non_null(strstr(text, ">&lt;dog&gt;</text>"));
    assert_null(strchr(text, '\x01'));
    assert_null(strchr(text, '\xff'));
    assert_int_equal(count_of(text, "<text"), 2 + 3 + 1);
    assert_int_equal(count_of(text, "</text>"), 2 + 3 + 1);
    et_strbuf_release(&out);
}

static void test_heat__limits(void **state)
{
    (void)state;
    et_chart_heat heat = { .rows = rows, .columns = columns, .row_count = 0, .column_count = 3 };
    et_strbuf out = ET_STRBUF_INIT;
    assert_fails(et_chart_heat_svg(&out, &heat, error), ET_EDATA,
                 "nothing to draw: there is no word");
    heat.row_count = 2;
    heat.column_count = ET_CHART_HEAT_MAX + 1;
    assert_fails(et_chart_heat_svg(&out, &heat, error), ET_EDATA,
                 "2 by 301 cells are too many: at most 300");
    assert_int_equal(out.length, 0);
    et_strbuf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heat__cells),
        cmocka_unit_test(test_heat__limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
