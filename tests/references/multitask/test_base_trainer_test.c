/* Model Garden, official/modeling/multitask/base_trainer_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "references/multitask/tasks.h"

static void test_base_trainer_test__multitask_joint_trainer(void **state)
{
    (void)state;
    tasks t;
    tasks_init(&t, ET_MULTITASK_JOINT);
    t.parts[0].weight = t.parts[1].weight = 1;
    tasks_open(&t);
    assert_ok(et_trainer_train(et_multitask_trainer(t.multitask), 5, t.results, error));
    check_results(&t);
    tasks_close(&t);
}

/* The weight of a task is the factor of its loss in the total. */
static void test_base_trainer_test__trainer_with_configs(void **state)
{
    (void)state;
    tasks t;
    tasks_init(&t, ET_MULTITASK_JOINT);
    t.parts[0].weight = t.parts[1].weight = 0.5;
    tasks_open(&t);
    float *values = et_params_values(t.params);
    values[et_params_offset(t.params, et_params_find(t.params, "foo/bias"))] = 3;
    assert_ok(et_trainer_train(et_multitask_trainer(t.multitask), 5, t.results, error));
    check_results(&t);
    assert_float_equal(number_at(t.results, "total_loss"),
                       0.5 * number_at(t.results, "foo.training_loss") +
                           0.5 * number_at(t.results, "bar.training_loss"),
                       1e-6);
    assert_true(number_at(t.results, "total_loss") > 0.1);
    assert_int_equal(et_multitask_trainer(t.multitask)->step, 5);
    assert_float_equal(number_at(t.results, "learning_rate"), 0.1, 1e-7);
    tasks_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_trainer_test__multitask_joint_trainer),
        cmocka_unit_test(test_base_trainer_test__trainer_with_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
