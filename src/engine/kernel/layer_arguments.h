/* Arguments of kernels for layers: recurrence, norms over a batch, embeddings of several columns,
 * scaled copies of a matrix, pooling.
 *
 * Legend as in kernels.h. An image is [N, H, W, C]; a norm over a batch takes it as [N H W, C]. */
#ifndef ETUDE_ENGINE_KERNEL_LAYER_ARGUMENTS_H
#define ETUDE_ENGINE_KERNEL_LAYER_ARGUMENTS_H

#include <etude/dtype.h>
#include <etude/ops_layout.h>

#include <stdint.h>

#include "engine/kernel/window.h"

/* Arguments of the recurrence of the simpler simple recurrent unit, SSRU (Kim et al. 2019, "From
 * Research to Production and Back: Ludicrously Fast Neural Machine Translation"), over the rows of
 * segments, each column by itself:
 *
 *   c[t] = f[t] c[t - 1] + (1 - f[t]) x[t],   f = 1 / (1 + e^-gate)
 *
 * Before the first row of a segment c is 0. Decoding has one new row for each hypothesis, whose
 * c[t - 1] is a row of `state`.
 *
 * Sums are float32. The state is float32 too, so c has the same bits whether the rows of a segment
 * come together or one by one. Pointers are borrowed for the call. */
typedef struct et_recurrence {
    const void *x, *gate; /* [rows, width] */
    int64_t segments, width;
    const int32_t *offsets; /* [segments + 1], ascending; NULL: each row is a segment */
    /* Without offsets: row t reads c[t - 1] from state[where[t][0]], zeros if that is -1, and
     * writes c[t] to state[where[t][1]]. No row reads what another one writes. */
    const int32_t *where; /* [segments, 2] */
    float *state;         /* [slots, width] */
    et_dtype dtype;       /* of x, gate, c and their derivatives */
} et_recurrence;

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
