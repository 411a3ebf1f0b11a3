/* The ops of a graph (graph.h). Each function adds one node and returns it, or a poison node if its
 * inputs do not fit. Nodes belong to their graph. This header has leaves, matrix products, norms,
 * look-ups and attention. ops_elementwise.h and ops_loss.h have the ops in their names,
 * ops_layout.h views, slices and tables by column, ops_image.h convolution and pooling,
 * ops_random.h samples.
 *
 *     et_node *h = et_matmul(x, et_param(s, "weight", et_shape_2(784, 512), init), NULL, NULL);
 *     et_node *loss = et_softmax_loss(et_relu(h), labels, 0);
 *     et_node *positions = et_sinusoid(s, 64, 512);
 *     et_node *scale = et_variable(s, "scale", et_shape_1(512), init);      not trained
 *     h = et_recomputable(et_rms_norm(et_layer_norm(h, scale, bias, 1e-6f), scale, 1e-6f));
 *
 * Shapes: T rows (tokens or samples), D columns. "act" is the graph's activation type. */
#ifndef ETUDE_OPS_H
#define ETUDE_OPS_H

#include <etude/graph.h>
#include <etude/ops_elementwise.h>
#include <etude/ops_loss.h>

/* ---- leaves ---- */

/* The parameter scope/name, declared at first use. */
ET_API et_node *et_param(et_scope *scope, const char *name, et_shape shape, et_init init);
/* The same for a variable: checkpoints keep its value, but it has no derivative. */
ET_API et_node *et_variable(et_scope *scope, const char *name, et_shape shape, et_init init);
/* Sinusoidal positions [rows, dim], float32: with i < dim/2 and w_i = exp(-i log(10^4) / (dim/2 -
 * 1)), columns sin(p w_i) then cos(p w_i) (Vaswani et al. 2017, in Model Garden's layout: all
 * sines, then all cosines). dim is even, at least 4. */
ET_API et_node *et_sinusoid(et_scope *scope, int64_t rows, int64_t dim);
/* The integers first, first + step, ...: int32 [count], the same in every batch. Use them as
 * offsets of segments of equal length, or as a position for each row. */
ET_API et_node *et_integers(et_scope *scope, int64_t first, int64_t count, int64_t step);

/* Dropout: in training, zeroes elements with probability rate and divides the others by 1 - rate,
 * which keeps the mean. The mask is a function of (seed, step, the node's name, element). The name
 * is "dropout" in scope, then "dropout_1" and so on, so every dropout and attention has another
 * mask. Outside training, x itself. */
ET_API et_node *et_dropout(et_scope *scope, et_node *x, float rate);

/* ---- matrix products, norms, look-ups ---- */

typedef struct et_matmul_options {
    bool transpose_a, transpose_b; /* of the stored operand */
    bool relu;                     /* apply relu to the result */
    bool f32;                      /* result is float32 even if act is not */
    int64_t groups;                /* 0 or 1: none. Otherwise the columns of a and b as stored, of
                                      the result and of the bias are divided into this many equal
                                      groups, and group i of the result is the product of groups i */
    int64_t row_tile;              /* 0: any. Otherwise about this many rows are computed together,
                                      and the bits of a row do not depend on the others: for
                                      decoding. Not together with groups */
} et_matmul_options;

/* C = A B (+ bias on every row) (relu). a and b are float32 or bfloat16 and are used as act. bias
 * [N] float32 or NULL. options NULL: none. With G groups, a is [M, G K] and b is [K, G N]
 * (each group may be stored transposed), C is [M, G N] and bias is [G N]. */
ET_API et_node *et_matmul(et_node *a, et_node *b, et_node *bias, const et_matmul_options *options);

/* Normalizes rows to mean 0 and variance 1, times gamma, plus beta ([D] float32 each). */
ET_API et_node *et_layer_norm(et_node *x, et_node *gamma, et_node *beta, float epsilon);

/* Normalizes rows to a mean square of 1, times gamma [D] float32 (Zhang and Sennrich 2019). */
ET_API et_node *et_rms_norm(et_node *x, et_node *gamma, float epsilon);

/* y[t] = table[ids[t]] * scale (+ positions[position[t]]). ids, position int32 [T]; table
 * [V, D] a parameter; position and positions NULL: none. A negative id gives a zero row. */
ET_API et_node *et_embedding(et_node *ids, et_node *table, float scale, et_node *position,
                             et_node *positions);

typedef struct et_attention_options {
    int heads;
    bool causal;
    float rate;      /* dropout on the weights, in training */
    int longest_key; /* most rows of kv in any segment; 0: all rows of kv */
} et_attention_options;

/* Multi-head attention over packed segments, scores scaled by 1/sqrt(D / heads). Self: qkv [T, 3D]
 * holds q, k, v side by side and kv is the same node. Cross: q [Tq, D], kv [Tk, 2D]. offsets int32
 * [S + 1]: segment s is rows offsets[s] to offsets[s + 1] - 1. Offsets do not decrease and are at
 * most T. Result [Tq, D], with zeros after the last segment. */
ET_API et_node *et_attention(et_scope *scope, et_node *q, et_node *kv, et_node *query_offsets,
                             et_node *key_offsets, const et_attention_options *options);

/* Sums of a loss over its rows: results [4] float32. */
enum et_loss_sum {
    ET_LOSS_SUM_LOSS,    /* label-smoothed cross-entropy, nats */
    ET_LOSS_SUM_NLL,     /* plain -log p(label) */
    ET_LOSS_SUM_CORRECT, /* rows whose most likely class is the label */
    ET_LOSS_SUM_TOKENS,  /* rows with a label */
    ET_LOSS_SUM_COUNT,
};

/* Computes logits h table^T, softmax cross-entropy with label smoothing and both derivatives, in
 * blocks of rows, so [T, V] never exists in full. h [T, D] float32 or bfloat16, table [V, D]
 * float32 (both used as act), labels int32 [T], negative: an empty row. Result: the four sums,
 * float32 [4]; only the first has a derivative. It is the sum over rows of -sum_i t_i log p_i minus
 * the entropy of t, with smoothing e: t_y = 1 - e, other t_i = e / (V - 1). So a perfect prediction
 * scores 0. */
ET_API et_node *et_vocabulary_loss(et_node *h, et_node *table, et_node *labels, float smoothing);

/* The same for existing logits [T, V] (act or float32): a classifier's loss, for a few thousand
 * classes at most. labels int32 [T], below V; negative: an empty row. */
ET_API et_node *et_softmax_loss(et_node *logits, et_node *labels, float smoothing);

/* Marks a node that takes much memory and is cheap to compute again; returns it. See
 * ET_RECOMPUTE_MARKED. */
ET_API et_node *et_recomputable(et_node *node);

#endif
