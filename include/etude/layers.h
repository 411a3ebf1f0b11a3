/* Layers: functions that declare parameters and add nodes. A layer is one line per equation. The
 * scope gives the names of its parameters. Initial values are Keras's unless a comment gives
 * others.
 *
 *     et_node *h = et_embedding_columns(et_in(s, "columns"), ids, columns, 2);
 *     h = et_norm(et_in(s, "norm"), h, 1e-6f);            or et_norm_rms, et_norm_batch:
 *     h = et_norm_batch(et_in(s, "batch"), h, 0.99f, 1e-3f);
 *     h = et_norm_rms(et_in(s, "rms"), h, 1e-6f);
 *     h = et_activate(et_dense(et_in(s, "hidden"), h, 512), ET_ACTIVATION_GELU);
 *     et_node *logits = et_dense(et_in(s, "output"), h, 10);
 *
 * Sentences of 20 ids each, int32 [N, 20], classified:
 *
 *     et_attention_block_options block = { .heads = 4, .dropout = 0.1f };
 *     h = et_embedding_table(et_in(s, "words"), words, 8000, 128);           [N 20, 128]
 *     h = et_attention_block(et_in(s, "block"), h, 20, &block);
 *     h = et_flatten(et_reshape(h, et_shape_3(et_node_shape(words).size[0], 20, 128)));
 */
#ifndef ETUDE_LAYERS_H
#define ETUDE_LAYERS_H

#include <etude/ops.h>
#include <etude/ops_image.h>
#include <etude/ops_layout.h>

typedef enum et_activation {
    ET_ACTIVATION_LINEAR,
    ET_ACTIVATION_RELU,
    ET_ACTIVATION_GELU,
    ET_ACTIVATION_TANH,
    ET_ACTIVATION_SIGMOID,
    ET_ACTIVATION_SWISH,
    ET_ACTIVATION_SELU,
    ET_ACTIVATION_MISH,
} et_activation;

/* Names of the activations in the enum's order, ended by NULL. */
ET_DATA const char *const et_activation_names[];

ET_API et_node *et_activate(et_node *x, et_activation activation);

typedef struct et_dense_options {
    bool no_bias;
    et_activation activation;
    float init_limit;  /* weights uniform in [-limit, limit); 0: Glorot's limit */
    bool tangent;      /* weights are standard normal, and the product is divided by sqrt(in): the
                          neural tangent parametrization; init_limit has no effect */
    int64_t row_tile;  /* see et_matmul_options */
    bool recomputable; /* mark the layer's nodes, see et_recomputable */
} et_dense_options;

/* act(x W + b): scope/weight [in, units] and scope/bias [units]. x is float32 or bfloat16. options
 * NULL: all zero. */
ET_API et_node *et_dense(et_scope *scope, et_node *x, int64_t units);
ET_API et_node *et_dense_with(et_scope *scope, et_node *x, int64_t units,
                              const et_dense_options *options);

/* Layer norm with scope/scale (ones) and scope/offset (zeros). */
ET_API et_node *et_norm(et_scope *scope, et_node *x, float epsilon);

/* RMS norm with scope/scale (ones). */
ET_API et_node *et_norm_rms(et_scope *scope, et_node *x, float epsilon);

/* Batch norm of x [T, D] or [N, H, W, D] with scope/scale (ones) and scope/offset (zeros). Training
 * uses the statistics of the batch and updates their moving means scope/mean and scope/variance
 * (variables, zeros and ones). Otherwise the moving means are used. Empty samples of a short batch
 * are ignored (mask 0, if batches have the field "mask" and x has a row or image for each sample).
 * Keras: momentum 0.99, epsilon 1e-3. */
ET_API et_node *et_norm_batch(et_scope *scope, et_node *x, float momentum, float epsilon);

typedef struct et_conv2d_options {
    et_convolution_options window; /* stride, dilation, padding */
    bool no_bias;
    et_activation activation;
} et_conv2d_options;

/* act(x * W + b), x [N, H, W, C] with a type as for et_dense. scope/weight [height, width, C,
 * filters] is Glorot uniform over the receptive field (fans height width C and height width
 * filters); scope/bias [filters]. options NULL: all zero. */
ET_API et_node *et_conv2d(et_scope *scope, et_node *x, int64_t filters, int64_t height,
                          int64_t width, const et_conv2d_options *options);

/* The embeddings of several columns side by side, see et_embed_columns. scope/table holds all
 * tables, uniform in [-0.05, 0.05). */
ET_API et_node *et_embedding_columns(et_scope *scope, et_node *ids, const et_column *columns,
                                     int count);

/* The rows of a table by ids, int32 of any shape: a row of width numbers for each id, in their
 * order [count of ids, width]. scope/table [rows, width], uniform in [-0.05, 0.05). A negative id
 * gives zeros. */
ET_API et_node *et_embedding_table(et_scope *scope, et_node *ids, int64_t rows, int64_t width);

/* [N, ...] as [N, all the rest], in order. */
ET_API et_node *et_flatten(et_node *x);

typedef struct et_attention_block_options {
    int heads;     /* divide the width; 0: 1 */
    int64_t units; /* of the hidden layer; 0: four times the width */
    float dropout; /* rate for attention weights and the result of each half, in training */
    bool causal;   /* a row sees itself and rows before it */
} et_attention_block_options;

/* A block of a Transformer with the norms first: h = x + attention(norm(x)), result h + W2 gelu(W1
 * norm(h)). x [T, D]: sequences of `length` rows each, one after another; length divides T.
 * Parameters: scope/norm_0, qkv, mixed, norm_1, hidden, out. Result [T, D]. options NULL: zeros. */
ET_API et_node *et_attention_block(et_scope *scope, et_node *x, int64_t length,
                                   const et_attention_block_options *options);

/* Draws the initial value of every parameter as declared, and calls et_params_changed. A random
 * number depends only on (seed, the parameter's name, element): not on other parameters, the
 * machine or threads. The store must be materialized. */
ET_API void et_init_draw(et_params *params, uint64_t seed);

#endif
