#include "base/set_field.h"
#include "engine/optim/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "engine/optim/optim.h"

/* Defaults are Model Garden's. */
static void test_options__defaults(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    assert_true(o.optimizer.adam.beta_1 == 0.9 && o.optimizer.adam.beta_2 == 0.999);
    assert_true(o.optimizer.adam.epsilon == 1e-7 && o.optimizer.adam.global_clipnorm == 0);
    assert_true(o.optimizer.adamw.gradient_clip_norm == 1.0);
    assert_true(o.optimizer.adamw.weight_decay_rate == 0);
    assert_true(o.optimizer.sgd.momentum == 0 && !o.optimizer.sgd.nesterov);
    assert_true(o.learning_rate.constant.learning_rate == 0.1);
    assert_true(o.learning_rate.polynomial.end_learning_rate == 1e-4);
    assert_true(o.learning_rate.cosine_restarts.t_mul == 2);
    assert_true(o.learning_rate.power.power == -0.5);
    assert_true(!o.ema.enabled && o.ema.average_decay == 0.99 && o.ema.dynamic_decay);
    assert_true(o.ema.trainable_weights_only && o.ema.start_step == 0);
}

static void test_options__defaults_of_rules(void **state)
{
    (void)state;
    const et_optimizer_options o = default_options().optimizer;
    assert_true(o.rmsprop.rho == 0.9 && o.rmsprop.momentum == 0 && o.rmsprop.epsilon == 1e-7);
    assert_true(!o.rmsprop.centered && !o.adam.amsgrad && !o.adamw.amsgrad);
    assert_true(o.adagrad.initial_accumulator_value == 0.1 && o.adagrad.epsilon == 1e-7);
    assert_true(o.sgd_experimental.sgd.momentum == 0 && !o.sgd_experimental.sgd.nesterov);
    assert_true(!o.sgd_experimental.jit_compile && !o.adam_experimental.jit_compile);
    assert_true(o.adam_experimental.adam.beta_1 == 0.9 && o.adam_experimental.adam.beta_2 == 0.999);
    assert_true(o.adam_experimental.adam.epsilon == 1e-7 && !o.adam_experimental.adam.amsgrad);
    assert_true(o.adamw_experimental.weight_decay == 0 && !o.adamw_experimental.jit_compile);
    assert_true(o.adamw_experimental.adam.global_clipnorm == 1 &&
                o.adamw_experimental.adam.clipnorm == 0);
    assert_true(o.lamb.beta_1 == 0.9 && o.lamb.beta_2 == 0.999 && o.lamb.epsilon == 1e-6);
    assert_true(o.lamb.weight_decay_rate == 0 && !o.lamb.exclude_from_layer_adaptation);
    assert_true(o.lars.momentum == 0.9 && o.lars.eeta == 0.001 && o.lars.weight_decay_rate == 0);
    assert_true(!o.lars.nesterov && o.lars.classic_momentum);
    const et_adafactor_keras *a = &o.adafactor_keras;
    assert_true(a->beta_2_decay == -0.8 && a->epsilon_1 == 1e-30);
    assert_true(a->epsilon_2 == 1e-3 && a->clip_threshold == 1 && a->relative_step);
    assert_true(o.muon.momentum == 0.95 && o.muon.nesterov && o.muon.iterations == 5);
    assert_int_equal(o.muon.orthogonalization_dtype, ET_F32);
    assert_true(o.muon.scale == ET_MUON_RMS && o.muon.beta_2 == 0.95 && o.muon.adam_rate == 1);
}

static void test_options__read(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = default_options();
    static const char text[] = "optimizer:\n"
                               "  type: adamw\n"
                               "  adamw:\n"
                               "    weight_decay_rate: 0.01\n"
                               "    exclude_from_weight_decay: [norm, bias]\n"
                               "learning_rate:\n"
                               "  type: stepwise\n"
                               "  stepwise:\n"
                               "    boundaries: [10000, 20000]\n"
                               "    values: [0.1, 1e-2, 1.0e-3]\n"
                               "warmup: {type: linear, linear: {warmup_steps: 500}}\n";
    assert_ok(read_options(&o, text, &arena, error));
    assert_ok(et_optimization_check(&o, error));
    assert_int_equal(o.optimizer.type, ET_OPTIMIZER_ADAMW);
    const char *const *excluded = o.optimizer.adamw.exclude_from_weight_decay;
    assert_true(excluded[0] && excluded[1] && !excluded[2]);
    assert_int_equal(o.learning_rate.stepwise.values.count, 3);
    assert_int_equal(o.warmup.linear.warmup_steps, 500);
    et_arena_release(&arena);
}

