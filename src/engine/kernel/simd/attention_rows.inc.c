/* Rows of scores: their softmax, and its derivative. ROWS_ABREAST rows are processed together,
 * because a single row is one long chain of dependent instructions. Sums and maxima of V_LANES rows
 * are found at once, by v_sums and v_largests.
 *
 *   P = e^(s - lse)        lse = log of the row's sum of e^s
 *   ds = P (kept dP - D)   D = rowsum(P kept dP)
 *
 * kept: 0 where dropout drops, else 1; the caller applies the scale of kept elements, where it is
 * cheaper. Exponentials are powers of two, of scores times log2 e. */
#ifndef ETUDE_KERNEL_ATTENTION_ROWS_INC_C
#define ETUDE_KERNEL_ATTENTION_ROWS_INC_C

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/random.h"
#include "engine/kernel/simd/simd.h"

#define LOG2_E 1.44269504f

/* Scratch has room for a multiple of so many rows; the rows beyond the last have undefined values.
 */
#define ROWS_ABREAST 4

/* A pass's scores. Row i sees its first min(keys, seen + i * more) keys; causal: more is 1.
 * columns: those computed, whole vectors; stride: floats from row to row. */
typedef struct score_rows {
    float *p, *dp;       /* scores, which become kept weights; dP, which becomes ds */
    const uint8_t *keep; /* dropout's bits, not read if nothing is dropped */
    int keep_stride;     /* bytes from row to row */
    int stride, count, columns;
    int keys, seen, more;
} score_rows;

static int keys_seen(const score_rows *of, int i)
{
    const int seen = of->seen + i * of->more;
    return seen < of->keys ? seen : of->keys;
}

/* The lanes of the vector at column j that row i sees; `other` in the other lanes. */
ET_INLINE vf seen_lanes(vf x, float other, const score_rows *of, int i, int j)
{
    const int left = keys_seen(of, i) - j;
    return v_select(v_first(left > 0 ? left : 0), x, v_set(other));
}

ET_INLINE vf kept_lanes(vf x, const score_rows *of, int i, int j)
{
    return v_select(v_bits(of->keep + i * of->keep_stride, j), x, v_set(0.0f));
}

/* Each step below does a vector of row i, at column j. edge: some lanes may not be seen. edge and
 * drop are constants. */
ET_INLINE vf largest_step(vf most, const score_rows *of, int i, int j, const bool edge)
{
    const vf score = v_load(of->p + i * of->stride + j);
    return v_max(edge ? seen_lanes(score, -INFINITY, of, i, j) : score, most);
}

/* e^s times 2^shift. */
ET_INLINE vf weight_of(const score_rows *of, float shift, int i, int j, const bool edge)
{
    const vf score = v_load(of->p + i * of->stride + j);
    const vf weight = v_exp2_fine(v_fma(score, v_set(LOG2_E), v_set(shift)));
    return edge ? seen_lanes(weight, 0.0f, of, i, j) : weight;
}

/* Scores become weights, which are added up before dropout acts. */
ET_INLINE vf weight_step(vf sum, const score_rows *of, float shift, int i, int j, const bool edge,
                         const bool drop)
{
    const vf weight = weight_of(of, shift, i, j, edge);
    v_store(of->p + i * of->stride + j, drop ? kept_lanes(weight, of, i, j) : weight);
    return sum + weight;
}

/* Turns scores into weights and dP into kept dP, and adds their products. */
ET_INLINE vf product_step(vf sum, const score_rows *of, float shift, int i, int j, const bool edge,
                          const bool drop)
{
    const int at = i * of->stride + j;
    const vf weight = weight_of(of, shift, i, j, edge);
    vf dweight = v_load(of->dp + at);
    if (drop) {
        dweight = kept_lanes(dweight, of, i, j);
        v_store(of->dp + at, dweight);
    }
    v_store(of->p + at, weight);
    return v_fma(weight, dweight, sum);
}

/* dP becomes ds; weights become kept weights. */
ET_INLINE void score_step(const score_rows *of, float mean, int i, int j, const bool drop)
{
    const int at = i * of->stride + j;
    const vf weight = v_load(of->p + at);
    v_store(of->dp + at, weight * (v_load(of->dp + at) - v_set(mean)));
    if (drop)
        v_store(of->p + at, kept_lanes(weight, of, i, j));
}

