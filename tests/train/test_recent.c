/* The mean that the progress bar shows. */
#include "train/run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* From the first value on it is a mean of the values so far; the first one has no special weight.
 */
static void test_recent__mean(void **state)
{
    (void)state;
    static const struct {
        double values[4];
        int count;
        double mean;
    } cases[] = {
        { { 7.25 }, 1, 7.25 },
        { { 7, 5 }, 2, (5 + 0.98 * 7) / 1.98 },
        { { 9, 6, 6, 6 }, 4, 6 + 3 * 0.98 * 0.98 * 0.98 / (1 + 0.98 + 0.9604 + 0.941192) },
        { { -1, 1 }, 2, 0.02 / 1.98 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_recent recent = { 0, 0 };
        for (int k = 0; k < cases[i].count; k++)
            et_recent_add(&recent, cases[i].values[k]);
        assert_true(fabs(et_recent_mean(recent) - cases[i].mean) < 1e-12);
    }
    assert_true(isnan(et_recent_mean((et_recent){ 0, 0 })));
}

/* Old values fade. */
static void test_recent__fades(void **state)
{
    (void)state;
    et_recent recent = { 0, 0 };
    for (int i = 0; i < 10; i++)
        et_recent_add(&recent, 1000);
    for (int i = 0; i < 500; i++)
        et_recent_add(&recent, 2);
    assert_true(fabs(et_recent_mean(recent) - 2) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recent__mean),
        cmocka_unit_test(test_recent__fades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
