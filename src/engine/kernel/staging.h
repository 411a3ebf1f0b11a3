/* Copies for a matrix product's block: operands in the dense layout and type that the block reads,
 * and its result in the layout and type of C. Single-threaded, part of each table of kernels;
 * gemm/gemm_private.h combines the layouts.
 *
 * bfloat16 becomes float32 exactly. Nothing is read beyond the stored elements; targets may have
 * any alignment (64 bytes is faster) and do not overlap their source. */
#ifndef ETUDE_ENGINE_KERNEL_STAGING_H
#define ETUDE_ENGINE_KERNEL_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/dtype.h>

/* A matrix as stored: element (i, j) at i * stride + j. */
typedef struct et_stored {
    /* Borrowed; at element (0, 0). */
    const void *data;
    int64_t rows, columns;
    int64_t stride; /* elements */
    et_dtype dtype; /* ET_F32 or ET_BF16 */
} et_stored;

/* How float32 sums become C: c = relu(sum of parts + bias), or c += that. */
typedef struct et_finish {
    int64_t rows, columns;
    int64_t parts;       /* partial sums to add up, in order; at least 1 */
    int64_t part_stride; /* floats from one to the next */
    int64_t from_stride; /* floats from row to row of a part */
    int64_t c_stride;    /* elements from row to row of C */
    const float *bias;   /* [columns]; NULL: none */
    bool relu;           /* before anything is added to C */
    bool accumulate;     /* C is ET_F32 */
    et_dtype c;          /* ET_F32 or ET_BF16 */
} et_finish;

/* All single-threaded. `from` may be smaller than the target, never larger: the rest is padded. */
typedef struct et_staging {
    /* to [to_rows, to_columns] = from, zero beyond it. dtype is from's or ET_F32. */
    void (*rows)(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                 const et_stored *from);

    /* The same of from transposed: to[j, i] = from[i, j]. */
    void (*across)(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                   const et_stored *from);

    /* Pairs of rows interleaved, as instructions that add two bfloat16 products read them:
     * to [to_rows / 2, to_columns, 2], to[i / 2, j, i % 2] = from[i, j]. to_rows is even. */
    void (*row_pairs)(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from);

    /* The same of from transposed: to[j / 2, i, j % 2] = from[i, j]. */
    void (*pairs_across)(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from);

    /* c [rows, columns] from `parts` matrices of float32 sums. from: the first part, at its first
     * row; c overlaps none of them. */
    void (*finish)(const et_finish *how, void *c, const float *from);

    /* c = relu(c) in place: [rows, columns], rows `stride` elements apart. */
    void (*relu)(void *c, int64_t rows, int64_t columns, int64_t stride, et_dtype dtype);
} et_staging;

#endif
