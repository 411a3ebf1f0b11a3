/* Orbit, orbit/examples/single_task/single_task_trainer_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "references/orbit/single_task.h"

static void test_single_task_trainer_test__single_task_training(void **state)
{
    et_controller *controller;
    (void)state;
    open_run(&controller);
    assert_ok(et_controller_train_to(controller, 1, true, error));
    assert_ok(et_controller_train_to(controller, 500, true, error));
    assert_true(s.loss < s.first_loss / 2);
    assert_ok(et_controller_close(controller, error));
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_task_trainer_test__single_task_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
