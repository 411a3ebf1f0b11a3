/* Ops on images [N, H, W, C] (N samples, H rows, W columns, C channels) (graph.h). Options that are
 * all zero are the defaults.
 *
 *     et_convolution_options same = { .same = true, .relu = true };
 *     et_node *h = et_convolution(image, weight, bias, &same);
 *     et_pool_options two = { .window = { 2, 2 } };
 *     h = et_max_pool(h, &two);
 *     h = et_mean_pool(h, NULL);             of the whole image
 *
 * There is one output for each position of the window that is completely inside the image. With
 * `same` there is one output for every stride. Elements outside the image (an odd one is after the
 * end, as in TensorFlow) are zeros in a convolution and ignored in pooling. Pairs: vertical (rows),
 * horizontal (columns). */
#ifndef ETUDE_OPS_IMAGE_H
#define ETUDE_OPS_IMAGE_H

#include <etude/graph.h>

typedef struct et_convolution_options {
    int stride[2];   /* 0: 1 */
    int dilation[2]; /* 0: 1 */
    bool same;
    bool relu; /* apply relu to the result */
} et_convolution_options;

/* y[n, i, j, f] = sum over k, l, c of x[n, i s - before + k d, j s - before + l d, c]
 * weight[k, l, c, f] (+ bias[f]) (relu). x is used as act; weight [KH, KW, C, F] a parameter; bias
 * [F] float32 or NULL; options NULL: none. Result [N, OH, OW, F] act. */
ET_API et_node *et_convolution(et_node *x, et_node *weight, et_node *bias,
                               const et_convolution_options *options);

typedef struct et_pool_options {
    int window[2]; /* 0: the whole image */
    int stride[2]; /* 0: the window */
    bool same;
} et_pool_options;

/* The largest element in the window, or the mean, for each channel. Result [N, OH, OW, C]. If
 * several are largest, the first gets the derivative. options NULL: the whole image. */
ET_API et_node *et_max_pool(et_node *x, const et_pool_options *options);
ET_API et_node *et_mean_pool(et_node *x, const et_pool_options *options);

#endif
