/* Layers as equations over nodes. Each declares what it learns in the scope it is given and
 * returns the node of its result; none keeps state, and an error (a width that does not fit)
 * is kept by the graph, so nothing is checked on the way. A poison input has rank 0: the
 * widths below become 0, and the node that is made of them is poison too. */
#include <etude/nn.h>

#include "base/assert.h"

/* ORDER et_activation: an option's choice is an index into both. */
const char *const et_activation_names[] = { "linear",  "relu",  "gelu", "tanh",
                                            "sigmoid", "swish", NULL };

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
    default:
        et_assert(activation == ET_ACTIVATION_LINEAR);
        return x;
    }
}

/* The defaults: with a bias, linear, Glorot's limit. */
et_node *et_dense(et_scope *scope, et_node *x, int64_t units)
{
    static const et_dense_options defaults = { 0 };
    return et_dense_with(scope, x, units, &defaults);
}

/* y = f(x W + b), W [in, units] uniform in Glorot's limit sqrt(6 / (in + units)) unless
 * options give another, b [units] zeros. Relu is part of the product's own pass over its
 * result; the other activations are nodes behind it, which exec fuses where it can. */
et_node *et_dense_with(et_scope *scope, et_node *x, int64_t units, const et_dense_options *options)
{
    et_shape in = et_node_shape(x);
    int64_t width = in.rank == 2 ? in.size[1] : 0;
    /* Options can only narrow or widen the limit; the kind of draw stays. */
    et_init init = et_init_glorot_uniform(width, units);
    if (options->init_limit > 0)
        init.scale = options->init_limit;
    et_node *weight = et_param(scope, "weight", et_shape_2(width, units), init);
    et_node *bias = NULL;
    if (!options->no_bias)
        bias = et_param(scope, "bias", et_shape_1(units), (et_init){ ET_INIT_ZEROS, 0 });
    et_matmul_options matmul = { .relu = options->activation == ET_ACTIVATION_RELU,
                                 .row_tile = options->row_tile };
    et_node *y = et_matmul(x, weight, bias, &matmul);
    if (options->recomputable)
        et_recomputable(y);
    return matmul.relu ? y : et_activate(y, options->activation);
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + offset, over each row's columns (Ba,
 * Kiros and Hinton 2016). Ones and zeros at the start: only the norm itself. */
et_node *et_norm(et_scope *scope, et_node *x, float epsilon)
{
    et_shape in = et_node_shape(x);
    et_shape width = et_shape_1(in.rank == 2 ? in.size[1] : 0);
    et_node *gamma = et_param(scope, "scale", width, (et_init){ ET_INIT_ONES, 0 });
    et_node *beta = et_param(scope, "offset", width, (et_init){ ET_INIT_ZEROS, 0 });
    return et_layer_norm(x, gamma, beta, epsilon);
}

/* y = x / sqrt(mean of x^2 + epsilon) * scale, over each row's columns (Zhang and Sennrich 2019).
 */
et_node *et_norm_rms(et_scope *scope, et_node *x, float epsilon)
{
    et_shape in = et_node_shape(x);
    et_shape width = et_shape_1(in.rank == 2 ? in.size[1] : 0);
    et_node *gamma = et_param(scope, "scale", width, (et_init){ ET_INIT_ONES, 0 });
    return et_rms_norm(x, gamma, epsilon);
}

/* A filter's inputs and outputs are those of its whole window, as Keras counts them. Relu is part
 * of the convolution, as of a product. */
et_node *et_conv2d(et_scope *scope, et_node *x, int64_t filters, int64_t height, int64_t width,
                   const et_conv2d_options *options)
{
    static const et_conv2d_options defaults = { 0 };
    const et_conv2d_options *o = options ? options : &defaults;
    et_shape in = et_node_shape(x);
    int64_t channels = in.rank == 4 ? in.size[3] : 0, area = height * width;
    et_convolution_options window = o->window;
    window.relu |= o->activation == ET_ACTIVATION_RELU;
    et_node *weight = et_param(scope, "weight", et_shape_4(height, width, channels, filters),
                               et_init_glorot_uniform(area * channels, area * filters));
    et_node *bias = NULL;
    if (!o->no_bias)
        bias = et_param(scope, "bias", et_shape_1(filters), (et_init){ ET_INIT_ZEROS, 0 });
    et_node *y = et_convolution(x, weight, bias, &window);
    return o->activation == ET_ACTIVATION_RELU ? y : et_activate(y, o->activation);
}

et_node *et_embedding_columns(et_scope *scope, et_node *ids, const et_column *columns, int count)
{
    et_shape size = et_shape_1(et_columns_size(columns, count));
    et_node *table = et_param(scope, "table", size, (et_init){ ET_INIT_UNIFORM, 0.05f });
    return et_embed_columns(ids, table, columns, count);
}
