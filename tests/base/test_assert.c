#include "base/assert.h"

#include <stdlib.h>

#include "base/main.h"

#include "base/aborts.h"

static void fail_condition(void *payload)
{
    (void)payload;
    et_assert_failed("plan.c", 12, "count > 0");
}

static void fail_values(void *payload)
{
    (void)payload;
    et_assert_failed_values("plan.c", 13, "left == right", -1, 4);
}

static void hold(void *payload)
{
    (void)payload;
    int evaluated = 0;
    et_assert(++evaluated >= 0);
    et_assert_equal(evaluated, evaluated);
#ifdef NDEBUG
    _exit(evaluated != 0); /* not even evaluated */
#endif
}

static void test_assert__messages(void **state)
{
    (void)state;
    char text[4096];
    assert_true(aborts(fail_condition, NULL, text, sizeof text));
    assert_contains(text, "plan.c:12: assertion failed: count > 0\n");
    assert_true(aborts(fail_values, NULL, text, sizeof text));
    assert_contains(text, "plan.c:13: assertion failed: left == right (-1, 4)\n");
    assert_false(aborts(hold, NULL, text, sizeof text));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_assert__messages) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
