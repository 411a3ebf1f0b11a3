#include "base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/main.h"

/* Runs fn in a child; its standard error goes to text. Returns whether it aborted. */
static int aborts(void (*fn)(void), char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void fail_condition(void)
{
    et_assert_failed("plan.c", 12, "count > 0");
}

static void fail_values(void)
{
    et_assert_failed_values("plan.c", 13, "left == right", -1, 4);
}

static void hold(void)
{
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
    assert_true(aborts(fail_condition, text, sizeof text));
    assert_contains(text, "plan.c:12: assertion failed: count > 0\n");
    assert_true(aborts(fail_values, text, sizeof text));
    assert_contains(text, "plan.c:13: assertion failed: left == right (-1, 4)\n");
    assert_false(aborts(hold, text, sizeof text));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_assert__messages) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
