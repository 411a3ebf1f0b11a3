/* C = A^T B of float32 whose rows are those of the long sum: what gradients of weights are, with
 * A [k, m] and B [k, n] as they lie. Rows of both are read one behind another and each gives an
 * outer product, summed in registers, so nothing is transposed or packed. */
#ifndef ETUDE_KERNEL_COLUMN_PRODUCT_H
#define ETUDE_KERNEL_COLUMN_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* A float32 gradient of a weight is dW = X^T dY: k tokens, m inputs, n outputs. Single-threaded:
 * gemm_run.c calls it for a tile and a chunk of k. */
typedef struct et_column_product {
    /* m, n may be 0; k is at least 1. */
    int64_t m, n, k;
    const float *a; /* [k, m], rows lda apart */
    const float *b; /* [k, n], rows ldb apart */
    float *c;       /* [m, n], rows ldc apart; overlaps neither */
    /* Elements; at least m, n and n. */
    int64_t lda, ldb, ldc;
    bool accumulate; /* C += */
    bool ahead;      /* what follows the k rows of A and B is wanted next: it is brought nearer */
} et_column_product;

#endif
