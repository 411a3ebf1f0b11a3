/* Orbit, orbit/utils/common_test.py. The global step is et_trainer.step, an int64_t. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <etude/trainer.h>

static int step_once(et_trainer *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

/* Here: the step is a member of the trainer, and has no name as a variable has. */
static void test_common_test__create_global_step(void **state)
{
    static const et_trainer_class class = { .name = "trainer", .step = step_once };
    et_trainer trainer = { .class = &class };
    et_error error = ET_ERROR_INIT;
    (void)state;
    assert_int_equal(sizeof trainer.step, 8);
    assert_int_equal(trainer.step, 0);
    assert_int_equal(et_trainer_train(&trainer, 1, NULL, &error), ET_OK);
    assert_int_equal(trainer.step, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common_test__create_global_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
