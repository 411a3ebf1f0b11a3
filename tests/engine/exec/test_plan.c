/* Plans: fusing, reuse of memory and threads must not change results, and a step must not allocate.
 */
#include "engine/exec/model.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/scarce.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/nn/transformer.h"
#include "engine/tensor/params.h"

#define TOKENS   (ET_GEMM_FEW_ROWS + 8) /* products of so many pack their weights */
#define SEGMENTS 6
#define PIECES   50

static int32_t source_ids[TOKENS], source_positions[TOKENS], source_offsets[SEGMENTS + 1];
static int32_t target_ids[TOKENS], target_positions[TOKENS], target_offsets[SEGMENTS + 1];
static int32_t labels[TOKENS];
static bool norm_first = true;
static float intermediate_dropout = 0.1f;
static et_activation activation = ET_ACTIVATION_RELU;

static bool drawn_twice; /* the loss is of two draws */

/* A small Transformer with everything on. */
static et_node *transformer_loss(et_scope *s)
{
    et_transformer_stack stack = {
        .num_layers = 2,
        .num_attention_heads = 2,
        .intermediate_size = 24,
        .activation = activation,
        .dropout_rate = 0.2f,
        .attention_dropout_rate = 0.1f,
        .intermediate_dropout = intermediate_dropout,
        .use_bias = true,
        .norm_first = norm_first,
        .final_norm = true,
        .norm_epsilon = 1e-6f,
    };
    et_transformer model = { .encoder = stack,
                             .decoder = stack,
                             .source = { "embedding", PIECES },
                             .target = { "embedding", PIECES },
                             .output = { "embedding", PIECES },
                             .width = 16,
                             .max_positions = 20,
                             .dropout_rate = 0.1f };
    et_node *h = et_transformer_train(s, &model, TOKENS, TOKENS, SEGMENTS);
    et_node *at = et_input(s, "target_labels", ET_I32, et_shape_1(TOKENS));
    if (drawn_twice)
        return et_r_drop_loss(
            h, et_transformer_train(et_in_draw(s, "second"), &model, TOKENS, TOKENS, SEGMENTS),
            et_transformer_table(s, &model), at, 0.1f, 3);
    return et_vocabulary_loss(h, et_transformer_table(s, &model), at, 0.1f);
}

/* Sentences of 1 to 7 tokens; the last segment and the last tokens are empty. */
static void fill(int32_t *ids, int32_t *positions, int32_t *offsets, int first)
{
    int at = 0;
    for (int s = 0; s < SEGMENTS; s++) {
        int length = s == SEGMENTS - 1 ? 0 : 1 + (first + 3 * s) % 7;
        offsets[s] = at;
        for (int i = 0; i < length; i++, at++) {
            ids[at] = (first + 7 * at) % PIECES;
            positions[at] = i;
        }
    }
    offsets[SEGMENTS] = at;
    for (; at < TOKENS; at++) {
        ids[at] = -1;
        positions[at] = 0;
    }
}

static void bind_batch(et_plan *plan)
{
    fill(source_ids, source_positions, source_offsets, 2);
    fill(target_ids, target_positions, target_offsets, 4);
    for (int i = 0; i < TOKENS; i++)
        labels[i] = target_ids[i] < 0 ? -1 : (target_ids[i] + 1) % PIECES;
    et_plan_bind(plan, "source_ids", source_ids);
    et_plan_bind(plan, "source_positions", source_positions);
    et_plan_bind(plan, "source_offsets", source_offsets);
    et_plan_bind(plan, "target_ids", target_ids);
    et_plan_bind(plan, "target_positions", target_positions);
    et_plan_bind(plan, "target_offsets", target_offsets);
    et_plan_bind(plan, "target_labels", labels);
}

/* Loss and gradients of one run, in a copy. */
typedef struct outcome {
    float sums[ET_LOSS_SUM_COUNT];
    float *gradients;
    size_t bytes;
} outcome;

