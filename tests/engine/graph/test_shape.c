/* Shape rules: the results of each op for valid inputs, and the messages for invalid ones. A row of
 * a table is a function that adds nodes to a graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include <etude/layers.h>

#include "engine/graph/build.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/graph.h"
#include "engine/graph/shape_cases.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { T = 7, D = 6, V = 5, S = 2 };

static const et_init ones = { ET_INIT_ONES, 0 };

static et_node *matrix(et_scope *s, const char *name, int64_t rows, int64_t columns)
{
    return et_input(s, name, et_graph_act(et_scope_graph(s)), et_shape_2(rows, columns));
}

static et_node *x(et_scope *s)
{
    return matrix(s, "x", T, D);
}

static et_node *ids(et_scope *s, int64_t count)
{
    return et_input(s, "ids", ET_I32, et_shape_1(count));
}

static et_node *floats(et_scope *s, const char *name, int64_t count)
{
    return et_input(s, name, ET_F32, et_shape_1(count));
}

static et_node *vector(et_scope *s, const char *name, int64_t count)
{
    return et_param(s, name, et_shape_1(count), ones);
}

static et_node *table(et_scope *s)
{
    return et_param(s, "table", et_shape_2(V, D), ones);
}

static et_node *attention(et_scope *s, int64_t query, int64_t key, int heads, int64_t offsets)
{
    et_attention_options options = { .heads = heads, .longest_key = T };
    et_node *q = matrix(s, "q", T, query), *at = ids(s, S + 1);
    et_node *kv = key ? matrix(s, "kv", T, key) : q;
    et_node *keys = et_input(s, "keys", ET_I32, et_shape_1(offsets));
    return et_attention(s, q, kv, at, keys, &options);
}

/* ---- what fits ---- */

static et_node *fits_add(et_scope *s)
{
    return et_add(x(s), et_gelu(x(s)));
}

static et_node *fits_bias(et_scope *s)
{
    return et_bias(x(s), vector(s, "b", D));
}

static et_node *fits_sum(et_scope *s)
{
    return et_sum(x(s));
}

static et_node *fits_matmul(et_scope *s)
{
    return et_matmul(x(s), et_param(s, "w", et_shape_2(D, 4), ones), vector(s, "b", 4), NULL);
}

static et_node *fits_matmul_transposed(et_scope *s)
{
    et_matmul_options options = { .transpose_a = true, .transpose_b = true, .f32 = true };
    return et_matmul(x(s), et_param(s, "w", et_shape_2(4, T), ones), NULL, &options);
}

static et_node *fits_matmul_groups(et_scope *s)
{
    et_matmul_options options = { .groups = 3 };
    return et_matmul(x(s), et_param(s, "w", et_shape_2(D / 3, 3 * 4), ones), vector(s, "b", 3 * 4),
                     &options);
}

static et_node *fits_layer_norm(et_scope *s)
{
    return et_layer_norm(x(s), vector(s, "g", D), vector(s, "b", D), 1e-6f);
}

static et_node *fits_embedding(et_scope *s)
{
    et_node *at = et_input(s, "at", ET_I32, et_shape_1(T));
    return et_embedding(ids(s, T), table(s), 1, at, et_sinusoid(s, 30, D));
}

/* Numbers of a batch, in a graph of another type. */
static et_node *fits_matmul_batch(et_scope *s)
{
    et_node *f = et_input(s, "f", ET_F32, et_shape_2(T, D));
    return et_matmul(f, et_tanh(f), NULL, &(et_matmul_options){ .transpose_b = true });
}

static et_node *fits_attention_batch(et_scope *s)
{
    const et_attention_options options = { .heads = 2 };
    et_node *f = et_input(s, "f", ET_F32, et_shape_2(T, 3 * D));
    et_node *offsets = et_integers(s, 0, 2, T);
    return et_attention(s, f, f, offsets, offsets, &options);
}

static et_node *fits_loss_batch(et_scope *s)
{
    return et_vocabulary_loss(et_input(s, "f", ET_F32, et_shape_2(T, D)), table(s), ids(s, T), 0);
}

static et_node *fits_cast(et_scope *s)
{
    return et_add(et_cast(et_cast(ids(s, T), ET_BF16), ET_F32), et_cast(ids(s, T), ET_F32));
}

static et_node *fits_attention_self(et_scope *s)
{
    return attention(s, 3 * D, 0, 2, S + 1);
}

