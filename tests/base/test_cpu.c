#include "base/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A plausible size of a second-level cache, and always the same, whatever the system reports. */
static void test_cpu__l2(void **state)
{
    (void)state;
    size_t first = et_cpu_l2();
    assert_in_range(first, 128 << 10, 64 << 20);
    for (int i = 0; i < 5; i++)
        assert_int_equal(et_cpu_l2(), first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu__l2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
