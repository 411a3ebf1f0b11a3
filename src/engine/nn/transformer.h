/* The encoder-decoder Transformer (Vaswani et al. 2017) over packed batches, with the options of
 * Model Garden's Seq2SeqTransformer (pre-norm by default), and post-norm as in fairseq.
 *
 * Each side has a table of embeddings, and the output projection is a third; two or all of them may
 * be the same. Embeddings are multiplied by sqrt(width), sinusoids are added, then dropout. A block
 * is
 *
 *   norm_first:  x + drop(f(norm(x)))        otherwise:  norm(x + drop(f(x)))
 *
 * for f in self-attention, (decoder) cross-attention, feed-forward; final_norm adds a norm after
 * the last block. A decoder with ssru has in place of self-attention (Kim et al. 2019, "From
 * Research to Production and Back: Ludicrously Fast Neural Machine Translation")
 *
 *   f(x)[t] = relu(c[t]),  c[t] = g[t] c[t - 1] + (1 - g[t]) x[t] W,  g = sigmoid(x Wg + bg)
 *
 * so its state is one row a layer, however long the sentence. Token counts are the shapes' budgets;
 * offsets are the begins of sentences.
 *
 * Training and scoring build the whole model. Decoding builds the encoder with every layer's cross
 * keys and values, and one step of the decoder for many hypotheses with caches. All three share
 * parameters by name:
 *
 *   embedding/table, encoder/layer_0/self_attention/qkv/weight, .../output/weight,
 *   encoder/layer_0/feed_forward/in/weight, .../out/weight, decoder/layer_0/cross_attention/
 *   query/weight, .../key_value/weight, decoder/layer_0/ssru/input/weight, .../gate/weight, ...
 */
#ifndef ETUDE_ENGINE_NN_TRANSFORMER_H
#define ETUDE_ENGINE_NN_TRANSFORMER_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/layers.h>

/* One stack, encoder or decoder. */
typedef struct et_transformer_stack {
    int num_layers;
    int num_attention_heads;
    int64_t intermediate_size;
    et_activation activation;
    float dropout_rate;           /* after each sub-layer and after the embedding's sum */
    float attention_dropout_rate; /* on attention weights */
    float intermediate_dropout;   /* after the feed-forward's activation */
    bool use_bias;                /* in attention projections; the feed-forward has it always */
    bool norm_first;
    bool final_norm;
    bool ssru; /* of the decoder: a recurrence in place of self-attention */
    float norm_epsilon;
} et_transformer_stack;

/* A table with a row for each token: its scope, and its rows. Users of the same scope share the
 * table. */
typedef struct et_transformer_tokens {
    const char *scope; /* borrowed */
    int64_t count;
} et_transformer_tokens;

typedef struct et_transformer {
    et_transformer_stack encoder, decoder;
    et_transformer_tokens source, target; /* embeddings */
    et_transformer_tokens output; /* what logits are products with; of the target's tokens */
    int64_t width;
    int64_t max_positions; /* rows of the sinusoid table; longest sequence */
    bool open_positions;   /* et_sinusoid_open in place of et_sinusoid */
    bool plain_embeddings; /* not multiplied by sqrt(width) */
    bool embedded;         /* sources are rows float32 [source_budget, width] in place of ids: what
                              the source's table gives, multiplied; positions are added */
    bool output_bias;      /* added to logits: a variable of the output's scope */
    float dropout_rate;    /* of the embeddings */
} et_transformer;

/* Inputs of the whole model, int32 but for embedded rows, by the names at the end of this file:
 * ids and positions of the source [source_budget], of the target [target_budget]; offsets of both
 * [segment_count + 1]. Returns the decoder's output [target_budget, width]. */
et_node *et_transformer_train(et_scope *scope, const et_transformer *model, int64_t source_budget,
                              int64_t target_budget, int64_t segment_count);

/* Adds the values that cross-attention in a layer of the decoder reads: queries [target_budget,
 * width], and keys next to values [source_budget, 2 width]. Inputs as above, of one sentence. Later
 * layers are not built. */