static void move_weights(et_params *params)
{
    float *values = et_params_values(params);
    for (int64_t i = 0; i < et_params_flat_size(params); i++)
        values[i] *= 0.875f;
    et_params_begin_change(params);
    et_params_changed(params, true);
}

static outcome run_as(et_dtype act, et_recompute recompute, const et_plan_options *options)
{
    test_model model;
    outcome result;
    test_model_open_as(&model, transformer_loss, act, recompute, true, options);
    bind_batch(model.plan);
    for (uint64_t step = 0; step < 2; step++) {
        et_plan_run(model.plan, (et_random){ 11, step, 0 });
        move_weights(model.params);
    }
    memcpy(result.sums, et_plan_output(model.plan, 0).data, sizeof result.sums);
    result.bytes = (size_t)et_params_flat_size(model.params) * sizeof(float);
    result.gradients = malloc(result.bytes);
    assert_non_null(result.gradients);
    memcpy(result.gradients, et_params_gradients(model.params), result.bytes);
    test_model_close(&model);
    return result;
}

static outcome run_with(et_dtype act, const et_plan_options *options)
{
    return run_as(act, ET_RECOMPUTE_CHEAP, options);
}

static void assert_same_bits(outcome a, outcome b)
{
    assert_memory_equal(a.sums, b.sums, sizeof a.sums);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.gradients, b.gradients, a.bytes);
    free(a.gradients);
    free(b.gradients);
}

static outcome copy_of(outcome a)
{
    outcome copy = a;
    copy.gradients = malloc(a.bytes);
    assert_non_null(copy.gradients);
    memcpy(copy.gradients, a.gradients, a.bytes);
    return copy;
}

/* In float32 a chain gives the results of its single ops. */
static void test_plan__fusing_changes_nothing(void **state)
{
    (void)state;
    et_plan_options naive = { .fuse = false, .reuse = false };
    for (int k = 0; k < 8; k++) {
        norm_first = k & 1;
        activation = k & 2 ? ET_ACTIVATION_GELU : ET_ACTIVATION_RELU;
        drawn_twice = k & 4;
        outcome planned = run_with(ET_F32, NULL);
        assert_true(isfinite(planned.sums[0]) && planned.sums[0] > 0);
        assert_true(planned.sums[ET_LOSS_SUM_TOKENS] == target_offsets[SEGMENTS]);
        assert_same_bits(planned, run_with(ET_F32, &naive));
    }
    drawn_twice = false;
}

static void test_plan__reusing_memory_changes_nothing(void **state)
{
    (void)state;
    et_plan_options alone = { .fuse = true, .reuse = false };
    assert_same_bits(run_with(ET_F32, NULL), run_with(ET_F32, &alone));
    assert_same_bits(run_with(ET_BF16, NULL), run_with(ET_BF16, &alone));
}

/* All activations, norms before and after, with and without dropout: rematerialized values equal
 * the original ones. */
static void test_plan__recomputing_changes_nothing(void **state)
{
    (void)state;
    et_plan_options late = ET_PLAN_OPTIONS_INIT;
    late.keep_packed = false;
    for (int k = 0; k < 4 * (ET_ACTIVATION_MISH + 1); k++) {
        norm_first = k & 1;
        intermediate_dropout = k & 2 ? 0.1f : 0;
        activation = (et_activation)(k / 4);
        for (int act = ET_F32; act <= (et_gemm_has_bf16() ? ET_BF16 : ET_F32); act++) {
            outcome none = run_as((et_dtype)act, ET_RECOMPUTE_NONE, &late);
            outcome cheap = run_as((et_dtype)act, ET_RECOMPUTE_CHEAP, &late);
            outcome marked = run_as((et_dtype)act, ET_RECOMPUTE_MARKED, &late);
            outcome layers = run_as((et_dtype)act, ET_RECOMPUTE_LAYERS, &late);
            assert_same_bits(copy_of(none), cheap);
            assert_same_bits(copy_of(none), layers);
            assert_same_bits(none, marked);
        }
    }
    norm_first = true;
    intermediate_dropout = 0.1f;
    activation = ET_ACTIVATION_RELU;
}

