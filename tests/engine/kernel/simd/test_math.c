/* The errors that engine/kernel/simd/math.h states, measured over a dense run of arguments. */
#include "engine/kernel/harness.h"

#include <math.h>
#include <stdlib.h>

#include "engine/kernel/simd/probe.h"

enum { PROBES = 3, STEPS = 400000 };

/* NULL if this CPU does not have the instruction set. */
static const simd_probe *probe_of(int i)
{
    const et_kernels *table = et_kernels_named(table_names[i]);
#ifdef __x86_64__
    static const simd_probe *const probes[PROBES] = { &probe_plain, &probe_avx2, &probe_avx512 };
    return table ? probes[i] : NULL;
#else
    return table && i == 0 ? &probe_plain : NULL;
#endif
}

/* The largest |f(x) - expected(x)| / max(|expected(x)|, floor) between two arguments. */
static double worst(probe_fn *f, double (*expected)(double), float from, float to, double floor)
{
    float *x = make(STEPS, sizeof *x), *y = make(STEPS, sizeof *y);
    double most = 0;
    for (int i = 0; i < STEPS; i++)
        x[i] = from + (to - from) * (float)i / STEPS;
    f(y, x, STEPS);
    for (int i = 0; i < STEPS; i++) {
        double right = expected((double)x[i]);
        double error = fabs(y[i] - right) / fmax(fabs(right), floor);
        most = error <= most ? most : error; /* a NaN stays */
    }
    free(x);
    free(y);
    return most;
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double exact_phi(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static void test_math__errors(void **state)
{
    (void)state;
    for (int i = 0; i < PROBES; i++) {
        const simd_probe *p = probe_of(i);
        if (!p)
            continue;
        const double two_units = 2 * 1.1920929e-7;
        assert_true(worst(p->exp, exp, -86.99f, 88.7f, 0) < two_units);
        assert_true(worst(p->exp, exp, -1.0f, 1.0f, 0) < two_units);
        assert_true(worst(p->exp2, exp2, -125.9f, 127.9f, 0) < 3e-6);
        assert_true(worst(p->exp2, exp2, -1e30f, -126.5f, 1) < 1e-30);
        assert_true(worst(p->exp2_fine, exp2, -125.9f, 127.9f, 0) < 2.5e-7);
        assert_true(worst(p->exp2_fine, exp2, -1e30f, -126.5f, 1) < 1e-30);
        assert_true(worst(p->log, log, 1e-3f, 1e5f, 1) < two_units);
        assert_true(worst(p->log, log, 0.5f, 2.0f, 1) < 2e-7);
        assert_true(worst(p->tanh, tanh, -10.0f, 10.0f, 0) < 4e-7);
        assert_true(worst(p->tanh, tanh, -1e-3f, 1e-3f, 1e-30) < 4e-7);
        assert_true(worst(p->sigmoid, exact_sigmoid, -80.0f, 80.0f, 0) < 4e-7);
        assert_true(worst(p->phi, exact_phi, -10.0f, 10.0f, 1) < 4e-7);
        assert_true(worst(p->sin, sin, -10.0f, 10.0f, 1) < 2e-7);
        assert_true(worst(p->cos, cos, -10.0f, 10.0f, 1) < 2e-7);
        assert_true(worst(p->sin, sin, -8192.0f, 8192.0f, 1) < 3e-7);
        assert_true(worst(p->cos, cos, -8192.0f, 8192.0f, 1) < 3e-7);
        assert_true(worst(p->sin, sin, -65536.0f, 65536.0f, 1) < 2e-6);
        assert_true(worst(p->cos, cos, -65536.0f, 65536.0f, 1) < 2e-6);
    }
}

static void test_math__ends(void **state)
{
    (void)state;
    const float x[] = { -87.5f, -1e30f, -INFINITY, 0, 88.8f, 1e30f, INFINITY, NAN };
    for (int i = 0; i < PROBES; i++) {
        const simd_probe *p = probe_of(i);
        float y[COUNT(x)];
        if (!p)
            continue;
        p->exp(y, x, COUNT(x));
        assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 1);
        assert_true(isinf(y[4]) && isinf(y[5]) && isinf(y[6]) && isnan(y[7]));
        p->exp2_fine(y, x, COUNT(x));
        assert_true(y[2] < 1e-37f && y[3] == 1 && isnan(y[7]));
    }
}

static void test_math__transpose(void **state)
{
    (void)state;
    for (int i = 0; i < PROBES; i++) {
        const simd_probe *p = probe_of(i);
        float square[16 * 16];
        if (!p)
            continue;
        for (int k = 0; k < p->lanes * p->lanes; k++)
            square[k] = (float)k;
        p->transpose(square);
        for (int r = 0; r < p->lanes; r++)
            for (int c = 0; c < p->lanes; c++)
                assert_true(square[r * p->lanes + c] == (float)(c * p->lanes + r));
    }
}

/* Whole numbers: their sums are exact in any order. */
static void test_math__sums(void **state)
{
    (void)state;
    for (int i = 0; i < PROBES; i++) {
        const simd_probe *p = probe_of(i);
        float square[16 * 16], sum[16];
        if (!p)
            continue;
        for (int k = 0; k < p->lanes * p->lanes; k++)
            square[k] = (float)(k * k % 1009);
        p->sums(sum, square);
        for (int r = 0; r < p->lanes; r++) {
            float expected = 0;
            for (int c = 0; c < p->lanes; c++)
                expected += square[r * p->lanes + c];
            assert_true(sum[r] == expected);
        }
    }
}

/* The largest of a row is in another lane each time; one row is minus infinity. */
static void test_math__largests(void **state)
{
    (void)state;
    for (int i = 0; i < PROBES; i++) {
        const simd_probe *p = probe_of(i);
        float square[16 * 16], largest[16];
        if (!p)
            continue;
        for (int k = 0; k < p->lanes * p->lanes; k++)
            square[k] = k < p->lanes ? -INFINITY : (float)(k * k % 1009) - 2000;
        p->largests(largest, square);
        for (int r = 0; r < p->lanes; r++) {
            float expected = -INFINITY;
            for (int c = 0; c < p->lanes; c++)
                expected = fmaxf(expected, square[r * p->lanes + c]);
            assert_true(largest[r] == expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_math__errors),    cmocka_unit_test(test_math__ends),
        cmocka_unit_test(test_math__transpose), cmocka_unit_test(test_math__sums),
        cmocka_unit_test(test_math__largests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
