/* Layers as equations over nodes. Each layer declares its trained parameters in the given scope and
 * returns the node of its result. No layer keeps state, and the graph keeps an error (a width that
 * does not fit), so nothing is checked on the way. A poison input has rank 0: the widths below
 * become 0, and the node made from them is poison too. */
#include <limits.h>
#include <math.h>

#include <etude/layers.h>
#include <etude/pass.h>

#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

static const et_init zeros = { ET_INIT_ZEROS, 0 }, ones = { ET_INIT_ONES, 0 };

/* Columns of a matrix; 0: x is none. */
static int64_t columns_of(const et_node *x)
{
    const et_shape shape = et_node_shape(x);
    return shape.rank == 2 ? shape.size[1] : 0;
}

/* The scope that a layer has entered, which names its nodes. */
static et_node *leave(et_scope *before, et_node *y)
{
    et_scope_enter(before);
    return y;
}

/* ORDER et_activation: an option's choice is an index into both. */
const char *const et_activation_names[] = { "linear", "relu", "gelu", "tanh", "sigmoid",
                                            "swish",  "selu", "mish", NULL };

/* LINEAR is no node at all: the graph has nothing to run for it. */
et_node *et_activate(et_node *x, et_activation activation)
{
    switch (activation) {
    case ET_ACTIVATION_RELU:
        return et_relu(x);
    case ET_ACTIVATION_GELU:
        return et_gelu(x);
    case ET_ACTIVATION_TANH:
        return et_tanh(x);
    case ET_ACTIVATION_SIGMOID:
        return et_sigmoid(x);
    case ET_ACTIVATION_SWISH:
        return et_swish(x);
    case ET_ACTIVATION_SELU:
        return et_selu(x);
    case ET_ACTIVATION_MISH:
        return et_mish(x);
    case ET_ACTIVATION_LINEAR:
        return x;
    }
    return et_graph_poison(x->graph, "%s: %d is not an et_activation", x->name, (int)activation);
}

/* The defaults: with a bias, linear, Glorot's limit. */
et_node *et_dense(et_scope *scope, et_node *x, int64_t units)
{
    return et_dense_with(scope, x, units, NULL);
}

/* x W / sqrt(in) + b, W standard normal: the size of W, and so the useful rate, does not depend on
 * the width (Jacot, Gabriel and Hongler 2018). */
static et_node *tangent_product(et_scope *scope, et_node *x, et_node *bias, int64_t width,
                                int64_t units, const et_matmul_options *options)
{
    const et_init normal = { ET_INIT_NORMAL, 1 };
    et_matmul_options plain = *options;
    plain.relu = false;
    et_node *y =
        et_matmul(x, et_param(scope, "weight", et_shape_2(width, units), normal), NULL, &plain);
    y = et_scale(y, 1 / sqrtf((float)(width > 0 ? width : 1)));
    y = bias ? et_bias(y, bias) : y;
    return options->relu ? et_relu(y) : y;
}

/* y = f(x W + b), W [in, units] uniform in Glorot's limit sqrt(6 / (in + units)) unless options
 * give another, b [units] zeros. Relu is part of the product's own pass over its result; other
 * activations are nodes after it, which exec fuses if possible. */
et_node *et_dense_with(et_scope *scope, et_node *x, int64_t units, const et_dense_options *options)
{
    static const et_dense_options defaults = { 0 };
    const int64_t width = columns_of(x);
    const et_dense_options *o = options ? options : &defaults;
    if (units < 1)
        return et_graph_poison(x->graph, "%sdense: %lld units: give at least 1", scope->prefix,
                               (long long)units);
    if (!(o->init_limit >= 0 && isfinite(o->init_limit)))
        return et_graph_poison(x->graph,
                               "%sdense: init_limit %g: give a finite number of at least 0",
                               scope->prefix, (double)o->init_limit);
    /* Options can only narrow or widen the limit; the kind of draw stays. */
    et_init init = et_init_glorot_uniform(width, units);
    if (o->init_limit > 0)
        init.scale = o->init_limit;
    et_node *weight = o->tangent ? NULL : et_param(scope, "weight", et_shape_2(width, units), init);
    et_node *bias = NULL;
    if (!o->no_bias)
        bias = et_param(scope, "bias", et_shape_1(units), zeros);
    et_matmul_options matmul = { .relu = o->activation == ET_ACTIVATION_RELU,
                                 .row_tile = o->row_tile };
    et_scope *before = et_scope_enter(scope);
    et_node *y = o->tangent ? tangent_product(scope, x, bias, width, units, &matmul)
                            : et_matmul(x, weight, bias, &matmul);
    if (o->recomputable)
        et_recomputable(y);
    return leave(before, matmul.relu ? y : et_activate(y, o->activation));
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + offset, over each row's columns (Ba,
 * Kiros and Hinton 2016). Ones and zeros at the start: only the norm itself. */