static et_node *fits_attention_cross(et_scope *s)
{
    return attention(s, D, 2 * D, 3, S + 1);
}

static et_node *fits_vocabulary_loss(et_scope *s)
{
    return et_vocabulary_loss(x(s), table(s), ids(s, T), 0.1f);
}

static et_node *candidates(et_scope *s, et_node *labels, int64_t classes, int64_t count)
{
    et_node *places, *offsets;
    return et_candidates(s, "candidates", labels, classes, count, &places, &offsets);
}

static et_node *fits_candidates(et_scope *s)
{
    return candidates(s, ids(s, T), 3 * T, T);
}

static et_node *fits_softmax_loss(et_scope *s)
{
    return et_softmax_loss(x(s), ids(s, T), 0);
}

static et_node *column(et_scope *s, const char *name, int64_t rows)
{
    return et_input(s, name, ET_F32, et_shape_2(rows, 1));
}

/* Scaled as RMS norm does it: a column, then a row, over a matrix of act. */
static et_node *fits_repeated(et_scope *s)
{
    et_node *size = et_sqrt(et_offset(et_row_mean(et_square(x(s))), 1e-6f));
    return et_mul(et_div(x(s), size), vector(s, "g", D));
}

/* Either operand may be the repeated one. */
static et_node *fits_repeated_first(et_scope *s)
{
    return et_sub(et_mean(x(s)), et_sub(column(s, "c", T), x(s)));
}

static et_node *fits_copy(et_scope *s)
{
    return et_copy(et_copy(et_column_mean(x(s)), ET_F32, et_shape_2(T, D)), ET_BF16,
                   et_shape_2(T, D));
}

static et_node *fits_row_sum(et_scope *s)
{
    return et_row_sum(x(s));
}

static et_node *fits_log_softmax(et_scope *s)
{
    return et_log_softmax(et_softmax(x(s)));
}

static et_node *fits_huber(et_scope *s)
{
    return et_huber_error(x(s), et_input(s, "t", ET_F32, et_shape_2(T, D)), 1);
}

static et_node *fits_cross_entropy(et_scope *s)
{
    et_node *nll, *correct, *loss = et_cross_entropy(x(s), ids(s, T), 0.1f, &nll, &correct);
    return et_add(et_add(loss, nll), et_add(correct, et_labelled(ids(s, T))));
}

static et_node *fits_weighted_sum(et_scope *s)
{
    return et_weighted_sum(et_row_sum(x(s)), column(s, "w", T));
}

static void test_shape__fits(void **state)
{
    (void)state;
    static const fitting cases[] = {
        { fits_add, ACT, { 2, { T, D } } },
        { fits_bias, ACT, { 2, { T, D } } },
        { fits_sum, ET_F32, { 0, { 0 } } },
        { fits_matmul, ACT, { 2, { T, 4 } } },
        { fits_matmul_groups, ACT, { 2, { T, 3 * 4 } } },
        { fits_matmul_transposed, ET_F32, { 2, { D, 4 } } },
        { fits_layer_norm, ACT, { 2, { T, D } } },
        { fits_embedding, ACT, { 2, { T, D } } },
        { fits_matmul_batch, ACT, { 2, { T, T } } },
        { fits_attention_batch, ACT, { 2, { T, D } } },
        { fits_loss_batch, ET_F32, { 1, { ET_LOSS_SUM_COUNT } } },
        { fits_cast, ET_F32, { 1, { T } } },
        { fits_attention_self, ACT, { 2, { T, D } } },
        { fits_attention_cross, ACT, { 2, { T, D } } },
        { fits_vocabulary_loss, ET_F32, { 1, { ET_LOSS_SUM_COUNT } } },
        { fits_candidates, ET_I32, { 1, { T } } },
        { fits_softmax_loss, ET_F32, { 1, { ET_LOSS_SUM_COUNT } } },
        { fits_repeated, ACT, { 2, { T, D } } },
        { fits_repeated_first, ACT, { 2, { T, D } } },
        { fits_copy, ET_BF16, { 2, { T, D } } },
        { fits_row_sum, ET_F32, { 2, { T, 1 } } },
        { fits_log_softmax, ACT, { 2, { T, D } } },
        { fits_huber, ET_F32, { 2, { T, 1 } } },
        { fits_cross_entropy, ET_F32, { 2, { T, 1 } } },
        { fits_weighted_sum, ET_F32, { 0, { 0 } } },
    };
    assert_fit(cases, COUNT(cases));
}

