/* Model Garden, official/modeling/optimization/configs/optimization_config_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/etude.h>

#include "formats/files.h"
#include "references/hyperparams/settings_of.h"

#include "references/optimization/optimization_of.h"

/* Without settings, nothing is chosen. */
static void assert_none(const char *restriction)
{
    const et_settings settings = read_optimization("{}");
    assert_ok(et_settings_check(&settings, (const char *const[]){ restriction, NULL }, error));
}

static void test_optimization_config_test__no_optimizer(void **state)
{
    (void)state;
    assert_none("optimizer.type == None");
}

static void test_optimization_config_test__no_lr_schedule(void **state)
{
    (void)state;
    assert_none("learning_rate.type == None");
}

static void test_optimization_config_test__no_warmup_schedule(void **state)
{
    (void)state;
    assert_none("warmup.type == None");
}

/* Choices without settings have the defaults of their classes, and no further settings. */
static void test_optimization_config_test__config(void **state)
{
    (void)state;
    static const char whole[] =
        "{optimizer: {type: sgd, sgd: {clipnorm: null, clipvalue: null, global_clipnorm: null, "
        "decay: 0.0, nesterov: false, momentum: 0.0}}, "
        "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: null, "
        "decay_steps: null, end_learning_rate: 0.0001, power: 1.0, cycle: false, offset: 0}}, "
        "warmup: {type: linear, linear: {warmup_learning_rate: 0.0, warmup_steps: null}}}";
    static const char *const chosen[] = { "optimizer.sgd", "learning_rate.polynomial",
                                          "warmup.linear" };
    const et_value *config =
        optimization_of("{optimizer: {type: sgd, sgd: {}}, learning_rate: {type: polynomial, "
                        "polynomial: {}}, warmup: {type: linear}}");
    assert_true(is_same(config, optimization_of(whole)));
    for (size_t i = 0; i < COUNT(chosen); i++)
        assert_int_equal(et_value_path(config, chosen[i])->count,
                         et_value_path(settings_of(whole).extra, chosen[i])->count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimization_config_test__no_optimizer),
        cmocka_unit_test(test_optimization_config_test__no_lr_schedule),
        cmocka_unit_test(test_optimization_config_test__no_warmup_schedule),
        cmocka_unit_test(test_optimization_config_test__config),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
