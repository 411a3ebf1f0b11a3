/* A small task with known values, with default methods or with every method overridden, and its
 * trainer. Like Model Garden's own mock task, it logs a loss of its own and counts. Include after
 * cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_MOCK_TASK_H
#define ETUDE_TESTS_TRAIN_MOCK_TASK_H

#include <math.h>
#include <string.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "formats/files.h"
#include "train/toy_run.h"

enum { SAMPLES = 12, CLASSES = 3, ROWS = 4 };

static char words[4096];

static inline void say(const char *word)
{
    if (strlen(words) + strlen(word) + 2 < sizeof words) {
        strcat(words, *words ? " " : "");
        strcat(words, word);
    }
}

static float x[SAMPLES * 2];
static int32_t labels[SAMPLES];

static inline int mock_data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    (void)self;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % CLASSES;
        x[2 * i] = (float)(labels[i] - 1) + (float)i / 100;
        x[2 * i + 1] = (float)(i % 5) / 5;
    }
    return toy_source(out, arrays, 2, SAMPLES, ROWS, training, error);
}

static inline void mock_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                              et_nodes *aux_losses)
{
    (void)self, (void)training;
    et_node *logits = et_dense(et_in(s, "logits"), et_batch_input(s, "x"), CLASSES);
    et_node *weight = et_param(s, "penalised", et_shape_scalar(), (et_init){ ET_INIT_ONES, 0 });
    et_output(s, "outputs", logits);
    et_nodes_put(outputs, "logits", logits);
    et_nodes_put(aux_losses, "penalty", et_mul(weight, weight));
}

static inline void mock_losses(et_task *self, et_scope *s, const et_nodes *own,
                               const et_nodes *outputs, const et_nodes *aux_losses)
{
    assert_null(et_nodes_get(outputs, "no such"));
    et_loss(s, "loss",
            et_softmax_loss(et_nodes_get(outputs, "logits"), et_batch_input(s, "labels"), 0), 1);
    et_task_defaults.build_losses(self, s, own, outputs, aux_losses);
}

/* ---- a bench for them ---- */

typedef struct bench {
    toy_run r;
    et_optimizer_setup optimizer;
    et_arena arena;
    et_value *logs;
    et_evaluator *evaluator;
    et_trainer *trainer;
} bench;

static inline void bench_init(bench *b, const et_task_class *class)
{
    *b = (bench){ .optimizer = { .rule = "sgd", .learning_rate = 0.5 } };
    toy_run_init(&b->r, class);
    b->r.trainer_options.optimizer = &b->optimizer;
    b->r.trainer_options.batches = 1;
    b->r.trainer_options.seed = 3;
    b->logs = et_value_dict(&b->arena);
    words[0] = 0;
}

static inline int bench_open(bench *b, et_error *error)
{
    int status = toy_run_start_trainer(&b->r, error);
    if (!status)
        status = et_task_trainer_initialize(b->r.trainer, error);
    b->trainer = status ? NULL : et_task_trainer_trainer(b->r.trainer);
    b->evaluator = status ? NULL : et_task_trainer_evaluator(b->r.trainer);
    return status;
}

static inline void bench_close(bench *b)
{
    toy_run_close(&b->r);
    et_arena_release(&b->arena);
}

static inline double logged(const bench *b, const char *name)
{
    double value = NAN;
    if (et_value_read_float(b->logs, name, &value, NULL))
        fail_msg("no %s", name);
    return value;
}

static inline int mock_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self;
    return et_metrics_define(metrics, training ? "hits" : "validation_hits", &et_metric_accuracy,
                             error);
}

static const et_task_class plain_class = { .name = "plain",
                                           .data = mock_data,
                                           .build_model = mock_model,
                                           .build_losses = mock_losses,
                                           .build_metrics = mock_metrics };

/* ---- everything overridden ---- */

static inline double sum_of_labels(const et_batch *batch)
{
    double sum = 0;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        sum += ((const int32_t *)batch->data[1])[i];
    return sum;
}

static inline void own_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                             et_nodes *aux_losses)
{
    say(training ? "build_model" : "build_model(validation)");
    mock_model(self, s, training, outputs, aux_losses);
}

