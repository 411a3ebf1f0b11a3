/* Rules and schedules, compared with values that the classes of Keras and Model Garden compute in
 * double: golden/, made by tools/golden-optimizers. Rules that differ on purpose have no file
 * there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/arena.h"
#include "engine/kernel/reference/reference.h"
#include "engine/optim/optim.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/options.h"

#define GOLDEN ET_TEST_SOURCE "/tests/engine/optim/golden/"

/* For weights of about 1: Etude's are float32, which 200 updates round 200 times. An epsilon on the
 * other side of its root, or of the bias correction, gives an error thousands of times as large. */
#define TOLERANCE 4e-6

/* As in tools/golden-optimizers. */
static const struct {
    const char *name;
    et_shape shape;
} parameters[] = {
    { "dense/weight", { 2, { 4, 3 } } },
    { "dense/bias", { 1, { 3 } } },
    { "norm/scale", { 1, { 5 } } },
    { "block/kernel", { 3, { 2, 3, 2 } } },
};
enum { COUNT = sizeof parameters / sizeof parameters[0], STEPS = 200 };

static float weight_of(int p, int64_t i)
{
    return p == 1 ? 0 : (float)((29 * i + 11 * p) % 64 - 32) / 64;
}

/* Each tensor's gradients begin at 1/2 and fall to about 1e-7, where an epsilon matters. */
static float gradient_of(int p, int64_t i, int64_t step)
{
    int64_t k = (37 * i + 101 * step + 13 * i * step + 7 * p) % 257 - 128;
    return ldexpf((float)k / 256, -3 * (int)(i % 8));
}

static et_params *make_params(void)
{
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    for (int p = 0; p < COUNT; p++)
        assert_ok(et_params_declare(params, parameters[p].name, parameters[p].shape,
                                    (et_init){ ET_INIT_ZEROS, 0 }, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    for (int p = 0; p < COUNT; p++)
        for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++)
            et_params_values(params)[et_params_offset(params, p) + i] = weight_of(p, i);
    return params;
}

static void make_gradients(et_params *params, int64_t step)
{
    for (int p = 0; p < COUNT; p++)
        for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++)
            et_params_gradients(params)[et_params_offset(params, p) + i] = gradient_of(p, i, step);
}

/* The largest difference of values of parameters from the next of the file. */
static double compare(et_params *params, const float *values, FILE *file)
{
    double most = 0;
    for (int p = 0; p < COUNT; p++)
        for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++) {
            double expected;
            assert_int_equal(fscanf(file, "%la", &expected), 1);
            double off = values[et_params_offset(params, p) + i] - expected;
            most = fabs(off) > most || isnan(off) ? fabs(off) : most;
        }
    return most;
}

static FILE *open_golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s.txt", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s", path);
    return file;
}

static void check_rule(const et_kernels *kernels, const char *name, const char *settings,
                       double rate)
{
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = default_options();
    et_optimizer *optimizer;
    et_params *params = make_params();
    FILE *file = open_golden(name);
    long long next;
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = rate;
    assert_ok(read_options(&o, settings, &arena, error));
    assert_ok(et_optimizer_new(&optimizer, params, NULL, kernels, &o, error));
    int compared = 0;
    bool more = fscanf(file, " step %lld", &next) == 1;
    for (int64_t step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        assert_true(et_optimizer_apply(optimizer, et_params_gradients(params), 1).finite);
        if (!more || step + 1 != next)
            continue;
        const float *average = et_optimizer_average(optimizer);
        double off = compare(params, average ? average : et_params_values(params), file);
        if (!(off <= TOLERANCE))
            fail_msg("%s: %g off after %lld updates; at most %g", name, off, next, TOLERANCE);
        compared++;
        more = fscanf(file, " step %lld", &next) == 1;
    }
    assert_true(!more && compared == 5 && next == STEPS);
    fclose(file);
    et_optimizer_free(optimizer);
    et_params_free(params);
    et_arena_release(&arena);
}

