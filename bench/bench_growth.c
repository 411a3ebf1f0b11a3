/* Measures how memory and the time of planning grow with a model. Models are planned and not run,
 * so other programs only change the times.
 *
 *     bench_growth [length] [vocabulary] [depth]        without words: all three
 *
 * length: a training step of the tiny model with one sentence of N tokens on each side. Memory per
 * token is constant, because attention never writes its N x N scores. vocabulary: the loss over
 * 4,096 rows of width 128. Its memory besides the table and its gradient is bounded, because the
 * logits of all rows are never stored (engine/exec/cpu/op_vocabulary_loss.c). depth: N layers in
 * each stack, otherwise tiny. The time of graph, derivatives and plan is the median of RUNS, each
 * with a new device, which chooses kernels again as at a program's start. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "bench.h"
#include "engine/exec/plan.h"
#include "engine/graph/build.h"
#include "engine/nn/transformer.h"
#include "model.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"

#define RUNS  7
#define ROWS  4096 /* of the loss */
#define WIDTH 128

typedef struct growth {
    et_params *params;
    et_device *device;
    et_graph *graph;
    et_plan *plan;
    double seconds;        /* of the processor, for graph, derivatives and plan */
    et_plan_memory memory; /* of the plan */
} growth;

typedef et_node *build_fn(et_scope *scope, const void *size);

/* Plans a training step of the loss that build adds. */
static void make(growth *g, build_fn *build, const void *size)
{
    et_error error = ET_ERROR_INIT;
    et_graph_options options = { .training = true, .act = ET_F32 };
    bench_check(et_device_open(&g->device, &error), &error);
    bench_check(et_params_new(&g->params, &error), &error);
    double begin = bench_processor_seconds();
    bench_check(et_graph_new(&g->graph, g->params, &options, &error), &error);
    et_node *loss = build(et_graph_scope(g->graph), size);
    bench_check(et_graph_finish(g->graph, &error), &error);
    et_loss(et_graph_scope(g->graph), "loss", loss, 1);
    bench_check(et_graph_derive(g->graph, NULL, NULL, &error), &error);
    g->seconds = bench_processor_seconds() - begin;
    bench_check(et_params_materialize(g->params, false, &error), &error);
    begin = bench_processor_seconds();
    bench_check(et_plan_new(&g->plan, g->graph, g->device, &loss, 1, NULL, &error), &error);
    g->seconds += bench_processor_seconds() - begin;
    g->memory = et_plan_memory_needed(g->plan);
}

static void release(growth *g)
{
    et_plan_free(g->plan);
    et_graph_free(g->graph);
    et_params_free(g->params);
    et_device_close(g->device);
}

/* Bytes that live for a step: values, work space, weights packed for a while. */
static double step_bytes(const growth *g)
{
    return (double)g->memory.activations;
}

/* ---- models ---- */

typedef struct model_size {
    int64_t tokens, vocabulary;
    int layers;
} model_size;

static et_transformer tiny_model(const model_size *size)
{
    et_error error = ET_ERROR_INIT;
    et_experiment experiment;
    et_arena arena = ET_ARENA_INIT;
    bench_check(et_experiment_begin(&experiment, &et_translation_program, "translation/tiny",
                                    &arena, &error),
                &error);
    et_translation_options *task = experiment.task;
    task->model.encoder.num_layers = task->model.decoder.num_layers = size->layers;
    et_transformer model =
        et_translation_transformer(task, size->vocabulary, size->vocabulary, size->tokens);
    et_arena_release(&arena);
    return model;
}

static et_node *one_sentence(et_scope *scope, const void *payload)
{
    const model_size *size = payload;
    et_transformer model = tiny_model(size);
    et_node *h = et_transformer_train(scope, &model, size->tokens, size->tokens, 1);
    et_node *labels = et_input(scope, "target_labels", ET_I32, et_shape_1(size->tokens));
    return et_vocabulary_loss(h, et_transformer_table(scope, &model), labels, 0.1f);
}

