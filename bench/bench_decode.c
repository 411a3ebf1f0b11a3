/* Measures how many sentences per second are translated.
 *
 *     bench_decode tiny|base float32|bfloat16|int8 BEAM [SENTENCES [TOGETHER]]
 *
 * Sentences have 14 tokens, and 16 tokens are produced for each; a beam of 1 is greedy search. The
 * weights are untrained, because their values do not change the work. No token ends a sentence, so
 * every sentence takes the same number of steps. Figures are decode.SIZE.BEAM.sentences_s, in
 * float32, and decode.SIZE.PRECISION.BEAM.sentences_s, where BEAM is greedy or beam4. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/layers.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/numbers/philox.h"
#include "bench.h"
#include "engine/graph/graph.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"

#define VOCABULARY    10000
#define SOURCE        14
#define TARGET        16
#define RUNS          5
#define SENTENCES_MAX 100000

typedef struct bench_decoder {
    et_device *device;
    et_params *params;
    et_decoder *decoder;
    et_decoder_sentence *sentences;
    int32_t *pieces;
    int count;
} bench_decoder;

static void make_sentences(bench_decoder *b, et_error *error)
{
    et_random random = { 1, 0, 0 };
    b->sentences = et_alloc_zero((size_t)b->count, sizeof *b->sentences);
    b->pieces = et_alloc((size_t)b->count * SOURCE, sizeof *b->pieces);
    if (!b->sentences || !b->pieces)
        bench_check(et_alloc_failed(error, "sentences"), error);
    for (int i = 0; i < b->count * SOURCE; i++)
        b->pieces[i] = (int32_t)et_random_below(random, (uint64_t)i, VOCABULARY);
    for (int i = 0; i < b->count; i++) {
        b->sentences[i].source = b->pieces + (ptrdiff_t)i * SOURCE;
        b->sentences[i].length = SOURCE;
    }
}

/* The store gets the model's parameters from a graph, as in training. */
static void declare(bench_decoder *b, const et_transformer *model, et_dtype act, et_error *error)
{
    et_graph *graph;
    et_graph_options options = { .training = false, .act = act };
    bench_check(et_params_new(&b->params, error), error);
    bench_check(et_graph_new(&graph, b->params, &options, error), error);
    et_transformer_train(et_graph_scope(graph), model, SOURCE, TARGET, 1);
    bench_check(et_graph_finish(graph, error), error);
    bench_check(et_params_materialize(b->params, act == ET_BF16, error), error);
    et_init_draw(b->params, 1);
    et_graph_free(graph);
}

static void open_decoder(bench_decoder *b, const char *name, et_dtype act, bool int8, int beam,
                         int together)
{
    et_error error = ET_ERROR_INIT;
    et_experiment experiment;
    char full[64];
    snprintf(full, sizeof full, "translation/%s", name);
    et_arena arena = ET_ARENA_INIT;
    bench_check(et_experiment_begin(&experiment, &et_translation_program, full, &arena, &error),
                &error);
    const et_translation_options *task = experiment.task;
    et_transformer model = et_translation_transformer(task, VOCABULARY, VOCABULARY, 64);
    et_decoder_options options = { .beam = { .size = beam, .alpha = task->model.alpha, .eos = -1 },
                                   .start = 0,
                                   .max_length = TARGET,
                                   .sentences = together ? together : 32,
                                   .act = act,
                                   .int8 = int8 };
    bench_check(et_device_open(&b->device, &error), &error);
    declare(b, &model, act, &error);
    bench_check(et_decoder_new(&b->decoder, b->params, b->device, &model, &options, &error),
                &error);
    et_arena_release(&arena);
    make_sentences(b, &error);
}

static void close_decoder(bench_decoder *b)
{
    et_decoder_free(b->decoder);
    et_params_free(b->params);
    et_device_close(b->device);
    et_free(b->sentences);
    et_free(b->pieces);
}

static double decode(bench_decoder *b)
{
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    double since = 0;
    bench_lap(&since);
    bench_check(et_decoder_run(b->decoder, b->sentences, b->count, &arena, NULL, NULL, &error),
                &error);
    double seconds = bench_lap(&since);
    et_arena_release(&arena);
    return seconds;
}

/* "greedy" or "beam4", after the precision if that is not float32. */
static void hand_out(double rate, const char *model, const char *precision, int beam)
{
    char kind[32], middle[32] = "";
    if (beam == 1)
        snprintf(kind, sizeof kind, "greedy");
    else
        snprintf(kind, sizeof kind, "beam%d", beam);
    if (strcmp(precision, "float32") != 0)
        snprintf(middle, sizeof middle, "%s.",
                 strcmp(precision, "int8") == 0 ? "int8" : bench_dtype_short(ET_BF16));
    bench_figure(rate, "sentences/s", NAN, "decode.%s.%s%s.sentences_s", model, middle, kind);
}

int main(int argc, char **argv)
{
    int beam = argc > 3 ? atoi(argv[3]) : 0, together = argc > 5 ? atoi(argv[5]) : 0;
    bench_decoder b = { .count = argc > 4 ? atoi(argv[4]) : 1000 };
    if (beam < 1 || beam > ET_BEAM_SIZE_MAX || b.count < 1 || b.count > SENTENCES_MAX ||
        together < 0) {
        fprintf(stderr, "usage: bench_decode tiny|base float32|bfloat16|int8 BEAM "
                        "[SENTENCES [TOGETHER]]\n");
        return 2;
    }
    bool int8 = strcmp(argv[2], "int8") == 0;
    et_dtype act = int8 ? ET_F32 : bench_dtype(argv[2]);
    bench_print_machine();
    open_decoder(&b, argv[1], act, int8, beam, together);
    decode(&b); /* makes the plans */
    double seconds[RUNS], produced = 0;
    for (int i = 0; i < RUNS; i++)
        seconds[i] = decode(&b);
    for (int i = 0; i < b.count; i++)
        produced += b.sentences[i].results[0].count;
    double median = bench_median(seconds, RUNS);
    printf("%s %s beam %d: %.0f sentences/s, %.0f pieces/s (%.1f produced for each)\n", argv[1],
           argv[2], beam, b.count / median, produced / median, produced / b.count);
    hand_out(b.count / median, argv[1], argv[2], beam);
    close_decoder(&b);
    return 0;
}
