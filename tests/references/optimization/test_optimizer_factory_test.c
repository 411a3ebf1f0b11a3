/* Model Garden, official/modeling/optimization/optimizer_factory_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "references/hyperparams/settings_of.h"
#include "references/optimization/variables.h"

#include "references/optimization/kind.h"
#include "references/optimization/optimization_of.h"

typedef struct rule_defaults {
    const char *type, *settings;
} rule_defaults;

/* A rule of which only the type is given has all defaults of its class, no further settings, and a
 * rate of 0.1. */
static void check_rule(const rule_defaults *rule)
{
    static const float zeros[2][MOST];
    char path[40], given[120], whole[600];
    variables v;
    snprintf(path, sizeof path, "optimizer.%s", rule->type);
    snprintf(given, sizeof given, "{optimizer: {type: %s}, " CONSTANT "}", rule->type);
    snprintf(whole, sizeof whole, "{optimizer: {type: %s, %s: {%s}}, " CONSTANT "}", rule->type,
             rule->type, rule->settings);
    const et_value *found = optimization_of(given), *expected = optimization_of(whole);
    if (!is_same(found, expected))
        fail_msg("%s", rule->type);
    assert_int_equal(et_value_path(found, path)->count,
                     et_value_path(settings_of(whole).extra, path)->count);
    open_variables(&v, 1, zeros, zeros, &(et_optimizer_setup){ .settings = given });
    assert_true(et_optimizer_learning_rate(v.optimizer) == 0.1);
    close_variables(&v);
}

#define CLIPS "clipnorm: null, clipvalue: null, global_clipnorm: null"
#define ADAM  CLIPS ", beta_1: 0.9, beta_2: 0.999, epsilon: "
#define LISTS                                                                                      \
    ", weight_decay_rate: 0.0, exclude_from_weight_decay: null, exclude_from_layer_adaptation: "   \
    "null"

static const rule_defaults rules[] = {
    { "sgd", CLIPS ", decay: 0.0, nesterov: false, momentum: 0.0" },
    { "rmsprop", CLIPS ", rho: 0.9, momentum: 0.0, epsilon: 1e-7, centered: false" },
    { "adam", ADAM "1e-7, amsgrad: false" },
    { "adamw", ADAM "1e-7, amsgrad: false, weight_decay_rate: 0.0, include_in_weight_decay: null, "
                    "exclude_from_weight_decay: null, gradient_clip_norm: 1.0" },
    { "lamb", ADAM "1e-6, decay: 0.0" LISTS },
    { "lars", CLIPS ", momentum: 0.9, eeta: 0.001, nesterov: false, classic_momentum: true" LISTS },
    { "adagrad", CLIPS ", initial_accumulator_value: 0.1, epsilon: 1e-7" },
};

static void test_optimizer_factory_test__optimizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++)
        check_rule(&rules[i]);
}

/* Differs: sgd keeps its decay, because a rule serves both classes of Keras; the two rules with
 * another name for the newer class are compared, too. */
static void test_optimizer_factory_test__new_optimizers(void **state)
{
    (void)state;
    static const rule_defaults newer[] = {
        { "sgd_experimental", CLIPS ", nesterov: false, momentum: 0.0, jit_compile: false" },
        { "adam_experimental", ADAM "1e-7, amsgrad: false, jit_compile: false" },
    };
    for (size_t i = 0; i < COUNT(rules); i++)
        check_rule(&rules[i]);
    for (size_t i = 0; i < COUNT(newer); i++)
        check_rule(&newer[i]);
}

static void zero_gradients(et_params *params)
{
    for (int p = 0; p < et_params_count(params); p++)
        memset(et_params_gradients(params) + et_params_offset(params, p), 0,
               (size_t)et_shape_count(et_params_shape(params, p)) * sizeof(float));
}

/* Here: an optimizer takes no aggregator; the program calls its own function between the pass
 * and the update. */
static void test_optimizer_factory_test__gradient_aggregator(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 2 }, { 3, 4 } },
                       ones[2][MOST] = { { 1, 1 }, { 1, 1 } };
    const et_optimizer_setup adam = {
        .settings = "{optimizer: {type: adam}, learning_rate: {type: constant, constant: "
                    "{learning_rate: 1.0}}}"
    };
    for (int aggregated = 0; aggregated < 2; aggregated++) {
        variables v;
        open_variables(&v, 2, values, ones, &adam);
        assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
        if (aggregated)
            zero_gradients(v.params);
        assert_ok(et_optimizer_update(v.optimizer, v.pass, NULL, error));
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 2; k++)
                assert_float_equal(v.value[i][k], values[i][k] - !aggregated,
                                   aggregated ? 0 : 1e-5);
        close_variables(&v);
    }
}

