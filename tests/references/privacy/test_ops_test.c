/* Model Garden, official/modeling/privacy/ops_test.py: an update with a rate of 1 from zeros shows
 * the gradient after clipping and noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <etude/etude.h>

#include "calls.h"

enum { WIDTH = 1000 };

static float x[WIDTH], y;
static int width; /* of x */

static void build(et_task *self, et_scope *s, bool training)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    (void)self, (void)training;
    et_node *a = et_param(s, "a", et_shape_1(width), zeros);
    et_node *b = et_param(s, "b", et_shape_2(1, 1), zeros);
    et_loss(s, "a", et_mul(et_batch_input(s, "x"), a), 1);
    et_loss(s, "b", et_matmul(et_batch_input(s, "y"), b, NULL, NULL), 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(width) },
                                { "y", ET_F32, &y, et_shape_1(1) } };
    const et_batches_options one = { .repeat = training, .capacity = { 1 } };
    et_samples *samples;
    (void)self;
    int status = et_arrays_open(&samples, arrays, 2, 1, error);
    return status ? status : et_batches_open(out, samples, &one, error);
}

/* The negative gradients of a [width] and b. */
static void update(const et_privacy_options *privacy, float *a, float *b)
{
    static const et_task_class class = { .name = "ops", .build = build, .data = data };
    const et_optimizer_setup sgd = { .rule = "sgd", .learning_rate = 1 };
    const et_task_trainer_options options = { .optimizer = &sgd, .dp_config = privacy, .seed = 3 };
    et_task task = { .ET_CLASS = &class };
    et_device *device;
    et_params *params;
    et_task_trainer *trainer;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_task_trainer_open(&trainer, &task, device, params, &options, error));
    assert_ok(et_task_trainer_initialize(trainer, error));
    assert_ok(et_task_trainer_train(trainer, 1, NULL, error));
    const float *values = et_params_values(params);
    memcpy(a, values + et_params_offset(params, et_params_find(params, "a")),
           (size_t)width * sizeof *a);
    *b = values[et_params_offset(params, et_params_find(params, "b"))];
    et_task_trainer_close(trainer);
    et_params_free(params);
    et_device_close(device);
}

static void test_ops_test__clip_l2_norm(void **state)
{
    (void)state;
    const et_privacy_options privacy = { .clipping_norm = 1 };
    float a[2], b;
    width = 2;
    x[0] = 4;
    x[1] = 3;
    y = 12;
    update(&privacy, a, &b);
    assert_float_equal(a[0], -4 / 13.0, 1e-6);
    assert_float_equal(a[1], -3 / 13.0, 1e-6);
    assert_float_equal(b, -12 / 13.0, 1e-6);
}

/* The case replaces the generator; here a seed repeats the noise. The noise of gradients of zero is
 * independent with a standard deviation of 10, within five deviations of the estimates. Other
 * gradients get exactly the same noise. */
static void test_ops_test__add_noise(void **state)
{
    (void)state;
    const et_privacy_options privacy = { .clipping_norm = 1, .noise_multiplier = 10 };
    static float a[WIDTH];
    double sum = 0, squares = 0, products = 0;
    float b, added[2], b_added;
    width = WIDTH;
    memset(x, 0, sizeof x);
    y = 0;
    update(&privacy, a, &b);
    for (int i = 0; i < WIDTH; i++) {
        sum += a[i];
        squares += (double)a[i] * a[i];
        products += (double)a[i] * a[(i + 1) % WIDTH];
    }
    assert_true(fabs(sum / WIDTH) < 5 * 10 / sqrt(WIDTH));
    assert_true(fabs(sqrt(squares / WIDTH) - 10) < 5 * 10 / sqrt(2 * WIDTH));
    assert_true(fabs(products / squares) < 5 / sqrt(WIDTH));
    assert_true(b != 0 && fabsf(b) < 60 && b != a[0]);
    width = 2;
    update(&privacy, a, &b);
    x[0] = 0.25f;
    x[1] = 0.5f;
    y = 0.75f;
    update(&privacy, added, &b_added);
    assert_float_equal(added[0], a[0] - x[0], 1e-5);
    assert_float_equal(added[1], a[1] - x[1], 1e-5);
    assert_float_equal(b_added, b - y, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_test__clip_l2_norm),
        cmocka_unit_test(test_ops_test__add_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