/* Groups as Model Garden saves them: with its names, and null for values that were not given. */
static void test_options__model_garden(void **state)
{
    static const char *const groups[] = {
        "optimizer: {sgd: {name: SGD, decay: 0.0, clipnorm: null, clipvalue: null}}",
        "optimizer: {sgd_experimental: {name: SGD, jit_compile: false}}",
        "optimizer: {rmsprop: {name: RMSprop}, adagrad: {name: Adagrad}}",
        "optimizer: {adam: {name: Adam}, adam_experimental: {name: Adam}}",
        "optimizer: {adamw: {name: AdamWeightDecay, include_in_weight_decay: null}}",
        "optimizer: {adamw_experimental: {name: AdamWeightDecayExperimental}}",
        "optimizer: {lamb: {name: LAMB}, lars: {name: LARS, exclude_from_layer_adaptation: null}}",
        "optimizer: {adafactor_keras: {name: my Adafactor}}",
        "learning_rate: {constant: {name: Constant}, power: {name: DirectPowerDecay}}",
        "learning_rate: {stepwise: {name: PiecewiseConstantDecay, boundaries: null, values: null}}",
        "learning_rate: {exponential: {name: ExponentialDecay, staircase: null, decay_rate: null, "
        "initial_learning_rate: null, decay_steps: null}}",
        "learning_rate: {polynomial: {name: null}, cosine: {name: CosineDecay}}",
        "learning_rate: {cosine_restarts: {name: 1}, power_linear: {name: PowerAndLinearDecay}}",
        "learning_rate: {power_with_offset: {name: PowerDecayWithOffset}}",
        "learning_rate: {step_cosine_with_offset: {name: StepCosineDecayWithOffset}}",
        "warmup: {linear: {name: linear, warmup_steps: null}, polynomial: {name: polynomial, "
        "warmup_steps: null}}",
    };
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options defaults, o;
    memset(&defaults, 0, sizeof defaults);
    et_fields_defaults(&et_optimization_fields, &defaults);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        memcpy(&o, &defaults, sizeof o);
        assert_ok(read_options(&o, groups[i], &arena, error));
        assert_memory_equal(&o, &defaults, sizeof o);
    }
    assert_fails(read_options(&o, "optimizer: {adam: {name: [a]}}", &arena, error), ET_ECONFIG,
                 "no effect: the name in TensorFlow");
    et_arena_release(&arena);
}

/* There is an average if its group is given, as in Model Garden; null removes it. */
static void test_options__ema(void **state)
{
    static const struct {
        bool before;
        const char *text;
        bool after;
    } cases[] = {
        { false, "ema: {average_decay: 0.9}", true },
        { false,
          "ema: {name: ExponentialMovingAverage, clipnorm: null, clipvalue: null, "
          "global_clipnorm: null, trainable_weights_only: true, average_decay: 0.9, start_step: 0, "
          "dynamic_decay: true}",
          true },
        { false, "ema: {}", true },
        { true, "ema: null", false },
        { false, "ema: null", false },
        { true, "ema: {enabled: false, average_decay: 0.9}", false },
        { false, "ema: {enabled: true}", true },
        { true, "warmup: {type: null}", true },
        { false, "warmup: {type: null}", false },
    };
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_optimization_options o = default_options();
        o.ema.enabled = cases[i].before;
        assert_ok(read_options(&o, cases[i].text, &arena, error));
        if (o.ema.enabled != cases[i].after)
            fail_msg("%s: enabled is %d", cases[i].text, o.ema.enabled);
    }
    et_optimization_options o = default_options();
    assert_ok(set_field(&et_optimization_fields, &o, "ema.average_decay", "0.5", &arena, error));
    assert_false(o.ema.enabled);
    assert_ok(set_field(&et_optimization_fields, &o, "ema", "{start_step: 3}", &arena, error));
    assert_true(o.ema.enabled && o.ema.average_decay == 0.5 && o.ema.start_step == 3);
    assert_ok(set_field(&et_optimization_fields, &o, "ema", "null", &arena, error));
    assert_false(o.ema.enabled);
    assert_fails(read_options(&o, "ema: {clipnorm: 1}", &arena, error), ET_ECONFIG,
                 "the optimizer's settings of this name clip gradients");
    et_arena_release(&arena);
}

