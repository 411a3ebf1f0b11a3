/* The Transformer as equations over nodes; engine/nn/transformer.h has the formulas. This file
 * makes three graphs: the whole model (encode, then the decoder over complete targets), the encoder
 * with each decoder layer's cross keys and values, and one decoder step with caches. They use the
 * same few functions in the same scopes, because scopes name parameters: training writes
 * "decoder/layer_0/cross_attention/key_value/weight", and the others read it.
 *
 * Queries, keys and values of self-attention are one product of width 3 D; keys and values of the
 * encoder's output are one of width 2 D. So the input is read once, by one larger product instead
 * of three. For the same reason k and v are side by side in the caches.
 *
 * Data are packed rows: [tokens, width] without padding, sentences one after another, and offsets
 * with their begins. Only attention reads offsets; everything else works on rows alone. */
#include "engine/nn/transformer.h"

#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

/* The facts of a sub-layer about its position. A copy is passed on; it is three words. */
typedef struct stack {
    const et_transformer_stack *options;
    int64_t width;    /* D, columns of every node between sub-layers */
    int64_t row_tile; /* of all products, see et_matmul_options; 0: any */
} stack;

/* x W (+ b), W [D, units]. W is drawn from +-gain sqrt(6 / (2 D)), as if every D columns were a
 * separate matrix: Glorot's limit counts D + D although q, k and v are adjacent in W. gain is 1 in
 * Model Garden; in fairseq it is 1/sqrt(2) for q, k, v and 1 for the output. */
static et_node *projection(et_scope *scope, et_node *x, int64_t units, float gain, stack s)
{
    et_dense_options options = { .no_bias = !s.options->use_bias,
                                 .init_limit = gain * sqrtf(6.0f / (float)(2 * s.width)),
                                 .row_tile = s.row_tile };
    return et_dense_with(scope, x, units, &options);
}

static et_node *again(et_node *node)
{
    return et_recomputable_from(node, ET_RECOMPUTE_LAYERS);
}

/* The gain of q, k and v. norm_first distinguishes the two traditions, here and below. */
static float input_gain(stack s)
{
    return s.options->norm_first ? 1 : sqrtf(0.5f);
}

/* Feed-forward weights: Glorot's limit in Model Garden, 1 / sqrt(inputs) in fairseq. Post-norm
 * has no path past the norms, so how far each block starts from the identity matters there. */
static float feed_forward_limit(int64_t inputs, stack s)
{
    return s.options->norm_first ? 0 : 1 / sqrtf((float)inputs);
}

/* drop(f(x W1 + b1)) W2 + b2, W1 [D, inner], W2 [inner, D]. */
static et_node *feed_forward(et_scope *scope, et_node *x, stack s)
{
    int64_t inner_width = s.options->intermediate_size;
    et_dense_options in = { .activation = s.options->activation,
                            .init_limit = feed_forward_limit(s.width, s),
                            .row_tile = s.row_tile,
                            .recomputable = true };
    et_dense_options out = { .init_limit = feed_forward_limit(inner_width, s),
                             .row_tile = s.row_tile };
    et_scope *inner = et_in(scope, "in");
    et_node *h = et_dense_with(inner, x, inner_width, &in);
    h = et_dropout(inner, h, s.options->intermediate_dropout);
    return et_dense_with(et_in(scope, "out"), h, s.width, &out);
}

/* The input of a sub-layer: x itself, or its norm. */
static et_node *before(et_scope *scope, et_node *x, stack s)
{
    return s.options->norm_first ? et_norm(et_in(scope, "norm"), x, s.options->norm_epsilon) : x;
}

/* Residual, and the norm after it in a post-norm model. */
static et_node *after(et_scope *scope, et_node *x, et_node *f, stack s)
{
    et_node *y = et_add(x, et_dropout(scope, f, s.options->dropout_rate));
    return s.options->norm_first ? y : et_norm(et_in(scope, "norm"), y, s.options->norm_epsilon);
}

/* A sub-layer is before, f, after: norm, feed-forward, dropout and sum. */
static et_node *feed_forward_block(et_scope *scope, et_node *x, stack s)
{
    return after(scope, x, feed_forward(scope, before(scope, x, s), s), s);
}

/* Pre-norm stacks need it: the sum of all residuals has not been normed yet. The option
 * decides, for either kind. */
static et_node *final_norm(et_scope *scope, et_node *x, stack s)
{
    return s.options->final_norm ? et_norm(et_in(scope, "final_norm"), x, s.options->norm_epsilon)
                                 : x;
}

