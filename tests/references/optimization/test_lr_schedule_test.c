/* Model Garden, official/modeling/optimization/lr_schedule_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "references/optimization/variables.h"

#define POWER_LINEAR(power, fraction, offset)                                                      \
    "learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1.0, power: " power \
    ", linear_decay_fraction: " fraction ", total_decay_steps: 100, offset: " offset "}}"

/* Power only, linear only, both, and both after an offset. */
static void test_lr_schedule_test__power_linear_lr_schedule(void **state)
{
    (void)state;
    CHECK_RATES(POWER_LINEAR("-1.0", "0.0", "0"), { 0, 1 }, { 1, 1 }, { 40, 1. / 40 },
                { 60, 1. / 60 }, { 100, 1. / 100 });
    CHECK_RATES(POWER_LINEAR("0.0", "1.0", "0"), { 0, 1 }, { 1, 0.99 }, { 40, 0.6 }, { 60, 0.4 },
                { 100, 0 });
    CHECK_RATES(POWER_LINEAR("-1.0", "0.5", "0"), { 0, 1 }, { 1, 1 }, { 40, 1. / 40 },
                { 60, 1. / 60 * 0.8 }, { 100, 0 });
    CHECK_RATES(POWER_LINEAR("-1.0", "0.5", "90"), { 0, 1 }, { 90, 1 }, { 91, 1 }, { 130, 1. / 40 },
                { 150, 1. / 60 * 0.8 }, { 190, 0 }, { 200, 0 });
}

/* A schedule with an offset of 10 has at a step the rate that it has without one 10 steps before.
 */
static void test_lr_schedule_test__offset(void **state)
{
    (void)state;
    static const char *const schedules[] = {
        "stepwise, stepwise: {boundaries: [50, 80], values: [1.0, 0.5, 0.1]",
        "polynomial, polynomial: {initial_learning_rate: 1.0, decay_steps: 100",
        "exponential, exponential: {initial_learning_rate: 1.0, decay_steps: 100, decay_rate: 0.5",
        "cosine, cosine: {initial_learning_rate: 1.0, decay_steps: 100",
    };
    static const float zeros[2][MOST];
    for (int i = 0; i < 4; i++) {
        char text[300];
        rate_at base[10];
        variables v;
        snprintf(text, sizeof text, "learning_rate: {type: %s}}", schedules[i]);
        const et_optimizer_setup setup = { .rule = "sgd", .settings = text };
        open_variables(&v, 1, zeros, zeros, &setup);
        assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
        for (int k = 0; k < 10; k++) {
            base[k] = (rate_at){ 10 * k + 10, et_optimizer_learning_rate(v.optimizer) };
            for (int step = 0; step < 10; step++)
                assert_ok(et_optimizer_update(v.optimizer, v.pass, NULL, error));
        }
        close_variables(&v);
        snprintf(text, sizeof text, "learning_rate: {type: %s, offset: 10}}", schedules[i]);
        check_rates(text, base, 10, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lr_schedule_test__power_linear_lr_schedule),
        cmocka_unit_test(test_lr_schedule_test__offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