static void test_options__wrong(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = default_options();
    assert_fails(et_optimization_check(&o, error), ET_ECONFIG,
                 "trainer.optimizer_config.optimizer.type is not set; set it to one of");
    assert_fails(read_options(&o, "optimizer: {type: adan}\n", &arena, error), ET_ECONFIG, "adam");
    assert_fails(read_options(&o, "optimizer: {adam: {beta_1: 1.5}}\n", &arena, error), ET_ECONFIG,
                 "beta_1");
    assert_fails(read_options(&o, "optimizer: {type: adafactor}\n", &arena, error), ET_ECONFIG,
                 "adafactor_keras");
    assert_fails(read_options(&o, "optimizer: {lamb: {epsilon: 0}}\n", &arena, error), ET_ECONFIG,
                 "epsilon");
    assert_fails(read_options(&o, "optimizer: {muon: {scale: adam}}\n", &arena, error), ET_ECONFIG,
                 "shape");
    o.optimizer.type = ET_OPTIMIZER_ADAMW;
    o.learning_rate.type = ET_RATE_CONSTANT;
    assert_ok(et_optimization_check(&o, error));
    o.optimizer.adamw.include_in_weight_decay = PATTERNS("[");
    assert_fails(et_optimization_check(&o, error), ET_ECONFIG, "include_in_weight_decay");
    et_arena_release(&arena);
}

/* Each name chooses its rule, and messages list it. */
static void test_options__names(void **state)
{
    (void)state;
    static const char *const names[] = {
        [ET_OPTIMIZER_SGD] = "sgd",
        [ET_OPTIMIZER_SGD_EXPERIMENTAL] = "sgd_experimental",
        [ET_OPTIMIZER_RMSPROP] = "rmsprop",
        [ET_OPTIMIZER_ADAGRAD] = "adagrad",
        [ET_OPTIMIZER_ADAM] = "adam",
        [ET_OPTIMIZER_ADAM_EXPERIMENTAL] = "adam_experimental",
        [ET_OPTIMIZER_ADAMW] = "adamw",
        [ET_OPTIMIZER_ADAMW_EXPERIMENTAL] = "adamw_experimental",
        [ET_OPTIMIZER_LAMB] = "lamb",
        [ET_OPTIMIZER_LARS] = "lars",
        [ET_OPTIMIZER_ADAFACTOR_KERAS] = "adafactor_keras",
        [ET_OPTIMIZER_MUON] = "muon",
    };
    assert_int_equal(sizeof names / sizeof names[0], ET_OPTIMIZER_COUNT);
    for (int type = 1; type < ET_OPTIMIZER_COUNT; type++) {
        et_arena arena = ET_ARENA_INIT;
        et_optimization_options o = default_options();
        char text[80];
        snprintf(text, sizeof text, "optimizer: {type: %s}", names[type]);
        assert_ok(read_options(&o, text, &arena, error));
        assert_int_equal(o.optimizer.type, type);
        assert_int_equal(et_optimizer_type(names[type], NULL), type);
        assert_non_null(strstr(et_optimizer_names, names[type]));
        et_arena_release(&arena);
    }
    assert_int_equal(et_optimizer_type("adafactor", NULL), ET_OPTIMIZER_NONE);
    assert_int_equal(strncmp(et_optimizer_names, "sgd, ", 5), 0);
}

/* Of every rule, chosen or not. */
static void test_options__clips_and_lists(void **state)
{
    (void)state;
    static const char *const both[] = { "sgd",
                                        "sgd_experimental",
                                        "rmsprop",
                                        "adagrad",
                                        "adam",
                                        "adam_experimental",
                                        "adamw",
                                        "adamw_experimental",
                                        "lamb",
                                        "lars",
                                        "adafactor_keras",
                                        "muon" };
    static const char *const lists[] = {
        "adamw: {include_in_weight_decay",  "adamw: {exclude_from_weight_decay",
        "lamb: {exclude_from_weight_decay", "lamb: {exclude_from_layer_adaptation",
        "lars: {exclude_from_weight_decay", "lars: {exclude_from_layer_adaptation",
        "muon: {exclude_from_weight_decay", "muon: {exclude_from_orthogonalization",
    };
    char text[160];
    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_optimization_options o = default_options();
        o.learning_rate.type = ET_RATE_CONSTANT;
        snprintf(text, sizeof text, "optimizer: {type: sgd, %s: {clipnorm: 1, global_clipnorm: 2}}",
                 both[i]);
        assert_ok(read_options(&o, text, &arena, error));
        snprintf(text, sizeof text, "optimizer.%s: clipnorm and global_clipnorm are both", both[i]);
        assert_fails(et_optimization_check(&o, error), ET_ECONFIG, text);
        et_arena_release(&arena);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_optimization_options o = default_options();
        o.learning_rate.type = ET_RATE_CONSTANT;
        snprintf(text, sizeof text, "optimizer: {type: sgd, %s: [good, 'a(b']}}", lists[i]);
        assert_ok(read_options(&o, text, &arena, error));
        assert_fails(et_optimization_check(&o, error), ET_ECONFIG, strchr(lists[i], '{') + 1);
        et_arena_release(&arena);
    }
}

