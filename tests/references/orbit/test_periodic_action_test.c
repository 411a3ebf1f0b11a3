/* Orbit, orbit/actions/periodic_action_test.py. The period is the action's method due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <etude/outer_loop.h>

#include "calls.h"

typedef struct counter {
    et_action action;
    int64_t steps[4]; /* [count]: at which it acted */
    int count;
} counter;

static int64_t every_10(const et_action *self, int64_t step)
{
    (void)self;
    return (step / 10 + 1) * 10;
}

static int count(et_action *self, const et_moment *now, et_error *error)
{
    counter *c = (counter *)self;
    (void)error;
    c->steps[c->count++] = now->step;
    return ET_OK;
}

static int step_once(et_trainer *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

/* Loops end at steps 5, 10, 15 and 20. */
static void test_periodic_action_test__periodic_execution(void **state)
{
    static const et_trainer_class trainer_class = { .name = "trainer", .step = step_once };
    static const et_action_class action_class = { "periodic", every_10, count };
    et_trainer trainer = { .class = &trainer_class };
    counter periodic = { .action.class = &action_class };
    et_action *const actions[] = { &periodic.action };
    const et_outer_loop_options outer = { 0 };
    const et_controller_options options = { .trainer = &trainer,
                                            .actions = actions,
                                            .action_count = 1,
                                            .outer_loop = &outer,
                                            .steps_per_loop = 5 };
    et_controller *controller;
    (void)state;
    assert_ok(et_controller_open(&controller, &options, error));
    assert_ok(et_controller_train_to(controller, 20, false, error));
    assert_int_equal(periodic.count, 2);
    assert_int_equal(periodic.steps[0], 10);
    assert_int_equal(periodic.steps[1], 20);
    assert_ok(et_controller_close(controller, error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_periodic_action_test__periodic_execution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