enum { ROWS = 2048, NARROW = 64, WIDE = 256, BLOCKS = 4 };

/* Feed-forward blocks, before each a norm. */
static et_node *blocks_loss(et_scope *s)
{
    et_init init = { ET_INIT_NORMAL, 0.1f };
    et_node *x = et_param(s, "x", et_shape_2(ROWS, NARROW), init);
    for (int i = 0; i < BLOCKS; i++) {
        et_scope *block = et_at(s, "block", i), *inner = et_in(block, "in");
        et_dense_options wide = { .activation = activation, .recomputable = true };
        et_node *h = et_dense_with(inner, et_norm(block, x, 1e-6f), WIDE, &wide);
        h = et_dropout(inner, h, intermediate_dropout);
        x = et_add(x, et_dense(et_in(block, "out"), h, NARROW));
    }
    return et_sum(x);
}

/* Ones with rate 1/2 are 2 if they are kept: the mean of the product of two dropouts is 2 if both
 * keep the same elements, and 1 if they are independent. */
static et_node *dropped(et_scope *s)
{
    et_node *x = et_param(s, "x", et_shape_2(ROWS, NARROW), (et_init){ ET_INIT_ONES, 0 });
    return et_dropout(et_in(s, "in"), x, 0.5f);
}

static et_node *of_one_draw(et_scope *s)
{
    et_node *once = dropped(s);
    return et_sum(et_mul(once, once));
}

static et_node *of_one_scope(et_scope *s)
{
    return et_sum(et_mul(dropped(s), dropped(s)));
}

static et_node *of_two_draws(et_scope *s)
{
    return et_sum(et_mul(dropped(s), dropped(et_in_draw(s, "second"))));
}

static double product_of_draws(test_build_fn *build)
{
    test_model model;
    static const float one = 1;
    test_model_open(&model, build);
    et_plan_bind(model.plan, ET_GRAPH_ONE, &one);
    et_plan_run(model.plan, (et_random){ 5, 1, 0 });
    const double sum = (double)*(const float *)et_plan_output(model.plan, 0).data;
    test_model_close(&model);
    return sum / (ROWS * NARROW);
}

/* A scope in another draw has the same parameters and other random numbers; so has each dropout of
 * one scope. */
static void test_plan__draws(void **state)
{
    (void)state;
    const double same = product_of_draws(of_one_draw), other = product_of_draws(of_two_draws);
    const double second = product_of_draws(of_one_scope);
    assert_true(same > 1.97 && same < 2.03);
    assert_true(other > 0.97 && other < 1.03);
    assert_true(second > 0.97 && second < 1.03);
}

static size_t blocks_memory(et_recompute recompute)
{
    test_model model;
    test_model_open_as(&model, blocks_loss, ET_F32, recompute, true, NULL);
    size_t bytes = et_plan_memory_needed(model.plan).activations;
    test_model_close(&model);
    return bytes;
}

/* In all blocks but the last, where the backward pass begins, less is kept: first a norm and one of
 * two wide values, then the other (while its norm is rematerialized). tanh, sigmoid and selu keep
 * both until they are marked. Values in the gradient array do not count, so sizes may differ by its
 * bytes. */
static void test_plan__recomputing_saves_memory(void **state)
{
    (void)state;
    const size_t narrow = ROWS * NARROW * sizeof(float), wide = ROWS * WIDE * sizeof(float);
    const size_t gradients = narrow + 2 * BLOCKS * NARROW * WIDE * sizeof(float);
    assert_true(gradients < wide);
    for (int i = ET_ACTIVATION_RELU; i <= ET_ACTIVATION_MISH; i++) {
        activation = (et_activation)i;
        size_t none = blocks_memory(ET_RECOMPUTE_NONE);
        size_t cheap = blocks_memory(ET_RECOMPUTE_CHEAP);
        size_t marked = blocks_memory(ET_RECOMPUTE_MARKED);
        bool late = activation == ET_ACTIVATION_TANH || activation == ET_ACTIVATION_SIGMOID ||
                    activation == ET_ACTIVATION_SELU;
        assert_true(cheap + (BLOCKS - 1) * (narrow + (late ? 0 : wide)) <= none + gradients);
        assert_true(marked + (BLOCKS - 1) * (late ? 2 * wide : wide) <= cheap + narrow + gradients);
    }
    activation = ET_ACTIVATION_RELU;
}

