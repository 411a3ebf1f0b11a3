/* Model Garden, official/modeling/optimization/configs/optimization_config_test.py. */
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

#define CONSTANT "learning_rate: {type: constant, constant: {learning_rate: 0.1}}"

/* None is no choice, which a run refuses by name. */
static void test_optimization_config_test__no_optimizer(void **state)
{
    assert_fails(open_kind(in(state, "a"), "trainer: {optimizer_config: {" CONSTANT "}}", error),
                 ET_ECONFIG, "optimizer.type is not set");
}

static void test_optimization_config_test__no_lr_schedule(void **state)
{
    assert_fails(
        open_kind(in(state, "b"), "trainer: {optimizer_config: {optimizer: {type: sgd}}}", error),
        ET_ECONFIG, "learning_rate.type is not set");
}

static void test_optimization_config_test__no_warmup_schedule(void **state)
{
    const char *run = in(state, "c");
    assert_ok(open_kind(run, "trainer: {optimizer_config: {optimizer: {type: sgd}, " CONSTANT "}}",
                        error));
    check_settings(run, (const char *const[]){ "warmup:\n      type: none", NULL });
}

/* Choices without settings have the defaults of their classes; where the reference's default is
 * None, the run refuses to begin. */
static void test_optimization_config_test__config(void **state)
{
    static const char format[] = "trainer: {optimizer_config: {optimizer: {type: sgd, sgd: {}}, "
                                 "learning_rate: {type: polynomial, polynomial: {%s}}, "
                                 "warmup: {type: linear%s}}}";
    static const char *const lines[] = {
        "momentum: 0.0",
        "nesterov: false",
        "decay: 0.0",
        "end_learning_rate: 0.0001",
        "power: 1.0",
        "cycle: false",
        "offset: 0",
        "warmup_learning_rate: 0.0",
        NULL,
    };
    const char *run = in(state, "d");
    char settings[400];
    snprintf(settings, sizeof settings, format, "", "");
    assert_fails(open_kind(run, settings, error), ET_ECONFIG, "warmup_steps");
    snprintf(settings, sizeof settings, format, "", ", linear: {warmup_steps: 2}");
    assert_fails(open_kind(run, settings, error), ET_ECONFIG, "initial_learning_rate");
    snprintf(settings, sizeof settings, format, "initial_learning_rate: 0.1",
             ", linear: {warmup_steps: 2}");
    assert_ok(open_kind(run, settings, error));
    check_settings(run, lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimization_config_test__no_optimizer),
        cmocka_unit_test(test_optimization_config_test__no_lr_schedule),
        cmocka_unit_test(test_optimization_config_test__no_warmup_schedule),
        cmocka_unit_test(test_optimization_config_test__config),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