static inline void own_losses(et_task *self, et_scope *s, const et_nodes *own,
                              const et_nodes *outputs, const et_nodes *aux_losses)
{
    say("build_losses");
    mock_losses(self, s, own, outputs, aux_losses);
}

static inline int own_data(et_task *self, bool training, et_source **out, et_error *error)
{
    say(training ? "data" : "data(validation)");
    return mock_data(self, training, out, error);
}

static inline int own_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    say("build_metrics");
    return et_metrics_define(metrics, "labels", &et_metric_sum, error);
}

static inline int own_optimizer(et_task *self, const et_optimizer_request *request,
                                et_optimizer **out, et_error *error)
{
    say("create_optimizer");
    assert_float_equal(request->setup->learning_rate, 0.5, 0);
    return et_task_defaults.create_optimizer(self, request, out, error);
}

static inline int own_initialize(et_task *self, et_params *params, et_error *error)
{
    (void)self, (void)error;
    say("initialize");
    int index = et_params_find(params, "penalised");
    et_params_begin_change(params);
    et_params_values(params)[et_params_offset(params, index)] = 7;
    et_params_changed(params, true);
    return ET_OK;
}

static inline int own_process(et_task *self, const et_task_step *now, et_error *error)
{
    (void)self, (void)error;
    say("metrics");
    et_metrics_add(now->metrics, "labels", sum_of_labels(now->inputs), 1);
    return ET_OK;
}

static inline int own_compiled(et_task *self, const et_task_step *now, et_error *error)
{
    say("compiled");
    return et_task_defaults.process_compiled_metrics(self, now, error);
}

/* As Model Garden's mock: a loss that is known. */
static inline int own_train_step(et_task *self, const et_task_step *now, et_value *logs,
                                 et_error *error)
{
    say("train_step");
    int status = et_pass_run(now->model, now->inputs, now->seed, now->number, error);
    if (!status)
        status = et_optimizer_update(now->optimizer, now->model, NULL, error);
    if (!status)
        status = et_task_process_metrics(self, now, error);
    if (!status)
        status = et_task_process_compiled_metrics(self, now, error);
    et_value_set_float(logs, "own loss", (double)now->step + 1);
    return status;
}

static inline int own_validation_step(et_task *self, const et_task_step *now, et_value *logs,
                                      et_error *error)
{
    say("validation_step");
    assert_null(now->optimizer);
    int status = et_task_inference_step(self, now, NULL, error);
    if (!status)
        status = et_task_process_metrics(self, now, error);
    et_value_set_float(logs, "counter", 1);
    et_value_set_float(logs, "own loss", 10);
    return status;
}

static inline int own_inference(et_task *self, const et_task_step *now, et_value *outputs,
                                et_error *error)
{
    say("inference_step");
    return et_task_defaults.inference_step(self, now, outputs, error);
}

static inline int own_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                                et_error *error)
{
    double before = 0, one;
    (void)self;
    say("aggregate");
    if (et_value_get(state, "counter") && et_value_read_float(state, "counter", &before, error))
        return ET_EFORMAT;
    int status = et_value_read_float(step_outputs, "counter", &one, error);
    et_value_set_float(state, "counter", before + one);
    return status;
}

static inline int own_reduce(et_task *self, const et_value *aggregated_logs, int64_t global_step,
                             et_value *results, et_error *error)
{
    double counter;
    (void)self;
    say("reduce");
    int status = et_value_read_float(aggregated_logs, "counter", &counter, error);
    et_value_set_float(results, "counter", counter);
    et_value_set_int(results, "at", global_step);
    return status;
}

static const et_task_class own_class = {
    .name = "own",
    .data = own_data,
    .loss = "own loss",
    .build_model = own_model,
    .build_losses = own_losses,
    .build_metrics = own_metrics,
    .create_optimizer = own_optimizer,
    .initialize = own_initialize,
    .process_metrics = own_process,
    .process_compiled_metrics = own_compiled,
    .train_step = own_train_step,
    .validation_step = own_validation_step,
    .inference_step = own_inference,
    .aggregate_logs = own_aggregate,
    .reduce_aggregated_logs = own_reduce,
};

#endif
