/* Products of attention, on scratch: small matrices, all in cache. Sums of a block stay in
 * registers from the first step of k to the last, and every width is whole vectors, so loops have
 * no tails. */
#ifndef ETUDE_KERNEL_ATTENTION_PRODUCT_INC_C
#define ETUDE_KERNEL_ATTENTION_PRODUCT_INC_C

#include <stdbool.h>

#include "base/assert.h"
#include "engine/kernel/simd/simd.h"

/* c [m, n] = a [m, k] b [k, n]; n is whole vectors. Rows of c beyond m, up to a multiple of 8, are
 * computed from undefined values and not used: scratch has room for them. Strides are in floats;
 * a_row: from row to row of a as stored, [m, k] or across, [k, m]. */
typedef struct operands {
    float *c;
    const float *a, *b;
    int c_row, a_row, b_row;
    int k;
} operands;

/* rows x vectors of c, held in registers. add: c is summed onto. rows, vectors, across and add are
 * constants: addresses within a block are then few. */
ET_INLINE void product_block(const operands *at, int i, int j, const int rows, const int vectors,
                             const bool across, const bool add)
{
    vf sum[V_PRODUCT_ROWS][2];
    const int row = across ? 1 : at->a_row, step = across ? at->a_row : 1;
    const float *a = at->a + i * row, *b = at->b + j;
    float *c = at->c + i * at->c_row + j;
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++)
        sum[r][s] = add ? v_load(c + r * at->c_row + s * V_LANES) : v_set(0.0f);
    for (int l = 0; l < at->k; l++, a += step, b += at->b_row) {
        vf right[2];
        ET_UNROLL
        for (int s = 0; s < vectors; s++)
            right[s] = v_load(b + s * V_LANES);
        ET_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf left = v_set(a[r * row]);
            ET_UNROLL
            for (int s = 0; s < vectors; s++)
                sum[r][s] = v_fma(left, right[s], sum[r][s]);
        }
    }
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++)
        v_store(c + r * at->c_row + s * V_LANES, sum[r][s]);
}

/* A rest of at most half a block's rows takes half a block: of 10 rows in blocks of 8, a block of 8
 * and one of 4. */
ET_INLINE void product_columns(const operands *at, int m, int j, const int vectors,
                               const bool across, const bool add)
{
    int i = 0;
    for (; i + V_PRODUCT_ROWS / 2 < m; i += V_PRODUCT_ROWS)
        product_block(at, i, j, V_PRODUCT_ROWS, vectors, across, add);
    for (; i < m; i += V_PRODUCT_ROWS / 2)
        product_block(at, i, j, V_PRODUCT_ROWS / 2, vectors, across, add);
}

/* Takes two vectors of columns at a time: with 16 lanes 8 x 2 sums, enough to hide the latency of a
 * multiply-add. Operands are copied: then no store can change them, and they stay in registers. */
ET_INLINE void product_of(const operands *given, int m, int n, const bool across, const bool add)
{
    const operands at = *given;
    int j = 0;
    et_assert(m >= 0 && n % V_LANES == 0 && at.k >= 0);
    for (; j + 2 * V_LANES <= n; j += 2 * V_LANES)
        product_columns(&at, m, j, 2, across, add);
    for (; j < n; j += V_LANES)
        product_columns(&at, m, j, 1, across, add);
}

/* a by rows. */
static void product(const operands *at, int m, int n)
{
    product_of(at, m, n, false, false);
}

/* a is read across: it is never transposed in memory. Rows of c before `begun` are added to, the
 * others are set. */
static void product_across(const operands *at, int m, int n, int begun)
{
    operands rest = *at;
    if (begun > 0)
        product_of(at, begun, n, true, true);
    rest.c += begun * at->c_row;
    rest.a += begun;
    if (begun < m)
        product_of(&rest, m - begun, n, true, false);
}

#endif
