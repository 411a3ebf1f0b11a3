/* C = A B of float32 from operands as they lie, each stored as it is or transposed:
 *
 *   gradients of weights   A^T B: rows of both are those of the long sum
 *   a few rows             A B and A B^T, forward and back: packing B first, for one reading, would
 *                          cost as much as a good part of the product
 *
 * B goes through a panel of columns on the stack, filled while its first rows are multiplied. */
#ifndef ETUDE_KERNEL_FLOAT_PRODUCT_H
#define ETUDE_KERNEL_FLOAT_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* The longest sum of one call: a panel so deep stays in the first-level cache. */
#define ET_FLOAT_PRODUCT_DEPTH 128

/* Single-threaded: gemm/run.c calls it for a tile and a chunk of k. */
typedef struct et_float_product {
    /* m, n may be 0; k is in 1 .. ET_FLOAT_PRODUCT_DEPTH. */
    int64_t m, n, k;
    const float *a; /* element (i, l) at i * a_row + l * a_step */
    const float *b; /* [k, n], or across [n, k], rows ldb apart */
    float *c;       /* [m, n], rows ldc apart; overlaps neither */
    /* Elements. a_row or a_step is 1; ldb is at least n (across: k), ldc at least n. */
    int64_t a_row, a_step, ldb, ldc;
    bool across; /* B is stored transposed */
    /* In this order: C +=, + bias [n], relu. bias may be NULL. */
    bool accumulate;
    const float *bias;
    bool relu;
    bool ahead; /* what follows along k in A and B is wanted next: it is brought nearer */
} et_float_product;

#endif
