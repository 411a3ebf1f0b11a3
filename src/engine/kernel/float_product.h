/* C = A B with float32 sums, from operands that are not copied, each stored as it is or transposed:
 *
 *   gradients of weights   A^T B: the rows of both belong to the long sum
 *   a few rows             A B and A B^T, forward and backward: packing B first, for one reading,
 *                          would cost as much as a good part of the product
 *
 * B goes through a panel of columns on the stack, filled while its first rows are multiplied. A
 * transposed A goes through panels of its rows in `room`, because the elements that a block reads
 * are far apart in A. bfloat16 operands are multiplied in pairs of k by tables with instructions
 * for that, in no more time than the same number of float32; other tables widen them. */
#ifndef ETUDE_ENGINE_KERNEL_FLOAT_PRODUCT_H
#define ETUDE_ENGINE_KERNEL_FLOAT_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

/* The longest sum of one call: a panel so deep stays in the first-level cache. Twice as long of
 * bfloat16. */
#define ET_FLOAT_PRODUCT_DEPTH 128

/* Single-threaded: gemm/run.c calls it for a tile and a chunk of k. */
typedef struct et_float_product {
    /* m, n may be 0; k is in 1 .. et_float_product_depth(ab). */
    int64_t m, n, k;
    /* Of A and B. ET_BF16 only for a transposed A and a plain B, and with room. */
    et_dtype ab;
    const void *a; /* element (i, l) at i * a_row + l * a_step */
    const void *b; /* [k, n], or across [n, k], rows ldb apart */
    float *c;      /* [m, n], rows ldc apart; overlaps neither */
    /* Elements. a_row or a_step is 1; ldb is at least n (across: k), ldc at least n. */
    int64_t a_row, a_step, ldb, ldc;
    bool across; /* B is stored transposed */
    /* In this order: C +=, + bias [n], relu. bias may be NULL. */
    bool accumulate;
    const float *bias;
    bool relu;
    bool ahead; /* prefetch what follows along k in A and B, because it is needed next */
    /* et_float_product_scratch bytes aligned to 64, for an A of a_row 1; NULL: A is read in place.
     */
    void *room;
} et_float_product;

/* The longest k of one call. */
static inline int64_t et_float_product_depth(et_dtype ab)
{
    return ab == ET_BF16 ? 2 * ET_FLOAT_PRODUCT_DEPTH : ET_FLOAT_PRODUCT_DEPTH;
}

/* For any table: panels are at most 16 rows wide. Units of k are of four bytes, a float32 or two
 * bfloat16. */
static inline size_t et_float_product_scratch(int64_t m, int64_t k, et_dtype ab)
{
    const int64_t units = ab == ET_BF16 ? (k + 1) / 2 : k;
    return (size_t)((m + 15) / 16 * 16 * units) * sizeof(float);
}

#endif