/* The loss of rows that depend on a trained parameter, so that their gradient is needed. */
static et_node *loss_alone(et_scope *scope, const void *payload)
{
    const int64_t words = *(const int64_t *)payload;
    et_init init = { ET_INIT_NORMAL, 1 };
    et_node *h = et_param(scope, "rows", et_shape_2(ROWS, WIDTH), init);
    et_node *table = et_param(scope, "table", et_shape_2(words, WIDTH), init);
    et_node *labels = et_input(scope, "labels", ET_I32, et_shape_1(ROWS));
    return et_vocabulary_loss(h, table, labels, 0.1f);
}

/* ---- tables ---- */

static void show_lengths(void)
{
    printf("\none sentence of N tokens a side, training step of tiny: memory is linear\n");
    printf("%10s %14s %14s %22s\n", "tokens", "planned MB", "bytes a token", "score matrices MB");
    for (int64_t tokens = 256; tokens <= 16384; tokens *= 4) {
        growth g;
        const model_size size = { tokens, BENCH_VOCABULARY, 4 };
        et_transformer model = tiny_model(&size);
        make(&g, one_sentence, &size);
        /* Scores of each head in the encoder, in the decoder and across. */
        double scores = 4.0 * 3 * model.encoder.num_layers * model.encoder.num_attention_heads *
                        (double)tokens * (double)tokens;
        printf("%10lld %14.1f %14.0f %22.0f\n", (long long)tokens, 1e-6 * step_bytes(&g),
               step_bytes(&g) / (double)tokens, 1e-6 * scores);
        bench_figure(step_bytes(&g) / (double)tokens, "bytes/token", NAN,
                     "growth.length.%lld.bytes_token", (long long)tokens);
        release(&g);
    }
}

static void show_vocabularies(void)
{
    printf("\nloss of %d rows, width %d, over N tokens: memory beside the table is bounded\n", ROWS,
           WIDTH);
    printf("%10s %14s %14s %14s\n", "tokens", "planned MB", "table MB", "all logits MB");
    for (int64_t words = 1000; words <= 256000; words *= 4) {
        growth g;
        make(&g, loss_alone, &words);
        printf("%10lld %14.1f %14.1f %14.1f\n", (long long)words, 1e-6 * step_bytes(&g),
               4e-6 * WIDTH * (double)words, 4e-6 * ROWS * (double)words);
        bench_figure(1e-6 * step_bytes(&g), "MB", NAN, "growth.vocabulary.%lld.loss_mb",
                     (long long)words);
        release(&g);
    }
}

static void show_depths(void)
{
    printf("\nN layers a stack, tiny otherwise: planning is linear\n");
    printf("%10s %14s %14s %14s\n", "layers", "processor ms", "ms a layer", "kernel calls");
    for (int layers = 1; layers <= 64; layers *= 4) {
        const model_size size = { 1024, BENCH_VOCABULARY, layers };
        double milliseconds[RUNS];
        int calls = 0;
        for (int i = 0; i < RUNS; i++) {
            growth g;
            make(&g, one_sentence, &size);
            milliseconds[i] = 1e3 * g.seconds;
            calls = et_plan_calls(g.plan);
            release(&g);
        }
        double median = bench_median(milliseconds, RUNS);
        printf("%10d %14.2f %14.3f %14d\n", layers, median, median / layers, calls);
        bench_figure(median, "processor ms", NAN, "growth.depth.%d.plan_ms", layers);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*show)(void);
    } tables[] = {
        { "length", show_lengths },
        { "vocabulary", show_vocabularies },
        { "depth", show_depths },
    };
    int shown = 0;
    bench_print_machine();
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        bool chosen = argc == 1;
        for (int k = 1; k < argc; k++)
            chosen |= !strcmp(argv[k], tables[i].name);
        if (chosen)
            tables[i].show();
        shown += chosen;
    }
    if (!shown)
        fprintf(stderr, "usage: bench_growth [length] [vocabulary] [depth]\n");
    return shown ? 0 : 2;
}