/* ---- invalid inputs ---- */

static et_node *wrong_add(et_scope *s)
{
    return et_add(x(s), matrix(s, "y", T, D + 1));
}

static et_node *wrong_types(et_scope *s)
{
    return et_mul(x(s), et_param(s, "w", et_shape_2(T, D), ones));
}

static et_node *wrong_bias(et_scope *s)
{
    return et_bias(x(s), vector(s, "b", T));
}

static et_node *wrong_matmul(et_scope *s)
{
    return et_matmul(x(s), et_param(s, "w", et_shape_2(D + 1, 4), ones), NULL, NULL);
}

static et_node *wrong_matmul_bias(et_scope *s)
{
    return et_matmul(x(s), et_param(s, "w", et_shape_2(D, 4), ones), vector(s, "b", D), NULL);
}

/* Of the graph's activation type, which is bfloat16, or integers: read as float32. */
static et_node *wrong_matmul_bias_type(et_scope *s)
{
    et_node *b = et_input(s, "b", ET_BF16, et_shape_1(4));
    return et_matmul(x(s), et_param(s, "w", et_shape_2(D, 4), ones), b, NULL);
}

static et_node *wrong_norm_type(et_scope *s)
{
    et_node *b = et_input(s, "b", ET_BF16, et_shape_1(D));
    return et_layer_norm(x(s), vector(s, "g", D), b, 1e-3f);
}

static et_node *wrong_norm_integers(et_scope *s)
{
    et_node *whole = et_input(s, "whole", ET_I32, et_shape_2(T, D));
    return et_layer_norm(whole, vector(s, "g", D), vector(s, "b", D), 1e-3f);
}

static et_node *wrong_rms_type(et_scope *s)
{
    return et_rms_norm(x(s), et_input(s, "g", ET_BF16, et_shape_1(D)), 1e-3f);
}

static et_node *wrong_table_type(et_scope *s)
{
    return et_embedding(ids(s, T), et_input(s, "t", ET_BF16, et_shape_2(V, D)), 1, NULL, NULL);
}

static et_node *wrong_positions_type(et_scope *s)
{
    et_node *positions = et_input(s, "p", ET_BF16, et_shape_2(30, D));
    return et_embedding(ids(s, T), table(s), 1, et_input(s, "at", ET_I32, et_shape_1(T)),
                        positions);
}

static et_node *wrong_sum(et_scope *s)
{
    return et_sum(ids(s, T));
}

static et_node *wrong_columns(et_scope *s)
{
    static const et_column columns[] = { { INT64_MAX / 2, 4 }, { 3, 2 } };
    return et_embedding_columns(s, et_input(s, "i", ET_I32, et_shape_2(T, 2)), columns, 2);
}

static et_node *wrong_matmul_vector(et_scope *s)
{
    return et_matmul(x(s), vector(s, "w", D), NULL, NULL);
}

static et_node *wrong_matmul_type(et_scope *s)
{
    return et_matmul(et_input(s, "i", ET_I32, et_shape_2(T, D)), table(s), NULL,
                     &(et_matmul_options){ .transpose_b = true });
}

static et_node *wrong_cast(et_scope *s)
{
    return et_cast(x(s), ET_I32);
}

static et_node *wrong_layer_norm(et_scope *s)
{
    return et_layer_norm(x(s), vector(s, "g", D), vector(s, "b", T), 1e-6f);
}

static et_node *wrong_embedding(et_scope *s)
{
    return et_embedding(floats(s, "f", T), table(s), 1, NULL, NULL);
}

static et_node *wrong_positions(et_scope *s)
{
    et_node *at = et_input(s, "at", ET_I32, et_shape_1(T + 1));
    return et_embedding(ids(s, T), table(s), 1, at, et_sinusoid(s, 30, D));
}

static et_node *wrong_positions_width(et_scope *s)
{
    et_node *at = et_input(s, "at", ET_I32, et_shape_1(T));
    return et_embedding(ids(s, T), table(s), 1, at, et_sinusoid(s, 30, D + 2));
}

static et_node *wrong_heads(et_scope *s)
{
    return attention(s, 3 * D, 0, 4, S + 1);
}

static et_node *wrong_self(et_scope *s)
{
    return attention(s, 3 * D + 1, 0, 2, S + 1);
}

static et_node *wrong_cross(et_scope *s)
{
    return attention(s, D, 3 * D, 2, S + 1);
}

