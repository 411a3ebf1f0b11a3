/* Orbit, orbit/actions/periodic_action_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <etude/outer_loop.h>
#include <etude/ready_actions.h>

#include "calls.h"

typedef struct counter {
    et_action action;
    int count;
} counter;

static int count(et_action *self, const et_action_context *now, et_error *error)
{
    (void)now, (void)error;
    ((counter *)self)->count++;
    return ET_OK;
}

static int step_once(et_trainer *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

/* A controller calls the action by its schedule, and, as a train action, after each loop. */
static void test_periodic_action_test__periodic_execution(void **state)
{
    static const et_trainer_class trainer_class = { .name = "trainer", .step = step_once };
    static const et_action_class action_class = { .name = "count", .act = count };
    (void)state;
    for (int train = 0; train < 2; train++) {
        et_trainer trainer = { .class = &trainer_class };
        counter counted = { .action.class = &action_class };
        et_action *const action[] = { &counted.action };
        et_conditional periodic;
        et_action *const actions[] = { &periodic.action };
        const et_outer_loop_options outer = { .train_actions = actions,
                                              .train_action_count = train };
        const et_controller_options options = { .trainer = &trainer,
                                                .actions = actions,
                                                .action_count = !train,
                                                .outer_loop = &outer,
                                                .steps_per_loop = 5 };
        et_controller *controller;
        assert_ok(et_periodic_init(&periodic, "periodic", 10, action, 1, error));
        assert_ok(et_controller_open(&controller, &options, error));
        for (int loop = 1; loop <= 4; loop++) {
            assert_ok(et_controller_train_to(controller, 5 * loop, true, error));
            assert_int_equal(counted.count, loop / 2);
        }
        assert_ok(et_controller_close(controller, error));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_periodic_action_test__periodic_execution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
