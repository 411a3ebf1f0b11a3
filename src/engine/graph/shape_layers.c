/* Shape rules of norms over a batch, convolutions and pooling. As in shape.c. An image is
 * [N, H, W, C]. */
#include "engine/graph/shape.h"
#include "engine/graph/shape_private.h"

/* w [K, N], row scales [G K], column scales [G N] to [K, G N]. */
bool et_shape_SCALED_COPIES(et_node *node)
{
    et_shape w = shape(node, 0), rows = shape(node, 1);
    if (!is_matrix(w) || dtype(node, 0) != ET_F32 || is_empty(w))
        return refuse(node, "not a float32 matrix with rows and columns", 0, 0);
    if (rows.rank != 1 || dtype(node, 1) != ET_F32 || is_empty(rows) || rows.size[0] % w.size[0])
        return refuse(node, "not float32 scales for the rows of one or more copies", 0, 1);
    const int64_t count = rows.size[0] / w.size[0];
    if (node->inputs == 3 &&
        (!is_vector_of(shape(node, 2), count * w.size[1]) || dtype(node, 2) != ET_F32))
        return refuse(node, "not float32 scales for the columns of as many copies", 0, 2);
    return set(node, act(node), et_shape_2(w.size[0], count * w.size[1]));
}

/* dy, then the operands. The results have the shapes of the operands. */
bool et_shape_SCALED_COPIES_GRAD(et_node *node)
{
    set(node, ET_F32, shape(node, 1));
    for (int i = 2; i < node->inputs; i++)
        add_result(node, ET_F32, shape(node, i));
    return true;
}

/* x [T, D], gamma [D]. Results: y as x; 1 / root mean square [T] for the derivative. */
bool et_shape_RMS_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x) || !is_vector_of(shape(node, 1), x.size[1]))
        return refuse(node, "scale is not a vector as wide as the input", 0, 1);
    if (!is_float(node, 0) || dtype(node, 1) != ET_F32)
        return refuse(node, "scale is not float32, or the input is not numeric", 0, 1);
    set(node, dtype(node, 0), x);
    add_result(node, ET_F32, et_shape_1(x.size[0]));
    return true;
}

/* dy, x, stats, gamma. Results: dx as x; dgamma. */
bool et_shape_RMS_NORM_GRAD(et_node *node)
{
    set(node, dtype(node, 1), shape(node, 1));
    add_result(node, ET_F32, shape(node, 3));
    return true;
}

/* x [T, ..., D], a mask [T], all else [D]; float32. Results: y as x; mean and variance, unless
 * given. */
bool et_shape_BATCH_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (x.rank < 2 || !is_float(node, 0))
        return refuse(node, "neither numeric rows nor an image", 0, 0);
    const bool masked = node->inputs == 4, given = node->inputs == 5;
    if (masked && (!is_vector_of(shape(node, 3), x.size[0]) || dtype(node, 3) != ET_F32))
        return refuse(node, "the mask is not float32, one number for each sample", 0, 3);
    for (int i = 1; i < node->inputs - masked; i++)
        if (!is_vector_of(shape(node, i), x.size[x.rank - 1]) || dtype(node, i) != ET_F32)
            return refuse(node, "not float32, one number for each column", 0, i);
    set(node, dtype(node, 0), x);
    for (int i = 0; i < 2 && !given; i++)
        add_result(node, ET_F32, shape(node, 1));
    return true;
}

/* dy, x, mean, variance, gamma (, mask). Results: dx as x; dgamma; dbeta. */
bool et_shape_BATCH_NORM_GRAD(et_node *node)
{
    set(node, dtype(node, 1), shape(node, 1));
    add_result(node, ET_F32, shape(node, 4));
    add_result(node, ET_F32, shape(node, 4));
    return true;
}

void et_convolution_windows(et_window windows[2], et_shape image, et_shape weight,
                            const et_convolution_options *options)
{
    for (int i = 0; i < 2; i++)
        windows[i] = et_window_of(image.size[1 + i], weight.size[i],
                                  options->stride[i] ? options->stride[i] : 1,
                                  options->dilation[i] ? options->dilation[i] : 1, options->same);
}

void et_pool_windows(et_window windows[2], et_shape image, const et_pool_options *options)
{
    for (int i = 0; i < 2; i++) {
        int64_t kernel = options->window[i] ? options->window[i] : image.size[1 + i];
        int64_t stride = options->stride[i] ? options->stride[i] : kernel;
        windows[i] = et_window_of(image.size[1 + i], kernel, stride, 1, options->same);
    }
}

/* Room for an output both ways. */
static bool fits(const et_window windows[2])
{
    return windows[0].out > 0 && windows[1].out > 0;
}

/* Strides, dilations, windows: 0 has been taken for the default. */
static bool is_positive(const int pair[2])
{
    return pair[0] >= 0 && pair[1] >= 0;
}

/* x [N, H, W, C] and weight [KH, KW, C, F] to [N, OH, OW, F]; bias [F]. */
bool et_shape_CONVOLUTION(et_node *node)
{
    const et_convolution_options *options = &node->attributes.convolution;
    et_shape x = shape(node, 0), weight = shape(node, 1);
    et_window windows[2];
    if (x.rank != 4 || weight.rank != 4 || x.size[3] != weight.size[2])
        return refuse(node, "not an image and a weight for its channels", 0, 1);
    if (dtype(node, 0) != act(node) || node->input[1]->op != ET_OP_PARAM)
        return refuse(node, "not of the graph's activation type and a parameter", 0, 1);
    if (is_empty(x) || is_empty(weight))
        return refuse(node, "a size is 0", 0, 1);
    if (node->inputs == 3 &&
        (!is_vector_of(shape(node, 2), weight.size[3]) || dtype(node, 2) != ET_F32))
        return refuse(node, "bias is not one float32 number for each filter", 1, 2);
    if (!is_positive(options->stride) || !is_positive(options->dilation))
        return refuse(node, "a stride or dilation is negative", 0, 1);
    et_convolution_windows(windows, x, weight, options);
    if (!fits(windows))
        return refuse(node, "the window is larger than the image", 0, 1);
    return set(node, act(node),
               et_shape_4(x.size[0], windows[0].out, windows[1].out, weight.size[3]));
}

static bool pool(et_node *node)
{
    const et_pool_options *options = &node->attributes.pool;
    et_shape x = shape(node, 0);
    et_window windows[2];
    if (x.rank != 4 || dtype(node, 0) == ET_I32)
        return refuse(node, "not a numeric image", 0, 0);
    if (!is_positive(options->window) || !is_positive(options->stride))
        return refuse(node, "a window or stride is negative", 0, 0);
    if (is_empty(x))
        return refuse(node, "a size is 0", 0, 0);
    et_pool_windows(windows, x, options);
    if (!fits(windows))
        return refuse(node, "the window is larger than the image", 0, 0);
    return set(node, dtype(node, 0),
               et_shape_4(x.size[0], windows[0].out, windows[1].out, x.size[3]));
}

/* Results: y; which element of its window each is, for the derivative. */
bool et_shape_MAX_POOL(et_node *node)
{
    if (!pool(node))
        return false;
    add_result(node, ET_F32, node->type[0].shape);
    return true;
}

bool et_shape_MEAN_POOL(et_node *node)
{
    return pool(node);
}