/* The results into which rows are folded. */
typedef enum fold_kind { FOLD_LARGEST, FOLD_WEIGHTS, FOLD_PRODUCTS } fold_kind;

ET_INLINE void fold_columns(vf value[ROWS_ABREAST], const score_rows *of, const float *shift, int i,
                            int begin, int end, const fold_kind kind, const bool edge,
                            const bool drop)
{
    for (int j = begin; j < end; j += V_LANES)
        ET_UNROLL
    for (int r = 0; r < ROWS_ABREAST; r++)
        value[r] = kind == FOLD_LARGEST ? largest_step(value[r], of, i + r, j, edge)
                   : kind == FOLD_WEIGHTS
                       ? weight_step(value[r], of, shift[r], i + r, j, edge, drop)
                       : product_step(value[r], of, shift[r], i + r, j, edge, drop);
}

/* Folds the rows from i on over columns; the lanes are folded later. Columns that all rows see come
 * first, without masks. */
ET_INLINE void fold_abreast(vf result[ROWS_ABREAST], const score_rows *of, const float *shift,
                            int i, const fold_kind kind, const bool drop)
{
    const int whole = keys_seen(of, i) / V_LANES * V_LANES;
    vf value[ROWS_ABREAST];
    ET_UNROLL
    for (int r = 0; r < ROWS_ABREAST; r++)
        value[r] = v_set(kind == FOLD_LARGEST ? -INFINITY : 0.0f);
    fold_columns(value, of, shift, i, 0, whole, kind, false, drop);
    fold_columns(value, of, shift, i, whole, of->columns, kind, true, drop);
    ET_UNROLL
    for (int r = 0; r < ROWS_ABREAST; r++)
        result[r] = value[r];
}

/* Lane i: row first + i. Rows that the pass has not give 0. shift: [rows], not read to find the
 * largest. */
ET_INLINE vf fold_rows(const score_rows *of, const float *shift, int first, const fold_kind kind,
                       const bool drop)
{
    vf value[V_LANES];
    int r = 0;
    for (; r < V_LANES && first + r < of->count; r += ROWS_ABREAST)
        fold_abreast(value + r, of, shift + first + r, first + r, kind, drop);
    for (; r < V_LANES; r++)
        value[r] = v_set(0.0f);
    return kind == FOLD_LARGEST ? v_largests(value) : v_sums(value);
}

/* p: turns scores into kept weights that are not yet divided by their sum. factor[i]: scale / sum;
 * lse[i]: the logarithm. Subtracts the largest score first, so the sum is at least 1. A row that
 * sees nothing has no columns either: its output is an empty sum, and its logarithm minus infinity.
 */
ET_INLINE void weigh_rows(const score_rows *of, float *factor, float *lse, float scale,
                          const bool drop)
{
    float shift[ET_ATTENTION_ROWS];
    et_assert(of->count <= ET_ATTENTION_ROWS && of->columns % V_LANES == 0);
    for (int i = 0; i < of->count; i += V_LANES) {
        const vf largest = fold_rows(of, shift, i, FOLD_LARGEST, drop);
        v_store(shift + i, largest * v_set(-LOG2_E));
        const vf total = of->keys > 0 ? fold_rows(of, shift, i, FOLD_WEIGHTS, drop) : v_set(1.0f);
        v_store(factor + i, v_set(scale) / total);
        v_store(lse + i, largest + v_log(total));
    }
}

/* p: scores to kept weights; dp: dP to ds. shift: of each row minus the logarithm of weigh_rows,
 * times log2 e. */
ET_INLINE void grad_rows(const score_rows *of, const float *shift, const bool drop)
{
    float mean[ET_ATTENTION_ROWS];
    et_assert(of->count <= ET_ATTENTION_ROWS && of->columns % V_LANES == 0);
    for (int i = 0; i < of->count; i += V_LANES)
        v_store(mean + i, fold_rows(of, shift, i, FOLD_PRODUCTS, drop));
    for (int i = 0; i < of->count; i += ROWS_ABREAST)
        for (int j = 0; j < of->columns; j += V_LANES)
            ET_UNROLL
    for (int r = 0; r < ROWS_ABREAST; r++)
        score_step(of, mean[i + r], i + r, j, drop);
}

#endif
