/* The derivative of every row of the op table, compared with finite differences of its value.
 *
 * A case builds sum(op(parameters) * weights), so that every element of the result has another
 * weight. The table is made from ops.def: an op without a case does not compile. */
#include "engine/exec/gradients.h"

#include "engine/graph/build.h"

#define SEGMENTS 3

static const int32_t ids[ROWS] = { 3, 0, -1, 4, 3, 3, 1 };
static const int32_t positions[ROWS] = { 0, 1, 0, 2, 1, 3, 2 };
static const int32_t labels[ROWS] = { 3, 0, -1, 4, 2, 3, 1 };
static const int32_t query_offsets[SEGMENTS + 1] = { 0, 3, 3, 6 };
static const int32_t key_offsets[SEGMENTS + 1] = { 0, 2, 4, 7 };
static const int32_t columns[ROWS][3] = { { 0, 1, 5 }, { 4, -1, 2 }, { 0, 0, 0 }, { 3, 1, -1 },
                                          { 0, 4, 2 }, { -1, 2, 2 }, { 1, 1, 3 } };
static const float counted[ROWS] = { 1, 1, 0, 1, 1, 0, 0 };
static float far[2 * 5 * 4 * 3], spread[WIDTH], half[ROWS * WIDTH], middle[WIDTH];

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

/* Rows have different weights, and one is empty. */
static et_node *check_CROSS_ENTROPY(et_scope *s)
{
    return weighted(s,
                    et_cross_entropy(et_scale(x(s), 2), ints(s, "labels", ROWS), 0.1f, NULL, NULL));
}

/* Columns next to others that need no derivative, multiplied by a weight and by a transposed one;
 * another op reads them too. */
static et_node *few_columns(et_scope *s)
{
    et_matmul_options transposed = { .transpose_b = true };
    et_node *parts[] = { et_one_hot(ints(s, "ids", ROWS), 20), et_tanh(x(s)),
                         et_one_hot(ints(s, "labels", ROWS), 8), y(s) };
    et_node *wide = et_concatenate_columns(parts, 4);
    et_node *a = et_matmul(wide, param(s, "few", 28 + 2 * WIDTH, 5), NULL, NULL);
    et_node *b = et_matmul(wide, param(s, "few_rows", 5, 28 + 2 * WIDTH), NULL, &transposed);
    return et_mul(et_add(a, b), et_slice_columns(wide, 18, 5));
}

/* Groups of columns, as [M, G K] [K, G N] and with each operand stored transposed in its groups. */
static et_node *grouped(et_scope *s)
{
    et_matmul_options plain = { .groups = 2, .relu = true };
    et_matmul_options across = { .groups = 2, .transpose_b = true };
    et_matmul_options turned = { .groups = 2, .transpose_a = true };
    et_matmul_options both = { .groups = 2, .transpose_a = true, .transpose_b = true };
    et_node *two[] = { et_tanh(x(s)), y(s) };
    et_node *pair = et_concatenate_columns(two, 2);
    et_node *h = et_matmul(pair, param(s, "gw", WIDTH, 2 * 3), param(s, "gb", 0, 2 * 3), &plain);
    h = et_matmul(h, param(s, "gv", 4, 2 * 3), NULL, &across);
    et_node *g = et_matmul(h, pair, NULL, &turned);
    g = et_matmul(g, param(s, "gu", 5, 2 * 4), NULL, &both);
    return et_reshape(g, et_shape_2(1, 2 * WIDTH * 5));
}

/* Plain, with a bias and relu, with both operands stored transposed, of few columns and in groups.
 */
static et_node *check_MATMUL(et_scope *s)
{
    et_matmul_options relu = { .relu = true }, both = { .transpose_a = true, .transpose_b = true };
    et_node *h = et_matmul(x(s), param(s, "w", WIDTH, 5), param(s, "b", 0, 5), &relu);
    et_node *t = et_matmul(h, param(s, "v", 4, ROWS), NULL, &both);
    et_node *both_ways[] = { et_reshape(et_matmul(t, param(s, "u", 4, 3), NULL, NULL),
                                        et_shape_2(1, 5 * 3)),
                             et_reshape(few_columns(s), et_shape_2(1, ROWS * 5)), grouped(s) };
    return weighted(s, et_concatenate_columns(both_ways, 3));
}

/* A product of two norms, the second made later: each gets its gradient, also if a weight's
 * gradient waits for its norm. */
