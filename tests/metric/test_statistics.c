/* Statistics of values: by hand, in any grouping, far from 0, saved and restored. */
#include <etude/statistics.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "formats/files.h"
#include "metric/metric.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static et_statistics *make(void)
{
    et_statistics *s;
    assert_ok(et_statistics_new(&s, error));
    return s;
}

static void test_statistics__values(void **state)
{
    (void)state;
    static const struct {
        double values[4], weights[4];
        size_t count;
        double mean, var, weight_sum;
    } cases[] = {
        { { 2, 3 }, { 1, 3 }, 2, 2.75, 0.1875, 4 },
        { { 0.1 }, { 1 }, 1, 0.1, 0, 1 },
        { { 0.8, 0.6, 0.7 }, { 1, 1, 1 }, 3, 0.7, 0.02 / 3, 3 },
        { { 0, 1, 2, 3 }, { 1, 1, 1, 1 }, 4, 1.5, 1.25, 4 },
        { { 1e9, 1e9 + 1, 1e9, 1e9 + 1 }, { 1, 1, 1, 1 }, 4, 1e9 + 0.5, 0.25, 4 },
        { { 5, 7 }, { 0, 2 }, 2, 7, 0, 2 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_statistics *s = make(), *one = make();
        assert_int_equal(et_statistics_counter(s), 0);
        assert_true(et_statistics_mean(s) == 0 && et_statistics_var(s) == 0);
        et_statistics_collect_all(s, cases[i].values, cases[i].weights, cases[i].count);
        for (size_t k = cases[i].count; k-- > 0;)
            et_statistics_collect(one, cases[i].values[k], cases[i].weights[k]);
        assert_int_equal(et_statistics_counter(s), cases[i].count);
        assert_true(fabs(et_statistics_mean(s) - cases[i].mean) <= 1e-15 * fabs(cases[i].mean));
        assert_true(fabs(et_statistics_var(s) - cases[i].var) <= 1e-15);
        assert_true(et_statistics_stddev(s) == sqrt(et_statistics_var(s)));
        assert_true(et_statistics_weight_sum(s) == cases[i].weight_sum);
        assert_true(et_statistics_mean(s) == et_statistics_mean(one));
        assert_true(et_statistics_var(s) == et_statistics_var(one));
        et_statistics_reset(s);
        assert_int_equal(et_statistics_counter(s), 0);
        et_statistics_free(s);
        et_statistics_free(one);
    }
}

static void test_statistics__nothing_and_not_finite(void **state)
{
    (void)state;
    et_statistics *s = make();
    et_statistics_collect_all(s, NULL, NULL, 0);
    assert_int_equal(et_statistics_counter(s), 0);
    et_statistics_collect_all(s, (double[]){ 1, NAN }, NULL, 2);
    assert_int_equal(et_statistics_counter(s), 2);
    assert_true(isnan(et_statistics_mean(s)) && isnan(et_statistics_var(s)));
    et_statistics_free(s);
    et_statistics_free(NULL);
}

/* Elements of arrays are collected as numbers are, to the bit, with weights of any shape that
 * broadcasts; others are refused and add nothing. */
static void test_statistics__arrays(void **state)
{
    (void)state;
    enum { FIRST = 2, SECOND = 3, ELEMENTS = 4 };
    static const struct {
        et_shape shape;
        int stride[2]; /* of the batch's dimensions */
        bool refused;
    } cases[] = {
        { { 0, { 0 } }, { 0, 0 }, false },      { { 1, { 1 } }, { 0, 0 }, false },
        { { 1, { 3 } }, { 0, 1 }, false },      { { 2, { 2, 1 } }, { 1, 0 }, false },
        { { 2, { 1, 3 } }, { 0, 1 }, false },   { { 2, { 2, 3 } }, { 3, 1 }, false },
        { { 1, { 2 } }, { 0, 0 }, true },       { { 2, { 3, 2 } }, { 0, 0 }, true },
        { { 3, { 1, 2, 3 } }, { 0, 0 }, true }, { { 1, { -1 } }, { 0, 0 }, true },
    };
    double values[FIRST * SECOND * ELEMENTS], weights[FIRST * SECOND];
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = sin((double)i) * 1e3;
    for (size_t i = 0; i < COUNT(weights); i++)
        weights[i] = 1 + 0.3 * (double)i;
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_statistics *arrays, *one = make();
        assert_ok(et_statistics_new_array(&arrays, et_shape_1(ELEMENTS), error));
        int status = et_statistics_collect_array(
            arrays, values, et_shape_3(FIRST, SECOND, ELEMENTS), weights, cases[i].shape, NULL);
        assert_int_equal(status, cases[i].refused ? ET_EDATA : ET_OK);
        assert_int_equal(et_statistics_counter(arrays), cases[i].refused ? 0 : FIRST * SECOND);
        for (int e = 0; e < ELEMENTS && !cases[i].refused; e++) {
            et_statistics_reset(one);
            for (int n = 0; n < FIRST * SECOND; n++)
                et_statistics_collect(
                    one, values[n * ELEMENTS + e],
                    weights[n / SECOND * cases[i].stride[0] + n % SECOND * cases[i].stride[1]]);
            const et_moments m = et_statistics_moments(arrays, e),
                             expected = et_statistics_moments(one, 0);
            assert_memory_equal(&m, &expected, sizeof m);
            assert_true(et_statistics_weight_sum(arrays) == et_statistics_weight_sum(one));
        }
        assert_true(isnan(et_statistics_moments(arrays, ELEMENTS).mean));
        assert_true(isnan(et_statistics_moments(arrays, -1).stddev));
        et_statistics_reset(arrays);
        assert_true(et_statistics_moments(arrays, ELEMENTS - 1).square == 0);
        et_statistics_free(arrays);
        et_statistics_free(one);
    }
    et_statistics *s;
    assert_fails(et_statistics_new_array(&s, et_shape_2(3, 0), error), ET_ECONFIG,
                 "arrays [3, 0]: give at least one element");
    assert_fails(et_statistics_new_array(&s, (et_shape){ 9, { 1 } }, error), ET_ECONFIG, "rank 9");
    assert_fails(et_statistics_new_array(&s, et_shape_1((int64_t)1 << 60), error), ET_ECONFIG,
                 "too large for any memory");
}

