#include "base/main.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/table/schema/notation.h"
#include "skip.h"

/* Written decimally, so that the compiler's own reading is the expected value. */
#define SAME(text, kind)                                                                           \
    {                                                                                              \
#text, text, kind                                                                          \
    }

static const struct {
    const char *text;
    double value;
    et_number kind;
} good[] = {
    SAME(0, ET_NUMBER_INTEGER),
    SAME(-0.0, ET_NUMBER_REAL),
    SAME(17, ET_NUMBER_INTEGER),
    SAME(+4, ET_NUMBER_INTEGER),
    SAME(-122.23, ET_NUMBER_REAL),
    SAME(.5, ET_NUMBER_REAL),
    SAME(5., ET_NUMBER_REAL),
    SAME(1e5, ET_NUMBER_REAL),
    SAME(1E+5, ET_NUMBER_REAL),
    SAME(2.5e-3, ET_NUMBER_REAL),
    SAME(-.25e2, ET_NUMBER_REAL),
    /* 2^53 and its neighbours, and middles between doubles */
    SAME(9007199254740992, ET_NUMBER_INTEGER),
    { "9007199254740993", 9007199254740993.0, ET_NUMBER_INTEGER },
    SAME(9007199254740993.0, ET_NUMBER_REAL),
    SAME(9007199254740993.00000000000000000001, ET_NUMBER_REAL),
    { "9007199254740995", 9007199254740995.0, ET_NUMBER_INTEGER },
    { "9223372036854775807", 9223372036854775807.0, ET_NUMBER_INTEGER },
    { "18446744073709551615", 18446744073709551615.0, ET_NUMBER_INTEGER },
    { "9999999999999999999", 9999999999999999999.0, ET_NUMBER_INTEGER },
    { "123456789012345678901234567890", 123456789012345678901234567890.0, ET_NUMBER_INTEGER },
    { "00000000000000000000000000000000000042", 42, ET_NUMBER_INTEGER },
    SAME(0.1234567890123456789, ET_NUMBER_REAL),
    SAME(0.77395604855596335, ET_NUMBER_REAL),
    SAME(0.30000000000000004, ET_NUMBER_REAL),
    SAME(1.7976931348623157e308, ET_NUMBER_REAL),
    SAME(2.2250738585072014e-308, ET_NUMBER_REAL),
    SAME(2.2250738585072011e-308, ET_NUMBER_REAL),
    SAME(5e-324, ET_NUMBER_REAL),
    SAME(1e22, ET_NUMBER_REAL),
    SAME(1e23, ET_NUMBER_REAL),
    SAME(8.5e-23, ET_NUMBER_REAL),
    SAME(123456789012345678e-19, ET_NUMBER_REAL),
    SAME(1234567890123456789e19, ET_NUMBER_REAL),
    { "1e-999", 0, ET_NUMBER_REAL },
    { "0e999999999999999999999", 0, ET_NUMBER_REAL },
    { "0.0000000000000000000000000000000000000000000001e46", 1, ET_NUMBER_REAL },
    /* half of the smallest double: to even, so 0; a digit far after it rounds it up */
    { "2.4703282292062327208e-324", 0, ET_NUMBER_REAL },
    { "2.4703282292062328e-324", 5e-324, ET_NUMBER_REAL },
};

static void test_number__good(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        double value = NAN;
        et_number kind = et_number_parse(&value, good[i].text, strlen(good[i].text));
        if (kind != good[i].kind || memcmp(&value, &good[i].value, sizeof value) != 0)
            fail_msg("%s: %.17g (kind %d)", good[i].text, value, kind);
    }
}

static const struct {
    const char *text;
    et_number kind;
} bad[] = {
    { "", ET_NUMBER_NONE },       { "-", ET_NUMBER_NONE },
    { "+", ET_NUMBER_NONE },      { ".", ET_NUMBER_NONE },
    { "-.", ET_NUMBER_NONE },     { "e5", ET_NUMBER_NONE },
    { ".e5", ET_NUMBER_NONE },    { "1e", ET_NUMBER_NONE },
    { "1e+", ET_NUMBER_NONE },    { "1e5.0", ET_NUMBER_NONE },
    { "--1", ET_NUMBER_NONE },    { "+-1", ET_NUMBER_NONE },
    { " 1", ET_NUMBER_NONE },     { "1 ", ET_NUMBER_NONE },
    { "1,5", ET_NUMBER_NONE },    { "1.2.3", ET_NUMBER_NONE },
    { "1_000", ET_NUMBER_NONE },  { "0x10", ET_NUMBER_NONE },
    { "0x1p3", ET_NUMBER_NONE },  { "nan", ET_NUMBER_NONE },
    { "NaN", ET_NUMBER_NONE },    { "inf", ET_NUMBER_NONE },
    { "-inf", ET_NUMBER_NONE },   { "infinity", ET_NUMBER_NONE },
    { "12a", ET_NUMBER_NONE },    { "a12", ET_NUMBER_NONE },
    { "1f", ET_NUMBER_NONE },     { "\xd9\xa1", ET_NUMBER_NONE },
    { "1e999", ET_NUMBER_LARGE }, { "-1e309", ET_NUMBER_LARGE },
    { "2e308", ET_NUMBER_LARGE }, { "1e1000000000000000000000", ET_NUMBER_LARGE },
};

