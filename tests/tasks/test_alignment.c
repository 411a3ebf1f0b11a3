/* Alignments compared with the attention kernel: if the values of each head are unit vectors,
 * attention returns its weights. With several ranks they are those of one process, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "data/text/vocabulary/vocabulary.h"
#include "engine/comm/ranks.h"
#include "engine/exec/plan.h"
#include "engine/graph/build.h"
#include "engine/tensor/params.h"
#include "tasks/translation/decoding/alignment.h"

enum { WIDTH = 64, HEADS = 2, COLUMNS = WIDTH / HEADS, TOKENS = 30, MOST = 24 };

typedef struct fixture {
    et_params *params;
    et_device *device;
    et_vocabulary *vocabulary;
    et_transformer model;
} fixture;

static int next_line(void *payload, const char **text, size_t *length, et_error *error)
{
    static const char *const texts[] = { "a bad cab", "dab a cab", "add bad dad", "bac dac" };
    size_t *at = payload;
    (void)error;
    *text = *at < 40 ? texts[*at % 4] : NULL;
    *length = *text ? strlen(*text) : 0;
    ++*at;
    return ET_OK;
}

static et_vocabulary *make_vocabulary(void)
{
    et_vocabulary_options options = {
        .kind = ET_VOCABULARY_BPE, .size = TOKENS, .character_coverage = 1, .at_most = true
    };
    et_error error = ET_ERROR_INIT;
    et_vocabulary *vocabulary = NULL;
    size_t at = 0, length;
    char *bytes;
    if (et_vocabulary_train(&bytes, &length, &options, next_line, &at, &error) ||
        et_vocabulary_parse(&vocabulary, bytes, length, "made", &error))
        fail_msg("%s", error.text);
    et_free(bytes);
    return vocabulary;
}

static void open_fixture(fixture *f)
{
    et_transformer_stack stack = { .num_layers = 3,
                                   .num_attention_heads = HEADS,
                                   .intermediate_size = 40,
                                   .activation = ET_ACTIVATION_RELU,
                                   .use_bias = true,
                                   .norm_first = true,
                                   .final_norm = true,
                                   .norm_epsilon = 1e-6f };
    et_error error = ET_ERROR_INIT;
    et_graph *graph;
    f->vocabulary = make_vocabulary();
    f->model = (et_transformer){ .encoder = stack,
                                 .decoder = stack,
                                 .source = { "embedding", et_vocabulary_size(f->vocabulary) },
                                 .target = { "embedding", et_vocabulary_size(f->vocabulary) },
                                 .output = { "embedding", et_vocabulary_size(f->vocabulary) },
                                 .width = WIDTH,
                                 .max_positions = MOST };
    assert_int_equal(et_device_open(&f->device, &error), ET_OK);
    assert_int_equal(et_params_new(&f->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_transformer_train(et_graph_scope(graph), &f->model, MOST, MOST, 1);
    assert_int_equal(et_graph_finish(graph, &error), ET_OK);
    et_graph_free(graph);
    assert_int_equal(et_params_materialize(f->params, false, &error), ET_OK);
    et_init_draw(f->params, 3);
    et_params_begin_change(f->params);
    /* Larger than they begin, so that attention prefers something. */
    for (int64_t i = 0; i < et_params_flat_size(f->params); i++)
        et_params_values(f->params)[i] *= 2;
    et_params_changed(f->params, true);
}

static void close_fixture(fixture *f)
{
    et_params_free(f->params);
    et_device_close(f->device);
    et_vocabulary_close(f->vocabulary);
}