/* Attention and its inputs are not kept. */
static void test_plan__layers_save_more(void **state)
{
    (void)state;
    test_model marked, layers;
    test_model_open_as(&marked, transformer_loss, ET_F32, ET_RECOMPUTE_MARKED, true, NULL);
    test_model_open_as(&layers, transformer_loss, ET_F32, ET_RECOMPUTE_LAYERS, true, NULL);
    assert_true(et_plan_memory_needed(layers.plan).activations <
                et_plan_memory_needed(marked.plan).activations);
    test_model_close(&marked);
    test_model_close(&layers);
}

/* Packed again in each run or once for several: the same products. The second run has other weights
 * than the first, so a copy that was not renewed would show. */
static void test_plan__packing_late_changes_nothing(void **state)
{
    (void)state;
    et_plan_options late = ET_PLAN_OPTIONS_INIT;
    late.keep_packed = false;
    for (int act = ET_F32; act <= (et_gemm_has_bf16() ? ET_BF16 : ET_F32); act++)
        assert_same_bits(run_with((et_dtype)act, NULL), run_with((et_dtype)act, &late));
}

/* Large weights: packed weights are most of a plan's memory. */
static et_node *wide_loss(et_scope *s, int64_t rows)
{
    et_node *x = et_param(s, "x", et_shape_2(rows, 512), (et_init){ ET_INIT_ONES, 0 });
    for (int i = 0; i < 6; i++)
        x = et_matmul(x,
                      et_param(et_at(s, "w", i), "weight", et_shape_2(512, 512),
                               (et_init){ ET_INIT_NORMAL, 0.1f }),
                      NULL, NULL);
    return et_sum(x);
}

static et_node *few_rows_loss(et_scope *s)
{
    return wide_loss(s, ET_GEMM_FEW_ROWS);
}

/* So many that a packed weight is read by blocks, whatever the processor. */
static et_node *many_rows_loss(et_scope *s)
{
    return wide_loss(s, 16 * ET_GEMM_FEW_ROWS);
}

/* For few rows, copies that are used once are not worth making. */
static void test_plan__few_rows_are_not_packed_for(void **state)
{
    (void)state;
    test_model training;
    test_model_open(&training, few_rows_loss);
    et_plan_memory memory = et_plan_memory_needed(training.plan);
    assert_int_equal(memory.packed, 0);
    assert_true(memory.activations < 512 * 512 * sizeof(float) * 4);
    test_model_close(&training);
}

static void test_plan__late_packs_share_the_arena(void **state)
{
    (void)state;
    test_model keeping, packing;
    et_plan_options late = ET_PLAN_OPTIONS_INIT;
    late.keep_packed = false;
    test_model_open(&keeping, many_rows_loss);
    test_model_open_with(&packing, many_rows_loss, ET_F32, true, &late);
    et_plan_memory kept = et_plan_memory_needed(keeping.plan);
    et_plan_memory brief = et_plan_memory_needed(packing.plan);
    assert_true(kept.packed >= 11 * 512 * 512 * sizeof(float));
    assert_int_equal(brief.packed, 0);
    assert_true(brief.activations < kept.activations + kept.packed / 8);
    test_model_close(&keeping);
    test_model_close(&packing);
}

