/* Products of rows with listed rows of a table. As many words as a vector has lanes are computed
 * together: each has a vector of sums over the columns, and one fold gives all results.
 *
 *   r row, i word of the list, k word of a block, d column
 *
 * Memory: a block of table rows is read once for all rows; table rows are anywhere, but whole. */
#ifndef ETUDE_KERNEL_LISTED_PRODUCT_INC_C
#define ETUDE_KERNEL_LISTED_PRODUCT_INC_C

#include <stdint.h>

#include "engine/kernel/parallel.h"
#include "engine/kernel/row_product.h"
#include "engine/kernel/simd/simd.h"

/* Multiply-adds below which a product stays on one thread. */
#define LISTED_GRAIN 200000

/* count: words of the block; past it, the last word again. */
ET_INLINE void listed_block(float *y, const et_listed_product *p, int64_t first, int64_t count,
                            et_dtype dtype)
{
    const float *table[V_LANES];
    float bias[V_LANES] = { 0 };
    for (int k = 0; k < V_LANES; k++) {
        const int32_t word = p->words[first + (k < count ? k : count - 1)];
        table[k] = p->table + word * p->width;
        if (p->bias)
            bias[k] = p->bias[word];
    }
    for (int64_t r = 0; r < p->rows; r++) {
        vf sum[V_LANES];
        ET_UNROLL
        for (int k = 0; k < V_LANES; k++)
            sum[k] = v_set(0);
        for (int64_t d = 0; d < p->width; d += V_LANES) {
            const vf h = v_read_n(p->h, r * p->width + d, p->width - d, dtype);
            ET_UNROLL
            for (int k = 0; k < V_LANES; k++)
                sum[k] = v_fma(h, v_get_n(table[k], d, p->width - d), sum[k]);
        }
        v_put_n(y, r * p->count + first, v_sums(sum) + v_load(bias), count);
    }
}

/* Items are blocks of words. */
static void listed_product_part(float *y, const et_listed_product *p, int64_t begin, int64_t end)
{
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * V_LANES, left = p->count - first;
        ET_BY_DTYPE(p->dtype, listed_block, y, p, first, left < V_LANES ? left : V_LANES);
    }
}

static void listed_product(float *y, const et_listed_product *p)
{
    const int64_t blocks = (p->count + V_LANES - 1) / V_LANES;
    ET_PARALLEL(p->rows * p->count * p->width >= LISTED_GRAIN, blocks, 1, listed_product_part, y,
                p);
}

#endif