static et_node *check_LAYER_NORM(et_scope *s)
{
    et_matmul_options transposed = { .transpose_b = true };
    et_node *g = param(s, "g", 0, WIDTH), *b = param(s, "b", 0, WIDTH);
    et_node *first = et_layer_norm(x(s), g, b, 1e-3f), *second = et_layer_norm(y(s), g, b, 1e-3f);
    return weighted(s, et_matmul(first, second, NULL, &transposed));
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

/* The last rows are in no segment. */
static et_node *check_RECURRENCE(et_scope *s)
{
    et_node *offsets = ints(s, "query_offsets", SEGMENTS + 1);
    return weighted(s, et_recurrence_over(et_tanh(x(s)), y(s), offsets));
}

static et_node *check_VOCABULARY_LOSS(et_scope *s)
{
    et_node *table = param(s, "table", 5, WIDTH);
    return et_vocabulary_loss(et_tanh(x(s)), table, ints(s, "labels", ROWS), 0.1f);
}

static et_node *two_draws(et_scope *s)
{
    et_node *table = param(s, "table", 5, WIDTH);
    return et_r_drop_loss(et_tanh(x(s)), et_tanh(y(s)), table, ints(s, "labels", ROWS), 0.1f, 3);
}

/* All labels and some more of 40, the same ones in each run. */
static et_node *of_sampled_words(et_scope *s)
{
    et_node *table = param(s, "table", 40, WIDTH);
    return et_sampled_loss(s, et_tanh(x(s)), table, ints(s, "labels", ROWS), 0.1f, 15);
}

/* A table that is used twice, once by way of another op. */
static et_node *of_computed_table(et_scope *s)
{
    et_node *table = param(s, "table", 5, WIDTH);
    et_node *h = et_mul(et_tanh(x(s)), et_gather_rows(table, ints(s, "ids", ROWS)));
    return et_vocabulary_loss(h, et_square(table), ints(s, "labels", ROWS), 0.1f);
}

/* With a bias, as a classifier has it, and an empty row. */
static et_node *check_SOFTMAX_LOSS(et_scope *s)
{
    et_node *logits = et_matmul(x(s), param(s, "w", WIDTH, 5), param(s, "b", 0, 5), NULL);
    return et_softmax_loss(logits, ints(s, "labels", ROWS), 0.1f);
}

/* A view with two readers, a view of a parameter, and a view that is a parameter's gradient. */
static et_node *check_RESHAPE(et_scope *s)
{
    et_node *long_rows = et_reshape(et_tanh(x(s)), et_shape_2(ROWS / 7, 7 * WIDTH));
    et_node *same = et_reshape(y(s), et_shape_2(ROWS / 7, 7 * WIDTH));
    et_node *both = et_add(et_tanh(long_rows), et_mul(long_rows, same));
    return weighted(s, et_reshape(et_sub(both, long_rows), et_shape_4(7, 1, WIDTH, 1)));
}

/* Columns and rows, and more nodes than one op takes. */
static et_node *check_CONCATENATE(et_scope *s)
{
    et_node *parts[11];
    for (int i = 0; i < 11; i++)
        parts[i] = et_scale(i % 2 ? y(s) : x(s), 0.5f + (float)i);
    et_node *wide = et_concatenate_columns(parts, 11);
    et_node *narrow = et_tanh(et_slice_columns(wide, 3 * WIDTH, 2 * WIDTH));
    et_node *rows[] = { narrow, et_concatenate_columns(parts, 2), narrow };
    return weighted(s, et_concatenate_rows(rows, 3));
}

static et_node *check_SLICE(et_scope *s)
{
    et_node *h = et_tanh(x(s));
    et_node *narrow = et_mul(et_slice_columns(h, 1, 4), et_slice_columns(h, 2, 4));
    et_node *image = et_reshape(h, et_shape_4(ROWS, 2, 3, 1));
    et_node *rows = et_reshape(et_slice_rows(image, 2, 3), et_shape_2(3, WIDTH));
    et_node *last = et_slice_columns(et_slice_rows(narrow, 4, 3), 0, 4);
    return weighted(s, et_mul(et_slice_columns(rows, 2, 4), last));
}

/* Some rows twice, some never, and an empty place. */
static et_node *check_GATHER(et_scope *s)
{
    et_node *taken = et_gather_rows(et_tanh(x(s)), ints(s, "ids", ROWS));
    return weighted(s, et_mul(taken, et_gather_rows(y(s), ints(s, "labels", ROWS))));
}

static et_node *check_ONE_HOT(et_scope *s)
{
    et_node *hot = et_one_hot(ints(s, "ids", ROWS), WIDTH);
    return weighted(s, et_matmul(hot, param(s, "w", WIDTH, 5), NULL, NULL));
}

/* Whole numbers are constants. */
static et_node *check_CAST(et_scope *s)
{
    et_node *numbers = et_reshape(et_cast(ints(s, "ids", ROWS), ET_F32), et_shape_2(ROWS, 1));
    return weighted(s, et_mul(et_tanh(x(s)), numbers));
}

/* Three columns of [5, 2], [5, 1] and [6, 4], and one table read twice. */
static et_node *check_EMBED_COLUMNS(et_scope *s)
{
    static const et_column tables[] = { { 5, 2 }, { 5, 1 }, { 6, 4 } };
    et_node *table = param(s, "table", 0, et_columns_size(tables, 3));
    et_node *at = et_input(s, "columns", ET_I32, et_shape_2(ROWS, 3));
    et_node *a = et_embed_columns(at, table, tables, 3);
    return weighted(s, et_mul(a, et_tanh(et_embed_columns(at, table, tables, 3))));
}

/* With scales of columns, without, and of a matrix or scales of rows that are constants. */
static et_node *check_SCALED_COPIES(et_scope *s)
{
    et_node *w = et_tanh(param(s, "w", 3, 5)), *r = param(s, "r", 0, 2 * 3);
    et_node *fixed = et_input(s, "half", ET_F32, et_shape_2(ROWS, WIDTH));
    et_node *ones = et_reshape(et_slice_rows(fixed, 0, 1), et_shape_1(WIDTH));
    et_node *each[] = { et_scaled_copies(w, r, param(s, "c", 0, 2 * 5)),
                        et_scaled_copies(w, et_tanh(r), NULL),
                        et_scaled_copies(w, ones, param(s, "d", 0, 2 * 5)),
                        et_scaled_copies(et_slice_rows(fixed, 1, 3), r, NULL) };
    return weighted(s, et_concatenate_columns(each, 4));
}

static et_node *check_RMS_NORM(et_scope *s)
{
    return weighted(s, et_rms_norm(x(s), param(s, "g", 0, WIDTH), 1e-3f));
}

/* With the batch's own statistics, over rows and over an image, where some rows do not count, and
 * with given statistics. */
static et_node *check_BATCH_NORM(et_scope *s)
{
    et_node *gamma = param(s, "g", 0, WIDTH), *beta = param(s, "b", 0, WIDTH), *mean, *variance;
    et_node *h = et_batch_norm(x(s), gamma, beta, NULL, 1e-2f, &mean, &variance);
    et_node *image = et_reshape(et_tanh(h), et_shape_4(7, 1, 3, 2));
    et_node *counted_rows = et_input(s, "counted", ET_F32, et_shape_1(7));
    et_node *small = et_batch_norm(image, param(s, "g2", 0, 2), param(s, "b2", 0, 2), counted_rows,
                                   1e-2f, NULL, NULL);
    et_node *flat = et_reshape(small, et_shape_2(ROWS, WIDTH));
    et_node *at = et_input(s, "mean", ET_F32, et_shape_1(WIDTH));
    et_node *deviation = et_input(s, "variance", ET_F32, et_shape_1(WIDTH));
    return weighted(s, et_batch_norm_given(et_tanh(flat), gamma, beta, at, deviation, 1e-3f));
}

/* Two samples of 5 x 4, 2 channels: plain with a bias, then with stride, dilation, padding, relu.
 */
static et_node *check_CONVOLUTION(et_scope *s)
{
    et_shape image = et_shape_4(2, 5, 4, 2);
    et_init init = { ET_INIT_NORMAL, 0.5f };
    et_convolution_options same = { .same = true, .relu = true, .stride = { 1, 2 } };
    et_convolution_options wide = { .dilation = { 2, 1 }, .same = true };
    et_node *h =
        et_convolution(et_param(s, "x", image, init),
                       et_param(s, "u", et_shape_4(2, 2, 2, 3), init), param(s, "b", 0, 3), NULL);
    et_node *g = et_convolution(et_tanh(h), et_param(s, "v", et_shape_4(3, 2, 3, 2), init),
                                param(s, "c", 0, 2), &same);
    return weighted(s,
                    et_convolution(g, et_param(s, "w", et_shape_4(2, 3, 2, 4), init), NULL, &wide));
}

/* Numbers that are far enough apart for finite differences. */
static et_node *apart(et_scope *s)
{
    et_node *distance = et_input(s, "far", ET_F32, et_shape_4(2, 5, 4, 3));
    return et_add(et_tanh(et_param(s, "x", et_shape_4(2, 5, 4, 3), (et_init){ ET_INIT_NORMAL, 1 })),
                  distance);
}

/* Overlapping windows with padding; then one window over all the rest. */
static et_node *check_MAX_POOL(et_scope *s)
{
    et_pool_options same = { .window = { 3, 2 }, .stride = { 2, 1 }, .same = true };
    et_node *h = et_max_pool(apart(s), &same);
    return weighted(s, et_max_pool(h, NULL));
}

static et_node *check_MEAN_POOL(et_scope *s)
{
    et_pool_options same = { .window = { 3, 2 }, .stride = { 2, 1 }, .same = true };
    et_pool_options valid = { .window = { 2, 2 } };
    et_node *h = et_tanh(et_mean_pool(apart(s), &same));
    return weighted(s, et_mean_pool(h, &valid));
}

/* A sample moved and scaled: noise itself is a constant. */
static et_node *check_NOISE(et_scope *s)
{
    et_node *noise = et_noise(s, "noise", et_shape_2(ROWS, WIDTH));
    return weighted(s, et_add(y(s), et_mul(et_tanh(x(s)), noise)));
}

/* Of a constant, since samples have no derivative. */
static et_node *check_BERNOULLI(et_scope *s)
{
    et_node *p = et_input(s, "half", ET_F32, et_shape_2(ROWS, WIDTH));
    return weighted(s, et_mul(et_bernoulli(s, "drawn", p), et_tanh(x(s))));
}

/* Leaves have no derivative, and no model contains the derivatives' own ops. The cases above run
 * those, because a case checks a derivative's value. */
#define check_CANDIDATES              NULL
#define check_INPUT                   NULL
#define check_PARAM                   NULL
#define check_POSITIONS               NULL
#define check_INTEGERS                NULL
#define check_RESULT                  NULL
#define check_FILL                    NULL
#define check_LAYER_NORM_GRAD         NULL
#define check_EMBEDDING_GRAD          NULL
#define check_ATTENTION_GRAD          NULL
#define check_RECURRENCE_GRAD         NULL
#define check_CACHED_ATTENTION        NULL
#define check_VOCABULARY_BEST         NULL
#define check_LABELLED                NULL
#define check_SLICE_GRAD              NULL
#define check_GATHER_GRAD             NULL
#define check_EMBED_COLUMNS_GRAD      NULL
#define check_SCALED_COPIES_GRAD      NULL
#define check_RMS_NORM_GRAD           NULL
#define check_BATCH_NORM_GRAD         NULL
#define check_CONVOLUTION_GRAD        NULL
#define check_CONVOLUTION_WEIGHT_GRAD NULL
#define check_POOL_GRAD               NULL

static const struct {
    const char *name;
    test_build_fn *build;
} cases[ET_OP_COUNT] = {
/* Of test_gradients_elementwise.c. */
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = { name, NULL },
#define X(id, name, fewest, most)                             [ET_OP_##id] = { name, check_##id },
#include "engine/graph/ops.def"
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
    for (int i = 0; i < 2 * 5 * 4 * 3; i++)
        far[i] = 4.0f * (float)((i * 37) % (2 * 5 * 4 * 3));
    for (int i = 0; i < WIDTH; i++) {
        spread[i] = 0.5f + 0.25f * (float)i;
        middle[i] = sinf(1.0f + (float)i);
    }
    for (int i = 0; i < ROWS * WIDTH; i++)
        half[i] = 0.5f;
    et_plan_bind(plan, "far", far);
    et_plan_bind(plan, "mean", middle);
    et_plan_bind(plan, "variance", spread);
    et_plan_bind(plan, "half", half);
    et_plan_bind(plan, "columns", columns);
    et_plan_bind(plan, "counted", counted);
}

static void check_case(test_build_fn *build, const char *name)
{
    test_model model;
    test_model_open(&model, build);
    bind_all(model.plan);
    leave_kinks(model.params);
    check_params(&model, name);
    test_model_close(&model);
}

static void test_gradients__every_op(void **state)
{
    (void)state;
    int checked = 0;
    for (int op = 0; op < ET_OP_COUNT; op++) {
        if (!cases[op].build)
            continue;
        check_case(cases[op].build, cases[op].name);
        checked++;
    }
    assert_int_equal(checked, 28);
}

/* Ops with other inputs than in their cases above. */
static void test_gradients__other_forms(void **state)
{
    (void)state;
    check_case(two_draws, "vocabulary_loss of two draws");
    check_case(of_sampled_words, "vocabulary_loss of candidates");
    check_case(of_computed_table, "vocabulary_loss of a computed table");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gradients__every_op),
                                        cmocka_unit_test(test_gradients__other_forms) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