/* Offsets and longest sentences of the two sides. */
typedef struct segments {
    et_node *source, *target; /* offsets */
    int64_t source_longest, target_longest;
} segments;

/* q, k and v are the columns [0, D), [D, 2 D) and [2 D, 3 D) of one product. `longest` bounds
 * a segment's rows; attention plans its scratch memory with it. */
static et_node *self_attention_block(et_scope *scope, et_node *x, et_node *offsets, int64_t longest,
                                     bool causal, stack s)
{
    et_attention_options options = { .heads = s.options->num_attention_heads,
                                     .causal = causal,
                                     .rate = s.options->attention_dropout_rate,
                                     .longest_key = (int)longest };
    et_node *qkv =
        projection(et_in(scope, "qkv"), before(scope, x, s), 3 * s.width, input_gain(s), s);
    et_node *mixed = et_attention(scope, again(qkv), qkv, offsets, offsets, &options);
    return after(scope, x, projection(et_in(scope, "output"), again(mixed), s.width, 1, s), s);
}

/* The place of c between rows: offsets of whole segments; or, with one row per segment, the state
 * and its slots.
 */
typedef struct recurrence {
    et_node *offsets, *state, *slots; /* offsets, or the other two */
} recurrence;

static et_node *ssru_block(et_scope *scope, et_node *x, const recurrence *over, stack s)
{
    const float limit = sqrtf(6.0f / (float)(2 * s.width));
    et_dense_options input = { .no_bias = true, .init_limit = limit, .row_tile = s.row_tile };
    et_dense_options gate = { .init_limit = limit, .row_tile = s.row_tile };
    et_node *from = before(scope, x, s);
    et_node *y = again(et_dense_with(et_in(scope, "input"), from, s.width, &input));
    et_node *g = again(et_dense_with(et_in(scope, "gate"), from, s.width, &gate));
    et_node *c = over->offsets ? et_recurrence_over(y, g, over->offsets)
                               : et_recurrence_step(y, g, over->state, over->slots);
    return after(scope, x, et_relu(c), s);
}

/* Products of attention to the encoder's output: q of a normed x; k and v. */
static et_node *cross_query(et_scope *scope, et_node *x, stack s)
{
    return projection(et_in(scope, "query"), before(scope, x, s), s.width, input_gain(s), s);
}

static et_node *cross_key_value(et_scope *scope, et_node *encoded, stack s)
{
    return projection(et_in(scope, "key_value"), encoded, 2 * s.width, input_gain(s), s);
}

/* q comes from the decoder, k and v from the encoder's output, or kv has both already. The
 * encoder's output is not normalized here, because the encoder's final norm, if any, has done
 * so. */
static et_node *cross_attention_block(et_scope *scope, et_node *x, et_node *encoded, et_node *kv,
                                      const segments *g, stack s)
{
    et_attention_options options = { .heads = s.options->num_attention_heads,
                                     .rate = s.options->attention_dropout_rate,
                                     .longest_key = (int)g->source_longest };
    et_node *q = cross_query(scope, x, s);
    if (!kv)
        kv = cross_key_value(scope, encoded, s);
    et_node *mixed = et_attention(scope, again(q), again(kv), g->target, g->source, &options);
    return after(scope, x, projection(et_in(scope, "output"), again(mixed), s.width, 1, s), s);
}

/* Normal with deviation 1/sqrt(D): after embed's factor sqrt(D) rows have elements of
 * variance 1, and as the output projection it keeps logits of normed rows near variance 1. */
static et_node *table_of(et_scope *root, const et_transformer *model,
                         const et_transformer_tokens *tokens)
{
    et_init init = { ET_INIT_NORMAL, 1 / sqrtf((float)model->width) };
    return et_param(et_in(root, tokens->scope), "table", et_shape_2(tokens->count, model->width),
                    init);
}

et_node *et_transformer_table(et_scope *scope, const et_transformer *model)
{
    return table_of(scope, model, &model->output);
}

/* No derivative: the bias keeps its initial values. */
et_node *et_transformer_output_bias(et_scope *scope, const et_transformer *model)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    return model->output_bias ? et_variable(et_in(scope, model->output.scope), "bias",
                                            et_shape_1(model->output.count), zeros)
                              : NULL;
}

static et_node *positions_of(et_scope *root, const et_transformer *model)
{
    return model->open_positions ? et_sinusoid_open(root, model->max_positions, model->width)
                                 : et_sinusoid(root, model->max_positions, model->width);
}

