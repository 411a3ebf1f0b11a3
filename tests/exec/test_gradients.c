/* Every row of the op table: its derivative against finite differences of its value.
 *
 * A case builds sum(op(parameters) * weights), so that every element of the result has another
 * weight. The table is made from ops.def: an op without a case does not compile. */
#include "exec/gradients.h"

#define SEGMENTS 3

static const int32_t ids[ROWS] = { 3, 0, -1, 4, 3, 3, 1 };
static const int32_t positions[ROWS] = { 0, 1, 0, 2, 1, 3, 2 };
static const int32_t labels[ROWS] = { 3, 0, -1, 4, 2, 3, 1 };
static const int32_t query_offsets[SEGMENTS + 1] = { 0, 3, 3, 6 };
static const int32_t key_offsets[SEGMENTS + 1] = { 0, 2, 4, 7 };

static et_node *ints(et_scope *s, const char *name, int64_t count)
{
    return et_input(s, name, ET_I32, et_shape_1(count));
}

static et_node *check_SUM(et_scope *s)
{
    return et_sum(et_tanh(x(s)));
}

static et_node *check_COLUMN_SUM(et_scope *s)
{
    return weighted(s, et_column_sum(et_tanh(x(s))));
}

static et_node *check_ROW_SUM(et_scope *s)
{
    return weighted(s, et_row_sum(et_tanh(x(s))));
}

static et_node *check_SOFTMAX(et_scope *s)
{
    return weighted(s, et_softmax(x(s)));
}

static et_node *check_LOG_SOFTMAX(et_scope *s)
{
    return weighted(s, et_log_softmax(x(s)));
}

/* Every row weighs differently, and one is empty. */
static et_node *check_CROSS_ENTROPY(et_scope *s)
{
    return weighted(s,
                    et_cross_entropy(et_scale(x(s), 2), ints(s, "labels", ROWS), 0.1f, NULL, NULL));
}

/* Plain, with a bias and relu, and with both operands stored transposed. */
static et_node *check_MATMUL(et_scope *s)
{
    et_matmul_options relu = { .relu = true }, both = { .transpose_a = true, .transpose_b = true };
    et_node *h = et_matmul(x(s), param(s, "w", WIDTH, 5), param(s, "b", 0, 5), &relu);
    et_node *t = et_matmul(h, param(s, "v", 4, ROWS), NULL, &both);
    return weighted(s, et_matmul(t, param(s, "u", 4, 3), NULL, NULL));
}

static et_node *check_LAYER_NORM(et_scope *s)
{
    return weighted(s,
                    et_layer_norm(x(s), param(s, "g", 0, WIDTH), param(s, "b", 0, WIDTH), 1e-3f));
}

/* One table read twice: the second derivative is scattered into the first. */
static et_node *check_EMBEDDING(et_scope *s)
{
    et_node *table = param(s, "table", 5, WIDTH);
    et_node *at = ints(s, "ids", ROWS);
    et_node *a =
        et_embedding(at, table, 1.3f, ints(s, "positions", ROWS), et_sinusoid(s, 4, WIDTH));
    et_node *b = et_embedding(at, table, 0.7f, NULL, NULL);
    return weighted(s, et_mul(a, b));
}

static et_attention_options attention_options(bool causal, float rate)
{
    return (et_attention_options){ .heads = 2, .causal = causal, .rate = rate, .longest_key = 3 };
}

/* Causal self-attention with dropout, then cross-attention. Row 6 is in no query segment. */
static et_node *check_ATTENTION(et_scope *s)
{
    et_node *queries = ints(s, "query_offsets", SEGMENTS + 1);
    et_node *keys = ints(s, "key_offsets", SEGMENTS + 1);
    et_node *qkv = param(s, "qkv", ROWS, 3 * WIDTH);
    et_attention_options self = attention_options(true, 0.3f), cross = attention_options(false, 0);
    et_node *q = et_attention(et_in(s, "self"), qkv, qkv, queries, queries, &self);
    et_node *kv = param(s, "kv", ROWS, 2 * WIDTH);
    return weighted(s, et_attention(et_in(s, "cross"), q, kv, queries, keys, &cross));
}

static et_node *check_VOCABULARY_LOSS(et_scope *s)
{
    et_node *table = param(s, "table", 5, WIDTH);
    return et_vocabulary_loss(et_tanh(x(s)), table, ints(s, "labels", ROWS), 0.1f);
}

/* With a bias, as a classifier has it, and an empty row. */
static et_node *check_SOFTMAX_LOSS(et_scope *s)
{
    et_node *logits = et_matmul(x(s), param(s, "w", WIDTH, 5), param(s, "b", 0, 5), NULL);
    return et_softmax_loss(logits, ints(s, "labels", ROWS), 0.1f);
}

/* Leaves have nothing to differentiate; derivatives' own ops stand in no model. They are run by
 * the cases above: the value of a derivative is what a case checks. */
#define check_INPUT            NULL
#define check_PARAM            NULL
#define check_POSITIONS        NULL
#define check_RESULT           NULL
#define check_FILL             NULL
#define check_LAYER_NORM_GRAD  NULL
#define check_EMBEDDING_GRAD   NULL
#define check_ATTENTION_GRAD   NULL
#define check_CACHED_ATTENTION NULL
#define check_VOCABULARY_BEST  NULL
#define check_LABELLED         NULL

static const struct {
    const char *name;
    test_build_fn *build;
} cases[ET_OP_COUNT] = {
/* Of test_gradients_elementwise.c. */
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = { name, NULL },
#define X(id, name, fewest, most)                             [ET_OP_##id] = { name, check_##id },
#include "graph/ops.def"
#undef X
};

static void bind_all(et_plan *plan)
{
    bind_weights(plan);
    et_plan_bind(plan, "ids", ids);
    et_plan_bind(plan, "positions", positions);
    et_plan_bind(plan, "labels", labels);
    et_plan_bind(plan, "query_offsets", query_offsets);
    et_plan_bind(plan, "key_offsets", key_offsets);
}

static void test_gradients__every_op(void **state)
{
    (void)state;
    int checked = 0;
    for (int op = 0; op < ET_OP_COUNT; op++) {
        if (!cases[op].build)
            continue;
        test_model model;
        test_model_open(&model, cases[op].build);
        bind_all(model.plan);
        leave_kinks(model.params);
        check_params(&model, cases[op].name);
        test_model_close(&model);
        checked++;
    }
    assert_int_equal(checked, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gradients__every_op) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