/* The two products, from a separate plan that is exactly as large as the sentence. */
static void run_products(fixture *f, const et_tokens *source, const et_tokens *target, int layer,
                         float *query, float *keys)
{
    int32_t positions[MOST], ids[MOST] = { et_vocabulary_start(f->vocabulary) };
    int32_t from[] = { 0, (int32_t)source->count }, to[] = { 0, (int32_t)target->count + 1 };
    et_node *outputs[2];
    et_graph *graph;
    et_plan *plan;
    et_plan_options options = ET_PLAN_OPTIONS_INIT;
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i < MOST; i++)
        positions[i] = i;
    memcpy(ids + 1, target->ids, target->count * sizeof *ids);
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_transformer_cross(et_graph_scope(graph), &f->model, (int64_t)source->count,
                         (int64_t)target->count + 1, layer, &outputs[0], &outputs[1]);
    assert_int_equal(et_graph_finish(graph, &error), ET_OK);
    assert_int_equal(et_plan_new(&plan, graph, f->device, outputs, 2, &options, &error), ET_OK);
    et_plan_bind(plan, "source_ids", source->ids);
    et_plan_bind(plan, "source_positions", positions);
    et_plan_bind(plan, "source_offsets", from);
    et_plan_bind(plan, "target_ids", ids);
    et_plan_bind(plan, "target_positions", positions);
    et_plan_bind(plan, "target_offsets", to);
    et_plan_run(plan, (et_random){ 0, 0, 0 });
    memcpy(query, et_plan_output(plan, 0).data, (target->count + 1) * WIDTH * sizeof *query);
    memcpy(keys, et_plan_output(plan, 1).data, source->count * 2 * WIDTH * sizeof *keys);
    et_plan_free(plan);
    et_graph_free(graph);
}

/* weight[t][s]: the mean of heads, by the kernel. */
static void attend(fixture *f, int64_t source, int64_t target, const float *query, float *keys,
                   double weight[MOST][MOST])
{
    int32_t from[] = { 0, (int32_t)source }, to[] = { 0, (int32_t)target };
    et_attention_options options = { .heads = HEADS, .longest_key = (int)source };
    et_plan_options plan_options = ET_PLAN_OPTIONS_INIT;
    et_graph *graph;
    et_plan *plan = NULL;
    et_error error = ET_ERROR_INIT;
    assert_true(source <= COLUMNS);
    for (int64_t s = 0; s < source; s++)
        for (int c = 0; c < WIDTH; c++)
            keys[s * 2 * WIDTH + WIDTH + c] = c % COLUMNS == s;
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_scope *scope = et_graph_scope(graph);
    et_node *out = et_attention(scope, et_input(scope, "q", ET_F32, et_shape_2(target, WIDTH)),
                                et_input(scope, "kv", ET_F32, et_shape_2(source, 2 * WIDTH)),
                                et_input(scope, "to", ET_I32, et_shape_1(2)),
                                et_input(scope, "from", ET_I32, et_shape_1(2)), &options);
    if (et_graph_finish(graph, &error) ||
        et_plan_new(&plan, graph, f->device, &out, 1, &plan_options, &error))
        fail_msg("%s", error.text);
    et_plan_bind(plan, "q", query);
    et_plan_bind(plan, "kv", keys);
    et_plan_bind(plan, "to", to);
    et_plan_bind(plan, "from", from);
    et_plan_run(plan, (et_random){ 0, 0, 0 });
    const float *given = et_plan_output(plan, 0).data;
    for (int64_t t = 0; t < target; t++)
        for (int64_t s = 0; s < source; s++) {
            weight[t][s] = 0;
            for (int h = 0; h < HEADS; h++)
                weight[t][s] += (double)given[t * WIDTH + h * COLUMNS + s] / HEADS;
        }
    et_plan_free(plan);
    et_graph_free(graph);
}

static bool begins_word(const fixture *f, int32_t id)
{
    return !strncmp(et_vocabulary_token(f->vocabulary, id), "\xe2\x96\x81", 3);
}