static void test_optimizer_factory_test__gradient_clipping(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 2 }, { 3, 4 } };
    static const float gradients[2][MOST] = { { 0.1f, 0.1f }, { 2, 3 } };
    static const struct {
        const char *clipnorm, *clipvalue;
        double second[2];
    } cases[] = { { "null", "null", { 1, 1 } },
                  { "1.0", "null", { 2.4452999, 3.1679497 } },
                  { "null", "1.0", { 2, 3 } } };
    for (int c = 0; c < 3; c++) {
        char settings[120];
        snprintf(settings, sizeof settings,
                 "optimizer: {type: sgd, sgd: {clipnorm: %s, clipvalue: %s}}", cases[c].clipnorm,
                 cases[c].clipvalue);
        const et_optimizer_setup setup = { .learning_rate = 1, .settings = settings };
        variables v;
        open_variables(&v, 2, values, gradients, &setup);
        step_variables(&v);
        for (int i = 0; i < 2; i++) {
            assert_float_equal(v.value[0][i], i + 0.9, 1e-6);
            assert_float_equal(v.value[1][i], cases[c].second[i], 1e-6);
        }
        close_variables(&v);
    }
}

/* Opens a trainer with these settings and no others. missing: of the message; NULL: none. */
static void check_trainer(const char *text, const char *missing)
{
    const et_settings settings = read_optimization(text);
    const et_task_trainer_options options = { .optimization = settings.options };
    et_task task = { .ET_CLASS = &kind_class };
    et_device *device;
    et_params *params;
    et_task_trainer *trainer;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    if (missing)
        assert_fails(et_task_trainer_open(&trainer, &task, device, params, &options, error),
                     ET_ECONFIG, missing);
    else
        assert_ok(et_task_trainer_open(&trainer, &task, device, params, &options, error));
    et_task_trainer_close(trainer);
    et_params_free(params);
    et_device_close(device);
}

static void test_optimizer_factory_test__missing_types(void **state)
{
    (void)state;
    check_trainer("{optimizer: {type: sgd, sgd: {momentum: 0.9}}}",
                  "learning_rate.type is not set");
    check_trainer("{learning_rate: {type: stepwise, stepwise: {boundaries: [10000, 20000], values: "
                  "[0.1, 0.01, 0.001]}}}",
                  "optimizer.type is not set");
    check_trainer("{optimizer: {type: sgd, sgd: {momentum: 0.9}}, " CONSTANT "}", NULL);
}

#define STEPWISE                                                                                   \
    "learning_rate: {type: stepwise, stepwise: {boundaries: [10000, 20000], "                      \
    "values: [0.1, 0.01, 0.001]}}"
#define WARMUP "warmup: {type: linear, linear: {warmup_steps: 500, warmup_learning_rate: 0.01}}"

static void test_optimizer_factory_test__stepwise_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES(STEPWISE, { 0, 0.1 }, { 5000, 0.1 }, { 10000, 0.1 }, { 10001, 0.01 },
                { 20000, 0.01 }, { 20001, 0.001 });
}

static void test_optimizer_factory_test__stepwise_lr_with_warmup_schedule(void **state)
{
    (void)state;
    CHECK_RATES(STEPWISE ", " WARMUP, { 0, 0.01 }, { 250, 0.055 }, { 500, 0.1 }, { 5500, 0.1 },
                { 10000, 0.1 }, { 10001, 0.01 }, { 20000, 0.01 }, { 20001, 0.001 });
}

static void test_optimizer_factory_test__exponential_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.1, "
                "decay_steps: 1000, decay_rate: 0.96, staircase: true}}",
                { 0, 0.1 }, { 999, 0.1 }, { 1000, 0.096 }, { 1999, 0.096 }, { 2000, 0.09216 });
}

static void test_optimizer_factory_test__polynomial_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.1, "
                "decay_steps: 1000, end_learning_rate: 0.001}}",
                { 0, 0.1 }, { 500, 0.0505 }, { 1000, 0.001 });
}