/* An object has the state of its metric's kind: it restores what a set of metrics saves. */
static void test_statistics__as_a_metric(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_statistics *s = make(), *back = make();
    const char *const *names;
    double values[ET_METRIC_VALUES_MAX];
    assert_int_equal(et_metric_size(&et_metric_statistics), 3 * sizeof(et_exact_sum) + 8);
    et_statistics_collect_all(s, (double[]){ 0.1, 0.7, 1e20 }, NULL, 3);
    et_statistics_collect(s, -3, 0.3);
    et_value *dict = et_value_dict(&arena);
    et_metric_save(&et_metric_statistics, s, dict);
    assert_ok(et_metric_restore(&et_metric_statistics, back, dict, error));
    assert_int_equal(et_metric_names(&et_metric_statistics, &names), 5);
    assert_string_equal(names[1], "stddev");
    et_metric_value(&et_metric_statistics, back, values);
    assert_true(values[0] == et_statistics_mean(s) && values[1] == et_statistics_stddev(s));
    assert_true(values[2] == et_statistics_var(s) && values[3] == et_statistics_weight_sum(s));
    assert_true(values[4] == 4);
    et_arena_release(&arena);
    et_statistics_free(s);
    et_statistics_free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics__values),
        cmocka_unit_test(test_statistics__nothing_and_not_finite),
        cmocka_unit_test(test_statistics__arrays),
        cmocka_unit_test(test_statistics__as_a_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