static et_node *wrong_offsets(et_scope *s)
{
    return attention(s, D, 2 * D, 2, S + 2);
}

static et_node *wrong_table(et_scope *s)
{
    return et_vocabulary_loss(matrix(s, "h", T, D + 2), table(s), ids(s, T), 0.1f);
}

static et_node *wrong_labels(et_scope *s)
{
    return et_vocabulary_loss(x(s), table(s), floats(s, "f", T), 0.1f);
}

static et_node *wrong_draw(et_scope *s)
{
    return et_r_drop_loss(x(s), matrix(s, "h", T + 1, D), table(s), ids(s, T), 0.1f, 5);
}

static et_node *wrong_agreement(et_scope *s)
{
    return et_r_drop_loss(x(s), x(s), table(s), ids(s, T), 0.1f, -1);
}

static et_node *wrong_sample(et_scope *s)
{
    return candidates(s, ids(s, T), 3 * T, T - 1);
}

static et_node *wrong_sample_of_few(et_scope *s)
{
    return candidates(s, ids(s, T), V, V + 1);
}

static et_node *wrong_sample_count(et_scope *s)
{
    return candidates(s, ids(s, T), 3 * T, 0);
}

static et_node *wrong_sampled_labels(et_scope *s)
{
    return candidates(s, floats(s, "f", T), 3 * T, 2 * T);
}

static et_node *wrong_label_count(et_scope *s)
{
    return et_softmax_loss(x(s), ids(s, T - 1), 0);
}

static et_node *wrong_column(et_scope *s)
{
    return et_mul(x(s), column(s, "c", T - 1));
}

/* A column whose type is neither its matrix's nor float32. */
static et_node *wrong_column_type(et_scope *s)
{
    return et_div(column(s, "c", T), et_input(s, "b", ET_BF16, et_shape_2(1, 1)));
}

static et_node *wrong_whole_numbers(et_scope *s)
{
    return et_exp(ids(s, T));
}

static et_node *wrong_copy(et_scope *s)
{
    return et_copy(x(s), ET_F32, et_shape_2(D, T));
}

static et_node *wrong_row_sum(et_scope *s)
{
    return et_row_sum(vector(s, "v", D));
}

static et_node *wrong_power(et_scope *s)
{
    return et_power(x(s), 0);
}

static et_node *wrong_clamp(et_scope *s)
{
    return et_clamp(x(s), 1, -1);
}

static et_node *wrong_huber(et_scope *s)
{
    return et_huber_error(x(s), x(s), 0);
}

static et_node *wrong_class_smoothing(et_scope *s)
{
    et_node *nll, *correct;
    et_cross_entropy(x(s), ids(s, T), 1, &nll, &correct);
    return et_add(nll, correct);
}

static et_node *wrong_class_labels(et_scope *s)
{
    return et_cross_entropy(x(s), ids(s, T + 1), 0, NULL, NULL);
}

static et_node *wrong_labelled(et_scope *s)
{
    return et_labelled(floats(s, "f", T));
}

static et_node *wrong_again(et_scope *s)
{
    return et_param(s, "table", et_shape_2(D, V), ones) && table(s) ? table(s) : NULL;
}

/* ---- numbers, names and options that make no sense ---- */

static et_node *wrong_name(et_scope *s)
{
    return et_input(s, NULL, ET_F32, et_shape_1(3));
}

static et_node *wrong_param_name(et_scope *s)
{
    return et_param(s, "", et_shape_1(3), ones);
}

static et_node *wrong_negative(et_scope *s)
{
    return et_input(s, "n", ET_F32, et_shape_2(4, -5));
}

static et_node *wrong_rank(et_scope *s)
{
    return et_input(s, "n", ET_F32, (et_shape){ 7, { 1, 1, 1, 1 } });
}

static et_node *wrong_dtype(et_scope *s)
{
    return et_input(s, "n", (et_dtype)9, et_shape_1(3));
}

static et_node *wrong_param_shape(et_scope *s)
{
    return vector(s, "n", -1);
}

static et_node *wrong_sinusoid(et_scope *s)
{
    return et_sinusoid(s, -2, 8);
}

static et_node *wrong_integers(et_scope *s)
{
    return et_integers(s, 1, (int64_t)1 << 31, 1);
}

static et_node *wrong_integers_end(et_scope *s)
{
    return et_integers(s, -1, 4, -0x40000000);
}

