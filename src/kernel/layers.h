/* Kernels of layers beside the Transformer's: norms over a row's scale and over a batch, embeddings
 * of several columns, pooling, sampling. One table per instruction set, et_kernels.layers.
 *
 * Legend, threads and equal bits as in kernels.h. An image is [N, H, W, C]; a norm over a batch
 * takes it as [N H W, C]. */
#ifndef ETUDE_KERNEL_LAYERS_H
#define ETUDE_KERNEL_LAYERS_H

#include <etude/ops_layout.h>

#include "base/philox.h"
#include "kernel/window.h"

/* What a batch norm knows of its columns, [D] each. */
typedef struct et_batch_statistics {
    const float *mean, *variance, *gamma, *beta; /* beta: not read by the derivative */
    float epsilon;
    bool given; /* statistics are not the batch's own: they do not depend on x */
} et_batch_statistics;

/* ids [rows, count], a result [rows, width]; column c's table [column[c].rows, column[c].width]
 * lies behind those of the columns before it, and so do its columns of the result. */
typedef struct et_column_embedding {
    const et_column *column;
    int count;
    int64_t rows, width;
    et_dtype dtype; /* of the result */
} et_column_embedding;

typedef struct et_pool_shape {
    int64_t batch, channels;
    et_window down, across; /* over rows and over columns of the image */
    bool mean;              /* else the largest */
    et_dtype dtype;
} et_pool_shape;

typedef struct et_layer_kernels {
    /* y[t] = x[t] * rstd * gamma, rstd = 1 / sqrt(mean of x[t]^2 + epsilon) (Zhang and Sennrich
     * 2019). rstd [T] is kept for the derivative; may be NULL. */
    void (*rms_norm)(void *y, float *rstd, const void *x, const float *gamma, float epsilon,
                     int64_t rows, int64_t width, et_dtype dtype);

    /* With g = dy gamma, n = x rstd: dx = rstd (g - n mean(g n)), dgamma = sum over rows of dy n.
     * scratch: et_row_blocks(rows) * width floats. dx may be dy. */
    void (*rms_norm_grad)(void *dx, float *dgamma, float *scratch, const void *dy, const void *x,
                          const float *rstd, const float *gamma, int64_t rows, int64_t width,
                          et_dtype dtype);

    /* mean[d] and variance[d] of x[., d], the variance that of the rows that there are (divided
     * by their number). rows >= 1. scratch: et_row_blocks(rows) * width floats. */
    void (*column_moments)(float *mean, float *variance, float *scratch, const void *x,
                           int64_t rows, int64_t width, et_dtype dtype);

    /* y = (x - mean) * rstd * gamma + beta by columns, rstd = 1 / sqrt(variance + epsilon)
     * (Ioffe and Szegedy 2015). y may be x. */
    void (*batch_norm)(void *y, const void *x, const et_batch_statistics *norm, int64_t rows,
                       int64_t width, et_dtype dtype);

    /* With n = (x - mean) rstd: dgamma = sum over rows of dy n, dbeta of dy;
     * dx = gamma rstd (dy - mean(dy) - n mean(dy n)), means over rows, or gamma rstd dy where
     * the statistics were given. scratch: et_row_blocks(rows) * 2 * width floats. dx may be dy. */
    void (*batch_norm_grad)(void *dx, float *dgamma, float *dbeta, float *scratch, const void *dy,
                            const void *x, const et_batch_statistics *norm, int64_t rows,
                            int64_t width, et_dtype dtype);

    /* y[t, columns of c] = table_c[ids[t, c]]; a negative id gives zeros. */
    void (*embed_columns)(void *y, const int32_t *ids, const float *table,
                          const et_column_embedding *shape);

    /* dtable_c[ids[t, c]] += dy[t, columns of c], rows in ascending t. */
    void (*embed_columns_grad)(float *dtable, const int32_t *ids, const void *dy,
                               const et_column_embedding *shape);

    /* y [N, OH, OW, C] = the largest (the first of equal ones; a NaN is larger) or the mean of the
     * elements that the window covers. place, float32 as y, is which one it was, by its number in
     * the window; NULL: nobody differentiates. */
    void (*pool)(void *y, float *place, const void *x, const et_pool_shape *shape);

    /* dx = for each element the sum of dy over the windows whose largest it was, or of dy / n over
     * those of n elements that cover it. place: not read for the mean. */
    void (*pool_grad)(void *dx, const void *dy, const float *place, const et_pool_shape *shape);

    /* y[i] = et_random_normal(random, i). */
    void (*noise)(void *y, int64_t count, et_random random, et_dtype dtype);

    /* y[i] = 1 where et_random_uniform(random, i) < p[i], else 0. y may be p. */
    void (*bernoulli)(void *y, const void *p, int64_t count, et_random random, et_dtype dtype);
} et_layer_kernels;

#endif
