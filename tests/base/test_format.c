#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/format.h"

static void test_format__count(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        const char *text;
    } cases[] = { { 0, "0" },
                  { 7, "7" },
                  { 999, "999" },
                  { 1840, "1,840" },
                  { -1000, "-1,000" },
                  { -12, "-12" },
                  { 1203344, "1,203,344" },
                  { INT64_MAX, "9,223,372,036,854,775,807" },
                  { INT64_MIN, "-9,223,372,036,854,775,808" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(et_format_count(cases[i].count).text, cases[i].text);
}

static void test_format__many(void **state)
{
    (void)state;
    assert_string_equal(et_format_many(1, "line").text, "1 line");
    assert_string_equal(et_format_many(0, "line").text, "0 lines");
    assert_string_equal(et_format_many(-1, "step").text, "-1 steps");
    assert_string_equal(et_format_many(INT64_MIN, "checkpoint").text,
                        "-9,223,372,036,854,775,808 checkpoints");
}

static void test_format__rate(void **state)
{
    (void)state;
    static const struct {
        double rate;
        const char *text;
    } cases[] = { { 34100, "34.1k" }, { 812, "812" },     { 1.25e6, "1.2M" }, { 7.5e9, "7.5G" },
                  { 0, "0" },         { 2.345, "2.35" },  { 45.67, "45.7" },  { 999.7, "1.0k" },
                  { 341000, "341k" }, { 999499, "999k" }, { NAN, "-" },       { INFINITY, "-" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(et_format_rate(cases[i].rate).text, cases[i].text);
}

static void test_format__duration(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = { { 0, "0:00" },
                  { 7.4, "0:07" },
                  { 124, "2:04" },
                  { 59.6, "1:00" },
                  { 3724, "1:02:04" },
                  { 86399.9, "1d 00:00" },
                  { 3 * 86400 + 4 * 3600 + 10 * 60, "3d 04:10" },
                  { -3, "0:00" },
                  { NAN, "-:--" },
                  { INFINITY, "-:--" },
                  { 1e300, "-:--" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(et_format_duration(cases[i].seconds).text, cases[i].text);
}

static void test_format__value(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = { { 3.1267, "3.127" },   { 0.0041, "0.0041" }, { 5e-5, "5e-05" }, { 24.8, "24.8" },
                  { 12345.4, "12,345" }, { 9999.7, "10,000" }, { 0, "0" },        { -2.5, "-2.5" },
                  { NAN, "nan" },        { 1e300, "1e+300" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(et_format_value(cases[i].value).text, cases[i].text);
}

static void test_format__bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = { { 0, "0 B" },
                  { 812, "812 B" },
                  { 214000000, "214 MB" },
                  { 1234000000, "1.2 GB" },
                  { UINT64_MAX, "18.4 EB" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(et_format_bytes(cases[i].bytes).text, cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format__count), cmocka_unit_test(test_format__many),
        cmocka_unit_test(test_format__rate),  cmocka_unit_test(test_format__duration),
        cmocka_unit_test(test_format__value), cmocka_unit_test(test_format__bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