static et_node *wrong_integers_count(et_scope *s)
{
    return et_integers(s, 0, -1, 1);
}

static et_node *wrong_product(et_scope *s)
{
    return et_matmul(matrix(s, "a", (int64_t)1 << 50, 1), matrix(s, "b", 1, 1 << 20), NULL, NULL);
}

static et_node *wrong_group_count(et_scope *s)
{
    return et_matmul(x(s), x(s), NULL, &(et_matmul_options){ .transpose_b = true, .groups = -1 });
}

static et_node *wrong_groups(et_scope *s)
{
    return et_matmul(x(s), x(s), NULL, &(et_matmul_options){ .transpose_b = true, .groups = 5 });
}

static et_node *wrong_groups_of_rows(et_scope *s)
{
    return et_matmul(x(s), x(s), NULL,
                     &(et_matmul_options){ .transpose_b = true, .groups = 3, .row_tile = 2 });
}

/* As wide as one group. */
static et_node *wrong_group_bias(et_scope *s)
{
    return et_matmul(x(s), x(s), vector(s, "b", T),
                     &(et_matmul_options){ .transpose_b = true, .groups = 2 });
}

static et_node *wrong_row_tile(et_scope *s)
{
    return et_matmul(x(s), x(s), NULL, &(et_matmul_options){ .transpose_b = true, .row_tile = -1 });
}

static et_node *wrong_factor(et_scope *s)
{
    return et_scale(x(s), NAN);
}

static et_node *wrong_int(et_scope *s)
{
    return et_tanh(ids(s, T));
}

static et_node *wrong_rate(et_scope *s)
{
    return et_dropout(s, x(s), 1);
}

static et_node *wrong_epsilon(et_scope *s)
{
    return et_norm(s, x(s), -1);
}

static et_node *wrong_pair(et_scope *s)
{
    return et_embedding(ids(s, T), table(s), 1, ids(s, T), NULL);
}

static et_node *wrong_embedding_scale(et_scope *s)
{
    return et_embedding(ids(s, T), table(s), INFINITY, NULL, NULL);
}

static et_node *attention_with(et_scope *s, const et_attention_options *options)
{
    et_node *q = matrix(s, "q", T, 3 * D), *at = ids(s, S + 1);
    return et_attention(s, q, q, at, at, options);
}

static et_node *wrong_no_options(et_scope *s)
{
    return attention_with(s, NULL);
}

static et_node *wrong_no_heads(et_scope *s)
{
    return attention_with(s, &(et_attention_options){ .heads = 0, .longest_key = T });
}

static et_node *wrong_attention_rate(et_scope *s)
{
    return attention_with(s, &(et_attention_options){ .heads = 2, .rate = NAN, .longest_key = T });
}

static et_node *wrong_longest(et_scope *s)
{
    return attention_with(s, &(et_attention_options){ .heads = 2, .longest_key = -1 });
}

static et_node *wrong_cache(et_scope *s)
{
    et_node *cache = matrix(s, "cache", 20, 2 * D);
    return et_cached_attention(x(s), cache, NULL, NULL, ids(s, T), 2);
}

static et_node *wrong_begin(et_scope *s)
{
    et_node *cache = matrix(s, "cache", 20, 2 * D);
    return et_cached_attention(x(s), cache, NULL, floats(s, "begin", T), ids(s, T), 2);
}

static et_node *wrong_gate(et_scope *s)
{
    return et_recurrence_over(x(s), matrix(s, "gate", T, D + 1), ids(s, 3));
}

static et_node *wrong_segments(et_scope *s)
{
    return et_recurrence_over(x(s), x(s), ids(s, 1));
}

static et_node *wrong_state(et_scope *s)
{
    et_node *where = et_input(s, "where", ET_I32, et_shape_2(T, 2));
    return et_recurrence_step(x(s), x(s), matrix(s, "state", 4, D + 1), where);
}

static et_node *wrong_where(et_scope *s)
{
    return et_recurrence_step(x(s), x(s), matrix(s, "state", 4, D), ids(s, T));
}

static et_node *wrong_control(et_scope *s)
{
    return et_param(et_in(s, "a\nb"), "w", et_shape_1(1), ones);
}

static et_node *wrong_smoothing(et_scope *s)
{
    return et_softmax_loss(x(s), ids(s, T), 1);
}

