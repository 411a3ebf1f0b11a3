/* TFSnippet, tests/utils/test_statistics.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/statistics.h>

#include "calls.h"

static et_statistics *collector(void)
{
    et_statistics *s;
    assert_ok(et_statistics_new(&s, error));
    assert_true(et_shape_equal(et_statistics_shape(s), et_shape_scalar()));
    return s;
}

/* Of arrays [3, 2]. */
static et_statistics *vector(void)
{
    et_statistics *s;
    assert_ok(et_statistics_new_array(&s, et_shape_2(3, 2), error));
    assert_true(et_shape_equal(et_statistics_shape(s), et_shape_2(3, 2)));
    return s;
}

static void near(double value, double expected)
{
    assert_true(fabs(value - expected) < 5e-8);
}

/* Frees the collector. has_value of the reference is a counter above 0. */
static void check(et_statistics *s, int64_t counter, double mean, double square, double weight_sum)
{
    assert_int_equal(et_statistics_counter(s) > 0, counter > 0);
    assert_int_equal(et_statistics_counter(s), counter);
    near(et_statistics_mean(s), mean);
    near(et_statistics_moments(s, 0).square, square);
    near(et_statistics_weight_sum(s), weight_sum);
    et_statistics_free(s);
}

static void check_vector(et_statistics *s, int64_t counter, const double mean[6],
                         const double square[6], double weight_sum)
{
    for (int i = 0; i < 6; i++) {
        const et_moments m = et_statistics_moments(s, i);
        const double var = fmax(square[i] - mean[i] * mean[i], 0);
        near(m.mean, mean[i]);
        near(m.square, square[i]);
        near(m.var, var);
        near(m.stddev, sqrt(var));
    }
    check(s, counter, mean[0], square[0], weight_sum);
}

/* 0, 1, 2, ... 23 as [4, 3, 2] */
static const double *numbers(void)
{
    static double of[24];
    for (int i = 0; i < 24; i++)
        of[i] = i;
    return of;
}

static const double four[] = { 2, 1, 7, 6 };

static void test_statistics__empty_scalar(void **state)
{
    (void)state;
    check(collector(), 0, 0, 0, 0);
}

static void test_statistics__empty_vector(void **state)
{
    (void)state;
    const double zeros[6] = { 0 };
    check_vector(vector(), 0, zeros, zeros, 0);
}

static void test_statistics__scalar_collect(void **state)
{
    (void)state;
    et_statistics *s = collector();
    et_statistics_collect_all(s, four, NULL, 4);
    check(s, 4, 4, 22.5, 4);
}

static void test_statistics__var_std(void **state)
{
    (void)state;
    et_statistics *s = collector();
    et_statistics_collect_all(s, four, NULL, 4);
    near(et_statistics_var(s), 6.5);
    near(et_statistics_stddev(s), 2.549509756796);
    check(s, 4, 4, 22.5, 4);
}

static void test_statistics__scalar_multi_collect(void **state)
{
    (void)state;
    et_statistics *s = collector();
    et_statistics_collect(s, 2, 1);
    et_statistics_collect(s, 1, 3);
    et_statistics_collect(s, 7, 6);
    check(s, 3, 4.7, 30.1, 10);
}

static void test_statistics__reset(void **state)
{
    (void)state;
    et_statistics *s = collector();
    et_statistics_collect_all(s, four, NULL, 4);
    et_statistics_reset(s);
    near(et_statistics_var(s), 0);
    near(et_statistics_stddev(s), 0);
    check(s, 0, 0, 0, 0);
}

static void test_statistics__scalar_collect_batch(void **state)
{
    (void)state;
    const double weights[] = { 1, 3, 6 };
    et_statistics *s = collector();
    et_statistics_collect_all(s, four, weights, 3);
    check(s, 3, 4.7, 30.1, 10);
}

static void test_statistics__scalar_collect_batch_weight_broadcast(void **state)
{
    (void)state;
    const double one = 1;
    et_statistics *s = collector();
    assert_ok(et_statistics_collect_array(s, four, et_shape_1(4), &one, et_shape_scalar(), error));
    check(s, 4, 4, 22.5, 4);
}

