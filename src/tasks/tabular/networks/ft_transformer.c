/* FT-Transformer (Gorishniy, Rubachev, Khrulkov and Babenko 2021, "Revisiting Deep Learning Models
 * for Tabular Data"): every column is a token, and one more, [CLS], becomes the output.
 *
 *   token of a number j:  b_j + x_j w_j             token of an id: b_j + table_j[id]
 *   token of a text j:    b_j + v_j (tabular_words.h)
 *   block: x + drop(attention(norm(x))), then x + drop(feed_forward(norm(x))), the first block
 *          without its first norm
 *   feed_forward(x) = drop(ReGLU(x W1 + b1)) W2 + b2, ReGLU(a, b) = a relu(b)
 *   output: relu(norm(x of [CLS])) W + b
 *
 * Tokens of a row follow each other, [rows * tokens, width], like sentences of equal length in a
 * packed batch. Only [CLS] of the last block is needed, so only [CLS] has queries there. */
#include "tasks/tabular/networks/networks_private.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#define EPSILON 1e-5f

typedef struct tokens {
    const et_tabular_ft_transformer *model;
    int64_t rows, count; /* of a batch; tokens of a row */
    et_node *offsets;    /* of the rows' tokens */
} tokens;

/* ---- tokens ---- */

/* All initial values of the tokenizer are uniform within 1 / sqrt(width). */
static et_node *token_param(et_scope *scope, const char *name, int64_t size, int64_t width)
{
    return et_param(scope, name, et_shape_1(size),
                    (et_init){ ET_INIT_UNIFORM, 1 / sqrtf((float)width) });
}

/* [rows, numbers * width] */
static et_node *number_tokens(et_scope *scope, const et_tabular_inputs *inputs, int64_t width)
{
    const int64_t numbers = inputs->number_count, rows = inputs->rows, all = numbers * width;
    et_node *x = et_reshape(inputs->numbers, et_shape_2(rows * numbers, 1));
    x = et_copy(x, et_node_dtype(x), et_shape_2(rows * numbers, width));
    x = et_reshape(x, et_shape_2(rows, all));
    return et_add(et_mul(x, token_param(scope, "weight", all, width)),
                  token_param(scope, "bias", all, width));
}

/* [rows, ids * width] */
static et_node *id_tokens(et_scope *scope, const et_tabular_inputs *inputs, int64_t width)
{
    const int count = inputs->id_count;
    for (int c = 0; c < count; c++)
        inputs->columns[c].width = width;
    int64_t size = et_columns_size(inputs->columns, count);
    et_node *x = et_embed_columns(inputs->ids, token_param(scope, "table", size, width),
                                  inputs->columns, count);
    return et_add(x, token_param(scope, "bias", count * width, width));
}

/* [rows, width] */
static et_node *text_token(et_scope *scope, const et_tabular_inputs *inputs, int k, int64_t width)
{
    et_node *x = et_tabular_words(inputs->model, inputs->learned, inputs->encoder, k, width,
                                  (et_init){ ET_INIT_ZEROS, 0 });
    return et_add(x, token_param(et_at(scope, "text", k), "bias", width, width));
}

static et_node *tokenize(et_scope *scope, const et_tabular_inputs *inputs, tokens t)
{
    const int64_t width = t.model->width;
    et_dtype act = et_graph_act(et_scope_graph(scope));
    et_node **parts = et_alloc((size_t)inputs->text_count + 3, sizeof *parts);
    int count = 0;
    if (!parts)
        return et_graph_out_of_memory(et_scope_graph(scope));
    parts[count++] =
        et_copy(token_param(scope, "cls", width, width), act, et_shape_2(t.rows, width));
    if (inputs->numbers)
        parts[count++] = number_tokens(et_in(scope, "numbers"), inputs, width);
    if (inputs->ids)
        parts[count++] = id_tokens(et_in(scope, "ids"), inputs, width);
    for (int k = 0; k < inputs->text_count; k++)
        parts[count++] = text_token(scope, inputs, k, width);
    et_node *x = et_concatenate_columns(parts, count);
    et_free(parts);
    return et_reshape(x, et_shape_2(t.rows * t.count, width));
}

/* [rows * tokens, width] to [rows, width] */
static et_node *cls_of(et_node *x, tokens t)
{
    x = et_reshape(x, et_shape_2(t.rows, t.count * t.model->width));
    return et_slice_columns(x, 0, t.model->width);
}

/* ---- blocks ---- */

static et_node *attend(et_scope *scope, et_node *x, tokens t, bool last)
{
    const et_tabular_ft_transformer *m = t.model;
    et_attention_options options = { .heads = (int)m->num_attention_heads,
                                     .rate = (float)m->attention_dropout,
                                     .longest_key = (int)t.count };
    et_node *mixed;
    if (last) {
        et_node *q = et_tabular_dense(et_in(scope, "query"), cls_of(x, t), m->width);
        et_node *kv = et_tabular_dense(et_in(scope, "key_value"), x, 2 * m->width);
        et_node *each = et_integers(scope, 0, t.rows + 1, 1);
        mixed = et_attention(scope, q, kv, each, t.offsets, &options);
    } else {
        et_node *qkv = et_tabular_dense(et_in(scope, "qkv"), x, 3 * m->width);
        mixed = et_attention(scope, qkv, qkv, t.offsets, t.offsets, &options);
    }
    return et_tabular_dense(et_in(scope, "output"), mixed, m->width);
}

static et_node *feed_forward(et_scope *scope, et_node *x, const et_tabular_ft_transformer *m)
{
    int64_t hidden = (int64_t)((double)m->width * m->ffn_factor);
    et_node *both = et_tabular_dense(et_in(scope, "in"), x, 2 * hidden);
    et_node *h =
        et_mul(et_slice_columns(both, 0, hidden), et_relu(et_slice_columns(both, hidden, hidden)));
    return et_tabular_dense(et_in(scope, "out"), et_dropout(scope, h, (float)m->ffn_dropout),
                            m->width);
}

static et_node *block(et_scope *scope, et_node *x, tokens t, bool first, bool last)
{
    et_scope *attention = et_in(scope, "attention"), *forward = et_in(scope, "feed_forward");
    const float rate = (float)t.model->residual_dropout;
    et_node *h = first ? x : et_norm(et_in(attention, "norm"), x, EPSILON);
    h = attend(attention, h, t, last);
    x = et_add(last ? cls_of(x, t) : x, et_dropout(attention, h, rate));
    h = feed_forward(forward, et_norm(et_in(forward, "norm"), x, EPSILON), t.model);
    return et_add(x, et_dropout(forward, h, rate));
}

et_node *et_tabular_ft_transformer_build(et_scope *scope, const et_tabular_ft_transformer *model,
                                         const et_tabular_inputs *inputs, int64_t outputs)
{
    const int blocks = (int)model->num_blocks;
    tokens t = { model, inputs->rows,
                 1 + inputs->number_count + inputs->id_count + inputs->text_count, NULL };
    t.offsets = et_integers(scope, 0, t.rows + 1, t.count);
    et_node *x = tokenize(et_in(scope, "tokenizer"), inputs, t);
    for (int i = 0; i < blocks; i++)
        x = block(et_at(scope, "block", i), x, t, i == 0, i + 1 == blocks);
    x = et_relu(et_norm(et_in(scope, "norm"), x, EPSILON));
    return et_tabular_dense(et_in(scope, "logits"), x, outputs);
}