static void test_number__bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        double value = 7;
        et_number kind = et_number_parse(&value, bad[i].text, strlen(bad[i].text));
        if (kind != bad[i].kind || value != 7)
            fail_msg("\"%s\": %.17g (kind %d)", bad[i].text, value, kind);
    }
    double value = 7;
    assert_int_equal(et_number_parse(&value, "1\0", 2), ET_NUMBER_NONE);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Compares with the C library, which rounds to nearest. text is copied to memory of its own size,
 * so that a sanitizer sees a read beyond it. */
static void check_same(const char *text)
{
    size_t length = strlen(text);
    char *copy = malloc(length);
    double expected = strtod(text, NULL), value = NAN;
    memcpy(copy, text, length);
    et_number kind = et_number_parse(&value, copy, length);
    free(copy);
    if (isinf(expected) ? kind != ET_NUMBER_LARGE
                        : !et_number_is(kind) || memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("%s: %.17g, not %.17g (kind %d)", text, value, expected, kind);
}

static void test_number__as_strtod(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    char text[128];
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = next_random(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        /* Any double, with any number of digits. */
        if (isfinite(value)) {
            snprintf(text, sizeof text, "%.*e", (int)(bits % 24), value);
            check_same(text);
        }
        /* What tables hold. */
        double usual = (double)(int64_t)next_random(&seed) / 9.3e17;
        snprintf(text, sizeof text, "%.*f", (int)(next_random(&seed) % 20), usual);
        check_same(text);
        snprintf(text, sizeof text, "%.17g", usual * exp((double)(i % 80) - 40));
        check_same(text);
        /* Integers of 64 bits by powers of ten around the fast ways' ends. */
        snprintf(text, sizeof text, "%llue%d",
                 (unsigned long long)(next_random(&seed) >> next_random(&seed) % 64),
                 (int)(next_random(&seed) % 60) - 30);
        check_same(text);
    }
}

/* The middle between two doubles, written out in full: to even; with a 1 after it: up; with one
 * less in the last place: down. */
static void test_number__middles(void **state)
{
    (void)state;
    uint64_t seed = 1234567;
    char text[2048];
    for (int i = 0; i < 3000; i++) {
        uint64_t bits = next_random(&seed) & 0x7fffffffffffffff;
        double low;
        memcpy(&low, &bits, sizeof low);
        if (!isfinite(low) || low > 1e300)
            continue;
        long double middle = ((long double)low + (long double)nextafter(low, INFINITY)) / 2;
        int length = snprintf(text, sizeof text, "%.1100Lf", middle);
        while (text[length - 1] == '0')
            length--;
        text[length] = 0;
        check_same(text);
        text[length] = '1';
        text[length + 1] = 0;
        check_same(text);
        text[length] = 0;
        if (text[length - 1] != '.')
            text[length - 1]--;
        check_same(text);
    }
}

/* Far beyond a double on either side, by digits, by the exponent, and by one against the other. */
static void test_number__far(void **state)
{
    (void)state;
    static const struct {
        int before, behind; /* zeros: after the 1, or between the point and it */
        const char *exponent;
    } cases[] = {
        { 400, 0, "" },
        { 0, 400, "" },
        { 700, 0, "e-100" },
        { 700, 0, "e-699" },
        { 0, 700, "e+100" },
        { 0, 700, "e699" },
        { 700, 0, "e-2000" },
        { 0, 700, "E2000" },
        { 0, 0, "e99999999999999999999" },
        { 0, 0, "e-99999999999999999999" },
    };
    char text[1024];
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int negative = 0; negative < 2; negative++) {
            char *at = text;
            at += sprintf(at, "%s%s", negative ? "-" : "", cases[i].behind ? "00." : "1");
            memset(at, '0', 800);
            at += cases[i].before + cases[i].behind;
            sprintf(at, "%s%s", cases[i].behind ? "1" : ".0", cases[i].exponent);
            check_same(text);
        }
}

/* Digits without end: a million of them. */
static void test_number__long(void **state)
{
    (void)state;
    size_t length = 1000000;
    char *text = malloc(length + 1);
    memset(text, '9', length);
    text[length] = 0;
    double value = 7;
    assert_int_equal(et_number_parse(&value, text, length), ET_NUMBER_LARGE);
    text[1] = '.';
    check_same(text);
    memset(text, '0', length);
    text[1] = '.';
    text[length - 1] = '1';
    assert_int_equal(et_number_parse(&value, text, length), ET_NUMBER_REAL);
    assert_true(value == 0 && !signbit(value));
    memset(text, '0', length);
    assert_int_equal(et_number_parse(&value, text, length), ET_NUMBER_INTEGER);
    free(text);
}

/* In a locale in which a comma is the decimal point. */
static void test_number__locale(void **state)
{
    (void)state;
    static const char *const commas[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8" };
    size_t i = 0;
    while (i < COUNT(commas) && !setlocale(LC_ALL, commas[i]))
        i++;
    if (i == COUNT(commas))
        test_skip("no German or French locale");
    double value = 0;
    assert_int_equal(et_number_parse(&value, "1.5", 3), ET_NUMBER_REAL);
    assert_true(value == 1.5);
    assert_int_equal(et_number_parse(&value, "1.2345678901234567890123e-30", 28), ET_NUMBER_REAL);
    assert_true(value == 1.2345678901234567890123e-30);
    assert_int_equal(et_number_parse(&value, "1,5", 3), ET_NUMBER_NONE);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number__good),    cmocka_unit_test(test_number__bad),
        cmocka_unit_test(test_number__middles), cmocka_unit_test(test_number__as_strtod),
        cmocka_unit_test(test_number__long),    cmocka_unit_test(test_number__locale),
        cmocka_unit_test(test_number__far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