/* drop(sqrt(D) table[ids] + sinusoid[positions]). Positions are an input because packed rows do not
 * show a token's place in its sentence. root: the scope of tables; scope names the dropout. */
static et_node *embed(et_scope *scope, et_scope *root, const et_transformer *model,
                      const et_transformer_tokens *tokens, et_node *ids, et_node *positions)
{
    const float scale = model->plain_embeddings ? 1 : sqrtf((float)model->width);
    et_node *x = et_embedding(ids, table_of(root, model, tokens), scale, positions,
                              positions_of(root, model));
    return et_dropout(et_in(scope, "embedding"), x, model->dropout_rate);
}

static et_node *int_rows(et_scope *scope, const char *name, int64_t count)
{
    return et_input(scope, name, ET_I32, et_shape_1(count));
}

/* The source's embeddings, from its ids or from rows. Rows are a table of which row t is used at t.
 */
static et_node *embed_source(et_scope *scope, et_scope *root, const et_transformer *model,
                             int64_t budget)
{
    et_node *positions = int_rows(root, ET_PAIR_NAME_SOURCE_POSITIONS, budget);
    if (!model->embedded)
        return embed(scope, root, model, &model->source,
                     int_rows(root, ET_PAIR_NAME_SOURCE_IDS, budget), positions);
    et_node *rows =
        et_input(root, ET_PAIR_NAME_SOURCE_EMBEDDED, ET_F32, et_shape_2(budget, model->width));
    et_node *x = et_embedding(et_integers(root, 0, budget, 1), rows, 1, positions,
                              positions_of(root, model));
    return et_dropout(et_in(scope, "embedding"), x, model->dropout_rate);
}

/* The two budgets may exceed one sentence's length: no segment is longer than max_positions, so
 * attention need not plan for more. */
static et_node *encode(et_scope *scope, const et_transformer *model, int64_t budget,
                       et_node *offsets, int64_t row_tile)
{
    stack s = { &model->encoder, model->width, row_tile };
    et_scope *encoder = et_in(scope, "encoder");
    int64_t longest = budget < model->max_positions ? budget : model->max_positions;
    et_node *x = embed_source(encoder, scope, model, budget);
    for (int i = 0; i < model->encoder.num_layers; i++) {
        et_scope *layer = et_at(encoder, "layer", i);
        x = self_attention_block(et_in(layer, "self_attention"), x, offsets, longest, false, s);
        x = feed_forward_block(et_in(layer, "feed_forward"), x, s);
    }
    return final_norm(encoder, x, s);
}

et_node *et_transformer_encode(et_scope *scope, const et_transformer *model, int64_t source_budget,
                               int64_t segment_count, int64_t row_tile)
{
    return encode(scope, model, source_budget,
                  int_rows(scope, ET_PAIR_NAME_SOURCE_OFFSETS, segment_count + 1), row_tile);
}

/* "self_cache_3": no scope in the name but the root's, since the caller binds caches by layer
 * number. */
static et_node *layer_input(et_scope *scope, const char *kind, int layer, et_dtype dtype,
                            et_shape shape)
{
    char name[48];
    snprintf(name, sizeof name, "%s%d", kind, layer);
    return et_input(scope, name, dtype, shape);
}

/* Rows hold k then v, in the type of activations. */
static et_node *cache_input(et_scope *scope, const char *kind, int layer, int64_t rows,
                            int64_t width)
{
    return layer_input(scope, kind, layer, et_graph_act(et_scope_graph(scope)),
                       et_shape_2(rows, 2 * width));
}

/* Inputs of all layers of the decoder. */
typedef struct decoding {
    et_scope *root, *decoder;
    stack stack;
    segments g;
    et_node *encoded;
    int64_t cached; /* rows of each layer's cross cache, which is read instead; 0: encoded is */
} decoding;

/* The caller shifts the target's ids: row t holds the token before the predicted one, and causal
 * attention lets it see rows up to t of its sentence. d: all zero, or with the encoder's results.
 */