/* What word k of a target gets from each word of the source; how many source words there are. */
static int expect(const fixture *f, const et_tokens *source, const et_tokens *target, int k,
                  double weight[MOST][MOST], double sum[MOST])
{
    int words = 0, at = -1, rows = 0;
    memset(sum, 0, MOST * sizeof *sum);
    for (size_t t = 0; t < target->count; t++) {
        at += begins_word(f, target->ids[t]);
        if (at != k)
            continue;
        rows++;
        words = 0;
        for (size_t s = 0; s + 1 < source->count; s++) {
            words += begins_word(f, source->ids[s]);
            sum[words - 1] += weight[t][s];
        }
    }
    for (int i = 0; i < words; i++)
        sum[i] /= rows;
    return words;
}

static void encode(const fixture *f, const char *text, bool end, et_tokens *tokens)
{
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_vocabulary_encode(f->vocabulary, text, strlen(text), tokens, &error),
                     ET_OK);
    assert_true(tokens->count + 1 < MOST);
    tokens->ids = et_realloc(tokens->ids, MOST, sizeof *tokens->ids);
    assert_non_null(tokens->ids);
    if (end)
        tokens->ids[tokens->count++] = et_vocabulary_eos(f->vocabulary);
}

static void compare(fixture *f, et_aligner *aligner, int layer, const char *line, const char *text,
                    int words)
{
    static float query[MOST * WIDTH], keys[MOST * 2 * WIDTH];
    double weight[MOST][MOST], sum[MOST];
    et_arena arena = ET_ARENA_INIT;
    et_tokens source = ET_TOKENS_INIT, target = ET_TOKENS_INIT;
    et_aligned found;
    et_error error = ET_ERROR_INIT;
    encode(f, line, true, &source);
    encode(f, text, false, &target);
    assert_int_equal(et_aligner_run(aligner, source.ids, (int64_t)source.count, target.ids,
                                    (int)target.count, &arena, &found, &error),
                     ET_OK);
    run_products(f, &source, &target, layer, query, keys);
    attend(f, (int64_t)source.count, (int64_t)target.count + 1, query, keys, weight);
    assert_int_equal(found.count, words);
    for (int k = 0; k < found.count; k++) {
        const et_alignment *one = &found.items[k];
        int most = expect(f, &source, &target, k, weight, sum);
        assert_int_equal(one->target, k);
        assert_in_range(one->source, 0, most - 1);
        assert_true(fabs(one->weight - sum[one->source]) < 1e-5);
        for (int i = 0; i < most; i++)
            assert_true(sum[i] <= one->weight + 1e-5);
    }
    et_tokens_release(&source);
    et_tokens_release(&target);
    et_arena_release(&arena);
}

/* Short sentences after long ones: unused rows of a plan must not count. */
static void test_alignment__weights(void **state)
{
    (void)state;
    fixture f;
    et_error error = ET_ERROR_INIT;
    open_fixture(&f);
    for (int layer = 0; layer < 3; layer++) {
        et_aligner *aligner;
        assert_int_equal(
            et_aligner_new(&aligner, f.params, f.device, &f.model,
                           (et_sides){ .source = f.vocabulary, .target = f.vocabulary }, layer,
                           &error),
            ET_OK);
        compare(&f, aligner, layer, "a bad cab", "dac bac", 2);
        compare(&f, aligner, layer, "add bad dad cab", "a dab", 2);
        compare(&f, aligner, layer, "bad", "cab a add", 3);
        compare(&f, aligner, layer, "a", "a", 1);
        et_aligner_free(aligner);
    }
    close_fixture(&f);
}

/* Nothing to align gives nothing. */
static void test_alignment__empty(void **state)
{
    (void)state;
    fixture f;
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_aligner *aligner;
    et_aligned found;
    open_fixture(&f);
    const int32_t eos = et_vocabulary_eos(f.vocabulary), words[] = { 3, 4, eos };
    assert_int_equal(et_aligner_new(&aligner, f.params, f.device, &f.model,
                                    (et_sides){ .source = f.vocabulary, .target = f.vocabulary }, 0,
                                    &error),
                     ET_OK);
    assert_int_equal(et_aligner_run(aligner, words, 3, words, 0, &arena, &found, &error), ET_OK);
    assert_int_equal(found.count, 0);
    assert_int_equal(et_aligner_run(aligner, &eos, 1, words, 2, &arena, &found, &error), ET_OK);
    assert_int_equal(found.count, 0);
    et_aligner_free(aligner);
    et_aligner_free(NULL);
    et_arena_release(&arena);
    close_fixture(&f);
}