et_node *et_norm(et_scope *scope, et_node *x, float epsilon)
{
    const et_shape width = et_shape_1(columns_of(x));
    et_node *gamma = et_param(scope, "scale", width, ones);
    et_node *beta = et_param(scope, "offset", width, zeros);
    et_scope *before = et_scope_enter(scope);
    return leave(before, et_layer_norm(x, gamma, beta, epsilon));
}

/* y = x / sqrt(mean of x^2 + epsilon) * scale, over each row's columns (Zhang and Sennrich 2019).
 */
et_node *et_norm_rms(et_scope *scope, et_node *x, float epsilon)
{
    et_node *gamma = et_param(scope, "scale", et_shape_1(columns_of(x)), ones);
    et_scope *before = et_scope_enter(scope);
    return leave(before, et_rms_norm(x, gamma, epsilon));
}

/* The mask of the samples that x has a row or an image of; NULL: its rows are something else, or
 * batches have none. */
static et_node *sample_mask(et_scope *scope, const et_node *x)
{
    const et_layout *layout = et_scope_layout(scope);
    int field = layout ? et_layout_find(layout, ET_BATCH_MASK) : -1;
    if (field < 0)
        return NULL;
    et_shape mask = et_layout_shape(layout, field), in = et_node_shape(x);
    bool rows = mask.rank == 1 && in.rank >= 2 && in.size[0] == mask.size[0];
    return rows && layout->field[field].dtype == ET_F32 ? et_batch_input(scope, ET_BATCH_MASK)
                                                        : NULL;
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + offset, over the rows of each column (Ioffe
 * and Szegedy 2015). */
et_node *et_norm_batch(et_scope *scope, et_node *x, float momentum, float epsilon)
{
    et_shape in = et_node_shape(x);
    et_shape width = et_shape_1(in.rank >= 2 ? in.size[in.rank - 1] : 0);
    et_node *gamma = et_param(scope, "scale", width, ones);
    et_node *beta = et_param(scope, "offset", width, zeros);
    et_node *mean = et_variable(scope, "mean", width, zeros), *mean_here;
    et_node *variance = et_variable(scope, "variance", width, ones), *variance_here;
    et_scope *before = et_scope_enter(scope);
    if (!et_scope_training(scope))
        return leave(before, et_batch_norm_given(x, gamma, beta, mean, variance, epsilon));
    et_node *y =
        et_batch_norm(x, gamma, beta, sample_mask(scope, x), epsilon, &mean_here, &variance_here);
    et_moving_mean(scope, mean, mean_here, momentum);
    et_moving_mean(scope, variance, variance_here, momentum);
    return leave(before, y);
}

/* A filter's inputs and outputs are counted over its whole window, as in Keras. Relu is part of the
 * convolution, as of a product. */
et_node *et_conv2d(et_scope *scope, et_node *x, int64_t filters, int64_t height, int64_t width,
                   const et_conv2d_options *options)
{
    static const et_conv2d_options defaults = { 0 };
    const et_conv2d_options *o = options ? options : &defaults;
    et_shape in = et_node_shape(x);
    int64_t channels = in.rank == 4 && in.size[3] > 0 ? in.size[3] : 1;
    et_shape size = et_shape_4(height, width, channels, filters);
    if (filters < 1 || height < 1 || width < 1 || !et_shape_valid(size))
        return et_graph_poison(x->graph,
                               "%sconv2d: %lld filters of %lld x %lld: give sizes of at least 1, "
                               "and at most 2^55 in total",
                               scope->prefix, (long long)filters, (long long)height,
                               (long long)width);
    int64_t area = height * width;
    et_convolution_options window = o->window;
    window.relu |= o->activation == ET_ACTIVATION_RELU;
    et_node *weight =
        et_param(scope, "weight", size, et_init_glorot_uniform(area * channels, area * filters));
    et_node *bias = NULL;
    if (!o->no_bias)
        bias = et_param(scope, "bias", et_shape_1(filters), zeros);
    et_scope *before = et_scope_enter(scope);
    et_node *y = et_convolution(x, weight, bias, &window);
    return leave(before, o->activation == ET_ACTIVATION_RELU ? y : et_activate(y, o->activation));
}

et_node *et_embedding_columns(et_scope *scope, et_node *ids, const et_column *columns, int count)
{
    et_shape size = et_shape_1(et_columns_size(columns, count));
    et_node *table = et_param(scope, "table", size, (et_init){ ET_INIT_UNIFORM, 0.05f });
    et_scope *before = et_scope_enter(scope);
    return leave(before, et_embed_columns(ids, table, columns, count));
}

/* ---- blocks ---- */

/* Layers made of the layers above. */

et_node *et_embedding_table(et_scope *scope, et_node *ids, int64_t rows, int64_t width)
{
    const et_init init = { ET_INIT_UNIFORM, 0.05f };
    et_node *table = et_param(scope, "table", et_shape_2(rows, width), init);
    et_scope *before = et_scope_enter(scope);
    const et_shape shape = et_node_shape(ids);
    et_node *all = shape.rank == 1 ? ids : et_reshape(ids, et_shape_1(et_shape_count(shape)));
    return leave(before, et_embedding(all, table, 1, NULL, NULL));
}

et_node *et_flatten(et_node *x)
{
    const et_shape shape = et_node_shape(x);
    if (shape.rank < 1)
        return et_graph_poison(x->graph, "%s: a scalar cannot be flattened", x->name);
    const int64_t rows = shape.size[0];
    return shape.rank == 2 ? x : et_reshape(x, et_shape_2(rows, et_shape_count(shape) / rows));
}

/* Checks a block's input. Poison: the input is wrong; NULL: it is valid. */
static et_node *check_block(const et_scope *scope, et_node *x, int64_t length, int heads,
                            const et_attention_block_options *o)
{
    const et_shape shape = et_node_shape(x);
    char text[ET_SHAPE_TEXT_MAX];
    if (shape.rank != 2)
        return et_graph_poison(x->graph, "%sattention block: x is %s; give rows of numbers, [T, D]",
                               scope->prefix, et_shape_print(shape, text));
    if (length < 1 || length > INT_MAX || shape.size[0] % length)
        return et_graph_poison(x->graph,
                               "%sattention block: sequences of %lld rows do not divide %lld rows",
                               scope->prefix, (long long)length, (long long)shape.size[0]);
    if (heads < 1 || shape.size[1] % heads)
        return et_graph_poison(x->graph,
                               "%sattention block: %d heads do not divide a width of %lld",
                               scope->prefix, heads, (long long)shape.size[1]);
    if (o->units < 0)
        return et_graph_poison(x->graph, "%sattention block: %lld units: give at least 1, or 0",
                               scope->prefix, (long long)o->units);
    return NULL;
}

et_node *et_attention_block(et_scope *scope, et_node *x, int64_t length,
                            const et_attention_block_options *options)
{
    static const et_attention_block_options defaults = { 0 };
    const et_attention_block_options *o = options ? options : &defaults;
    const et_dense_options plain = { .no_bias = true }, gelu = { .activation = ET_ACTIVATION_GELU };
    const et_attention_options attention = { .heads = o->heads ? o->heads : 1,
                                             .causal = o->causal,
                                             .rate = o->dropout,
                                             .longest_key = (int)length };
    et_node *wrong = check_block(scope, x, length, attention.heads, o);
    if (wrong)
        return wrong;
    const int64_t rows = et_node_shape(x).size[0], width = et_node_shape(x).size[1];
    et_scope *before = et_scope_enter(scope);
    et_node *offsets = et_integers(scope, 0, rows / length + 1, length);
    et_node *qkv = et_norm(et_at(scope, "norm", 0), x, 1e-6f);
    qkv = et_dense_with(et_in(scope, "qkv"), qkv, 3 * width, &plain);
    et_node *h = et_attention(scope, qkv, qkv, offsets, offsets, &attention);
    h = et_dense(et_in(scope, "mixed"), h, width);
    x = et_add(x, et_dropout(scope, h, o->dropout));
    h = et_norm(et_at(scope, "norm", 1), x, 1e-6f);
    h = et_dense_with(et_in(scope, "hidden"), h, o->units ? o->units : 4 * width, &gelu);
    h = et_dense(et_in(scope, "out"), h, width);
    return leave(before, et_add(x, et_dropout(scope, h, o->dropout)));
}
