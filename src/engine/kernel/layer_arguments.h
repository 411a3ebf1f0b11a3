/* Arguments of kernels for other layers than the Transformer's: norms over a batch, embeddings of
 * several columns, scaled copies of a matrix, pooling.
 *
 * Legend as in kernels.h. An image is [N, H, W, C]; a norm over a batch takes it as [N H W, C]. */
#ifndef ETUDE_ENGINE_KERNEL_LAYER_ARGUMENTS_H
#define ETUDE_ENGINE_KERNEL_LAYER_ARGUMENTS_H

#include <etude/ops_layout.h>

#include "engine/kernel/window.h"

/* Which rows of a batch count: row t does if mask[t / each] is not 0. */
typedef struct et_counted {
    const float *mask; /* [samples]; NULL: all count */
    int64_t each;      /* rows of a sample: 1, of an image H W */
} et_counted;

/* Facts of a batch norm about its columns, [D] each. */
typedef struct et_batch_statistics {
    const float *mean, *variance, *gamma, *beta; /* beta: not read by the derivative */
    float epsilon;
    bool given; /* statistics are not the batch's own: they do not depend on x */
    et_counted counted;
} et_batch_statistics;

/* ids [rows, count], a result [rows, width]; column c's table [column[c].rows, column[c].width]
 * follows those of the columns before it, and so do its columns of the result. */
typedef struct et_column_embedding {
    const et_column *column;
    int count;
    int64_t rows, width;
    et_dtype dtype; /* of the result */
} et_column_embedding;

/* `count` copies of w [rows, width] side by side, [rows, count width]. */
typedef struct et_scaled_matrix {
    const float *w;
    const float *row_scale;    /* [count, rows] */
    const float *column_scale; /* [count, width]; NULL: ones */
    int64_t rows, width, count;
    et_dtype dtype; /* of the copies */
} et_scaled_matrix;

/* Derivatives of these, written. */
typedef struct et_scaled_matrix_grad {
    const void *dy;
    float *dw, *drow;
    float *dcolumn; /* NULL: not wanted */
} et_scaled_matrix_grad;

typedef struct et_pool_shape {
    int64_t batch, channels;
    et_window down, across; /* over rows and over columns of the image */
    bool mean;              /* else the largest */
    et_dtype dtype;
} et_pool_shape;

#endif
