/* TFSnippet, tests/trainer/test_dynamic_values.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <etude/annealing.h>

#include "systems/tfsnippet/looped.h"

static double get(void *payload)
{
    return *(double *)payload;
}

static void test_dynamic_values__dynamic_value(void **state)
{
    (void)state;
    double x = 1;
    const et_dynamic v = { .get = get, .payload = &x };
    assert_true(v.get(v.payload) == 1);
    x = 123;
    assert_true(v.get(v.payload) == 123);
}

/* Values at the counters from 0 on, each read twice. */
static void expect(const et_annealing_scalar_options *options, const double *values, int count)
{
    looped l;
    et_annealing_scalar scalar;
    looped_init(&l);
    l.options.max_epoch = l.options.max_step = 100;
    looped_begin(&l);
    assert_ok(et_annealing_scalar_init(&scalar, l.loop, options, error));
    const et_dynamic dynamic = et_annealing_scalar_dynamic(&scalar);
    for (int i = 0; i < count; i++) {
        assert_true(et_annealing_scalar_get(&scalar) == values[i]);
        assert_true(dynamic.get(dynamic.payload) == values[i]);
        if (options->epochs || !i)
            assert_true(et_loop_next_epoch(l.loop));
        if (options->steps)
            assert_true(et_loop_next_step(l.loop, NULL));
    }
    et_loop_leave(l.loop);
    looped_end(&l);
    looped_free(&l);
}

static void test_dynamic_values__freq_1(void **state)
{
    (void)state;
    const et_annealing_scalar_options options = { .initial_value = 1, .ratio = .5, .epochs = 1 };
    expect(&options, (const double[]){ 1, 1, .5, .25 }, 4);
}

static void test_dynamic_values__freq_3(void **state)
{
    (void)state;
    const et_annealing_scalar_options options = { .initial_value = 1, .ratio = .5, .steps = 3 };
    expect(&options, (const double[]){ 1, 1, 1, 1, .5, .5, .5, .25 }, 8);
}

static void test_dynamic_values__min_value(void **state)
{
    (void)state;
    const double minimum = .1;
    const et_annealing_scalar_options options = {
        .initial_value = 1, .ratio = .5, .epochs = 1, .minimum = &minimum
    };
    expect(&options, (const double[]){ 1, 1, .5, .25, .125, .1 }, 6);
}

static void test_dynamic_values__max_value(void **state)
{
    (void)state;
    const double maximum = 3;
    const et_annealing_scalar_options options = {
        .initial_value = 1, .ratio = 1.5, .steps = 1, .maximum = &maximum
    };
    expect(&options, (const double[]){ 1, 1, 1.5, 2.25, 3 }, 5);
}

static void test_dynamic_values__errors(void **state)
{
    (void)state;
    static const double half = .5, one = 1, two = 2;
    static const struct {
        et_annealing_scalar_options options;
        const char *says;
    } cases[] = {
        { { .initial_value = 1, .ratio = .5, .minimum = &two }, "outside" },
        { { .initial_value = 1, .ratio = .5, .maximum = &half }, "outside" },
        { { .initial_value = 1, .ratio = .5, .minimum = &one, .maximum = &half },
          "minimum 1 is above maximum 0.5" },
        { { .initial_value = 1, .ratio = .5 }, "either epochs or steps" },
        { { .initial_value = 1, .ratio = .5, .epochs = 1, .steps = 1 }, "either epochs or steps" },
        { { .initial_value = 1, .ratio = .5, .epochs = -1 }, "every -1 epochs" },
        { { .initial_value = 1, .ratio = .5, .steps = -1 }, "every -1 steps" },
    };
    looped l;
    et_annealing_scalar scalar;
    looped_init(&l);
    looped_open(&l);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(et_annealing_scalar_init(&scalar, l.loop, &cases[i].options, error),
                     ET_ECONFIG, cases[i].says);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dynamic_values__dynamic_value),
        cmocka_unit_test(test_dynamic_values__freq_1),
        cmocka_unit_test(test_dynamic_values__freq_3),
        cmocka_unit_test(test_dynamic_values__min_value),
        cmocka_unit_test(test_dynamic_values__max_value),
        cmocka_unit_test(test_dynamic_values__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