static et_node *wrong_vocabulary_smoothing(et_scope *s)
{
    return et_vocabulary_loss(x(s), table(s), ids(s, T), NAN);
}

static et_node *wrong_best(et_scope *s)
{
    et_node *along;
    return et_vocabulary_best(x(s), table(s), -1, &along);
}

static et_node *wrong_units(et_scope *s)
{
    return et_dense(s, x(s), -512);
}

static et_node *wrong_limit(et_scope *s)
{
    return et_dense_with(s, x(s), 4, &(et_dense_options){ .init_limit = -1 });
}

static et_node *wrong_activation(et_scope *s)
{
    return et_dense_with(s, x(s), 4, &(et_dense_options){ .activation = (et_activation)77 });
}

static et_node *wrong_empty(et_scope *s)
{
    return et_matmul(x(s), et_param(s, "w", et_shape_2(D, 0), ones), NULL, NULL);
}

static et_node *wrong_image_column(et_scope *s)
{
    return et_add(et_input(s, "image", ET_BF16, et_shape_3(T, 1, 2)), x(s));
}

static et_node *wrong_loss_table(et_scope *s)
{
    return et_vocabulary_loss(x(s), et_copy(table(s), ET_BF16, et_shape_2(V, D)), ids(s, T), 0);
}

/* The message names the node, the op and both shapes. Nodes built on top add no message and have no
 * derivative. */
