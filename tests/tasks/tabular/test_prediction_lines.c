#include "base/main.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tasks/tabular/predict/prediction_lines.h"

static void check_number(double value)
{
    char expected[400];
    et_strbuf out = ET_STRBUF_INIT;
    et_prediction_number(&out, value);
    if (isfinite(value))
        snprintf(expected, sizeof expected, "%.5f", value);
    else
        snprintf(expected, sizeof expected, "null");
    assert_string_equal(et_strbuf_text(&out), expected);
    et_strbuf_release(&out);
}

/* Every digit as printf has it: halves to even, signs, sizes up to where a double has no fraction
 * left. */
static void test_prediction_lines__numbers(void **state)
{
    (void)state;
    static const double values[] = { 0,         -0.0,      1,         0.5,       0.000005,
                                     0.000015,  0.000025,  0.00001,   0.125,     1.0 / 3,
                                     2.0 / 3,   0.999995,  0.999994,  9.99999,   -1e-9,
                                     -0.123455, 123456.7,  4.5e10,    4.4e10,    1e15,
                                     1e300,     DBL_MAX,   DBL_MIN,   5e-324,    INFINITY,
                                     NAN,       -INFINITY, 0.0000049, 0.0000051, 33554432.03125 };
    for (size_t i = 0; i < COUNT(values); i++)
        check_number(values[i]);
    /* Halves of a hundred thousandth that a double has exactly: k / 32. */
    for (int k = -400; k < 400; k++) {
        check_number(k / 32.0 / 1e0);
        check_number(k / 64.0);
        check_number((double)k / 131072);
    }
    uint64_t bits = 1;
    for (int i = 0; i < 200000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value = (double)(bits >> 11) * 0x1p-53;
        check_number(value);
        check_number((double)(float)value);
        check_number((value - 0.5) * 1e7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prediction_lines__numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
