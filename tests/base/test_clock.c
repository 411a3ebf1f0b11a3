#include "base/clock.h"

#include <math.h>
#include <time.h>

#include "base/main.h"

static void test_clock__monotonic(void **state)
{
    (void)state;
    double before = et_clock_monotonic();
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    double passed = et_clock_monotonic() - before;
    assert_true(passed >= 0.002 && passed < 60);
}

/* One clock in two units. */
static void test_clock__nanoseconds(void **state)
{
    (void)state;
    double before = et_clock_monotonic();
    double between = (double)et_clock_nanoseconds() * 1e-9;
    double after = et_clock_monotonic();
    assert_true(between >= before - 1e-6 && between <= after + 1e-6);
}

static void test_clock__wall(void **state)
{
    (void)state;
    assert_true(fabs(et_clock_wall() - (double)time(NULL)) < 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock__monotonic),
        cmocka_unit_test(test_clock__nanoseconds),
        cmocka_unit_test(test_clock__wall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
