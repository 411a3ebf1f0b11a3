/* TFSnippet, tests/trainer/test_evaluator.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "numbers.h"

/* The mean of a batch, the values of two variables, the sizes of batches. */
typedef struct seen {
    et_params *params;
    int batches;
    int64_t rows[4];
    float first[4];
} seen;

static int mean_of_batch(void *payload, const et_batch *batch, double *values, et_error *error)
{
    seen *s = payload;
    const float *x = batch->data[0];
    (void)error;
    s->rows[s->batches] = batch->filled[0];
    s->first[s->batches++] = x[0];
    values[0] = 0;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        values[0] += (double)x[i] / (double)batch->filled[0];
    return ET_OK;
}

static int first_is_one(void *payload, const et_batch *batch, double *values, et_error *error)
{
    (void)payload, (void)error;
    values[0] = ((const float *)batch->data[0])[0] == 0;
    return ET_OK;
}

static double weigh(void *payload, const et_batch *batch)
{
    (void)batch;
    ++*(int *)payload;
    return 123;
}

static int twelve(void *payload, const et_batch *batch, double *values, et_error *error)
{
    (void)payload, (void)batch, (void)error;
    values[0] = 12;
    return ET_OK;
}

/* Here: there are no batches without arrays, whose weight is 1 in the reference. */
static void test_evaluator__auto_loss_weight(void **state)
{
    (void)state;
    looped l;
    et_loop_evaluator *evaluator;
    numbers_init(&l, NULL, 0);
    /* Batches of 7 and 5 numbers, of which the first has the value 1. */
    et_source *source = numbers_source(0, 12, 7);
    const et_loop_evaluator_options options = { .source = source, .run_batch = first_is_one };
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    assert_ok(et_loop_evaluator_open(&evaluator, l.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    assert_true(et_loop_evaluator_last(evaluator, NULL) == 7. / (7. + 5.));
    et_loop_evaluator_close(evaluator);
    et_loop_leave(l.loop);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

static void test_evaluator__props(void **state)
{
    (void)state;
    static const et_loop_measure named = { "valid_loss_x", NULL };
    static const struct {
        const et_loop_measure *metrics;
        const char *time, *metric, *printed;
    } cases[] = { { NULL, NULL, "valid_loss", "eval time: " },
                  { &named, "valid_time_x", "valid_loss_x", "valid time x: " } };
    for (int i = 0; i < 2; i++) {
        int weighed = 0;
        looped l;
        et_loop_evaluator *v;
        const et_loop_metric *metrics;
        numbers_init(&l, NULL, 0);
        et_source *source = numbers_source(0, 6, 4);
        const et_loop_evaluator_options options = { .source = source,
                                                    .run_batch = twelve,
                                                    .weight = i ? weigh : NULL,
                                                    .payload = &weighed,
                                                    .metrics = cases[i].metrics,
                                                    .metric_count = i,
                                                    .time_metric = cases[i].time };
        looped_begin(&l);
        assert_true(et_loop_next_epoch(l.loop));
        assert_ok(et_loop_evaluator_open(&v, l.loop, &options, error));
        assert_non_null(et_loop_evaluator_events(v));
        assert_ok(et_loop_evaluator_run(v, NULL, 0, error));
        assert_int_equal(et_loop_evaluator_last_metrics(v, &metrics), 1);
        assert_string_equal(metrics[0].name, cases[i].metric);
        assert_true(et_loop_evaluator_last(v, cases[i].metric) == 12);
        assert_int_equal(weighed, i ? 2 : 0);
        et_loop_print_logs(l.loop);
        assert_non_null(strstr(l.printed, cases[i].printed));
        et_loop_evaluator_close(v);
        et_loop_leave(l.loop);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

static void measures_vector(et_scope *s, void *payload)
{
    et_node *x = et_batch_input(s, "x");
    (void)payload;
    et_measure(s, "x", x, et_sum(et_batch_input(s, "mask")));
}

static void test_evaluator__error(void **state)
{
    (void)state;
    looped l;
    et_device *device;
    et_pass *pass;
    looped_init(&l);
    et_params *params;
    et_source *source = numbers_source(0, 6, 4);
    assert_ok(et_params_new(&params, error));
    assert_ok(et_device_open(&device, error));
    assert_fails(
        et_pass_open(&pass, device, params, &source->layout, measures_vector, NULL, NULL, error),
        ET_EGRAPH, "scalar");
    et_device_close(device);
    et_params_free(params);
    et_source_close(source);
    looped_free(&l);
}

static int with_variables(void *payload, const et_batch *batch, double *values, et_error *error)
{
    const seen *s = payload;
    assert_true(weight_of(s->params, "ph2") == (s->rows[3] ? 56 : 34));
    assert_true(weight_of(s->params, "ph3") == (s->rows[3] ? 0 : 56));
    return mean_of_batch(payload, batch, values, error);
}

static void test_evaluator__run(void **state)
{
    (void)state;
    static const char *const names[] = { "ph2", "ph3" };
    static const et_loop_measure named = { "valid_loss_x", NULL };
    const et_bound_value own = { .variable = "ph2", .value = { .constant = 34 } };
    for (int i = 0; i < 2; i++) {
        const et_bound_value more = { .variable = names[!i], .value = { .constant = 56 } };
        looped l;
        et_loop_evaluator *v;
        numbers_init(&l, names, 2);
        seen s = { .params = l.params, .rows = { 0, 0, 0, i } };
        et_source *source = numbers_source(0, 6, 4);
        const et_loop_evaluator_options options = { .source = source,
                                                    .run_batch = with_variables,
                                                    .payload = &s,
                                                    .metrics = &named,
                                                    .metric_count = i,
                                                    .equal_weights = i,
                                                    .time_metric = i ? "" : NULL,
                                                    .bound_values = &own,
                                                    .bound_value_count = 1 };
        looped_begin(&l);
        assert_true(et_loop_next_epoch(l.loop));
        assert_ok(et_loop_evaluator_open(&v, l.loop, &options, error));
        assert_ok(et_loop_evaluator_run(v, &more, 1, error));
        assert_true(et_loop_evaluator_last(v, i ? "valid_loss_x" : "valid_loss") == (i ? 3 : 2.5));
        et_loop_print_logs(l.loop);
        assert_non_null(strstr(l.printed, i ? "valid loss x: 3\n" : "valid loss: 2.5 (*)\n"));
        assert_int_equal(strstr(l.printed, "eval time") != NULL, !i);
        assert_int_equal(s.batches, 2);
        assert_true(s.first[0] == 0 && s.rows[0] == 4 && s.first[1] == 4 && s.rows[1] == 2);
        et_loop_evaluator_close(v);
        et_loop_leave(l.loop);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluator__auto_loss_weight),
        cmocka_unit_test(test_evaluator__props),
        cmocka_unit_test(test_evaluator__error),
        cmocka_unit_test(test_evaluator__run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
