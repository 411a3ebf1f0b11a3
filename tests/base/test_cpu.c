#include "base/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Whatever the system tells: a size that a second-level cache may have, and always the same. */
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