static void test_statistics__vector_collect(void **state)
{
    (void)state;
    const double squares[] = { 0, 1, 4, 9, 16, 25 };
    et_statistics *s = vector();
    assert_ok(et_statistics_collect_array(s, numbers(), et_shape_2(3, 2), NULL, et_shape_scalar(),
                                          error));
    check_vector(s, 1, numbers(), squares, 1);
}

/* Of weights 1, 2, 3, 4. */
static const double weighted_means[] = { 12, 13, 14, 15, 16, 17 },
                    weighted_squares[] = { 180, 205, 232, 261, 292, 325 };

static void test_statistics__vector_multi_collect(void **state)
{
    (void)state;
    et_statistics *s = vector();
    for (int i = 0; i < 4; i++) {
        const double weight = i + 1;
        assert_ok(et_statistics_collect_array(s, numbers() + 6 * i, et_shape_2(3, 2), &weight,
                                              et_shape_scalar(), error));
    }
    check_vector(s, 4, weighted_means, weighted_squares, 10);
}

static void test_statistics__vector_collect_batch(void **state)
{
    (void)state;
    const double weights[] = { 1, 2, 3, 4 };
    et_statistics *s = vector();
    assert_ok(et_statistics_collect_array(s, numbers(), et_shape_3(4, 3, 2), weights, et_shape_1(4),
                                          error));
    check_vector(s, 4, weighted_means, weighted_squares, 10);
}

static void test_statistics__vector_collect_batch_weight_broadcast(void **state)
{
    (void)state;
    const double one = 1, means[] = { 9, 10, 11, 12, 13, 14 },
                 squares[] = { 126, 145, 166, 189, 214, 241 };
    et_statistics *s = vector();
    assert_ok(et_statistics_collect_array(s, numbers(), et_shape_3(4, 3, 2), &one,
                                          et_shape_scalar(), error));
    check_vector(s, 4, means, squares, 4);
}

static void test_statistics__collect_empty(void **state)
{
    (void)state;
    et_statistics *s = collector();
    et_statistics_collect_all(s, NULL, NULL, 0);
    assert_ok(et_statistics_collect_array(s, NULL, et_shape_1(0), NULL, et_shape_scalar(), error));
    check(s, 0, 0, 0, 0);
}

static void test_statistics__collect_empty_weight(void **state)
{
    (void)state;
    et_statistics *s = collector();
    assert_ok(et_statistics_collect_array(s, four, et_shape_1(4), four, et_shape_1(0), error));
    check(s, 4, 4, 22.5, 4);
}

static void test_statistics__shape_mismatch(void **state)
{
    (void)state;
    et_statistics *s = vector();
    assert_fails(
        et_statistics_collect_array(s, four, et_shape_1(3), NULL, et_shape_scalar(), error),
        ET_EDATA, "shape mismatch: values of [3] do not end with [3, 2]");
    check(s, 0, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics__empty_scalar),
        cmocka_unit_test(test_statistics__empty_vector),
        cmocka_unit_test(test_statistics__scalar_collect),
        cmocka_unit_test(test_statistics__var_std),
        cmocka_unit_test(test_statistics__scalar_multi_collect),
        cmocka_unit_test(test_statistics__reset),
        cmocka_unit_test(test_statistics__scalar_collect_batch),
        cmocka_unit_test(test_statistics__scalar_collect_batch_weight_broadcast),
        cmocka_unit_test(test_statistics__vector_collect),
        cmocka_unit_test(test_statistics__vector_multi_collect),
        cmocka_unit_test(test_statistics__vector_collect_batch),
        cmocka_unit_test(test_statistics__vector_collect_batch_weight_broadcast),
        cmocka_unit_test(test_statistics__collect_empty),
        cmocka_unit_test(test_statistics__collect_empty_weight),
        cmocka_unit_test(test_statistics__shape_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
