/* Orbit, orbit/examples/single_task/single_task_evaluator_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "references/orbit/single_task.h"

static double evaluate(et_controller *controller, const char *name)
{
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    double value;
    assert_ok(et_controller_evaluate(controller, -1, logs, error));
    assert_ok(et_value_read_float(logs, name, &value, error));
    et_arena_free(arena);
    return value;
}

/* Also that a trained model is evaluated as such. */
static void test_single_task_evaluator_test__single_task_evaluation(void **state)
{
    et_controller *controller;
    (void)state;
    open_run(&controller);
    assert_ok(et_controller_train_to(controller, (ROWS + BATCH - 1) / BATCH, false, error));
    assert_true(evaluate(controller, "accuracy") < 0.925);
    assert_ok(et_controller_train_to(controller, 3000, false, error));
    assert_true(evaluate(controller, "accuracy") > 0.9);
    assert_true(fabs(evaluate(controller, "loss") - s.loss) < 0.1);
    assert_ok(et_controller_close(controller, error));
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_task_evaluator_test__single_task_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
