/* Model Garden, official/modeling/optimization/lamb_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "references/optimization/variables.h"

typedef struct moments {
    double w[MOST], m[MOST], v[MOST];
} moments;

/* LAMB's update number t, from 0, in double. */
static void lamb(moments *x, const float *g, int size, int t, double rate, double decay,
                 double epsilon)
{
    double u[MOST], weight = 0, update = 0;
    for (int i = 0; i < size; i++) {
        x->m[i] = 0.9 * x->m[i] + 0.1 * g[i];
        x->v[i] = 0.999 * x->v[i] + 0.001 * g[i] * g[i];
        u[i] =
            x->m[i] / (1 - pow(0.9, t + 1)) / (sqrt(x->v[i] / (1 - pow(0.999, t + 1))) + epsilon);
        u[i] += decay * x->w[i];
        weight += x->w[i] * x->w[i];
        update += u[i] * u[i];
    }
    for (int i = 0; i < size; i++)
        x->w[i] -= rate * (weight > 0 && update > 0 ? sqrt(weight / update) : 1) * u[i];
}

/* Three steps; the rate is divided by 1 + divide * step. */
static void check(int size, const float values[2][MOST], const float gradients[2][MOST],
                  const et_optimizer_setup *setup, double divide, double decay, double epsilon)
{
    moments x[2] = { 0 };
    variables v;
    open_variables(&v, size, values, gradients, setup);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < size; k++)
            x[i].w[k] = values[i][k];
    for (int t = 0; t < 3; t++) {
        const double rate = 0.001 / (1 + divide * t);
        assert_ok(et_optimizer_set_learning_rate(v.optimizer, rate, error));
        step_variables(&v);
        for (int i = 0; i < 2; i++) {
            lamb(&x[i], gradients[i], size, t, rate, decay, epsilon);
            for (int k = 0; k < size; k++)
                assert_float_equal(v.value[i][k], x[i].w[k], 1e-6 * (1 + fabs(x[i].w[k])));
        }
    }
    close_variables(&v);
}

/* A gradient that is 0 outside of some rows. */
static void test_lamb_test__sparse(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 1, 2 }, { 3, 3, 4 } };
    static const float gradients[2][MOST] = { { 0.1f, 0, 0.1f }, { 0.01f, 0, 0.01f } };
    check(3, values, gradients, &(et_optimizer_setup){ .rule = "lamb" }, 0, 0, 1e-6);
}

static void test_lamb_test__basic_with_learning_rate_decay(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 2 }, { 3, 4 } };
    static const float gradients[2][MOST] = { { 0.1f, 0.1f }, { 0.01f, 0.01f } };
    const et_lamb lamb = { .epsilon = 1e-7, .weight_decay_rate = 0.01 };
    check(2, values, gradients, &(et_optimizer_setup){ .lamb = &lamb }, 0.5, 0.01, 1e-7);
}

/* Which of three parameters an exclusion of "var1" is for: one step with and without it. */
static void build_names(et_scope *s, void *payload)
{
    static const char *const names[] = { "var0", "var1", "var1_weight" };
    (void)payload;
    for (int i = 0; i < 3; i++) {
        et_node *w = et_param(s, names[i], et_shape_1(1), (et_init){ ET_INIT_ONES, 0 });
        et_loss(s, names[i], et_mul(et_batch_input(s, "x"), w), 1);
    }
}

static void check_excluded(const et_lamb *lamb)
{
    static const float x = 0.5f;
    const et_array array = { "x", ET_F32, &x, et_shape_1(1) };
    const et_batches_options one = { .repeat = true, .capacity = { 1 } };
    const et_lamb without = { .weight_decay_rate = lamb->weight_decay_rate };
    const et_optimizer_setup setups[] = { { .lamb = &without, .learning_rate = 0.01 },
                                          { .lamb = lamb, .learning_rate = 0.01 } };
    float found[2][3];
    for (int i = 0; i < 2; i++) {
        variables v = { 0 };
        et_samples *samples;
        assert_ok(et_device_open(&v.device, error));
        assert_ok(et_params_new(&v.params, error));
        assert_ok(et_arrays_open(&samples, &array, 1, 1, error));
        assert_ok(et_batches_open(&v.source, samples, &one, error));
        assert_ok(et_batch_new(&v.batch, &v.source->layout, error));
        assert_ok(et_pass_open(&v.pass, v.device, v.params, &v.source->layout, build_names, NULL,
                               &(et_pass_options){ .training = true }, error));
        assert_ok(et_params_materialize(v.params, false, error));
        for (int p = 0; p < 3; p++)
            et_params_values(v.params)[et_params_offset(v.params, p)] = 4;
        assert_ok(et_optimizer_open(&v.optimizer, v.device, v.params, NULL, &setups[i], error));
        assert_ok(et_source_next(v.source, v.batch, error));
        step_variables(&v);
        for (int p = 0; p < 3; p++)
            found[i][p] = et_params_values(v.params)[et_params_offset(v.params, p)];
        close_variables(&v);
    }
    for (int p = 0; p < 3; p++)
        assert_int_equal(found[0][p] == found[1][p], p == 0);
}

/* Excluded from layer adaptation too, so that decay changes the length of the step. */
static void test_lamb_test__exclude_weight_decay(void **state)
{
    (void)state;
    static const char *const names[] = { "var1", NULL };
    check_excluded(&(et_lamb){ .weight_decay_rate = 0.01, .exclude_from_weight_decay = names });
}

static void test_lamb_test__exclude_layer_adaptation(void **state)
{
    (void)state;
    static const char *const names[] = { "var1", NULL };
    check_excluded(&(et_lamb){ .exclude_from_layer_adaptation = names });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lamb_test__sparse),
        cmocka_unit_test(test_lamb_test__basic_with_learning_rate_decay),
        cmocka_unit_test(test_lamb_test__exclude_weight_decay),
        cmocka_unit_test(test_lamb_test__exclude_layer_adaptation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
