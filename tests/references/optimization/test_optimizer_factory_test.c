/* Model Garden, official/modeling/optimization/optimizer_factory_test.py. */
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

typedef struct rule_defaults {
    const char *rule, *lines[8];
} rule_defaults;

/* Each rule with a rate of 0.1 has the defaults of its class. */
static void check_rules(void **state, const rule_defaults *rules, size_t count)
{
    static int number;
    for (size_t i = 0; i < count; i++) {
        char settings[200], name[20];
        snprintf(name, sizeof name, "rule%d", number++);
        const char *run = in(state, name);
        snprintf(settings, sizeof settings,
                 "trainer: {optimizer_config: {optimizer: {type: %s}, learning_rate: {type: "
                 "constant, constant: {learning_rate: 0.1}}}}",
                 rules[i].rule);
        assert_ok(open_kind(run, settings, error));
        check_settings(run, rules[i].lines);
        check_settings(run, (const char *const[]){ "learning_rate: 0.1", NULL });
    }
}

#define ADAM(epsilon) "beta_1: 0.9", "beta_2: 0.999", "epsilon: " epsilon

static void test_optimizer_factory_test__optimizers(void **state)
{
    static const rule_defaults rules[] = {
        { "sgd", { "type: sgd", "momentum: 0.0", "nesterov: false", "decay: 0.0" } },
        { "rmsprop",
          { "type: rmsprop", "rho: 0.9", "momentum: 0.0", "epsilon: 1.0e-07", "centered: false" } },
        { "adam", { "type: adam", ADAM("1.0e-07"), "amsgrad: false" } },
        { "adamw",
          { "type: adamw", ADAM("1.0e-07"), "weight_decay_rate: 0.0", "gradient_clip_norm: 1.0" } },
        { "lamb", { "type: lamb", ADAM("1.0e-06"), "weight_decay_rate: 0.0" } },
        { "lars",
          { "type: lars", "momentum: 0.9", "eeta: 0.001", "weight_decay_rate: 0.0",
            "nesterov: false", "classic_momentum: true" } },
        { "adagrad", { "type: adagrad", "initial_accumulator_value: 0.1", "epsilon: 1.0e-07" } },
    };
    check_rules(state, rules, sizeof rules / sizeof *rules);
}

/* The newer classes. Those without another name here are one rule with the same settings. */
static void test_optimizer_factory_test__new_optimizers(void **state)
{
    static const rule_defaults rules[] = {
        { "sgd_experimental", { "type: sgd_experimental", "momentum: 0.0", "nesterov: false" } },
        { "rmsprop",
          { "type: rmsprop", "rho: 0.9", "momentum: 0.0", "epsilon: 1.0e-07", "centered: false" } },
        { "adam_experimental", { "type: adam_experimental", ADAM("1.0e-07"), "amsgrad: false" } },
        { "adamw", { "type: adamw", ADAM("1.0e-07"), "weight_decay_rate: 0.0" } },
        { "lamb", { "type: lamb", ADAM("1.0e-06"), "weight_decay_rate: 0.0" } },
        { "lars", { "type: lars", "momentum: 0.9", "eeta: 0.001", "nesterov: false" } },
        { "adagrad", { "type: adagrad", "initial_accumulator_value: 0.1", "epsilon: 1.0e-07" } },
    };
    check_rules(state, rules, sizeof rules / sizeof *rules);
}

/* A function between gradients and update sets them to zero. */
static void test_optimizer_factory_test__gradient_aggregator(void **state)
{
    (void)state;
    static const float values[2][MOST] = { { 1, 2 }, { 3, 4 } },
                       ones[2][MOST] = { { 1, 1 }, { 1, 1 } };
    const et_optimizer_setup adam = { .rule = "adam", .learning_rate = 1 };
    variables v;
    open_variables(&v, 2, values, ones, &adam);
    assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
    for (int p = 0; p < et_params_count(v.params); p++)
        for (int i = 0; i < 2; i++)
            et_params_gradients(v.params)[et_params_offset(v.params, p) + i] *= 0;
    assert_ok(et_optimizer_update(v.optimizer, v.pass, NULL, error));
    for (int i = 0; i < 2; i++)
        assert_memory_equal(v.value[i], values[i], 2 * sizeof(float));
    close_variables(&v);
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

static void test_optimizer_factory_test__missing_types(void **state)
{
    const char *run = in(state, "missing");
    assert_fails(open_kind(run,
                           "trainer: {optimizer_config: {optimizer: {type: sgd, sgd: "
                           "{momentum: 0.9}}}}",
                           error),
                 ET_ECONFIG, "learning_rate.type is not set");
    assert_fails(open_kind(run,
                           "trainer: {optimizer_config: {learning_rate: {type: stepwise, "
                           "stepwise: {boundaries: [10000, 20000], "
                           "values: [0.1, 0.01, 0.001]}}}}",
                           error),
                 ET_ECONFIG, "optimizer.type is not set");
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
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