static void test_shape__refuses(void **state)
{
    (void)state;
    static const misfit cases[] = {
        { wrong_add, { "(add): different shapes or types", "m/x [7, 6]", "m/y [7, 7]" } },
        { wrong_types, { "(mul): different types (et_cast gives one the", "m/x", "m/w" } },
        { wrong_bias, { "(add): different shapes or types", "[7, 6]", "m/b [7]" } },
        { wrong_matmul, { "(matmul): inner sizes differ", "m/x [7, 6]", "m/w [7, 4]" } },
        { wrong_matmul_bias,
          { "(matmul): bias is not a float32 vector as wide", "[6, 4]", "m/b [6]" } },
        { wrong_matmul_vector, { "(matmul): not two matrices", "[7, 6]", "m/w [6]" } },
        { wrong_matmul_type, { "(matmul): not floating-point numbers (et_cast", "m/i" } },
        { wrong_cast, { "m/x: cannot be cast from bfloat16 to int32; give float32 or bfloat16" } },
        { wrong_layer_norm, { "(layer_norm): scale or offset is not", "[7, 6]" } },
        { wrong_embedding, { "(embedding): not int32 ids", "m/f [7]", "m/table [5, 6]" } },
        { wrong_positions, { "(embedding): not one int32 position", "[7]", "m/at [8]" } },
        { wrong_positions_width, { "(embedding): positions are not float32, as wide", "[30, 8]" } },
        { wrong_matmul_bias_type, { "(matmul): bias is not a float32 vector", "m/b [4]" } },
        { wrong_norm_type, { "(layer_norm): scale or offset is not float32", "m/x [7, 6]" } },
        { wrong_norm_integers, { "(layer_norm): scale or offset", "m/whole [7, 6]" } },
        { wrong_rms_type, { "(rms_norm): scale is not float32", "m/g [6]" } },
        { wrong_table_type, { "(embedding): not int32 ids and a float32 table", "m/t [5, 6]" } },
        { wrong_positions_type, { "(embedding): positions are not float32", "m/p [30, 6]" } },
        { wrong_sum, { "(sum): not floating-point numbers", "m/ids [7]" } },
        { wrong_columns, { "[-1] is not a shape" } },
        { wrong_heads, { "width 6 is not a multiple of 4 heads" } },
        { wrong_self, { "(attention): widths are not 3 D (self)", "m/q [7, 19]" } },
        { wrong_cross, { "(attention): widths are not", "m/q [7, 6]", "m/kv [7, 18]" } },
        { wrong_offsets, { "(attention): offsets are not int32", "[3]", "m/keys [4]" } },
        { wrong_table, { "(vocabulary_loss): widths differ", "m/h [7, 8]", "m/table [5, 6]" } },
        { wrong_labels, { "(vocabulary_loss): not one int32 label", "m/f [7]" } },
        { wrong_label_count, { "(softmax_loss): ", "m/ids [6]" } },
        { wrong_name, { "m/NULL or \"\": the name is missing" } },
        { wrong_param_name, { "m/NULL or \"\": the name is missing" } },
        { wrong_negative, { "m/n (input): [4, -5] is not a shape" } },
        { wrong_rank, { "m/n (input): [rank 7] is not a shape" } },
        { wrong_dtype, { "m/n (input): 9 is not an element type" } },
        { wrong_param_shape, { "parameter m/n: [-1] is not a shape" } },
        { wrong_sinusoid, { "[-2, 8] is not a shape" } },
        { wrong_integers, { "m/integers: 2147483648 from 1 by 1 do not fit in int32" } },
        { wrong_integers_end, { "m/integers: 4 from -1 by -1073741824 do not fit in int32" } },
        { wrong_integers_count, { "m/integers: -1 from 0 by 1 do not fit in int32" } },
        { wrong_product, { "(matmul): [1125899906842624, 1048576] is not a shape" } },
        { wrong_row_tile, { "matmul: row_tile -1: must be from 0" } },
        { wrong_group_count, { "matmul: groups -1: must be from 0" } },
        { wrong_groups,
          { "(matmul): the columns of an operand do not divide into its groups", "m/x [7, 6]" } },
        { wrong_groups_of_rows, { "(matmul): row_tile and groups exclude each other" } },
        { wrong_group_bias, { "(matmul): bias is not a float32 vector as wide as the result" } },
        { wrong_factor, { "scale: factor nan: must be from" } },
        { wrong_int, { "(tanh): not floating-point numbers", "m/ids [7]" } },
        { wrong_rate, { "m/dropout: rate 1 is not in [0, 1)" } },
        { wrong_epsilon, { "layer_norm: epsilon -1: must be from 0" } },
        { wrong_pair, { "embedding: give both position and positions, or neither" } },
        { wrong_embedding_scale, { "embedding: scale inf" } },
        { wrong_no_options, { "m/attention: no options; give the number of heads" } },
        { wrong_no_heads, { "m/attention: width 6 is not a multiple of 0 heads" } },
        { wrong_attention_rate, { "attention: rate nan" } },
        { wrong_longest, { "attention: longest_key -1" } },
        { wrong_cache, { "cached_attention: give either slot or begin, not both" } },
        { wrong_begin, { "(cached_attention): not one int32 slot row or begin", "m/begin [7]" } },
        { wrong_gate, { "(recurrence): not two matrices of one shape", "m/gate [7, 7]" } },
        { wrong_segments, { "(recurrence): offsets are not int32 [segments + 1]", "m/ids [1]" } },
        { wrong_state, { "(recurrence): not a float32 state as wide as x", "m/state [4, 7]" } },
        { wrong_where, { "(recurrence): not a float32 state as wide as x", "m/ids [7]" } },
        { wrong_smoothing, { "softmax_loss: smoothing 1: must be at least 0 and less than 1" } },
        { wrong_control, { "parameter m/a\\nb/w: the name has control characters" } },
        { wrong_vocabulary_smoothing, { "vocabulary_loss: smoothing nan" } },
        { wrong_draw, { "(vocabulary_loss): two draws have different rows", "m/h [8, 6]" } },
        { wrong_sample, { "candidates: 6 candidates of 21 classes for 7 labels" } },
        { wrong_sample_of_few, { "candidates: 6 candidates of 5 classes for 7 labels" } },
        { wrong_sample_count, { "candidates: count 0: must be from 1" } },
        { wrong_sampled_labels, { "(candidates): not a vector of int32 labels", "m/f [7]" } },
        { wrong_agreement, { "vocabulary_loss: weight -1: must be from 0" } },
        { wrong_best, { "too few tokens" } },
        { wrong_empty, { "(matmul): a size is 0", "m/w [6, 0]" } },
        { wrong_image_column, { "(add): different shapes or types", "m/image [7, 1, 2]" } },
        { wrong_loss_table,
          { "(vocabulary_loss): not of the graph's activation type and float32" } },
        { wrong_units, { "m/dense: -512 units" } },
        { wrong_limit, { "m/dense: init_limit -1" } },
        { wrong_activation, { "77 is not an et_activation" } },
        { wrong_column, { "(mul): different shapes or types", "m/x [7, 6]", "m/c [6, 1]" } },
        { wrong_column_type, { "(div): different shapes or types", "m/c [7, 1]", "m/b [1, 1]" } },
        { wrong_whole_numbers, { "(exp): not floating-point numbers", "m/ids [7]" } },
        { wrong_copy, { "(copy): does not fit that shape", "m/x [7, 6]" } },
        { wrong_row_sum, { "(row_sum): not a numeric matrix", "m/v [6]" } },
        { wrong_power, { "m/x: the exponent 0 must be a number other than 0" } },
        { wrong_clamp, { "m/x: the range [1, -1] is empty" } },
        { wrong_huber, { "m/x: a Huber loss needs delta > 0, not 0" } },
        { wrong_class_smoothing, { "m/x: label smoothing 1 is not in [0, 1)" } },
        { wrong_class_labels, { "(cross_entropy): not one int32 label", "m/ids [8]" } },
        { wrong_labelled, { "(labelled): labels are not int32", "m/f [7]" } },
        { wrong_again, { "parameter m/table: declared as [6, 5] before, now as [5, 6]" } },
    };
    assert_refused(cases, COUNT(cases));
}

