/* Products of rows with some rows of a table: the logits of the tokens of a shortlist.
 *
 *   y[r, i] = h[r] . table[words[i]] + bias[words[i]]
 *
 * The table is read in place, so a list costs nothing to make. A result has the same bits with any
 * other rows and words, and any number of threads. */
#ifndef ETUDE_ENGINE_KERNEL_LISTED_PRODUCT_H
#define ETUDE_ENGINE_KERNEL_LISTED_PRODUCT_H

#include <stdint.h>

#include <etude/dtype.h>

/* Pointers are borrowed for the call. */
typedef struct et_listed_product {
    int64_t rows, count, width;
    const void *h; /* [rows, width] of type dtype */
    et_dtype dtype;
    const int32_t *words; /* [count] rows of table */
    const float *table;   /* [V, width] */
    const float *bias;    /* [V]; NULL: none */
} et_listed_product;

#endif
