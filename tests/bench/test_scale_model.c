/* The model of many ranks, compared with sums computed by hand and with a simulation of
 * failures. */
#include "scale_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers/philox.h"

static const scale_network network = {
    .latency = 1e-3, .bandwidth = 1e6, .adds = 1e7, .overlaps = true, .crowd = 1
};

static scale_work work_of(double first, double second)
{
    return (scale_work){ .pass = 10,
                         .add = 1,
                         .rest = 2,
                         .buckets = 2,
                         .bytes = { 4e6, 8e6 },
                         .ready = { first, second } };
}

static void test_scale_model__bucket(void **state)
{
    (void)state;
    assert_float_equal(scale_bucket(&network, 4e6, 1, 4), 0, 0);
    /* Two ranks, a sum each: 2 messages, half of it out and half back, half added. */
    assert_float_equal(scale_bucket(&network, 4e6, 2, 2), 2e-3 + 4 + 0.2, 1e-9);
    assert_float_equal(scale_bucket(&network, 4e6, 2, 4), 2e-3 + 4 + 0.2, 1e-9);
    assert_float_equal(scale_bucket(&network, 4e6, 4, 4), 4e-3 + 6 + 0.3, 1e-9);
    assert_float_equal(scale_bucket(&network, 3e6, 3, 3), 4e-3 + 4 + 0.2, 1e-9);
    /* Five shards: 0-1 and 2-3, 4: the second has two sums. */
    assert_float_equal(scale_bucket(&network, 4e6, 2, 5), 2e-3 + 6 + 0.4, 1e-9);
}

static void test_scale_model__step(void **state)
{
    (void)state;
    double first = scale_bucket(&network, 4e6, 2, 2), second = scale_bucket(&network, 8e6, 2, 2);
    scale_work w = work_of(0.1, 1);
    scale_step one = scale_step_of(&w, &network, 1, 2), two = scale_step_of(&w, &network, 2, 2);
    assert_float_equal(one.seconds, 10 + 1 + 10 + 1 + 2, 1e-9);
    assert_float_equal(one.exposed, 0, 0);
    /* The first overlaps the pass, the second follows its end. */
    assert_float_equal(two.compute, 11, 1e-9);
    assert_float_equal(two.exchange, first + second, 1e-9);
    assert_float_equal(two.exposed, second - 1, 1e-9);
    assert_float_equal(two.seconds, 10 + second + 2 * 1e-3 + 2, 1e-9);
    /* The first is not gone when the second is ready. */
    w = work_of(0.9, 1);
    assert_float_equal(scale_step_of(&w, &network, 2, 2).exposed, 9 + first + second - 11, 1e-9);
    /* Without overlap; two ranks on each processor. */
    scale_network busy = network;
    busy.overlaps = false;
    assert_float_equal(scale_step_of(&w, &busy, 2, 2).exposed, first + second, 1e-9);
    busy.crowd = 2;
    assert_float_equal(scale_step_of(&w, &busy, 2, 2).compute, 22, 1e-9);
    /* The mean of the later of two normals is deviation / sqrt(pi). */
    w.deviation = 3;
    assert_float_equal(scale_step_of(&w, &network, 2, 2).compute - 11, 3 / sqrt(acos(-1)), 0.1);
}

/* Means of the largest of so many normals: Harter, Biometrika 48 (1961). */
static void test_scale_model__slowest(void **state)
{
    (void)state;
    assert_float_equal(scale_slowest(1), 0, 0);
    assert_float_equal(scale_slowest(10), 1.53875, 0.02);
    assert_float_equal(scale_slowest(100), 2.50759, 0.02);
    assert_true(scale_slowest(1024) > 3.1 && scale_slowest(1024) < 3.3);
}

/* Work with checkpoints and failures at random: the share that is work. */
static double simulate(double interval, double cost, double restart, double failures)
{
    et_random random = { 1, 0, et_random_site("failures") };
    double clock = 0, work = 0;
    uint64_t drawn = 0;
    double next = -failures * log(1 - et_random_uniform(random, drawn++));
    while (drawn < 20000) {
        if (clock + interval + cost <= next) {
            clock += interval + cost;
            work += interval;
            continue;
        }
        do { /* a restart may fail, too */
            clock = next;
            next += -failures * log(1 - et_random_uniform(random, drawn++));
        } while (next < clock + restart);
        clock += restart;
    }
    return work / clock;
}

static void test_scale_model__failures(void **state)
{
    const double cost = 30, restart = 100, failures = 7200;
    double best = scale_daly(cost, failures);
    (void)state;
    assert_float_equal(scale_young(50, 10000), 1000, 1e-9);
    assert_float_equal(scale_daly(50, 10000), 1000 * (1 + 0.05 / 3 + 0.0025 / 9) - 50, 1e-9);
    assert_float_equal(scale_daly(20, 10), 10, 0);
    for (double interval = best / 4; interval < 5 * best; interval *= 2) {
        double useful = scale_useful(interval, cost, restart, failures);
        assert_float_equal(useful, simulate(interval, cost, restart, failures), 0.01);
        assert_true(useful <= scale_useful(best, cost, restart, failures));
    }
    assert_true(scale_useful(best * 1.1, cost, restart, failures) <
                scale_useful(best, cost, restart, failures));
    assert_true(scale_useful(best * 0.9, cost, restart, failures) <
                scale_useful(best, cost, restart, failures));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale_model__bucket),
        cmocka_unit_test(test_scale_model__step),
        cmocka_unit_test(test_scale_model__slowest),
        cmocka_unit_test(test_scale_model__failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
