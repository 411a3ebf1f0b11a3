/* Operations and bytes of each op, worked out by hand for small shapes. */
#include "engine/exec/plan_private.h"

#include <string.h>

#include "engine/exec/model.h"
#include "engine/graph/build.h"
#include "skip.h"

static et_node *param(et_scope *s, const char *name, et_shape shape)
{
    return et_param(s, name, shape, (et_init){ ET_INIT_NORMAL, 1 });
}

static et_node *a_3_by_4(et_scope *s)
{
    return param(s, "a", et_shape_2(3, 4));
}

static et_node *product(et_scope *s)
{
    et_node *bias = param(s, "bias", et_shape_1(5));
    return et_sum(et_matmul(a_3_by_4(s), param(s, "b", et_shape_2(4, 5)), bias, NULL));
}

static et_node *chain(et_scope *s)
{
    return et_sum(et_relu(et_add(a_3_by_4(s), param(s, "b", et_shape_2(3, 4)))));
}

static et_node *bias(et_scope *s)
{
    return et_sum(et_bias(a_3_by_4(s), param(s, "bias", et_shape_1(4))));
}

static et_node *norm(et_scope *s)
{
    et_node *gamma = param(s, "gamma", et_shape_1(8)), *beta = param(s, "beta", et_shape_1(8));
    return et_sum(et_layer_norm(param(s, "x", et_shape_2(6, 8)), gamma, beta, 1e-6f));
}

static const int32_t ids[5] = { 6, 0, 3, -1, 3 };

static et_node *look_up(et_scope *s)
{
    et_node *table = param(s, "table", et_shape_2(7, 4));
    return et_sum(et_embedding(et_input(s, "ids", ET_I32, et_shape_1(5)), table, 2, NULL, NULL));
}

static et_node *look_up_places(et_scope *s)
{
    et_node *table = param(s, "table", et_shape_2(7, 4));
    et_node *at = et_input(s, "ids", ET_I32, et_shape_1(5));
    return et_sum(et_embedding(at, table, 2, et_input(s, "positions", ET_I32, et_shape_1(5)),
                               et_sinusoid(s, 9, 4)));
}

static const int32_t positions[5] = { 0, 1, 2, 0, 0 };

/* Segments of 3, 1 and no rows; the last two rows are in none. */
static const int32_t offsets[4] = { 0, 3, 4, 4 };

static et_node *self_attention(et_scope *s)
{
    et_attention_options options = { .heads = 2, .causal = true, .longest_key = 3 };
    et_node *at = et_input(s, "offsets", ET_I32, et_shape_1(4));
    et_node *qkv = param(s, "qkv", et_shape_2(6, 12));
    return et_sum(et_attention(s, qkv, qkv, at, at, &options));
}

static const int32_t query_offsets[3] = { 0, 2, 3 }, key_offsets[3] = { 0, 3, 7 };

static et_node *cross_attention(et_scope *s)
{
    et_attention_options options = { .heads = 2, .longest_key = 4 };
    et_node *q = param(s, "q", et_shape_2(3, 4)), *kv = param(s, "kv", et_shape_2(7, 8));
    return et_sum(et_attention(s, q, kv, et_input(s, "query_offsets", ET_I32, et_shape_1(3)),
                               et_input(s, "key_offsets", ET_I32, et_shape_1(3)), &options));
}

static float cache[5 * 8];
static const int32_t begins[2] = { 1, 0 }, lengths[2] = { 3, 0 };

static et_node *cached_attention(et_scope *s)
{
    et_node *q = param(s, "q", et_shape_2(2, 4));
    return et_sum(et_cached_attention(q, et_input(s, "cache", ET_F32, et_shape_2(5, 8)), NULL,
                                      et_input(s, "begins", ET_I32, et_shape_1(2)),
                                      et_input(s, "lengths", ET_I32, et_shape_1(2)), 2));
}

static et_node *recurrence(et_scope *s)
{
    et_node *at = et_input(s, "offsets", ET_I32, et_shape_1(4));
    return et_sum(
        et_recurrence_over(param(s, "x", et_shape_2(6, 4)), param(s, "g", et_shape_2(6, 4)), at));
}

static const int32_t labels[9] = { 3, 0, -1, 4, 2, 3, 1, 4, 0 };

static et_node *vocabulary_loss(et_scope *s)
{
    return et_vocabulary_loss(param(s, "h", et_shape_2(9, 6)), param(s, "t", et_shape_2(5, 6)),
                              et_input(s, "labels", ET_I32, et_shape_1(9)), 0);
}