static et_node *begin_decoder(decoding *d, et_scope *scope, const et_transformer *model,
                              int64_t source_budget, int64_t target_budget, int64_t segment_count)
{
    int64_t most = model->max_positions;
    d->root = scope;
    d->decoder = et_in(scope, "decoder");
    d->stack = (stack){ &model->decoder, model->width, 0 };
    d->g = (segments){ .source = int_rows(scope, ET_PAIR_NAME_SOURCE_OFFSETS, segment_count + 1),
                       .target = int_rows(scope, ET_PAIR_NAME_TARGET_OFFSETS, segment_count + 1),
                       .source_longest = source_budget < most ? source_budget : most,
                       .target_longest = target_budget < most ? target_budget : most };
    if (!d->encoded && !d->cached)
        d->encoded = encode(scope, model, source_budget, d->g.source, 0);
    return embed(d->decoder, scope, model, &model->target,
                 int_rows(scope, ET_PAIR_NAME_TARGET_IDS, target_budget),
                 int_rows(scope, ET_PAIR_NAME_TARGET_POSITIONS, target_budget));
}

static et_node *decoder_self(const decoding *d, et_scope *layer, et_node *x)
{
    const recurrence over = { .offsets = d->g.target };
    if (d->stack.options->ssru)
        return ssru_block(et_in(layer, "ssru"), x, &over, d->stack);
    return self_attention_block(et_in(layer, "self_attention"), x, d->g.target, d->g.target_longest,
                                true, d->stack);
}

static et_node *decoder_layer(const decoding *d, int index, et_node *x)
{
    et_scope *layer = et_at(d->decoder, "layer", index);
    et_node *kv = NULL;
    x = decoder_self(d, layer, x);
    if (d->cached)
        kv = cache_input(d->root, ET_DECODE_CROSS_CACHE, index, d->cached, d->stack.width);
    x = cross_attention_block(et_in(layer, "cross_attention"), x, d->encoded, kv, &d->g, d->stack);
    return feed_forward_block(et_in(layer, "feed_forward"), x, d->stack);
}

/* Builds the whole decoder, and first the members that d lacks. */
static et_node *decode(decoding d, et_scope *scope, const et_transformer *model,
                       int64_t source_budget, int64_t target_budget, int64_t segment_count)
{
    et_node *x = begin_decoder(&d, scope, model, source_budget, target_budget, segment_count);
    for (int i = 0; i < model->decoder.num_layers; i++)
        x = decoder_layer(&d, i, x);
    return final_norm(d.decoder, x, d.stack);
}

et_node *et_transformer_train(et_scope *scope, const et_transformer *model, int64_t source_budget,
                              int64_t target_budget, int64_t segment_count)
{
    const decoding d = { .encoded = NULL };
    return decode(d, scope, model, source_budget, target_budget, segment_count);
}

/* The products of cross_attention_block. */
void et_transformer_cross(et_scope *scope, const et_transformer *model, int64_t source_budget,
                          int64_t target_budget, int layer, et_node **query, et_node **key_value)
{
    decoding d = { .encoded = NULL };
    et_assert(layer >= 0 && layer < model->decoder.num_layers);
    et_node *x = begin_decoder(&d, scope, model, source_budget, target_budget, 1);
    for (int i = 0; i < layer; i++)
        x = decoder_layer(&d, i, x);
    et_scope *last = et_at(d.decoder, "layer", layer), *cross = et_in(last, "cross_attention");
    x = decoder_self(&d, last, x);
    *query = cross_query(cross, x, d.stack);
    *key_value = cross_key_value(cross, d.encoded, d.stack);
}

et_node *et_transformer_decode_whole(et_scope *scope, const et_transformer *model, et_node *encoded,
                                     int64_t target_budget, int64_t segment_count)
{
    const decoding d = { .encoded = encoded };
    return decode(d, scope, model, et_node_shape(encoded).size[0], target_budget, segment_count);
}

et_node *et_transformer_decode_cached(et_scope *scope, const et_transformer *model,
                                      int64_t source_rows, int64_t target_budget,
                                      int64_t segment_count)
{
    const decoding d = { .cached = source_rows };
    et_assert(source_rows > 0);
    return decode(d, scope, model, source_rows, target_budget, segment_count);
}

/* ---- decoding ---- */

/* The same scope and product as cross_attention_block's key_value, so the same parameters. */
et_node *et_transformer_cross_cache(et_scope *scope, const et_transformer *model, int layer,
                                    et_node *encoded, int64_t row_tile)
{
    et_assert(layer >= 0 && layer < model->decoder.num_layers);
    stack s = { &model->decoder, model->width, row_tile };
    et_scope *at = et_in(et_at(et_in(scope, "decoder"), "layer", layer), "cross_attention");
    return cross_key_value(at, encoded, s);
}