static void test_plan__threads_change_nothing(void **state)
{
    (void)state;
    int most = omp_get_max_threads();
    for (int k = 0; k < 4; k++) {
        const int act = k & 1 ? ET_BF16 : ET_F32;
        drawn_twice = k & 2;
        omp_set_num_threads(1);
        outcome one = run_with((et_dtype)act, NULL);
        for (int threads = 2; threads <= 4; threads++) {
            omp_set_num_threads(threads);
            outcome again = { .bytes = one.bytes };
            again.gradients = malloc(one.bytes);
            assert_non_null(again.gradients);
            memcpy(again.gradients, one.gradients, one.bytes);
            memcpy(again.sums, one.sums, sizeof one.sums);
            assert_same_bits(again, run_with((et_dtype)act, NULL));
        }
        free(one.gradients);
    }
    omp_set_num_threads(most);
    drawn_twice = false;
}

/* Memory from before a run's inputs does not matter: buffers full of NaN give the same results. */
static void test_plan__runs_leave_nothing_behind(void **state)
{
    (void)state;
    test_model model;
    test_model_open(&model, transformer_loss);
    bind_batch(model.plan);
    float first[ET_LOSS_SUM_COUNT];
    et_plan_run(model.plan, (et_random){ 1, 1, 0 });
    memcpy(first, et_plan_output(model.plan, 0).data, sizeof first);
    size_t bytes = (size_t)et_params_flat_size(model.params) * sizeof(float);
    float *gradients = malloc(bytes);
    assert_non_null(gradients);
    memcpy(gradients, et_params_gradients(model.params), bytes);
    for (int i = 0; i < 3; i++)
        et_plan_run(model.plan, (et_random){ 1, (uint64_t)i, 0 });
    assert_memory_equal(first + ET_LOSS_SUM_TOKENS,
                        (float *)et_plan_output(model.plan, 0).data + ET_LOSS_SUM_TOKENS,
                        sizeof(float));
    et_plan_run(model.plan, (et_random){ 1, 1, 0 });
    assert_memory_equal(first, et_plan_output(model.plan, 0).data, sizeof first);
    assert_memory_equal(gradients, et_params_gradients(model.params), bytes);
    free(gradients);
    test_model_close(&model);
}

static void test_plan__allocates_nothing(void **state)
{
    (void)state;
    test_model model;
    et_plan_options late = ET_PLAN_OPTIONS_INIT;
    late.keep_packed = false;
    test_model_open_with(&model, transformer_loss, ET_F32, true, &late);
    bind_batch(model.plan);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    size_t before = et_alloc_count();
    for (uint64_t step = 1; step < 5; step++) {
        et_params_begin_change(model.params);
        et_params_changed(model.params, true);
        et_plan_run(model.plan, (et_random){ 1, step, 0 });
    }
    assert_int_equal(et_alloc_count(), before);
    test_model_close(&model);
}

static void test_plan__reuse_saves_memory(void **state)
{
    (void)state;
    test_model reusing, plain;
    et_plan_options alone = { .fuse = true, .reuse = false };
    test_model_open(&reusing, transformer_loss);
    test_model_open_with(&plain, transformer_loss, ET_F32, true, &alone);
    size_t small = et_plan_memory_needed(reusing.plan).activations;
    size_t large = et_plan_memory_needed(plain.plan).activations;
    assert_true(small < large / 2);
    test_model_close(&reusing);
    test_model_close(&plain);
}

static void test_plan__names_the_first_bad_value(void **state)
{
    (void)state;
    test_model model;
    test_model_open(&model, transformer_loss);
    bind_batch(model.plan);
    int index = et_params_find(model.params, "decoder/layer_1/feed_forward/in/weight");
    assert_true(index >= 0);
    float *weight = et_params_values(model.params) + et_params_offset(model.params, index);
    assert_null(et_plan_find_not_finite(model.plan, (et_random){ 1, 0, 0 }));
    weight[3] = NAN;
    et_params_begin_change(model.params);
    et_params_changed(model.params, true);
    assert_string_equal(et_plan_find_not_finite(model.plan, (et_random){ 1, 0, 0 }),
                        "decoder/layer_1/feed_forward/in/weight");
    test_model_close(&model);
}