void et_transformer_cross(et_scope *scope, const et_transformer *model, int64_t source_budget,
                          int64_t target_budget, int layer, et_node **query, et_node **key_value);

/* The output's table, for the loss and for logits. */
et_node *et_transformer_table(et_scope *scope, const et_transformer *model);

/* The bias added to logits, float32 [target tokens]; NULL: none. */
et_node *et_transformer_output_bias(et_scope *scope, const et_transformer *model);

/* The encoder's output [source_budget, width]; inputs as above. */
et_node *et_transformer_encode(et_scope *scope, const et_transformer *model, int64_t source_budget,
                               int64_t segment_count, int64_t row_tile);

/* The decoder over complete targets, given an encoder's output [source_budget, width]; inputs as of
 * the whole model, but the sources' ids and positions. */
et_node *et_transformer_decode_whole(et_scope *scope, const et_transformer *model, et_node *encoded,
                                     int64_t target_budget, int64_t segment_count);

/* The same over what cross-attention reads, inputs "cross_cache_<layer>" act [source_rows,
 * 2 width], in place of the encoder's output. */
et_node *et_transformer_decode_cached(et_scope *scope, const et_transformer *model,
                                      int64_t source_rows, int64_t target_budget,
                                      int64_t segment_count);

/* Keys and values of decoder layer `layer` for an encoder's output: [rows, 2 width]. */
et_node *et_transformer_cross_cache(et_scope *scope, const et_transformer *model, int layer,
                                    et_node *encoded, int64_t row_tile);

/* Inputs of one decoder step, by name. */
#define ET_DECODE_IDS          "ids" /* int32 [rows], as up to cross_length */
#define ET_DECODE_POSITIONS    "positions"
#define ET_DECODE_SELF_LENGTH  "self_length"
#define ET_DECODE_CROSS_BEGIN  "cross_begin"
#define ET_DECODE_CROSS_LENGTH "cross_length"
#define ET_DECODE_SLOT         "slot"         /* int32 [rows, longest] */
#define ET_DECODE_SELF_CACHE   "self_cache_"  /* and the layer: act [slots, 2 width] */
#define ET_DECODE_STATE        "state_"       /* and the layer: float32 [slots, width] */
#define ET_DECODE_STATE_SLOTS  "state_slots"  /* int32 [rows, 2]: read (-1: zeros) and written */
#define ET_DECODE_CROSS_CACHE  "cross_cache_" /* and the layer: act [source_rows, 2 width] */

/* One decoder step for `rows` hypotheses: log-probabilities float32 [rows, best] of the likeliest
 * next tokens, and these tokens, *token int32 [rows, best], best first. Inputs as above; a decoder
 * with ssru has states instead of self_length, slot and self caches. With best 0 the logits of all
 * tokens, float32 [rows, target tokens], and *token NULL; a model with an output bias gives only
 * these. With `hidden`, the rows before the product that makes logits, act [rows, width]. */
typedef struct et_transformer_step {
    int64_t rows, longest, slots, source_rows, row_tile;
    int best; /* 0: all */
    bool hidden;
} et_transformer_step;
et_node *et_transformer_decode(et_scope *scope, const et_transformer *model,
                               const et_transformer_step *step, et_node **token);

/* Names for sentence pairs: fields of their batches (data/text/pairs.h), and inputs of models,
 * which are bound by these names. */

#define ET_PAIR_NAME_SOURCE_IDS       "source_ids"
#define ET_PAIR_NAME_SOURCE_EMBEDDED  "source_embedded" /* float32 rows in place of the ids */
#define ET_PAIR_NAME_SOURCE_POSITIONS "source_positions"
#define ET_PAIR_NAME_SOURCE_OFFSETS   "source_offsets"
#define ET_PAIR_NAME_TARGET_IDS       "target_ids"
#define ET_PAIR_NAME_TARGET_POSITIONS "target_positions"
#define ET_PAIR_NAME_TARGET_OFFSETS   "target_offsets"
#define ET_PAIR_NAME_TARGET_LABELS    "target_labels"

#endif
