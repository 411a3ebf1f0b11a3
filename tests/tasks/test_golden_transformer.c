/* The translation model against Model Garden's Seq2SeqTransformer: logits and beams of a small
 * model whose weights are formulas (tools/golden-transformer made the values). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <etude/layers.h>
#include <etude/ops.h>

#include "base/arena.h"
#include "engine/exec/plan.h"
#include "tasks/translation/decoding/decoder.h"

#define GOLDEN    ET_TEST_SOURCE "/tests/tasks/golden/transformer.txt"
#define TOKENS    24
#define WIDTH     16
#define EXTRA     6
#define SENTENCES 4
#define MOST      16

static const int32_t sources[SENTENCES][MOST] = {
    { 5, 9, 1 }, { 2, 3, 17, 8, 23, 1 }, { 11, 1 }, { 7, 7, 20, 4, 13, 6, 19, 10, 1 }
};
static const int source_length[SENTENCES] = { 3, 6, 2, 9 };
static const int32_t targets[SENTENCES][MOST] = {
    { 4, 15, 1 }, { 22, 2, 1 }, { 3, 14, 9, 16, 21, 1 }, { 18, 12, 5, 5, 1 }
};
static const int target_length[SENTENCES] = { 3, 3, 6, 5 };

/* ---- the model ---- */

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), least = strlen(ending);
    return length >= least && !strcmp(name + length - least, ending);
}

static float value_of(const char *name, int64_t i)
{
    uint32_t sum = 0;
    for (uint32_t k = 0; name[k]; k++)
        sum += (k + 1) * (unsigned char)name[k];
    uint32_t u = (uint32_t)(i + 1) * 2654435761u + sum * 40503u;
    u = (u ^ u >> 15) * 2246822519u;
    const float x = (float)((int)((u ^ u >> 13) >> 25) - 64) / 64;
    if (ends_with(name, "table"))
        return i >= WIDTH ? x / 2 : 0;
    if (ends_with(name, "scale"))
        return 1 + x / 4;
    return ends_with(name, "weight") ? 2 * x : x / 8;
}

typedef struct fixture {
    et_params *params;
    et_device *device;
    et_transformer model;
} fixture;