/* Names that choose random numbers: the first node of a scope keeps its plain name, whatever
 * follows. */
static void test_shape__names_of_draws(void **state)
{
    (void)state;
    const et_graph_options training = { .training = true };
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, &training, &error), ET_OK);
    et_scope *root = et_graph_scope(graph), *m = et_in(root, "m"), *again = et_in(root, "m");
    et_scope *scopes[] = { et_in(m, "dropout_9"), m, et_in(m, "n"), again, et_in_draw(m, "b"), m };
    const char *dropout[] = { "m/dropout_9/dropout", "m/dropout",   "m/n/dropout",
                              "m/dropout_1",         "b/m/dropout", "m/dropout_2" };
    const char *attention_[] = { "m/dropout_9/attention", "m/attention",   "m/n/attention",
                                 "m/attention_1",         "b/m/attention", "m/attention_2" };
    for (size_t i = 0; i < COUNT(scopes); i++) {
        et_node *x = et_param(root, "x", et_shape_2(T, D), ones);
        assert_string_equal(et_node_name(et_dropout(scopes[i], x, 0.5f)), dropout[i]);
        et_node *mixed = attention(scopes[i], 3 * D, 0, 2, S + 1);
        assert_string_equal(et_node_name(mixed), attention_[i]);
    }
    assert_int_equal(et_graph_finish(graph, &error), ET_OK);
    et_graph_free(graph);
    et_params_free(params);
}

/* Options of a graph, and refusals of derivatives. */
static void test_shape__graph_options(void **state)
{
    (void)state;
    static const et_graph_options wrong[] = {
        { .act = ET_I32 },
        { .act = (et_dtype)-1 },
        { .recompute = (et_recompute)5 },
        { .recompute = (et_recompute)-1 },
    };
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph, *other, *third;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(et_graph_new(&graph, params, &wrong[i], &error), ET_ECONFIG);
        assert_null(graph);
    }
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    assert_int_equal(et_graph_new(&other, params, NULL, &error), ET_OK);
    et_node *ours = et_relu(et_param(et_graph_scope(graph), "w", et_shape_2(T, D), ones));
    et_node *theirs = et_sum(et_param(et_graph_scope(other), "w", et_shape_2(T, D), ones));
    assert_int_equal(et_graph_new(&third, params, NULL, &error), ET_OK);
    assert_int_equal(differentiate(third, theirs, &error), ET_EGRAPH);
    assert_non_null(strstr(error.text, "belongs to another graph"));
    et_graph_free(third);
    assert_int_equal(differentiate(graph, et_sum(ours), &error), ET_OK);
    assert_int_equal(et_graph_derive(graph, NULL, NULL, &error), ET_EGRAPH);
    assert_non_null(strstr(error.text, "already has derivatives"));
    assert_true(et_node_is_poison(et_matmul(ours, theirs, NULL, NULL)));
    assert_true(et_node_is_poison(et_add(ours, NULL)));
    assert_int_equal(et_graph_finish(graph, &error), ET_EGRAPH);
    assert_non_null(strstr(error.text, "sum_1 is a node of another graph"));
    assert_ptr_equal(et_at(et_in(et_graph_scope(other), NULL), "", 3), et_graph_scope(other));
    assert_int_equal(et_graph_finish(other, &error), ET_EGRAPH);
    assert_non_null(strstr(error.text, "the name is missing"));
    et_graph_free(graph);
    et_graph_free(other);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape__fits),
        cmocka_unit_test(test_shape__refuses),
        cmocka_unit_test(test_shape__names_of_draws),
        cmocka_unit_test(test_shape__graph_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
