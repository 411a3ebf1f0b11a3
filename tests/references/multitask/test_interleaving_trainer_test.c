/* Model Garden, official/modeling/multitask/interleaving_trainer_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "references/multitask/tasks.h"

static void test_interleaving_trainer_test__multitask_interleaving_trainer(void **state)
{
    (void)state;
    tasks t;
    tasks_init(&t, ET_MULTITASK_UNIFORM);
    tasks_open(&t);
    assert_ok(et_trainer_train(et_multitask_trainer(t.multitask), 5, t.results, error));
    check_results(&t);
    tasks_close(&t);
}

static void test_interleaving_trainer_test__trainer_with_configs(void **state)
{
    (void)state;
    enum { STEPS = 1000 };
    tasks t;
    tasks_init(&t, ET_MULTITASK_ANNEALING);
    t.parts[0].size = 3;
    t.options.steps_per_epoch = STEPS / 5;
    t.options.total_steps = STEPS;
    tasks_open(&t);
    assert_ok(et_trainer_train(et_multitask_trainer(t.multitask), STEPS, t.results, error));
    check_results(&t);
    assert_int_equal(et_multitask_trainer(t.multitask)->step, STEPS);
    assert_int_equal(et_multitask_steps(t.multitask, 0) + et_multitask_steps(t.multitask, 1),
                     STEPS);
    assert_true(et_multitask_steps(t.multitask, 0) > et_multitask_steps(t.multitask, 1));
    tasks_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleaving_trainer_test__multitask_interleaving_trainer),
        cmocka_unit_test(test_interleaving_trainer_test__trainer_with_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
