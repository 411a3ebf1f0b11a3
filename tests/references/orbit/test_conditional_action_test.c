/* Orbit, orbit/actions/conditional_action_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <etude/ready_actions.h>

#include "calls.h"

static int holds_value(void *payload, const et_action_context *now, bool *holds, et_error *error)
{
    (void)payload;
    return et_value_read_bool(now->logs, "value", holds, error);
}

static int refuse(et_action *self, const et_action_context *now, et_error *error)
{
    (void)self, (void)now;
    return et_fail(error, ET_EFAIL, "the action was called");
}

static void test_conditional_action_test__conditional_action(void **state)
{
    static const et_action_class class = { .name = "refuse", .act = refuse };
    et_action action = { .class = &class };
    et_conditional conditional;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    const et_action_context now = { .logs = logs };
    (void)state;
    et_conditional_init(&conditional, "conditional", holds_value, NULL,
                        (et_action *const[]){ &action }, 1);
    et_value_set_bool(logs, "value", false);
    assert_ok(conditional.kind.act(&conditional.action, &now, error));
    et_value_set_bool(logs, "value", true);
    assert_fails(conditional.kind.act(&conditional.action, &now, error), ET_EFAIL, "was called");
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditional_action_test__conditional_action),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