static void test_optimizer_factory_test__cosine_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.1, "
                "decay_steps: 1000}}",
                { 0, 0.1 }, { 250, 0.08535534 }, { 500, 0.04999999 }, { 750, 0.01464466 },
                { 1000, 0 });
}

static void test_optimizer_factory_test__constant_lr_with_warmup_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: constant, constant: {learning_rate: 0.1}}, " WARMUP,
                { 0, 0.01 }, { 250, 0.055 }, { 500, 0.1 }, { 5000, 0.1 }, { 10000, 0.1 },
                { 20000, 0.1 });
}

static void test_optimizer_factory_test__stepwise_lr_with_polynomial_warmup_schedule(void **state)
{
    (void)state;
    CHECK_RATES_TO(
        5e-7, STEPWISE ", warmup: {type: polynomial, polynomial: {warmup_steps: 500, power: 2.}}",
        { 0, 0 }, { 250, 0.025 }, { 500, 0.1 }, { 5500, 0.1 }, { 10000, 0.1 }, { 10001, 0.01 },
        { 20000, 0.01 }, { 20001, 0.001 });
}

static void test_optimizer_factory_test__power_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: power, power: {initial_learning_rate: 1.0, power: -1.0}}",
                { 0, 1 }, { 1, 1 }, { 250, 1. / 250 });
}

static void test_optimizer_factory_test__power_linear_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1.0, "
                "power: -1.0, linear_decay_fraction: 0.5, total_decay_steps: 100, offset: 0}}",
                { 0, 1 }, { 1, 1 }, { 40, 1. / 40 }, { 60, 1. / 60 * 0.8 });
}

static void test_optimizer_factory_test__power_with_offset_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: power_with_offset, power_with_offset: "
                "{initial_learning_rate: 1.0, power: -1.0, offset: 10, "
                "pre_offset_learning_rate: 3.0}}",
                { 1, 3 }, { 10, 3 }, { 20, 1. / 10 });
}

static void test_optimizer_factory_test__step_cosine_lr_schedule_with_warmup(void **state)
{
    (void)state;
    CHECK_RATES("learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: "
                "{values: [0.0001, 0.00005], boundaries: [0, 500000], offset: 10000}}, "
                "warmup: {type: linear, linear: {warmup_steps: 10000, warmup_learning_rate: 0.0}}",
                { 0, 0 }, { 5000, 1e-4 / 2 }, { 10000, 1e-4 }, { 20000, 9.994863e-05 },
                { 499999, 5e-05 });
}

static void no_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    (void)options, (void)step, (void)chunk;
}

/* A rule of the program is chosen by its name, which no other rule may have. */
static void test_optimizer_factory_test__registry(void **state)
{
    (void)state;
    static const float zeros[2][MOST];
    static const et_optimizer_rule my_class = { .name = "test", .update = no_update };
    static const et_optimizer_rule *const once[] = { &my_class, NULL };
    static const et_optimizer_rule *const twice[] = { &my_class, &my_class, NULL };
    const et_optimizer_setup setup = { .rules = once, .settings = "optimizer: {type: test}" };
    const et_optimizer_setup again = { .rules = twice, .rule = "test" };
    et_optimizer *optimizer;
    variables v;
    open_variables(&v, 1, zeros, zeros, &setup);
    step_variables(&v);
    assert_fails(et_optimizer_open(&optimizer, v.device, v.params, NULL, &again, error), ET_EUSAGE,
                 "test is already registered");
    close_variables(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer_factory_test__optimizers),
        cmocka_unit_test(test_optimizer_factory_test__new_optimizers),
        cmocka_unit_test(test_optimizer_factory_test__gradient_aggregator),
        cmocka_unit_test(test_optimizer_factory_test__gradient_clipping),
        cmocka_unit_test(test_optimizer_factory_test__missing_types),
        cmocka_unit_test(test_optimizer_factory_test__stepwise_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__stepwise_lr_with_warmup_schedule),
        cmocka_unit_test(test_optimizer_factory_test__exponential_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__polynomial_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__cosine_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__constant_lr_with_warmup_schedule),
        cmocka_unit_test(test_optimizer_factory_test__stepwise_lr_with_polynomial_warmup_schedule),
        cmocka_unit_test(test_optimizer_factory_test__power_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__power_linear_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__power_with_offset_lr_schedule),
        cmocka_unit_test(test_optimizer_factory_test__step_cosine_lr_schedule_with_warmup),
        cmocka_unit_test(test_optimizer_factory_test__registry),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
