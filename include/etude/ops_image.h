/* Ops over images [N, H, W, C] (N samples, H rows, W columns, C channels) and norms over a batch
 * (graph.h). Options that are all zero are the defaults.
 *
 *     et_convolution_options same = { .same = true, .relu = true };
 *     et_node *h = et_convolution(image, weight, bias, &same);
 *     et_pool_options two = { .window = { 2, 2 } };
 *     h = et_max_pool(h, &two);
 *
 * A window has an output wherever it lies inside the image; with `same` one for every stride, and
 * what is missing at the ends (the odd one at the end, as in TensorFlow) counts as zeros in a
 * convolution and not at all in pooling. Pairs: down (rows), across (columns). */
#ifndef ETUDE_OPS_IMAGE_H
#define ETUDE_OPS_IMAGE_H

#include <etude/graph.h>

typedef struct et_convolution_options {
    int stride[2];   /* 0: 1 */
    int dilation[2]; /* 0: 1 */
    bool same;
    bool relu; /* apply relu to the result */
    ET_RESERVED(4);
} et_convolution_options;

/* y[n, i, j, f] = sum over k, l, c of x[n, i s - before + k d, j s - before + l d, c]
 * weight[k, l, c, f] (+ bias[f]) (relu). x act; weight [KH, KW, C, F] a parameter; bias [F]
 * float32 or NULL; options NULL: none. Result [N, OH, OW, F] act. */
ET_API et_node *et_convolution(et_node *x, et_node *weight, et_node *bias,
                               const et_convolution_options *options);

typedef struct et_pool_options {
    int window[2]; /* 0: the whole image */
    int stride[2]; /* 0: the window */
    bool same;
    ET_RESERVED(4);
} et_pool_options;

/* The largest, or the mean, of the elements that the window covers, by channel. Result
 * [N, OH, OW, C]. Of several largest ones the first gets the derivative. options NULL: the whole
 * image. */
ET_API et_node *et_max_pool(et_node *x, const et_pool_options *options);
ET_API et_node *et_mean_pool(et_node *x, const et_pool_options *options);

/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta for each column d (of an image, each
 * channel), over the rows of the batch (Ioffe and Szegedy 2015). x [T, D] or [N, H, W, D], gamma
 * and beta [D]. mask [T] or [N], float32: samples whose mask is 0 are not counted and become 0;
 * NULL: all count. *mean and *variance (NULL: not wanted) are the batch's, float32 [D], the
 * variance divided by the number of rows counted: for moving means, not to be differentiated. */
ET_API et_node *et_batch_norm(et_node *x, et_node *gamma, et_node *beta, et_node *mask,
                              float epsilon, et_node **mean, et_node **variance);

/* The same with statistics that are given, float32 [D] each: for inference, or to train what lies
 * before it. mean and variance get no derivative. */
ET_API et_node *et_batch_norm_given(et_node *x, et_node *gamma, et_node *beta, et_node *mean,
                                    et_node *variance, float epsilon);

#endif
