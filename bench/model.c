#include "model.h"

#include <stdio.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "bench.h"
#include "engine/graph/graph.h"
#include "engine/tensor/params.h"
#include "pairs.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"
#include "train/ranks/ranked.h"
#include "train/run/run.h"

#define PAIRS 29000 /* as Multi30k */
#define SEED  1

static void build(et_scope *scope, void *payload)
{
    const bench_model *model = payload;
    const et_translation_options *options = model->experiment.task;
    et_transformer transformer = et_translation_transformer(
        options, model->vocabulary, model->vocabulary, options->train_data.max_seq_length);
    et_node *h =
        et_transformer_train(scope, &transformer, BENCH_BUDGET, BENCH_BUDGET, BENCH_BUDGET / 4);
    et_node *labels = et_batch_input(scope, "target_labels");
    et_loss(scope, "loss",
            et_vocabulary_loss(h, et_transformer_table(scope, &transformer), labels,
                               (float)options->model.label_smoothing),
            1);
}

static void open_source(bench_model *model, int64_t length, et_error *error)
{
    const et_batches_options options = {
        .shuffle = true,
        .bucket = true,
        .repeat = true,
        .capacity = { BENCH_BUDGET / 4, BENCH_BUDGET, BENCH_BUDGET },
    };
    model->encoded = bench_pairs_new(PAIRS, model->vocabulary, length);
    bench_check(et_pair_batches_open(&model->source, model->encoded, &options, error), error);
}

static void open_pass(bench_model *model, et_error *error)
{
    const et_layout *layout = &model->source->layout;
    const et_pass_options options = { .training = true,
                                      .bfloat16 = model->act == ET_BF16,
                                      .recompute = (int)model->recompute };
    double since = 0;
    bench_lap(&since);
    bench_check(et_pass_open(&model->pass, model->device, model->params, layout, build, model,
                             &options, error),
                error);
    model->plan_seconds = bench_lap(&since);
    bench_check(et_params_materialize(model->params, model->act == ET_BF16, error), error);
    et_init_draw(model->params, SEED);
    bench_lap(&since);
    bench_check(et_pass_prepare(model->pass, layout, error), error);
    model->plan_seconds += bench_lap(&since);
    model->plan = et_pass_plan(model->pass);
}

static void open_step(bench_model *model, const bench_model_options *options, et_error *error)
{
    bench_check(et_optimizer_new(&model->optimizer, model->params, NULL, model->device->kernels,
                                 &model->experiment.trainer.optimizer_config, error),
                error);
    bench_check(et_metrics_new(&model->metrics, error), error);
    model->overflow = et_overflow_fail();
    et_reducer *reducer;
    const int shards = options->shards ? options->shards : 1;
    bench_check(options->comm ? et_ranked_open(&reducer, model->pass, shards, options->comm, error)
                              : et_tree_open(&reducer, model->pass, shards, error),
                error);
    const et_step_parts parts = { .source = model->source,
                                  .pass = model->pass,
                                  .optimizer = model->optimizer,
                                  .overflow = &model->overflow,
                                  .metrics = model->metrics,
                                  .prefix = "training_",
                                  .seed = SEED,
                                  .reducer = reducer };
    bench_check(et_step_open(&model->step, &parts, error), error);
}

static void configure(bench_model *model, const bench_model_options *options, et_error *error)
{
    et_experiment *experiment = &model->experiment;
    char name[64];
    snprintf(name, sizeof name, "translation/%s", options->name);
    bench_check(
        et_experiment_begin(experiment, &et_translation_program, name, &model->arena, error),
        error);
    int64_t *longest = &((et_translation_options *)experiment->task)->train_data.max_seq_length;
    if (options->length > *longest)
        *longest = options->length;
    for (int i = 0; i < options->setting_count; i++)
        bench_check(et_experiment_set(experiment, options->settings[i], &model->arena, error),
                    error);
}

void bench_model_open(bench_model *model, const bench_model_options *options)
{
    et_error error = ET_ERROR_INIT;
    *model = (bench_model){ .act = options->act,
                            .recompute = options->recompute,
                            .vocabulary = options->vocabulary };
    configure(model, options, &error);
    bench_check(et_device_open(&model->device, &error), &error);
    bench_check(et_params_new(&model->params, &error), &error);
    open_source(model, options->length, &error);
    open_pass(model, &error);
    open_step(model, options, &error);
}

void bench_model_close(bench_model *model)
{
    et_step_release(&model->step);
    et_metrics_free(model->metrics);
    et_optimizer_free(model->optimizer);
    et_pass_close(model->pass);
    et_source_close(model->source);
    bench_pairs_free(model->encoded);
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