static et_node *vocabulary_best(et_scope *s)
{
    et_node *piece;
    return et_sum(et_vocabulary_best(param(s, "h", et_shape_2(9, 6)),
                                     param(s, "t", et_shape_2(5, 6)), 2, &piece));
}

static et_node *softmax_loss(et_scope *s)
{
    return et_softmax_loss(param(s, "logits", et_shape_2(9, 5)),
                           et_input(s, "labels", ET_I32, et_shape_1(9)), 0);
}

static et_node *images(et_scope *s)
{
    et_node *x = param(s, "x", et_shape_4(2, 3, 3, 2));
    return et_sum(et_convolution(x, param(s, "w", et_shape_4(2, 2, 2, 3)), NULL, NULL));
}

static et_node *pooled(et_scope *s)
{
    et_pool_options two = { .window = { 2, 2 } };
    return et_sum(et_max_pool(param(s, "x", et_shape_4(2, 4, 4, 1)), &two));
}

static et_node *norm_rms(et_scope *s)
{
    return et_sum(et_rms_norm(param(s, "x", et_shape_2(6, 8)), param(s, "g", et_shape_1(8)), 1));
}

static et_node *norm_batch(et_scope *s)
{
    et_node *gamma = param(s, "gamma", et_shape_1(8)), *beta = param(s, "beta", et_shape_1(8));
    et_node *x = param(s, "x", et_shape_2(6, 8));
    return et_sum(et_batch_norm(x, gamma, beta, NULL, 1, NULL, NULL));
}

static et_node *take_rows(et_scope *s)
{
    et_node *x = param(s, "x", et_shape_2(7, 4));
    return et_sum(et_gather_rows(x, et_input(s, "ids", ET_I32, et_shape_1(5))));
}

static et_node *cut(et_scope *s)
{
    et_node *view = et_reshape(et_relu(a_3_by_4(s)), et_shape_2(2, 6));
    return et_sum(et_slice_columns(view, 1, 2));
}

static const struct {
    test_build_fn *build;
    bool gradients;
    const char *kind;
    double flops, bytes;
} cases[] = {
    { product, false, "matrix product, forward", 2 * 60, 4 * (12 + 20 + 5 + 15) },
    { product, true, "matrix product, input gradient", 2 * 60, 4 * (15 + 20 + 12) },
    { product, true, "matrix product, weight gradient", 2 * 60, 4 * (12 + 15 + 20) },
    { product, true, "column_sum", 15, 4 * (15 + 5) },
    { product, true, "fill", 0, 4 * (1 + 15) },
    { chain, false, "element-wise", 2 * 12, 4 * 3 * 12 },
    { chain, false, "sum", 12, 4 * (12 + 1) },
    { bias, false, "element-wise", 12, 4 * (12 + 4 + 12) },
    { bias, true, "column_sum", 12, 4 * (12 + 4) },
    { norm, false, "layer_norm", 8 * 48, 4 * (48 + 8 + 8 + 48) },
    { norm, true, "layer_norm", 8 * 48, 4 * (48 + 8 + 8 + 48 + 12) },
    { norm, true, "layer_norm_grad", 13 * 48, 4 * (48 + 48 + 12 + 8 + 48 + 8 + 8) },
    { look_up, false, "embedding", 20, 4 * (5 + 20 + 20) },
    { look_up, true, "embedding_grad", 2 * 20, 4 * (5 + 20 + 2 * 20 + 28) },
    { look_up_places, false, "embedding", 2 * 20, 4 * (2 * (5 + 20) + 20) },
    { self_attention, false, "attention", 4 * 4 * (6 + 1), 4 * 4 * (4 * 4) },
    { self_attention, true, "attention_grad", 10 * 4 * (6 + 1), 4 * 4 * (7 * 4) },
    { cross_attention, false, "attention", 4 * 4 * (6 + 4), 4 * 4 * (2 * 3 + 2 * 7) },
    { cross_attention, true, "attention_grad", 10 * 4 * (6 + 4), 4 * 4 * (3 * 3 + 4 * 7) },
    { cached_attention, false, "cached_attention", 4 * 4 * 3, 4 * 4 * (2 * 3 + 2 + 2) },
    { recurrence, false, "recurrence", 6 * 24, 4 * (3 * 24 + 4) },
    { recurrence, true, "recurrence_grad", 12 * 24, 4 * (6 * 24 + 4) },
    { vocabulary_loss, false, "vocabulary_loss", 2 * 9 * 6 * 5, 4 * (54 + 30 + 9 + 4) },
    { vocabulary_loss, true, "vocabulary_loss", 6 * 9 * 6 * 5, 4 * (2 * (54 + 30) + 9 + 4) },
    { vocabulary_best, false, "vocabulary_best", 2 * 9 * 6 * 5, 4 * 54 + 30 + 4 * 18 },
    { softmax_loss, false, "softmax_loss", 5 * 45, 4 * (45 + 9 + 4) },
    { softmax_loss, true, "softmax_loss", 5 * 45, 4 * (2 * 45 + 9 + 4) },
    { images, false, "convolution", 2 * 24 * 8, 4 * (36 + 24 + 24) },
    { images, true, "convolution_grad", 2 * 24 * 8, 4 * (24 + 24 + 36) },
    { images, true, "convolution_weight_grad", 2 * 24 * 8, 4 * (24 + 36 + 24) },
    { pooled, false, "max_pool", 32, 4 * (32 + 8) },
    { pooled, true, "pool_grad", 32, 4 * (8 + 8 + 32) },
    { norm_rms, false, "rms_norm", 4 * 48, 4 * (48 + 8 + 48) },
    { norm_rms, true, "rms_norm_grad", 9 * 48, 4 * (48 + 48 + 6 + 8 + 48 + 8) },
    { norm_batch, false, "batch_norm", 7 * 48, 4 * (2 * 48 + 8 + 8 + 48) },
    { norm_batch, true, "batch_norm_grad", 11 * 48, 4 * (2 * 48 + 2 * 48 + 3 * 8 + 48 + 2 * 8) },
    { take_rows, false, "gather", 0, 4 * (5 + 20 + 20) },
    { take_rows, true, "gather_grad", 20, 4 * (5 + 20 + 2 * 20 + 28) },
    { cut, false, "reshape", 0, 0 },
    { cut, false, "slice", 0, 4 * (4 + 4) },
};

