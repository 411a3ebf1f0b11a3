#include "optim/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/yaml.h"
#include "optim/optim.h"

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
}

static int read_text(et_optimization_options *options, const char *text, et_arena *arena,
                     et_error *error)
{
    et_value *value;
    int status = et_yaml_parse(&value, arena, text, strlen(text), "test.yaml", error);
    if (!status)
        status = et_fields_read(&et_optimization_fields, options, value, arena, "test.yaml",
                                "trainer.optimizer_config", error);
    return status;
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
    assert_ok(read_text(&o, text, &arena, error));
    assert_ok(et_optimization_check(&o, error));
    assert_int_equal(o.optimizer.type, ET_OPTIMIZER_ADAMW);
    assert_int_equal(o.optimizer.adamw.exclude_from_weight_decay.count, 2);
    assert_int_equal(o.learning_rate.stepwise.values.count, 3);
    assert_int_equal(o.warmup.linear.warmup_steps, 500);
    et_arena_release(&arena);
}

static void test_options__wrong(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = default_options();
    assert_fails(et_optimization_check(&o, error), ET_ECONFIG, "optimizer.type: none is chosen");
    assert_fails(read_text(&o, "optimizer: {type: adan}\n", &arena, error), ET_ECONFIG, "adam");
    assert_fails(read_text(&o, "optimizer: {adam: {beta_1: 1.5}}\n", &arena, error), ET_ECONFIG,
                 "beta_1");
    o.optimizer.type = ET_OPTIMIZER_ADAMW;
    o.learning_rate.type = ET_RATE_CONSTANT;
    assert_ok(et_optimization_check(&o, error));
    o.optimizer.adamw.include_in_weight_decay = LIST("[");
    assert_fails(et_optimization_check(&o, error), ET_ECONFIG, "include_in_weight_decay");
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options__defaults),
        cmocka_unit_test(test_options__read),
        cmocka_unit_test(test_options__wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