/* Loss with the weights moved by `by` along direction. */
static double loss_along(test_model *model, const float *start, const float *direction, double by)
{
    float *values = et_params_values(model->params);
    for (int64_t i = 0; i < et_params_flat_size(model->params); i++)
        values[i] = start[i] + (float)by * direction[i];
    et_params_begin_change(model->params);
    et_params_changed(model->params, true);
    et_plan_run(model->plan, (et_random){ 11, 3, 0 });
    return *(const float *)et_plan_output(model->plan, 0).data;
}

/* The whole gradient, dropout and all: along itself the loss changes by its squared norm. */
static void test_plan__whole_gradient(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        test_model model;
        norm_first = k;
        activation = ET_ACTIVATION_GELU;
        test_model_open(&model, transformer_loss);
        bind_batch(model.plan);
        int64_t size = et_params_flat_size(model.params);
        float *start = malloc((size_t)size * sizeof *start);
        float *direction = malloc((size_t)size * sizeof *direction);
        assert_true(start && direction);
        memcpy(start, et_params_values(model.params), (size_t)size * sizeof *start);
        et_plan_run(model.plan, (et_random){ 11, 3, 0 });
        double square = 0;
        for (int64_t i = 0; i < size; i++) {
            direction[i] = et_params_gradients(model.params)[i];
            square += (double)direction[i] * (double)direction[i];
        }
        double step = 0.002 / sqrt(square);
        double change = (loss_along(&model, start, direction, step) -
                         loss_along(&model, start, direction, -step)) /
                        (2 * step);
        assert_true(fabs(change - square) < 0.01 * square);
        free(start);
        free(direction);
        test_model_close(&model);
    }
}

static et_node *mismatched(et_scope *s)
{
    et_node *a = et_param(s, "a", et_shape_2(3, 4), (et_init){ ET_INIT_ONES, 0 });
    et_node *b = et_param(s, "b", et_shape_2(5, 2), (et_init){ ET_INIT_ONES, 0 });
    return et_sum(et_relu(et_matmul(a, b, NULL, NULL)));
}

static void test_plan__a_bad_shape_is_named_once(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    mismatched(et_graph_scope(graph));
    assert_int_equal(et_graph_finish(graph, &error), ET_EGRAPH);
    assert_string_equal(error.text,
                        "the model (matmul): inner sizes differ: a [3, 4] and b [5, 2]");
    et_graph_free(graph);
    et_params_free(params);
}

/* The node itself still fits in the arena's block, and must not get in under another name. */
static void test_plan__a_name_without_memory_is_an_error(void **state)
{
    (void)state;
    static char name[70000];
    memset(name, 'n', sizeof name - 1);
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    et_input(et_graph_scope(graph), "x", ET_F32, et_shape_1(4));
    scarce_begin(0);
    et_input(et_graph_scope(graph), name, ET_F32, et_shape_1(4));
    scarce_end();
    assert_int_equal(et_graph_finish(graph, &error), ET_ENOMEM);
    et_graph_free(graph);
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    et_param(et_graph_scope(graph), "w", et_shape_1(4), (et_init){ 0 });
    assert_int_equal(et_params_materialize(params, false, &error), ET_OK);
    scarce_begin(0);
    et_param(et_graph_scope(graph), name, et_shape_1(4), (et_init){ 0 });
    scarce_end();
    assert_int_equal(et_graph_finish(graph, &error), ET_ENOMEM);
    et_graph_free(graph);
    et_params_free(params);
}

/* ---- listeners to gradients ---- */

enum { RANGES_MOST = 64 };

typedef struct hearing {
    et_plan_listener listener;
    const et_plan *plan;
    et_params *params;
    int64_t end[RANGES_MOST];
    float *then;  /* [end of all] gradients at the time when they were reported final */
    float *first; /* all, when the first was heard of */
    int heard;
} hearing;

