/* Model Garden's MockTask (official/utils/testing/mock_task.py) as facts: rows of two zeros with
 * the label 0, batches of two without end; one dense unit whose bias is 1; the mean of the outputs
 * is an auxiliary loss, and the only one; the metric "acc" compares outputs with labels; a
 * validation step also logs "counter", 1; sums of all logged values are the results of an
 * evaluation. Include after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_CORE_MOCK_H
#define ETUDE_TESTS_REFERENCES_CORE_MOCK_H

#include <etude/modelgarden.h>
#include <etude/outer_loop.h>

#include "calls.h"
#include "formats/files.h"

static inline int mock_data(et_task *self, bool training, et_source **out, et_error *error)
{
    static const float x[2][2];
    static const int32_t labels[2];
    const et_array arrays[] = { { "random", ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_1(1) } };
    const et_batches_options options = { .repeat = true, .capacity = { 2 } };
    et_samples *samples;
    (void)self, (void)training;
    int status = et_arrays_open(&samples, arrays, 2, 2, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}

static inline void mock_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                              et_nodes *aux_losses)
{
    et_scope *dense = et_in(s, "dense_0");
    et_node *weight = et_param(dense, "weight", et_shape_2(2, 1), et_init_glorot_uniform(2, 1));
    et_node *bias = et_param(dense, "bias", et_shape_1(1), (et_init){ ET_INIT_ONES, 0 });
    et_node *y = et_matmul(et_batch_input(s, "random"), weight, bias, NULL);
    (void)self, (void)training;
    et_output(s, "outputs", y);
    et_nodes_put(outputs, "outputs", y);
    et_nodes_put(aux_losses, "loss", et_scale(et_sum(y), 0.5f));
}

static inline int mock_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "acc", &et_metric_accuracy, error);
}

static inline int mock_validation_step(et_task *self, const et_task_step *now, et_value *logs,
                                       et_error *error)
{
    int status = et_task_defaults.validation_step(self, now, logs, error);
    if (!status && logs && !et_value_set_float(logs, "counter", 1))
        status = et_fail(error, ET_ENOMEM, "logs");
    return status;
}

static inline int mock_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                                 et_error *error)
{
    (void)self;
    for (const et_value *one = step_outputs->first; one; one = one->next) {
        double before = 0, value;
        int status = et_value_read_float(step_outputs, one->key, &value, error);
        if (!status && et_value_get(state, one->key))
            status = et_value_read_float(state, one->key, &before, error);
        if (status)
            return status;
        if (!et_value_set_float(state, one->key, before + value))
            return et_fail(error, ET_ENOMEM, "a sum");
    }
    return ET_OK;
}

static inline int mock_reduce(et_task *self, const et_value *aggregated_logs, int64_t global_step,
                              et_value *results, et_error *error)
{
    (void)global_step;
    return mock_aggregate(self, results, aggregated_logs, error);
}

static const et_task_class mock_class = { .name = "mock",
                                          .data = mock_data,
                                          .build_model = mock_model,
                                          .build_metrics = mock_metrics,
                                          .validation_step = mock_validation_step,
                                          .aggregate_logs = mock_aggregate,
                                          .reduce_aggregated_logs = mock_reduce };

/* ---- the experiment "mock" ---- */

typedef struct mock_options {
    const char *init_checkpoint;
} mock_options;

static const et_field mock_rows[] = {
    ET_FIELD_STRING(mock_options, init_checkpoint, "", "weights to begin with"), ET_FIELD_END
};
static const et_fields mock_fields = { "task", mock_rows };

static const et_task_class *mock_opens = &mock_class; /* tests may change it */

static inline int mock_open(et_task **out, const void *options, const et_task_context *context,
                            et_error *error)
{
    (void)options, (void)context;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return et_fail(error, ET_ENOMEM, "a task");
    (*out)->class = mock_opens;
    return ET_OK;
}

static inline void mock_close(et_task *task)
{
    free(task);
}

static const et_experiment_row mock_experiments[] = { { "mock", "the mock task", NULL },
                                                      { NULL, NULL, NULL } };
static const et_task_kind mock_kind = { .name = "mock",
                                        .fields = &mock_fields,
                                        .size = sizeof(mock_options),
                                        .experiments = mock_experiments,
                                        .open = mock_open,
                                        .close = mock_close };

/* ---- OrbitExperimentRunner: a run with settings ---- */

typedef struct runner {
    const char *mode;
    et_task_context context;
    et_task *task;
    et_task_trainer *trainer;
    et_outer_loop_options outer;
    et_controller_options config; /* of the settings */
    et_controller *controller;
} runner;

static inline void runner_open(runner *r, const char *settings, const char *mode,
                               const char *model_dir)
{
    const bool trains = strstr(mode, "train");
    *r = (runner){ .mode = mode, .context.model_dir = model_dir };
    assert_ok(et_device_open(&r->context.device, error));
    assert_ok(et_params_new(&r->context.params, error));
    assert_ok(et_task_open(&r->task, &mock_kind, "mock", settings, &r->context, error));
    et_task_trainer_options options = *et_task_trainer_config(r->task);
    options.use = trains ? ET_TRAIN_AND_EVALUATE : ET_EVALUATE_ONLY;
    assert_ok(et_task_trainer_open(&r->trainer, r->task, r->context.device, r->context.params,
                                   &options, error));
    assert_ok(et_task_controller_config(r->task, r->trainer, &r->config, error));
    et_controller_options calls = r->config;
    calls.outer_loop = &r->outer;
    calls.validation_interval = calls.validation_steps = 0;
    if (!strcmp(mode, "continuous_eval")) {
        calls.trainer = NULL;
        r->outer.weights = r->context.params;
    }
    assert_ok(et_controller_open(&r->controller, &calls, error));
}

static inline void runner_close(runner *r)
{
    et_controller_close(r->controller, NULL);
    et_task_trainer_close(r->trainer);
    et_task_close(r->task);
    et_params_free(r->context.params);
    et_device_close(r->context.device);
}

#endif
