#include "model.h"

#include <stdio.h>

#include <etude/nn.h>

#include "base/arena.h"
#include "bench.h"
#include "pairs.h"
#include "train/run.h"

#define PAIRS 29000 /* as Multi30k */
#define SEED  1

static int next(et_task *self, et_plan *plan, et_error *error)
{
    bench_model *model = (bench_model *)(void *)self;
    (void)plan;
    return et_source_next(model->source, model->batch, error);
}

static void describe_batch(const et_task *self, et_strbuf *out)
{
    (void)self;
    et_strbuf_printf(out, "made pairs");
}

static const et_task_class made_class = {
    .name = "made pairs",
    .next = next,
    .describe_batch = describe_batch,
};

static et_node *add_loss(bench_model *model, et_scope *scope)
{
    const et_translation_options *options = &model->experiment.task;
    et_transformer transformer =
        et_translation_transformer(options, model->vocabulary, options->train_data.max_seq_length);
    et_node *h = et_transformer_train(scope, &transformer, BENCH_BUDGET, BENCH_BUDGET,
                                      BENCH_BUDGET / 4);
    et_node *labels = et_input(scope, "target_labels", ET_I32, et_shape_1(BENCH_BUDGET));
    return et_vocabulary_loss(h, et_transformer_table(scope, &transformer), labels,
                              (float)options->model.label_smoothing);
}

/* Parameters are made with the first graph. */
static void plan_with(bench_model *model, et_recompute recompute, et_error *error)
{
    et_graph_options options = { .training = true, .act = model->act, .recompute = recompute };
    double since = 0;
    bench_lap(&since);
    bench_check(et_graph_new(&model->graph, model->params, &options, error), error);
    et_node *loss = add_loss(model, et_graph_scope(model->graph));
    bench_check(et_graph_finish(model->graph, error), error);
    bench_check(et_graph_differentiate(model->graph, loss, error), error);
    model->plan_seconds = bench_lap(&since);
    if (!et_params_ready(model->params)) {
        bench_check(et_params_materialize(model->params, model->act == ET_BF16, error), error);
        et_init_draw(model->params, SEED);
    }
    bench_lap(&since);
    et_plan_options plan = ET_PLAN_OPTIONS_INIT;
    plan.keep_packed = false;
    bench_check(et_plan_new(&model->plan, model->graph, model->device, &loss, 1, &plan, error),
                error);
    model->plan_seconds += bench_lap(&since);
}

/* As the trainer does it. */
static void make_plan(bench_model *model, et_error *error)
{
    bool automatic = model->recompute == ET_RECOMPUTE_AUTO;
    plan_with(model, automatic ? ET_RECOMPUTE_CHEAP : (et_recompute)model->recompute, error);
    et_recompute chosen = et_run_recompute(et_plan_memory_needed(model->plan).activations);
    if (!automatic || chosen == ET_RECOMPUTE_CHEAP)
        return;
    et_plan_free(model->plan);
    et_graph_free(model->graph);
    plan_with(model, chosen, error);
}

static void make_batches(bench_model *model, int64_t length, et_error *error)
{
    const et_batches_options options = {
        .shuffle = true,
        .bucket = true,
        .repeat = true,
        .capacity = { BENCH_BUDGET / 4, BENCH_BUDGET, BENCH_BUDGET },
    };
    model->encoded = bench_pairs_new(PAIRS, model->vocabulary, length);
    bench_check(et_pair_batches_open(&model->source, model->encoded, &options, error), error);
    bench_check(et_batch_new(&model->batch, &model->source->layout, error), error);
    et_plan_bind_batch(model->plan, model->batch);
}

static void configure(bench_model *model, const bench_model_options *options, et_error *error)
{
    et_experiment *experiment = &model->experiment;
    char name[64];
    snprintf(name, sizeof name, "translation/%s", options->name);
    bench_check(et_experiment_begin(experiment, name, error), error);
    int64_t *longest = &experiment->task.train_data.max_seq_length;
    if (options->length > *longest)
        *longest = options->length;
    for (int i = 0; i < options->setting_count; i++)
        bench_check(et_experiment_set(experiment, options->settings[i], &model->arena, error),
                    error);
}

void bench_model_open(bench_model *model, const bench_model_options *options)
{
    et_error error = ET_ERROR_INIT;
    *model = (bench_model){ .task = { &made_class },
                            .act = options->act,
                            .recompute = options->recompute,
                            .vocabulary = options->vocabulary };
    configure(model, options, &error);
    bench_check(et_device_open(&model->device, &error), &error);
    bench_check(et_params_new(&model->params, &error), &error);
    make_plan(model, &error);
    make_batches(model, options->length, &error);
    const et_kernels *kernels = model->device->kernels;
    bench_check(et_optimizer_new(&model->optimizer, model->params, NULL, kernels,
                                 &model->experiment.trainer.optimizer_config, &error),
                &error);
    bench_check(et_metrics_new(&model->metrics, &error), &error);
    bench_check(et_step_define_metrics(&model->step, model->metrics, &error), &error);
    bench_check(et_accumulator_init(&model->step.accumulator, model->params, kernels, 1, &error),
                &error);
    model->step.task = &model->task;
    model->step.plan = model->plan;
    model->step.optimizer = model->optimizer;
    model->step.seed = SEED;
}

void bench_model_close(bench_model *model)
{
    et_accumulator_release(&model->step.accumulator);
    et_metrics_free(model->metrics);
    et_optimizer_free(model->optimizer);
    et_source_close(model->source);
    et_batch_free(model->batch);
    bench_pairs_free(model->encoded);
    et_plan_free(model->plan);
    et_graph_free(model->graph);
    et_params_free(model->params);
    et_device_close(model->device);
    et_arena_release(&model->arena);
}

size_t bench_model_planned(const bench_model *model)
{
    et_plan_memory memory = et_plan_memory_needed(model->plan);
    size_t flat = (size_t)et_params_flat_size(model->params) * sizeof(float);
    size_t trained = (size_t)et_params_trained_size(model->params) * sizeof(float);
    size_t arrays = flat + trained + et_optimizer_bytes(model->optimizer);
    size_t shadow = model->act == ET_BF16 ? flat / 2 : 0;
    return arrays + shadow + memory.activations + memory.packed + memory.constants;
}

void bench_model_step(bench_model *model)
{
    et_error error = ET_ERROR_INIT;
    bench_check(et_step_run(&model->step, &error), &error);
}
