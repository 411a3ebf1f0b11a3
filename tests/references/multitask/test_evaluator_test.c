/* Model Garden, official/modeling/multitask/evaluator_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "references/multitask/tasks.h"

static bool is_bar(const et_task *self)
{
    return !strcmp(et_task_name(self), "bar");
}

/* Zeros; bar has them in a second field too. */
static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    enum { ROWS = 10 };
    static const float x[ROWS][2];
    static const int32_t labels[ROWS];
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_scalar() },
                                { "y", ET_F32, x, et_shape_1(2) } };
    const et_batches_options two = { .repeat = training, .capacity = { 2 } };
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, is_bar(self) ? 3 : 2, ROWS, error);
    return status ? status : et_batches_open(out, samples, &two, error);
}

/* A loss of 0 where the second field is, else of 1. */
static void model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                  et_nodes *aux_losses)
{
    (void)training;
    et_node *x = et_batch_input(s, "x");
    et_node *zero = et_scale(et_sum(is_bar(self) ? et_batch_input(s, "y") : x), 0);
    et_node *y = et_dense(et_in(s, "dense"), x, 1);
    et_output(s, "outputs", y);
    et_nodes_put(outputs, "y", y);
    et_nodes_put(aux_losses, "aux", is_bar(self) ? zero : et_offset(zero, 1));
}

static int metrics(et_task *self, bool training, et_metrics *set, et_error *error)
{
    (void)self, (void)training;
    return et_metrics_define(set, "acc", &et_metric_accuracy, error);
}

static int validation_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    int status = et_task_defaults.validation_step(self, now, logs, error);
    return status || et_value_set_float(logs, "counter", 1) ? status
                                                            : et_fail(error, ET_ENOMEM, "logs");
}

static int aggregate(et_task *self, et_value *state, const et_value *outputs, et_error *error)
{
    double sum = 0, one = 0;
    (void)self;
    int status =
        et_value_get(state, "counter") ? et_value_read_float(state, "counter", &sum, error) : ET_OK;
    if (!status)
        status = et_value_read_float(outputs, "counter", &one, error);
    et_value_set_float(state, "counter", sum + one);
    return status;
}

static int reduce(et_task *self, const et_value *state, int64_t step, et_value *results,
                  et_error *error)
{
    double sum;
    (void)self, (void)step;
    int status = et_value_read_float(state, "counter", &sum, error);
    et_value_set_float(results, "counter", sum);
    return status;
}

static const et_task_class class = { .name = "mock",
                                     .data = data,
                                     .build_model = model,
                                     .build_metrics = metrics,
                                     .validation_step = validation_step,
                                     .aggregate_logs = aggregate,
                                     .reduce_aggregated_logs = reduce };

static void evaluate(tasks *t, int64_t steps)
{
    tasks_init(t, ET_MULTITASK_JOINT);
    t->foo.task.ET_CLASS = t->bar.task.ET_CLASS = &class;
    t->trainer.use = ET_EVALUATE_ONLY;
    tasks_open(t);
    assert_ok(
        et_evaluate(et_multitask_evaluator(t->multitask), 0, steps, NULL, NULL, t->results, error));
}

static void test_evaluator_test__multitask_evaluator(void **state)
{
    (void)state;
    tasks t;
    evaluate(&t, 1);
    assert_float_equal(number_at(t.results, "bar.validation_loss"), 0, 0);
    assert_float_equal(number_at(t.results, "foo.validation_loss"), 1, 0);
    assert_true(isfinite(number_at(t.results, "bar.acc")));
    assert_true(isfinite(number_at(t.results, "foo.acc")));
    tasks_close(&t);
}

static void test_evaluator_test__multitask_evaluator_numpy_metrics(void **state)
{
    (void)state;
    tasks t;
    evaluate(&t, 5);
    assert_float_equal(number_at(t.results, "bar.counter"), 5, 0);
    assert_float_equal(number_at(t.results, "foo.counter"), 5, 0);
    tasks_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluator_test__multitask_evaluator),
        cmocka_unit_test(test_evaluator_test__multitask_evaluator_numpy_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
