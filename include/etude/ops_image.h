/* Ops over images [N, H, W, C] (N samples, H rows, W columns, C channels) and norms over a batch
 * (graph.h). Options that are all zero are the defaults.
 *
 *     et_convolution_options same = { .same = true, .relu = true };
 *     et_node *h = et_convolution(image, weight, bias, &same);
 *     et_pool_options two = { .window = { 2, 2 } };
 *     h = et_max_pool(h, &two);
 *     h = et_mean_pool(h, NULL);             of the whole image
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
} et_pool_options;

/* The largest, or the mean, of the elements that the window covers, by channel. Result
 * [N, OH, OW, C]. Of several largest ones the first gets the derivative. options NULL: the whole
 * image. */
ET_API et_node *et_max_pool(et_node *x, const et_pool_options *options);
ET_API et_node *et_mean_pool(et_node *x, const et_pool_options *options);

#endif
