/* Model Garden, official/modeling/optimization/lamb_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/files.h"
#include "references/hyperparams/settings_of.h"
#include "references/optimization/variables.h"

#include "references/optimization/optimization_of.h"

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

/* Three steps of two parameters, with a rate of 0.001 / (1 + divide * step). */
static void check(variables *v, const float values[2][MOST], const float gradients[2][MOST],
                  double divide, double decay, double epsilon)
{
    moments x[2] = { 0 };
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < v->size; k++)
            x[i].w[k] = v->value[i][k];
    for (int i = 0; i < 2; i++)
        assert_memory_equal(v->value[i], values[i], (size_t)v->size * sizeof(float));
    for (int t = 0; t < 3; t++) {
        assert_int_equal(et_optimizer_iterations(v->optimizer), t); /* exponent of the betas */
        step_variables(v);
        for (int i = 0; i < 2; i++) {
            lamb(&x[i], gradients[i], v->size, t, 0.001 / (1 + divide * t), decay, epsilon);
            for (int k = 0; k < v->size; k++)
                assert_float_equal(v->value[i][k], x[i].w[k], 1e-6 * (1 + fabs(x[i].w[k])));
        }
    }
    close_variables(v);
}

/* Rows 0 and 2 of each variable are read, row 1 is not. */
static void build_rows(et_scope *s, void *payload)
{
    (void)payload;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "var1" : "var0";
        et_node *w = et_param(s, name, et_shape_2(3, 1), (et_init){ ET_INIT_ZEROS, 0 });
        et_node *read = et_embedding(et_batch_input(s, "indices"), w, 1, NULL, NULL);
        et_loss(s, name, et_mul(et_batch_input(s, i ? "g1" : "g0"), read), 1);
    }
}

/* Batches have two rows, whose gradients are averaged. */
static void test_lamb_test__sparse(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 1, 2 }, { 3, 3, 4 } };
    static const float gradients[2][MOST] = { { 0.1f, 0, 0.1f }, { 0.01f, 0, 0.01f } };
    static const float doubled[2][2] = { { 0.2f, 0.2f }, { 0.02f, 0.02f } };
    static const int32_t indices[] = { 0, 2 };
    const et_array arrays[] = { { "indices", ET_I32, indices, et_shape_scalar() },
                                { "g0", ET_F32, doubled[0], et_shape_1(1) },
                                { "g1", ET_F32, doubled[1], et_shape_1(1) } };
    variables v = { .size = 3 };
    open_pass(&v, arrays, 3, 2, build_rows, &(et_pass_options){ .training = true });
    set_values(&v, values);
    open_optimizer(&v, &(et_optimizer_setup){ .rule = "lamb" });
    check(&v, values, gradients, 0, 0, 1e-6);
}

static void test_lamb_test__basic_with_learning_rate_decay(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 2 }, { 3, 4 } };
    static const float gradients[2][MOST] = { { 0.1f, 0.1f }, { 0.01f, 0.01f } };
    const et_lamb lamb = {
        .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7, .weight_decay_rate = 0.01, .decay = 0.5
    };
    const et_optimizer_setup setup = { .lamb = &lamb, .learning_rate = 0.001 };
    variables v;
    open_variables(&v, 2, values, gradients, &setup);
    check(&v, values, gradients, 0.5, 0.01, 1e-7);
}

static void build_names(et_scope *s, void *payload)
{
    static const char *const names[] = { "var0", "var1", "var1_weight" };
    (void)payload;
    for (int i = 0; i < 3; i++) {
        et_node *w = et_param(s, names[i], et_shape_1(1), (et_init){ ET_INIT_ONES, 0 });
        et_loss(s, names[i], et_mul(et_batch_input(s, "x"), w), 1);
    }
}

/* One step from 4 with a rate of 0.01. The direction is 1 without weight decay; layer adaptation
 * makes the step 4 times the rate, with any decay. */
static void check_excluded(const et_lamb *lamb)
{
    static const float x = 0.5f;
    const et_array array = { "x", ET_F32, &x, et_shape_1(1) };
    variables v = { 0 };
    open_pass(&v, &array, 1, 1, build_names, &(et_pass_options){ .training = true });
    for (int p = 0; p < 3; p++)
        et_params_values(v.params)[et_params_offset(v.params, p)] = 4;
    open_optimizer(&v, &(et_optimizer_setup){ .lamb = lamb, .learning_rate = 0.01 });
    step_variables(&v);
    assert_float_equal(*value_of(&v, "var0"), 3.96, 1e-5);
    assert_float_equal(*value_of(&v, "var1"), 3.99, 1e-5);
    assert_float_equal(*value_of(&v, "var1_weight"), 3.99, 1e-5);
    close_variables(&v);
}

/* An excluded parameter is excluded from layer adaptation, too: with decay its step is 0.0104. */
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

/* Settings, a file of them, and settings again. */
static void test_lamb_test__serialization(void **state)
{
    const char *path = in(state, "lamb.yaml");
    const et_settings optimizer = read_optimization(
        "{optimizer: {type: lamb}, learning_rate: {type: constant, constant: {learning_rate: "
        "1e-4}}}");
    et_settings new_optimizer = read_optimization("{}");
    assert_ok(et_settings_write(&optimizer, path, error));
    assert_ok(et_settings_read_file(&new_optimizer, path, error));
    const et_value *config = et_settings_dict(&new_optimizer, arena);
    assert_true(is_same(config, et_settings_dict(&optimizer, arena)));
    assert_true(et_value_path(config, "learning_rate.constant.learning_rate")->real == 1e-4);
    assert_true(et_value_path(config, "optimizer.lamb.epsilon")->real == 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lamb_test__sparse),
        cmocka_unit_test(test_lamb_test__basic_with_learning_rate_decay),
        cmocka_unit_test(test_lamb_test__exclude_weight_decay),
        cmocka_unit_test(test_lamb_test__exclude_layer_adaptation),
        cmocka_unit_test(test_lamb_test__serialization),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
