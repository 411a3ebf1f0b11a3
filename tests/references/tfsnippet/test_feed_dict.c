/* TFSnippet, tests/trainer/test_feed_dict.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "numbers.h"

static double get(void *payload)
{
    return *(const double *)payload;
}

static double seventy_eight(void *payload)
{
    (void)payload;
    return 78;
}

static int look_at_copy(void *payload, const et_batch *batch, double *values, et_error *error)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    static const double resolved[] = { 12, 34, 56, 78 };
    (void)batch, (void)error;
    for (int i = 0; i < 4; i++)
        assert_true(weight_of(payload, names[i]) == resolved[i]);
    values[0] = 1;
    return ET_OK;
}

/* A number, a scheduled variable, a dynamic value and a function. The list is constant. */
static void test_feed_dict__copy(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "b", "c", "d", "scheduled" };
    double dynamic = 56;
    et_scheduled_variable scheduled;
    looped l;
    et_loop_evaluator *evaluator;
    numbers_init(&l, names, 5);
    assert_ok(et_scheduled_variable_init(&scheduled, l.params, "scheduled", 34, error));
    et_source *source = numbers_source(0, 6, 4);
    const et_bound_value d[] = {
        { .variable = "a", .value = { .constant = 12 } },
        { .variable = "b", .value = et_scheduled_variable_dynamic(&scheduled) },
        { .variable = "c", .value = { .get = get, .payload = &dynamic } },
        { .variable = "d", .value = { .get = seventy_eight } },
    };
    const et_loop_evaluator_options options = { .source = source,
                                                .run_batch = look_at_copy,
                                                .payload = l.params };
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    assert_ok(et_loop_evaluator_open(&evaluator, l.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, d, 4, error));
    assert_true(et_loop_evaluator_last(evaluator, NULL) == 1);
    et_loop_evaluator_close(evaluator);
    et_loop_leave(l.loop);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

static int look(void *payload, const et_batch *batch, double *values, et_error *error)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    static const double merged[] = { 10, 200, 300, 4 };
    (void)batch, (void)error;
    for (int i = 0; i < 4; i++)
        assert_true(weight_of(payload, names[i]) == merged[i]);
    values[0] = 1;
    return ET_OK;
}

/* Later values replace earlier ones: in the evaluator's own list, and those of a run. */
static void test_feed_dict__merge(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "b", "c", "d" };
    static const et_bound_value own[] = {
        { .variable = "a", .value = { .constant = 1 } },
        { .variable = "b", .value = { .constant = 2 } },
        { .variable = "c", .value = { .constant = 3 } },
        { .variable = "d", .value = { .constant = 4 } },
        { .variable = "a", .value = { .constant = 10 } },
        { .variable = "b", .value = { .constant = 20 } },
        { .variable = "c", .value = { .constant = 30 } },
    };
    static const et_bound_value more[] = { { .variable = "b", .value = { .constant = 200 } },
                                           { .variable = "c", .value = { .constant = 300 } } };
    looped l;
    et_loop_evaluator *evaluator;
    numbers_init(&l, names, 4);
    et_source *source = numbers_source(0, 6, 4);
    const et_loop_evaluator_options options = { .source = source,
                                                .run_batch = look,
                                                .payload = l.params,
                                                .bound_values = own,
                                                .bound_value_count = 7 };
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    assert_ok(et_loop_evaluator_open(&evaluator, l.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, more, 2, error));
    assert_true(et_loop_evaluator_last(evaluator, NULL) == 1);
    et_loop_evaluator_close(evaluator);
    et_loop_leave(l.loop);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed_dict__copy),
        cmocka_unit_test(test_feed_dict__merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
