/* The cost of privacy, compared with published values; and its effect on an update: clipping of
 * each sample or of the mean, and noise of the right size that differs in each step and is the same
 * after a kill. */
#include <etude/privacy.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "engine/tensor/params.h"
#include "formats/files.h"
#include "train/toy_run.h"

/* Samples, batch, noise, epochs, delta: the values of TensorFlow Privacy's own tests
 * (compute_dp_sgd_privacy_test.py), which rounds steps up; a single mechanism is Gaussian. */
static void test_privacy__spent(void **state)
{
    (void)state;
    static const struct {
        double samples, batch, noise, epochs, delta, epsilon;
        int order;
    } cases[] = { { 60000, 150, 1.3, 15, 1e-5, 0.7242234026109595, 19 },
                  { 100000, 100, 1.0, 30, 1e-7, 1.4154988495444845, 13 } };
    double epsilon;
    int order;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t steps = (int64_t)ceil(cases[i].epochs * cases[i].samples / cases[i].batch);
        assert_ok(et_privacy_spent(cases[i].batch / cases[i].samples, cases[i].noise, steps,
                                   cases[i].delta, &epsilon, &order, error));
        assert_true(fabs(epsilon - cases[i].epsilon) < 1e-9);
        assert_int_equal(order, cases[i].order);
    }
    /* All data in one step, order a: a / (2 s^2) + log(1 - 1/a) - log(delta a) / (a - 1). */
    double least = INFINITY;
    for (int a = 2; a <= 256; a++)
        least = fmin(least, a / 50.0 + log1p(-1.0 / a) - log(1e-5 * a) / (a - 1));
    assert_ok(et_privacy_spent(1, 5, 1, 1e-5, &epsilon, NULL, error));
    assert_true(fabs(epsilon - least) < 1e-12);
    assert_ok(et_privacy_spent(0.1, 0, 1, 1e-5, &epsilon, &order, error));
    assert_true(isinf(epsilon) && order == 0);
    assert_ok(et_privacy_spent(0, 1, 9, 1e-5, &epsilon, NULL, error));
    assert_true(epsilon == 0);
    assert_ok(et_privacy_spent(0.1, 1, 0, 1e-5, &epsilon, NULL, error));
    assert_true(epsilon == 0);
    static const struct {
        double rate, noise;
        int64_t steps;
        double delta;
    } bad[] = {
        { -0.1, 1, 1, 0.1 }, { 1.1, 1, 1, 0.1 }, { 0.1, -1, 1, 0.1 }, { 0.1, 1, -1, 0.1 },
        { 0.1, 1, 1, 0 },    { 0.1, 1, 1, 1 },   { NAN, 1, 1, 0.1 },  { 0.1, NAN, 1, 0.1 }
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(et_privacy_spent(bad[i].rate, bad[i].noise, bad[i].steps, bad[i].delta,
                                      &epsilon, NULL, error),
                     ET_ECONFIG, "sampling rate");
}

/* ---- updates ---- */

enum { SAMPLES = 8, WIDTH = 1001 };

static float x[SAMPLES * WIDTH];

/* loss of a sample = w . x, so its gradient is x; `rows` a batch. */
static int rows;

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *w = et_param(s, "w", et_shape_2(WIDTH, 1), (et_init){ ET_INIT_ZEROS, 0 });
    et_loss(s, "loss", et_matmul(et_batch_input(s, "x"), w, NULL, NULL), 1);
}

/* |x_i| = i + 1. */
static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(WIDTH) } };
    et_samples *samples;
    et_batches_options options = { .repeat = true, .capacity = { rows } };
    (void)self;
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = k == i ? (float)(i + 1) : 0;
    if (!training)
        return ET_OK;
    int status = et_arrays_open(&samples, arrays, 1, SAMPLES, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}

static const et_task_class class = { .name = "toy", .build = build, .data = data };

/* w after some steps with a rate of 1, and clipping of the optimizer's own. */
static void train_clipped(float *w, const et_privacy_options *privacy, int batches, int64_t steps,
                          const char *settings)
{
    toy_run r;
    et_arena arena = ET_ARENA_INIT;
    et_optimizer_setup optimizer = { .rule = "sgd", .learning_rate = 1, .settings = settings };
    toy_run_init(&r, &class);
    r.trainer_options.optimizer = &optimizer;
    r.trainer_options.batches = batches;
    r.trainer_options.seed = 5;
    r.trainer_options.dp_config = privacy;
    assert_ok(toy_run_start_trainer(&r, error));
    assert_ok(et_task_trainer_initialize(r.trainer, error));
    assert_ok(et_task_trainer_train(r.trainer, steps, et_value_dict(&arena), error));
    memcpy(w, et_params_values(r.params), WIDTH * sizeof *w);
    for (int64_t i = WIDTH; i < et_params_flat_size(r.params); i++)
        assert_true(et_params_values(r.params)[i] == 0); /* padding */
    toy_run_close(&r);
    et_arena_release(&arena);
}

static void train(float *w, const et_privacy_options *privacy, int batches, int64_t steps)
{
    train_clipped(w, privacy, batches, steps, NULL);
}

/* Both clip, privacy first: of a noise that is larger than the optimizer's bound the direction is
 * left, of a clipped gradient that is smaller all. */
