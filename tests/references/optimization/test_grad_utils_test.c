/* Model Garden, official/modeling/grad_utils_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "references/optimization/variables.h"

#include "references/optimization/kind.h"

/* The mean of two outputs for each of two rows of zeros. */
static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", et_row_mean(et_dense(et_in(s, "model"), et_batch_input(s, "x"), 2)), 1);
}

static void open_dense(variables *v, const et_pass_options *options)
{
    static const float x[2][2];
    const et_array array = { "x", ET_F32, x, et_shape_1(2) };
    *v = (variables){ .size = 2 };
    open_pass(v, &array, 1, 2, build, options);
    et_init_draw(v->params, 1);
    v->value[0] = value_of(v, "model/bias");
    open_optimizer(v, &(et_optimizer_setup){ .rule = "sgd", .learning_rate = 0.1 });
}

static void test_grad_utils_test__minimize(void **state)
{
    (void)state;
    const et_pass_options options = { .training = true };
    variables v;
    open_dense(&v, &options);
    step_variables(&v);
    for (int i = 0; i < 2; i++)
        assert_float_equal(v.value[0][i], -0.05, 1e-7);
    close_variables(&v);
}

/* Multiplies all gradients; returns their sum of squares before that. */
static double scale(const variables *v, double factor)
{
    double sum = 0;
    for (int p = 0; p < et_params_count(v->params); p++) {
        float *g = et_params_gradients(v->params) + et_params_offset(v->params, p);
        for (int64_t i = 0; i < et_shape_count(et_params_shape(v->params, p)); i++) {
            sum += (double)g[i] * g[i];
            g[i] *= (float)factor;
        }
    }
    return sum;
}

static void clip_by_global_norm(const variables *v)
{
    scale(v, 1 / fmax(1, sqrt(scale(v, 1))));
}

/* Differs: Etude computes in bfloat16 instead of float16, and the test unscales and clips gradients
 * itself, because the program's own functions run between a pass and an update. */
static void test_grad_utils_test__minimize_fp16(void **state)
{
    (void)state;
    const et_pass_options options = { .training = true, .scaled = true, .bfloat16 = true };
    for (int clipped = 0; clipped < 2; clipped++) {
        const float loss_scale = clipped ? 128 : 32768;
        variables v;
        open_dense(&v, &options);
        et_pass_set_scale(v.pass, loss_scale);
        assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
        scale(&v, 1 / et_pass_divisor(v.pass));
        if (clipped)
            clip_by_global_norm(&v); /* before the gradients are unscaled */
        scale(&v, 1 / (double)loss_scale);
        if (clipped)
            clip_by_global_norm(&v); /* after */
        scale(&v, et_pass_divisor(v.pass));
        assert_ok(et_optimizer_update(v.optimizer, v.pass, NULL, error));
        for (int i = 0; i < 2; i++)
            assert_float_equal(v.value[0][i], clipped ? -0.1 * sqrt(0.5) / 128 : -0.05, 1e-6);
        close_variables(&v);
    }
}

/* Differs: float16 is refused, because Etude computes in float32 and bfloat16 only. */
static void test_grad_utils_test__set_mixed_precision_policy(void **state)
{
    static const char *const types[] = { "bfloat16", "float32", "float16", "int32" };
    for (int i = 0; i < 4; i++) {
        char settings[200];
        snprintf(settings, sizeof settings,
                 "{runtime: {mixed_precision_dtype: %s}, trainer: {optimizer_config: {optimizer: "
                 "{type: sgd}, learning_rate: {type: constant}}}}",
                 types[i]);
        if (i < 2)
            assert_ok(open_kind(in(state, types[i]), settings, error));
        else
            assert_fails(open_kind(in(state, types[i]), settings, error), ET_ECONFIG, types[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grad_utils_test__minimize),
        cmocka_unit_test(test_grad_utils_test__minimize_fp16),
        cmocka_unit_test(test_grad_utils_test__set_mixed_precision_policy),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