/* The inputs that all layers of a decoder step share. */
typedef struct step_inputs {
    et_node *slot;         /* [rows, longest]: cached positions of each hypothesis */
    et_node *self_length;  /* [rows]: positions so far, including this step's */
    et_node *state_slots;  /* [rows, 2]; in place of the first two, with ssru */
    et_node *cross_begin;  /* [rows]: first row of its sentence in the cross caches */
    et_node *cross_length; /* [rows]: and how many */
} step_inputs;

/* Self-attention writes this step's k and v to the cache first. */
static et_node *decode_self(et_scope *root, et_scope *layer, int index, et_node *x,
                            const et_transformer_step *step, const step_inputs *inputs, stack s)
{
    if (s.options->ssru) {
        const recurrence over = { .state = layer_input(root, ET_DECODE_STATE, index, ET_F32,
                                                       et_shape_2(step->slots, s.width)),
                                  .slots = inputs->state_slots };
        return ssru_block(et_in(layer, "ssru"), x, &over, s);
    }
    et_scope *self = et_in(layer, "self_attention");
    et_node *qkv =
        projection(et_in(self, "qkv"), before(self, x, s), 3 * s.width, input_gain(s), s);
    et_node *mixed = et_cached_attention(
        qkv, cache_input(root, ET_DECODE_SELF_CACHE, index, step->slots, s.width), inputs->slot,
        NULL, inputs->self_length, s.options->num_attention_heads);
    return after(self, x, projection(et_in(self, "output"), mixed, s.width, 1, s), s);
}

/* One layer of one step: the three blocks of et_transformer_train with cached attention in
 * the place of attention. Cross keys and values were made once for the sentence, by
 * et_transformer_cross_cache. */
static et_node *decode_layer(et_scope *root, et_scope *layer, int index, et_node *x,
                             const et_transformer_step *step, const step_inputs *inputs, stack s)
{
    x = decode_self(root, layer, index, x, step, inputs, s);
    et_scope *cross = et_in(layer, "cross_attention");
    et_node *q = cross_query(cross, x, s);
    et_node *mixed = et_cached_attention(
        q, cache_input(root, ET_DECODE_CROSS_CACHE, index, step->source_rows, s.width), NULL,
        inputs->cross_begin, inputs->cross_length, s.options->num_attention_heads);
    x = after(cross, x, projection(et_in(cross, "output"), mixed, s.width, 1, s), s);
    return feed_forward_block(et_in(layer, "feed_forward"), x, s);
}

/* The logits use the table again, transposed, and are float32: values that are compared and summed
 * over steps must not be rounded to bfloat16. */
et_node *et_transformer_decode(et_scope *scope, const et_transformer *model,
                               const et_transformer_step *step, et_node **token)
{
    et_assert(step->rows > 0 && step->longest > 0);
    et_assert(step->slots > 0 && step->source_rows > 0);
    et_assert(!step->best || !model->output_bias || step->hidden);
    stack s = { &model->decoder, model->width, step->row_tile };
    et_scope *decoder = et_in(scope, "decoder");
    step_inputs inputs = {
        .cross_begin = int_rows(scope, ET_DECODE_CROSS_BEGIN, step->rows),
        .cross_length = int_rows(scope, ET_DECODE_CROSS_LENGTH, step->rows),
    };
    if (model->decoder.ssru) {
        inputs.state_slots =
            et_input(scope, ET_DECODE_STATE_SLOTS, ET_I32, et_shape_2(step->rows, 2));
    } else {
        inputs.slot =
            et_input(scope, ET_DECODE_SLOT, ET_I32, et_shape_2(step->rows, step->longest));
        inputs.self_length = int_rows(scope, ET_DECODE_SELF_LENGTH, step->rows);
    }
    et_node *x =
        embed(decoder, scope, model, &model->target, int_rows(scope, ET_DECODE_IDS, step->rows),
              int_rows(scope, ET_DECODE_POSITIONS, step->rows));
    for (int i = 0; i < model->decoder.num_layers; i++)
        x = decode_layer(scope, et_at(decoder, "layer", i), i, x, step, &inputs, s);
    x = final_norm(decoder, x, s);
    *token = NULL;
    if (step->hidden)
        return x;
    if (!step->best) {
        et_matmul_options logits = { .transpose_b = true, .f32 = true, .row_tile = step->row_tile };
        return et_matmul(x, et_transformer_table(scope, model),
                         et_transformer_output_bias(scope, model), &logits);
    }
    return et_vocabulary_best(x, et_transformer_table(scope, model), step->best, token);
}