enum { PAIRS = 5 };

static bool are_equal(const et_aligned *a, const et_aligned *b)
{
    bool equal = a->count == b->count && a->source_words == b->source_words;
    for (int i = 0; equal && i < a->count; i++) {
        const et_alignment *x = &a->items[i], *y = &b->items[i];
        equal = x->source == y->source && x->target == y->target && x->weight == y->weight &&
                !memcmp(x->weights, y->weights, (size_t)a->source_words * sizeof *x->weights);
    }
    return equal;
}

/* For pairs of other ranks a rank only has the ids of "a", so its results for them must be the
 * received ones. Lengths grow, so that earlier pairs make room for later ones. */
static int rank_align(et_comm *comm, const char *word)
{
    static const char *const texts[PAIRS][2] = { { "a", "bad" },
                                                 { "add bad", "a dab" },
                                                 { "", "cab" },
                                                 { "add bad dad cab", "dac bac" },
                                                 { "bad", "cab a add dab" } };
    static int32_t ids[MOST];
    fixture f;
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_tokens tokens[PAIRS][2];
    et_align_pair alone[PAIRS], shared[PAIRS];
    et_aligner *aligner;
    (void)word;
    open_fixture(&f);
    for (int i = 0; i < PAIRS; i++) {
        for (int side = 0; side < 2; side++) {
            tokens[i][side] = (et_tokens)ET_TOKENS_INIT;
            encode(&f, texts[i][side], side == 0, &tokens[i][side]);
        }
        alone[i] = shared[i] = (et_align_pair){ .source = tokens[i][0].ids,
                                                .length = (int64_t)tokens[i][0].count,
                                                .target = tokens[i][1].ids,
                                                .count = (int)tokens[i][1].count };
    }
    et_tokens a = ET_TOKENS_INIT;
    encode(&f, "a", false, &a);
    for (int i = 0; i < MOST; i++)
        ids[i] = a.ids[a.count - 1];
    for (int i = 0; i < PAIRS; i++)
        if (i % et_comm_size(comm) != et_comm_rank(comm) && shared[i].length > 1)
            shared[i].source = shared[i].target = ids;
    for (int shares = 0; shares < 2; shares++) {
        rank_assert(!et_aligner_new(&aligner, f.params, f.device, &f.model,
                                    (et_sides){ .source = f.vocabulary, .target = f.vocabulary }, 1,
                                    &error));
        rank_assert(!et_aligner_run_on_ranks(aligner, shares ? comm : NULL, shares ? shared : alone,
                                             PAIRS, &arena, &error));
        et_aligner_free(aligner);
    }
    for (int i = 0; i < PAIRS; i++)
        rank_assert(are_equal(&alone[i].found, &shared[i].found));
    rank_assert(alone[0].found.count == 1 && !alone[2].found.count && alone[3].found.count == 2);
    for (int i = 0; i < PAIRS; i++)
        for (int side = 0; side < 2; side++)
            et_tokens_release(&tokens[i][side]);
    et_tokens_release(&a);
    et_arena_release(&arena);
    close_fixture(&f);
    return 0;
}

static void test_alignment__ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_int_equal(run_ranks("align", ranks, ""), 0);
}

int main(void)
{
    static const rank_case cases[] = { { "align", rank_align }, { NULL, NULL } };
    if (is_rank())
        return run_rank(cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment__weights),
        cmocka_unit_test(test_alignment__empty),
        cmocka_unit_test(test_alignment__ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