/* By the fast kernels and by the reference. */
static void test_golden__rules(void **state)
{
    (void)state;
#define EXCLUDED "exclude_from_weight_decay: [bias, norm]"
#define MUON     "weight_decay_rate: 0.1, adam_rate: 0.5, epsilon: 1e-7"
    static const struct {
        const char *name, *settings;
        double rate;
    } cases[] = {
        { "sgd", "optimizer: {type: sgd}", 0.05 },
        { "sgd_momentum", "optimizer: {type: sgd, sgd: {momentum: 0.9}}", 0.05 },
        { "sgd_nesterov", "optimizer: {type: sgd, sgd: {momentum: 0.9, nesterov: true}}", 0.05 },
        { "sgd_decay", "optimizer: {type: sgd, sgd: {decay: 0.1}}", 0.05 },
        { "sgd_clipvalue", "optimizer: {type: sgd, sgd: {clipvalue: 0.1}}", 0.05 },
        { "sgd_clipnorm", "optimizer: {type: sgd, sgd: {clipnorm: 0.25}}", 0.05 },
        { "sgd_global_clipnorm", "optimizer: {type: sgd, sgd: {global_clipnorm: 0.25}}", 0.05 },
        { "sgd_experimental",
          "optimizer: {type: sgd_experimental, sgd_experimental: {momentum: 0.9, nesterov: true}}",
          0.05 },
        { "rmsprop", "optimizer: {type: rmsprop}", 0.01 },
        { "rmsprop_momentum", "optimizer: {type: rmsprop, rmsprop: {momentum: 0.9}}", 0.01 },
        { "rmsprop_centered",
          "optimizer: {type: rmsprop, rmsprop: {centered: true, epsilon: 1e-4}}", 0.01 },
        { "rmsprop_centered_momentum",
          "optimizer: {type: rmsprop, rmsprop: {momentum: 0.9, centered: true, epsilon: 1e-4}}",
          0.01 },
        { "adagrad", "optimizer: {type: adagrad}", 0.05 },
        { "adagrad_small",
          "optimizer: {type: adagrad, adagrad: {initial_accumulator_value: 1e-12, epsilon: 1e-6}}",
          0.05 },
        { "adam", "optimizer: {type: adam}", 0.01 },
        { "adam_amsgrad", "optimizer: {type: adam, adam: {beta_2: 0.9, amsgrad: true}}", 0.01 },
        { "adam_experimental", "optimizer: {type: adam_experimental}", 0.01 },
        { "adam_experimental_amsgrad",
          "optimizer: {type: adam_experimental, adam_experimental: {beta_2: 0.9, amsgrad: true, "
          "jit_compile: true}}",
          0.01 },
        { "adamw",
          "optimizer: {type: adamw, adamw: {weight_decay_rate: 0.1, gradient_clip_norm: 0, "
          "include_in_weight_decay: norm, exclude_from_weight_decay: [bias, norm, block]}}",
          0.01 },
        { "adamw_amsgrad",
          "optimizer: {type: adamw, adamw: {beta_2: 0.9, weight_decay_rate: 0.1, amsgrad: true, "
          "gradient_clip_norm: 0}}",
          0.01 },
        { "adamw_experimental",
          "optimizer: {type: adamw_experimental, adamw_experimental: {weight_decay: 0.1}}", 0.01 },
        { "adamw_experimental_amsgrad",
          "optimizer: {type: adamw_experimental, adamw_experimental: {weight_decay: 0.1, beta_2: "
          "0.9, global_clipnorm: 0.25, amsgrad: true}}",
          0.01 },
        { "lamb", "optimizer: {type: lamb, lamb: {weight_decay_rate: 0.1, " EXCLUDED "}}", 0.01 },
        { "lamb_adaptation",
          "optimizer: {type: lamb, lamb: {weight_decay_rate: 0.1, exclude_from_layer_adaptation: "
          "block, " EXCLUDED "}}",
          0.01 },
        { "lars",
          "optimizer: {type: lars, lars: {eeta: 0.01, weight_decay_rate: 0.1, " EXCLUDED "}}",
          0.5 },
        { "lars_nesterov",
          "optimizer: {type: lars, lars: {eeta: 0.01, weight_decay_rate: 0.1, nesterov: "
          "true, " EXCLUDED "}}",
          0.5 },
        { "lars_popular",
          "optimizer: {type: lars, lars: {eeta: 0.01, weight_decay_rate: 0.1, classic_momentum: "
          "false, " EXCLUDED "}}",
          0.5 },
        { "lars_popular_nesterov",
          "optimizer: {type: lars, lars: {eeta: 0.01, weight_decay_rate: 0.1, nesterov: true, "
          "classic_momentum: false, exclude_from_layer_adaptation: block, " EXCLUDED "}}",
          0.5 },
        { "adafactor_keras", "optimizer: {type: adafactor_keras}", 0.1 },
        { "adafactor_keras_threshold",
          "optimizer: {type: adafactor_keras, adafactor_keras: {beta_2_decay: -0.5, epsilon_2: "
          "0.5, clip_threshold: 0.5}}",
          0.1 },
        { "adamw_clipped",
          "optimizer: {type: adamw, adamw: {weight_decay_rate: 0.1, gradient_clip_norm: 0.25}}",
          0.01 },
        { "ema",
          "{optimizer: {type: sgd, sgd: {momentum: 0.9}}, ema: {average_decay: 0.9, start_step: "
          "10}}",
          0.05 },
        { "ema_fixed",
          "{optimizer: {type: sgd, sgd: {momentum: 0.9}}, ema: {start_step: 10, dynamic_decay: "
          "false}}",
          0.05 },
        { "muon", "optimizer: {type: muon, muon: {" MUON "}}", 0.01 },
        { "muon_plain",
          "optimizer: {type: muon, muon: {nesterov: false, exclude_from_orthogonalization: "
          "dense, " MUON "}}",
          0.01 },
    };
#undef MUON
#undef EXCLUDED
    const et_kernels *kernels[] = { et_kernels_best(), &et_kernels_reference };
    for (int k = 0; k < 2; k++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            check_rule(kernels[k], cases[c].name, cases[c].settings, cases[c].rate);
}

/* float32 rates, at steps of up to a million, of which cosines are computed. */
static void test_golden__schedules(void **state)
{
    (void)state;
    static const struct {
        const char *name, *settings;
    } cases[] = {
        { "stepwise_polynomial_warmup",
          "{learning_rate: {type: stepwise, stepwise: {boundaries: [10000, 20000], values: [0.1, "
          "0.01, 0.001]}}, warmup: {type: polynomial, polynomial: {warmup_steps: 500, power: "
          "2}}}" },
        { "constant_linear_warmup",
          "{learning_rate: {type: constant}, warmup: {type: linear, linear: {warmup_steps: 500, "
          "warmup_learning_rate: 0.01}}}" },
        { "exponential",
          "learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.1, "
          "decay_steps: 10, decay_rate: 0.5, offset: 5}}" },
        { "exponential_staircase",
          "learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.1, "
          "decay_steps: 10, decay_rate: 0.5, staircase: true}}" },
        { "polynomial",
          "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.1, "
          "decay_steps: 100, power: 2}}" },
        { "polynomial_cycle",
          "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.1, "
          "decay_steps: 100, cycle: true}}" },
        { "cosine", "learning_rate: {type: cosine, cosine: {initial_learning_rate: 2, "
                    "decay_steps: 100, alpha: 0.1, offset: 10}}" },
        { "cosine_restarts",
          "learning_rate: {type: cosine_restarts, cosine_restarts: {initial_learning_rate: 1, "
          "first_decay_steps: 10, m_mul: 0.5, alpha: 0.01}}" },
        { "power", "learning_rate: {type: power, power: {initial_learning_rate: 2}}" },
        { "power_linear",
          "learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1, power: "
          "-1, total_decay_steps: 100, linear_decay_fraction: 0.5}}" },
        { "power_with_offset",
          "learning_rate: {type: power_with_offset, power_with_offset: {initial_learning_rate: 1, "
          "offset: 10, pre_offset_learning_rate: 0.5}}" },
        { "step_cosine_with_offset",
          "learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: "
          "[0, 500000, 1000000], values: [1e-4, 5e-5, 1e-5]}}" },
        { "step_cosine_offset",
          "learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: "
          "[0, 50, 80], values: [1, 0.5, 0.25], offset: 20}}" },
        { "exponential_staircase_before",
          "learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.1, "
          "decay_steps: 10, decay_rate: 0.5, staircase: true, offset: 25}}" },
        { "polynomial_before",
          "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.1, "
          "decay_steps: 10, power: 2, offset: 25}}" },
        { "polynomial_cycle_before",
          "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.1, "
          "decay_steps: 10, power: 2, cycle: true, offset: 25}}" },
        { "cosine_before", "learning_rate: {type: cosine, cosine: {initial_learning_rate: 2, "
                           "decay_steps: 100, alpha: 0.1, offset: 130}}" },
        { "cosine_restarts_once_before",
          "learning_rate: {type: cosine_restarts, cosine_restarts: {initial_learning_rate: 0.01, "
          "first_decay_steps: 10, t_mul: 1, m_mul: 0.8, alpha: 0.1, offset: 25}}" },
        { "cosine_restarts_before",
          "learning_rate: {type: cosine_restarts, cosine_restarts: {initial_learning_rate: 1, "
          "first_decay_steps: 10, t_mul: 1.5, m_mul: 0.8, alpha: 0.01, offset: 19}}" },
        { "step_cosine_before",
          "learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: "
          "[0, 100, 150], values: [0.3, 0.2, 0.1], offset: 130}}" },
        { "step_cosine_late_before",
          "learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: "
          "[10, 30, 50], values: [0.3, 0.2, 0.1], offset: 25}}" },
        { "power_linear_before",
          "learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1, power: "
          "-1, total_decay_steps: 100, linear_decay_fraction: 0.5, offset: 30}}" },
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    FILE *file = open_golden("schedules");
    et_arena arena = ET_ARENA_INIT;
    et_schedule schedule[CASES];
    int compared[CASES] = { 0 };
    for (size_t c = 0; c < CASES; c++) {
        et_optimization_options o = default_options();
        assert_ok(read_options(&o, cases[c].settings, &arena, error));
        assert_ok(et_schedule_init(&schedule[c], &o.learning_rate, &o.warmup, error));
    }
    char name[64];
    long long step;
    double expected;
    while (fscanf(file, "%63s %lld %la", name, &step, &expected) == 3) {
        size_t c = 0;
        while (c < CASES && strcmp(cases[c].name, name) != 0)
            c++;
        assert_true(c < CASES);
        double rate = et_schedule_rate(&schedule[c], step);
        compared[c]++;
        if (!(fabs(rate - expected) <= 1e-7 + 1e-6 * fabs(expected)))
            fail_msg("%s at %lld: %.9g, expected %.9g", name, step, rate, expected);
    }
    for (size_t c = 0; c < CASES; c++)
        assert_true(compared[c] >= 4);
    fclose(file);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden__rules),
        cmocka_unit_test(test_golden__schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