static const float one = 1; /* d(sum)/d(sum) */

static void bind_all(et_plan *plan)
{
    et_plan_bind(plan, "ids", ids);
    et_plan_bind(plan, "positions", positions);
    et_plan_bind(plan, "offsets", offsets);
    et_plan_bind(plan, "query_offsets", query_offsets);
    et_plan_bind(plan, "key_offsets", key_offsets);
    et_plan_bind(plan, "cache", cache);
    et_plan_bind(plan, "begins", begins);
    et_plan_bind(plan, "lengths", lengths);
    et_plan_bind(plan, "labels", labels);
    et_plan_bind(plan, ET_GRAPH_ONE, &one);
}

/* The cost of the only call of that kind. */
static et_cost cost_of(const et_plan *plan, const char *kind)
{
    et_cost cost = { -1, -1 };
    int found = 0;
    for (int i = 0; i < plan->call_count; i++) {
        if (strcmp(et_plan_call_kind(&plan->calls[i]), kind) != 0)
            continue;
        cost = et_plan_call_cost(plan, &plan->calls[i]);
        found++;
    }
    if (found != 1)
        fail_msg("%d steps of kind %s", found, kind);
    return cost;
}

static void test_cost__by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_model model;
        test_model_open_with(&model, cases[i].build, ET_F32, cases[i].gradients, NULL);
        bind_all(model.plan);
        et_plan_run(model.plan, (et_random){ 1, 0, 0 });
        et_cost cost = cost_of(model.plan, cases[i].kind);
        if (cost.flops != cases[i].flops || cost.bytes != cases[i].bytes)
            fail_msg("case %zu, %s: %.0f flops and %.0f bytes, not %.0f and %.0f", i, cases[i].kind,
                     cost.flops, cost.bytes, cases[i].flops, cases[i].bytes);
        test_model_close(&model);
    }
}

/* Weights are read as bfloat16, the result written so; a bias stays float32. */
static void test_cost__bfloat16(void **state)
{
    (void)state;
    test_model model;
    if (!et_gemm_has_bf16())
        test_skip("this CPU multiplies no bfloat16");
    test_model_open_with(&model, product, ET_BF16, false, NULL);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    et_cost cost = cost_of(model.plan, "matrix product, forward");
    assert_true(cost.flops == 2 * 60 && cost.bytes == 2 * (12 + 20 + 15) + 4 * 5);
    test_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost__by_hand),
        cmocka_unit_test(test_cost__bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
