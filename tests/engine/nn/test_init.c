#include <etude/layers.h>

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/numbers/philox.h"
#include "engine/tensor/params.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One parameter larger than a piece of work, one that ends within a piece, some small ones between.
 */
static const struct {
    const char *name;
    int64_t rows, columns;
    et_init init;
} parameters[] = {
    { "embedding", 300, 130, { ET_INIT_NORMAL, 0.25f } },
    { "norm/scale", 1, 33, { ET_INIT_ONES, 0 } },
    { "norm/offset", 1, 33, { ET_INIT_ZEROS, 0 } },
    { "bias", 1, 1, { ET_INIT_UNIFORM, 1 } },
    { "dense/weight", 70, 91, { ET_INIT_UNIFORM, 0.5f } },
    { "hidden/weight", 130, 64, { ET_INIT_TRUNCATED_NORMAL, 0.125f } },
};

static et_params *make_params(size_t first, uint64_t seed)
{
    et_error error = ET_ERROR_INIT;
    et_params *params;
    int index;
    assert_int_equal(et_params_new(&params, &error), 0);
    for (size_t i = first; i < COUNT(parameters); i++)
        assert_int_equal(et_params_declare(params, parameters[i].name,
                                           et_shape_2(parameters[i].rows, parameters[i].columns),
                                           parameters[i].init, &index, &error),
                         0);
    assert_int_equal(et_params_materialize(params, true, &error), 0);
    et_init_draw(params, seed);
    return params;
}

static float expected(size_t i, uint64_t element, uint64_t seed)
{
    et_random random = { seed, 0, et_random_site(parameters[i].name) };
    float scale = parameters[i].init.scale;
    switch (parameters[i].init.kind) {
    case ET_INIT_ONES:
        return 1;
    case ET_INIT_UNIFORM:
        return scale * (2 * et_random_uniform(random, element) - 1);
    case ET_INIT_NORMAL:
        return scale * et_random_normal(random, element);
    case ET_INIT_TRUNCATED_NORMAL:
        for (float x;; random.step++)
            if (fabsf(x = scale * et_random_normal(random, element)) <= 2 * scale)
                return x;
    default:
        return 0;
    }
}

/* Of a normal number that is within two deviations the deviation is 0.87963 of them. */
static void test_init__truncated(void **state)
{
    (void)state;
    et_params *params = make_params(COUNT(parameters) - 1, 5);
    const float *values = et_params_values(params);
    double sum = 0, count = (double)et_params_elements(params);
    for (int i = 0; i < (int)count; i++) {
        assert_true(fabsf(values[i]) <= 0.25f);
        sum += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(sqrt(sum / count) / 0.125 - 0.87963) < 0.02);
    et_params_free(params);
}

/* Every element depends only on its name and place; padding is zero; the shadow follows. */
static void test_init__draw(void **state)
{
    (void)state;
    et_params *params = make_params(0, 5);
    const float *values = et_params_values(params);
    const et_bf16 *shadow = et_params_shadow(params);
    int64_t at = 0;
    for (size_t i = 0; i < COUNT(parameters); i++) {
        int64_t count = parameters[i].rows * parameters[i].columns;
        assert_int_equal(et_params_init(params, (int)i).kind, parameters[i].init.kind);
        assert_int_equal(et_params_offset(params, (int)i), at);
        for (int64_t k = 0; k < count; k++)
            assert_true(values[at + k] == expected(i, (uint64_t)k, 5));
        at += count;
        for (; at % 16; at++)
            assert_true(values[at] == 0);
    }
    assert_int_equal(at, et_params_flat_size(params));
    for (int64_t i = 0; i < at; i++)
        assert_int_equal(shadow[i], et_bf16_from_float(values[i]));
    et_params_free(params);
}

/* The same for any number of threads, and whatever else the model has; not for another seed. */
static void test_init__depends_on_seed_and_name_alone(void **state)
{
    (void)state;
    et_params *whole = make_params(0, 5), *part = make_params(1, 5), *other = make_params(0, 6);
    int threads = omp_get_max_threads();
    size_t bytes = (size_t)et_params_flat_size(whole) * sizeof(float);
    for (int n = 1; n <= 3; n++) {
        omp_set_num_threads(n);
        et_params *again = make_params(0, 5);
        assert_memory_equal(et_params_values(again), et_params_values(whole), bytes);
        et_params_free(again);
    }
    omp_set_num_threads(threads);
    assert_memory_not_equal(et_params_values(other), et_params_values(whole), bytes);
    int64_t skipped = et_params_offset(whole, 1);
    assert_memory_equal(et_params_values(part), et_params_values(whole) + skipped,
                        bytes - (size_t)skipped * sizeof(float));
    et_params_free(whole), et_params_free(part), et_params_free(other);
}

/* A variable comes after all trained parameters; its name also chooses its initial values. */
static void test_init__variables(void **state)
{
    (void)state;
    et_params *whole = make_params(0, 5), *params;
    et_error error = ET_ERROR_INIT;
    int index;
    assert_int_equal(et_params_new(&params, &error), 0);
    for (size_t i = 0; i < COUNT(parameters); i++) {
        et_shape shape = et_shape_2(parameters[i].rows, parameters[i].columns);
        int (*declare)(et_params *, const char *, et_shape, et_init, int *, et_error *) =
            i % 2 ? et_params_declare : et_params_declare_variable;
        assert_int_equal(
            declare(params, parameters[i].name, shape, parameters[i].init, &index, &error), 0);
    }
    assert_int_equal(et_params_materialize(params, true, &error), 0);
    et_init_draw(params, 5);
    for (int i = 0; i < (int)COUNT(parameters); i++) {
        size_t count = (size_t)(parameters[i].rows * parameters[i].columns);
        assert_memory_equal(et_params_values(params) + et_params_offset(params, i),
                            et_params_values(whole) + et_params_offset(whole, i),
                            count * sizeof(float));
        assert_memory_equal(et_params_shadow(params) + et_params_offset(params, i),
                            et_params_shadow(whole) + et_params_offset(whole, i),
                            count * sizeof(et_bf16));
    }
    et_params_free(whole), et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init__draw),
        cmocka_unit_test(test_init__truncated),
        cmocka_unit_test(test_init__depends_on_seed_and_name_alone),
        cmocka_unit_test(test_init__variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
