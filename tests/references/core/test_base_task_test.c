/* Model Garden, official/core/base_task_test.py, with the mock task of mock.h and SGD with the
 * learning rate 0.001. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/modelgarden.h>

#include "references/core/mock.h"

static void build(et_scope *scope, void *task)
{
    et_nodes outputs = { 0 }, aux_losses = { 0 };
    et_task_build_model(task, scope, true, &outputs, &aux_losses);
    et_task_build_losses(task, scope, NULL, &outputs, &aux_losses);
}

static double number(const et_value *dict, const char *name)
{
    double value = NAN;
    assert_ok(et_value_read_float(dict, name, &value, error));
    assert_false(isnan(value));
    return value;
}

/* Two steps with the task's train_step, and its metrics, are an epoch of the reference's fit. Then
 * two batches with its validation_step. The bias falls from 1 by 0.001 a step. */
static void test_base_task_test__task_with_step_override(void **state)
{
    (void)state;
    et_task task = { .class = &mock_class };
    const et_sgd sgd = { 0 };
    const et_optimizer_setup setup = { .sgd = &sgd, .learning_rate = 1e-3 };
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    et_device *device;
    et_params *params;
    et_source *source;
    et_pass *pass;
    et_optimizer *optimizer;
    et_batch *batch;
    et_metrics *metrics[2]; /* of validation, of training */
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_task_build_inputs(&task, NULL, NULL, &source, error));
    assert_ok(et_pass_open(&pass, device, params, &source->layout, build, &task,
                           &(et_pass_options){ .training = true }, error));
    assert_ok(et_params_materialize(params, false, error));
    et_init_draw(params, 1);
    assert_ok(et_optimizer_open(&optimizer, device, params, NULL, &setup, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (int training = 0; training < 2; training++) {
        assert_ok(et_metrics_new(&metrics[training], error));
        assert_ok(et_task_build_metrics(&task, training, metrics[training], error));
    }
    for (int step = 0; step < 2; step++) {
        const et_task_step now = { .inputs = batch,
                                   .model = pass,
                                   .optimizer = optimizer,
                                   .metrics = metrics[1],
                                   .step = step };
        assert_ok(et_source_next(source, batch, error));
        assert_ok(et_task_train_step(&task, &now, logs, error));
        assert_float_equal(number(logs, "loss"), 1 - 1e-3 * step, 1e-6);
    }
    for (int step = 0; step < 2; step++) {
        const et_task_step now = { .inputs = batch, .model = pass, .metrics = metrics[0] };
        assert_ok(et_source_next(source, batch, error));
        assert_ok(et_task_validation_step(&task, &now, logs, error));
        assert_float_equal(number(logs, "loss"), 0.998, 1e-6);
        assert_float_equal(number(logs, "counter"), 1, 0);
    }
    for (int training = 0; training < 2; training++) {
        assert_true(et_metrics_value(metrics[training], "acc") == 0);
        et_metrics_free(metrics[training]);
    }
    et_batch_free(batch);
    et_optimizer_free(optimizer);
    et_pass_close(pass);
    et_source_close(source);
    et_params_free(params);
    et_device_close(device);
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_task_test__task_with_step_override),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