/* The setting that a schedule's peak is takes it; what grows has none. */
static void test_options__peak(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value; /* of the setting, as YAML; or a part of the message */
        int status;
    } cases[] = {
        { "learning_rate: 0.5", "constant.learning_rate: 0.5", ET_OK },
        { "learning_rate: {type: cosine, peak: 0.5}", "cosine.initial_learning_rate: 0.5", ET_OK },
        { "learning_rate: {type: inverse_sqrt, peak: 0.5}", "inverse_sqrt.peak_learning_rate: 0.5",
          ET_OK },
        { "learning_rate: {type: cosine_log, peak: 0.5}", "cosine_log.peak_learning_rate: 0.5",
          ET_OK },
        { "{learning_rate: {type: power, peak: 0.5}, warmup: {type: linear, linear: {"
          "warmup_steps: 100}}}",
          "power.initial_learning_rate: 5.0", ET_OK },
        { "learning_rate: {type: power, peak: 0.5}", "power.initial_learning_rate: 0.5", ET_OK },
        { "learning_rate: {type: power_with_offset, peak: 0.5}",
          "power_with_offset.pre_offset_learning_rate: 0.5", ET_OK },
        { "learning_rate: {type: stepwise, peak: 0.5, stepwise: {boundaries: [2], values: [0.1, "
          "0.02]}}",
          "stepwise.values: ['0.5', '0.1']", ET_OK },
        { "learning_rate: {type: stepwise, peak: 0.5}",
          "cannot scale a schedule without values; set trainer.optimizer_config.learning_rate.",
          ET_ECONFIG },
        { "learning_rate: {type: power, peak: 1, power: {power: 1}}", "power.power is 1",
          ET_ECONFIG },
        { "learning_rate: {type: exponential, peak: 1, exponential: {decay_rate: 2}}",
          "decay_rate is 2, so the rate increases", ET_ECONFIG },
        { "learning_rate: {type: polynomial, peak: 0.00001}",
          "polynomial.end_learning_rate is 0.0001, which is larger", ET_ECONFIG },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_optimization_options o = default_options();
        et_error refused = ET_ERROR_INIT;
        assert_ok(read_options(&o, cases[i].text, &arena, error));
        int status = et_optimization_use_peak(&o, &arena, &refused);
        assert_int_equal(status, cases[i].status);
        assert_true(o.learning_rate.peak < 0);
        et_value *kept = et_fields_effective(&et_optimization_fields, &o, &arena);
        const char *colon = strchr(cases[i].value, ':');
        char path[96], *rest = NULL;
        snprintf(path, sizeof path, "learning_rate.%.*s", (int)(colon ? colon - cases[i].value : 0),
                 cases[i].value);
        const et_value *value = status ? NULL : et_value_path(kept, path);
        if (status)
            assert_non_null(strstr(refused.text, cases[i].value));
        else if (value->kind == ET_VALUE_LIST)
            assert_string_equal(value->first->string, "0.5");
        else
            assert_float_equal(value->real, strtod(colon + 1, &rest), 1e-12);
        et_arena_release(&arena);
    }
}

/* A schedule of regularization ends with the run. */
static void test_options__regularization(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = default_options();
    assert_ok(read_options(&o,
                           "optimizer: {type: adam}\nlearning_rate: {type: constant}\n"
                           "regularization: {type: flat_cosine}",
                           &arena, error));
    assert_ok(et_optimization_check(&o, error));
    assert_false(et_optimization_counts_epochs(&o));
    assert_ok(et_optimization_end_with_run(&o, -3000, &arena, error)); /* 3ep */
    assert_true(et_optimization_counts_epochs(&o));
    et_optimization_resolve(&o, 50, 1);
    assert_int_equal(o.regularization.decay_steps, 150);
    assert_ok(et_optimization_end_with_run(&o, 700, &arena, error));
    assert_int_equal(o.regularization.decay_steps, 150);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options__defaults),
        cmocka_unit_test(test_options__defaults_of_rules),
        cmocka_unit_test(test_options__names),
        cmocka_unit_test(test_options__clips_and_lists),
        cmocka_unit_test(test_options__read),
        cmocka_unit_test(test_options__wrong),
        cmocka_unit_test(test_options__model_garden),
        cmocka_unit_test(test_options__ema),
        cmocka_unit_test(test_options__peak),
        cmocka_unit_test(test_options__regularization),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