static void open_fixture(fixture *f)
{
    et_error error = ET_ERROR_INIT;
    et_graph *graph;
    const et_transformer_stack stack = { .num_layers = 2,
                                         .num_attention_heads = 2,
                                         .intermediate_size = 24,
                                         .activation = ET_ACTIVATION_RELU,
                                         .norm_first = true,
                                         .final_norm = true,
                                         .norm_epsilon = 1e-6f };
    f->model = (et_transformer){ .encoder = stack,
                                 .decoder = stack,
                                 .source = { "embedding", TOKENS },
                                 .target = { "embedding", TOKENS },
                                 .output = { "embedding", TOKENS },
                                 .width = WIDTH,
                                 .max_positions = MOST };
    assert_int_equal(et_params_new(&f->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_transformer_train(et_graph_scope(graph), &f->model, MOST, MOST, 1);
    assert_int_equal(et_graph_finish(graph, &error), ET_OK);
    et_graph_free(graph);
    assert_int_equal(et_params_materialize(f->params, false, &error), ET_OK);
    assert_int_equal(et_device_open(&f->device, &error), ET_OK);
    et_params_begin_change(f->params);
    for (int p = 0; p < et_params_count(f->params); p++) {
        float *values = et_params_values(f->params) + et_params_offset(f->params, p);
        const int64_t count = et_shape_count(et_params_shape(f->params, p));
        for (int64_t i = 0; i < count; i++)
            values[i] = value_of(et_params_name(f->params, p), i);
    }
    et_params_changed(f->params, true);
}

static void close_fixture(fixture *f)
{
    et_params_free(f->params);
    et_device_close(f->device);
}

/* ---- logits ---- */

/* Logits of sentence s, whose decoder reads its target after a first id of 0: [target_length,
 * TOKENS]. */
static void run_logits(const fixture *f, int s, float *logits)
{
    int32_t positions[MOST], ids[MOST] = { 0 };
    const int32_t from[] = { 0, source_length[s] }, to[] = { 0, target_length[s] };
    const et_matmul_options by_rows = { .transpose_b = true, .f32 = true };
    const et_plan_options options = ET_PLAN_OPTIONS_INIT;
    et_graph *graph;
    et_plan *plan = NULL;
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i < MOST; i++)
        positions[i] = i;
    memcpy(ids + 1, targets[s], (size_t)(target_length[s] - 1) * sizeof *ids);
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_scope *root = et_graph_scope(graph);
    et_node *h = et_transformer_train(root, &f->model, source_length[s], target_length[s], 1);
    et_node *out = et_matmul(h, et_transformer_table(root, &f->model), NULL, &by_rows);
    if (et_graph_finish(graph, &error) ||
        et_plan_new(&plan, graph, f->device, &out, 1, &options, &error))
        fail_msg("%s", error.text);
    et_plan_bind(plan, "source_ids", sources[s]);
    et_plan_bind(plan, "source_positions", positions);
    et_plan_bind(plan, "source_offsets", from);
    et_plan_bind(plan, "target_ids", ids);
    et_plan_bind(plan, "target_positions", positions);
    et_plan_bind(plan, "target_offsets", to);
    et_plan_run(plan, (et_random){ 0, 0, 0 });
    memcpy(logits, et_plan_output(plan, 0).data,
           (size_t)target_length[s] * TOKENS * sizeof *logits);
    et_plan_free(plan);
    et_graph_free(graph);
}

static FILE *open_golden(void)
{
    FILE *file = fopen(GOLDEN, "r");
    if (!file)
        fail_msg("%s", GOLDEN);
    return file;
}

static void test_golden_transformer__logits(void **state)
{
    (void)state;
    fixture f;
    char line[2048];
    int compared = 0;
    FILE *file = open_golden();
    open_fixture(&f);
    while (fgets(line, sizeof line, file)) {
        float logits[MOST * TOKENS];
        int s, t, used;
        if (sscanf(line, "logits %d %d%n", &s, &t, &used) != 2)
            continue;
        run_logits(&f, s, logits);
        char *at = line + used;
        for (int i = 0; i < TOKENS; i++, compared++) {
            const float expected = strtof(at, &at), found = logits[t * TOKENS + i];
            if (!(fabsf(found - expected) <= 2e-5f * fmaxf(1, fabsf(expected))))
                fail_msg("sentence %d, position %d, token %d: %.8g, expected %.8g", s, t, i,
                         (double)found, (double)expected);
        }
    }
    assert_int_equal(compared, (3 + 3 + 6 + 5) * TOKENS);
    close_fixture(&f);
    fclose(file);
}

/* ---- beams ---- */

static void search(const fixture *f, int beam, int end, int s, et_arena *arena,
                   et_decoder_sentence *out)
{
    const et_decoder_options options = { .beam = { .size = beam, .alpha = 0.6, .eos = end },
                                         .start = 0,
                                         .extra_length = EXTRA,
                                         .sentences = 1,
                                         .act = ET_F32 };
    et_decoder *decoder;
    et_error error = ET_ERROR_INIT;
    *out = (et_decoder_sentence){ .source = sources[s], .length = source_length[s] };
    if (et_decoder_new(&decoder, f->params, f->device, &f->model, &options, &error) ||
        et_decoder_run(decoder, out, 1, arena, NULL, NULL, &error))
        fail_msg("%s", error.text);
    et_decoder_free(decoder);
}

static void test_golden_transformer__beams(void **state)
{
    (void)state;
    fixture f;
    char line[2048];
    int compared = 0;
    FILE *file = open_golden();
    open_fixture(&f);
    while (fgets(line, sizeof line, file)) {
        et_arena arena = ET_ARENA_INIT;
        et_decoder_sentence found;
        int beam, end, s, used, count = 0, id;
        float score;
        if (sscanf(line, "beam %d %d %d %a%n", &beam, &end, &s, &score, &used) != 4)
            continue;
        search(&f, beam, end, s, &arena, &found);
        const et_decoder_result *best = &found.results[0];
        for (const char *at = line + used; sscanf(at, "%d%n", &id, &used) == 1; at += used) {
            if (id == end)
                break; /* which a result is without */
            if (count >= best->count || best->ids[count] != id)
                fail_msg("beam %d, end %d, sentence %d: another id at %d", beam, end, s, count);
            count++;
        }
        if (count != best->count || !(fabsf(best->score - score) <= 2e-5f * fabsf(score)))
            fail_msg("beam %d, end %d, sentence %d: %d ids, expected %d; score %.8g, expected %.8g",
                     beam, end, s, best->count, count, (double)best->score, (double)score);
        compared++;
        et_arena_release(&arena);
    }
    assert_int_equal(compared, 2 * 3 * SENTENCES);
    close_fixture(&f);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_transformer__logits),
        cmocka_unit_test(test_golden_transformer__beams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
