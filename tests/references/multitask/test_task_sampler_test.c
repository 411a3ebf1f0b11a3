/* Model Garden, official/modeling/multitask/task_sampler_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "references/multitask/tasks.h"

/* Cumulative probabilities of tasks of sizes 1, 2 and 3 in steps of so many rows. */
static void check(const et_multitask_options *options, const double (*expected)[2], int rows,
                  int steps)
{
    static const char *const names[] = { "A", "B", "C" };
    mock mocks[3];
    et_multitask_part parts[3];
    et_device *device;
    et_params *params;
    et_multitask *multitask;
    for (int i = 0; i < 3; i++) {
        mocks[i] = mock_foo();
        mocks[i].task.name = names[i];
        parts[i] = (et_multitask_part){ .task = &mocks[i].task, .size = i + 1 };
    }
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_multitask_open(&multitask, parts, 3, device, params, options, error));
    for (int step = 0; step < rows * steps; step++) {
        double sum = 0;
        for (int i = 0; i < 3; i++) {
            sum += et_multitask_probability(multitask, i, step);
            assert_float_equal(sum, i < 2 ? expected[step / steps][i] : 1, 1e-6);
        }
    }
    et_multitask_close(multitask);
    et_params_free(params);
    et_device_close(device);
}

static void test_task_sampler_test__uniform_sample_distribution(void **state)
{
    (void)state;
    static const double expected[][2] = { { 0.333333, 0.666666 } };
    check(&(et_multitask_options){ .order = ET_MULTITASK_UNIFORM }, expected, 1, 5);
}

static void test_task_sampler_test__proportional_sample_distribution(void **state)
{
    (void)state;
    static const double expected[][2] = { { 0.07142857, 0.35714286 } };
    check(&(et_multitask_options){ .order = ET_MULTITASK_PROPORTIONAL, .alpha = 2 }, expected, 1,
          5);
}

static void test_task_sampler_test__annealing_sample_distribution(void **state)
{
    (void)state;
    static const double expected[][2] = { { 0.12056106, 0.4387236 },
                                          { 0.16666667, 0.5 },
                                          { 0.22477472, 0.5654695 } };
    check(&(et_multitask_options){ .order = ET_MULTITASK_ANNEALING,
                                   .steps_per_epoch = 6,
                                   .total_steps = 18 },
          expected, 3, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_sampler_test__uniform_sample_distribution),
        cmocka_unit_test(test_task_sampler_test__proportional_sample_distribution),
        cmocka_unit_test(test_task_sampler_test__annealing_sample_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