static void hear(void *self, int range)
{
    hearing *h = self;
    int64_t begin = range ? h->end[range - 1] : 0;
    size_t bytes = (size_t)(h->end[range] - begin) * sizeof(float);
    const float *gradients = et_params_gradients(h->params);
    if (!h->heard)
        memcpy(h->first, gradients, (size_t)h->end[h->listener.ranges - 1] * sizeof(float));
    assert_int_equal(range, et_plan_heard(h->plan, h->heard++));
    memcpy(h->then + begin, gradients + begin, bytes);
}

/* One node is the gradient of both. */
static et_node *shared_loss(et_scope *s)
{
    const et_init ones = { ET_INIT_ONES, 0 };
    et_node *a = et_param(s, "a", et_shape_1(TOKENS), ones);
    et_node *b = et_param(s, "b", et_shape_1(TOKENS), ones);
    et_node *sum = et_add(a, b);
    return et_sum(et_mul(sum, sum));
}

/* Whatever the cuts: each range once, and nothing in it changes any more; the first while others
 * still do. */
static void assert_heard(test_build_fn *build, et_dtype act, et_recompute recompute, int ranges)
{
    et_error error = ET_ERROR_INIT;
    test_model model;
    test_model_open_as(&model, build, act, recompute, true, NULL);
    bind_batch(model.plan);
    int64_t size = et_params_trained_size(model.params);
    size_t bytes = (size_t)size * sizeof(float);
    hearing h = { .plan = model.plan, .params = model.params };
    h.then = malloc(bytes);
    h.first = malloc(bytes);
    for (int i = 0; i < ranges; i++)
        h.end[i] = size * (i + 1) / ranges;
    h.listener = (et_plan_listener){ h.end, ranges, hear, &h };
    const float one = 1;
    assert_true(h.then && h.first);
    et_plan_bind(model.plan, ET_GRAPH_ONE, &one);
    assert_int_equal(et_plan_listen(model.plan, &h.listener, &error), ET_OK);
    et_plan_run(model.plan, (et_random){ 11, 0, 0 });
    assert_int_equal(h.heard, ranges);
    assert_memory_equal(h.then, et_params_gradients(model.params), bytes);
    assert_true(ranges == 1 || build == shared_loss || memcmp(h.first, h.then, bytes) != 0);
    assert_int_equal(et_plan_listen(model.plan, NULL, &error), ET_OK);
    et_plan_run(model.plan, (et_random){ 11, 1, 0 });
    assert_int_equal(h.heard, ranges);
    free(h.then);
    free(h.first);
    test_model_close(&model);
}

static void test_plan__heard(void **state)
{
    (void)state;
    for (int ranges = 1; ranges <= RANGES_MOST; ranges = 3 * ranges + 1) {
        assert_heard(transformer_loss, ET_F32, ET_RECOMPUTE_CHEAP, ranges);
        assert_heard(transformer_loss, ET_BF16, ET_RECOMPUTE_MARKED, ranges);
        assert_heard(shared_loss, ET_F32, ET_RECOMPUTE_CHEAP, ranges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan__fusing_changes_nothing),
        cmocka_unit_test(test_plan__reusing_memory_changes_nothing),
        cmocka_unit_test(test_plan__recomputing_changes_nothing),
        cmocka_unit_test(test_plan__draws),
        cmocka_unit_test(test_plan__recomputing_saves_memory),
        cmocka_unit_test(test_plan__layers_save_more),
        cmocka_unit_test(test_plan__packing_late_changes_nothing),
        cmocka_unit_test(test_plan__few_rows_are_not_packed_for),
        cmocka_unit_test(test_plan__late_packs_share_the_arena),
        cmocka_unit_test(test_plan__threads_change_nothing),
        cmocka_unit_test(test_plan__runs_leave_nothing_behind),
        cmocka_unit_test(test_plan__allocates_nothing),
        cmocka_unit_test(test_plan__reuse_saves_memory),
        cmocka_unit_test(test_plan__names_the_first_bad_value),
        cmocka_unit_test(test_plan__whole_gradient),
        cmocka_unit_test(test_plan__a_bad_shape_is_named_once),
        cmocka_unit_test(test_plan__a_name_without_memory_is_an_error),
        cmocka_unit_test(test_plan__heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