static void test_privacy__clips_beside_the_optimizer(void **state)
{
    (void)state;
    static const char narrow[] = "optimizer: {sgd: {global_clipnorm: 0.25}}";
    static const char wide[] = "optimizer: {sgd: {global_clipnorm: 1}}";
    static float alone[WIDTH], both[WIDTH];
    const et_privacy_options half = { .clipping_norm = 0.5 };
    const et_privacy_options noisy = { .clipping_norm = 0.5, .noise_multiplier = 2 };
    rows = 1;
    train(alone, &half, SAMPLES, 1);
    train_clipped(both, &half, SAMPLES, 1, wide);
    assert_memory_equal(both, alone, sizeof both);
    train_clipped(both, &half, SAMPLES, 1, narrow);
    for (int i = 0; i < WIDTH; i++)
        assert_float_equal(both[i], alone[i] / 2, 1e-6);
    train(alone, &noisy, SAMPLES, 1);
    train_clipped(both, &noisy, SAMPLES, 1, narrow);
    double square = 0;
    for (int i = 0; i < WIDTH; i++) {
        square += (double)both[i] * both[i];
        assert_float_equal(both[i] * alone[0], alone[i] * both[0], 1e-4);
    }
    assert_float_equal(sqrt(square), 0.25, 1e-5);
}

static void test_privacy__clips(void **state)
{
    (void)state;
    static float plain[WIDTH], w[WIDTH];
    et_privacy_options each = { .per_example = true }, mean = { 0 };
    rows = 1;
    train(plain, NULL, SAMPLES, 1);
    train(w, &each, SAMPLES, 1); /* nothing is clipped at 1e8: the same bits */
    assert_memory_equal(w, plain, sizeof w);
    train(w, &mean, SAMPLES, 1);
    assert_memory_equal(w, plain, sizeof w);
    each.clipping_norm = 3;
    train(w, &each, SAMPLES, 1);
    for (int i = 0; i < SAMPLES; i++) /* only sample i has coordinate i */
        assert_float_equal(w[i], -fmin(i + 1, 3) / SAMPLES, 1e-6);
    mean.clipping_norm = 0.5;
    for (rows = 1; rows <= 4; rows += 3) { /* however the update is cut into batches */
        double square = 0;
        train(w, &mean, SAMPLES / rows, 1);
        for (int i = 0; i < SAMPLES; i++) {
            square += (double)w[i] * w[i];
            assert_float_equal(w[i] / w[0], i + 1, 1e-4);
        }
        assert_float_equal(sqrt(square), 0.5, 1e-5);
    }
}

/* The deviation of coordinates without a gradient, which only have noise. */
static double deviation(const float *w)
{
    double sum = 0, square = 0;
    int count = WIDTH - SAMPLES;
    for (int i = SAMPLES; i < WIDTH; i++) {
        sum += w[i];
        square += (double)w[i] * w[i];
    }
    assert_true(fabs(sum / count) < 5 * sqrt(square / count / count));
    return sqrt(square / count);
}

static void test_privacy__noise(void **state)
{
    (void)state;
    static float one[WIDTH], again[WIDTH], two[WIDTH];
    et_privacy_options options = { .clipping_norm = 2, .noise_multiplier = 3 };
    for (int each = 0; each < 2; each++) {
        rows = 1;
        options.per_example = each;
        train(one, &options, 4, 1);
        train(again, &options, 4, 1);
        assert_memory_equal(one, again, sizeof one);
        train(two, &options, 4, 2);
        /* C noise on the sum of four, or on their mean; 993 values: within a tenth. */
        double expected = each ? 6.0 / 4 : 6;
        assert_true(fabs(deviation(one) / expected - 1) < 0.1);
        assert_true(fabs(deviation(two) / (expected * sqrt(2)) - 1) < 0.1); /* independent */
    }
}

static int own_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    (void)self, (void)now, (void)logs, (void)error;
    return ET_OK;
}

/* It would update with gradients that nobody clipped. */
static void test_privacy__own_train_step(void **state)
{
    (void)state;
    et_task_class stepping = class;
    const et_privacy_options privacy = { .clipping_norm = 1 };
    toy_run r;
    stepping.train_step = own_step;
    toy_run_init(&r, &stepping);
    r.trainer_options.batches = 1;
    r.trainer_options.dp_config = &privacy;
    assert_fails(toy_run_start_trainer(&r, error), ET_ECONFIG,
                 "dp_config: task toy has its own train_step");
    toy_run_close(&r);
}

static void test_privacy__refused(void **state)
{
    (void)state;
    static const struct {
        et_privacy_options privacy;
        double loss_scale;
        int rows;
        const char *text;
    } cases[] = {
        { { .clipping_norm = -1 }, 0, 1, "clipping_norm -1" },
        { { .clipping_norm = NAN }, 0, 1, "clipping_norm" },
        { { .noise_multiplier = -2 }, 0, 1, "noise_multiplier -2" },
        { { .noise_multiplier = INFINITY }, 0, 1, "noise_multiplier inf" },
        { { .per_example = true }, 0, 2, "per_example needs batches of one sample" },
        { { .clipping_norm = 1 },
          8,
          1,
          "dp_config cannot be combined with loss_scale (task.differential_privacy_config, "
          "runtime.loss_scale); remove one of them" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy_run r;
        toy_run_init(&r, &class);
        rows = cases[i].rows;
        r.trainer_options.dp_config = &cases[i].privacy;
        r.trainer_options.loss_scale = cases[i].loss_scale;
        assert_fails(toy_run_start_trainer(&r, error), ET_ECONFIG, cases[i].text);
        toy_run_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_privacy__spent),
        cmocka_unit_test(test_privacy__clips),
        cmocka_unit_test(test_privacy__clips_beside_the_optimizer),
        cmocka_unit_test(test_privacy__own_train_step),
        cmocka_unit_test(test_privacy__noise),
        cmocka_unit_test(test_privacy__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
