/* C = A B by outer products of columns of A and rows of B (float_product.h).
 *
 *   C[i, j] = sum over l of A[i, l] B[l, j]
 *
 * V_PRODUCT_ROWS elements of a column of A times up to three vectors of a row of B are as many sums
 * as there are registers for; a load for each vector and a broadcast for each element feed them.
 * The sum of an element runs over l in order, whatever block it is in.
 *
 * With 16 lanes: 8 x 3 sums, 3 vectors of B and 1 element of A are 28 of 32 registers, and a step
 * of l is 3 loads and 8 broadcasts for 24 multiply-adds. With 8 lanes: 4 x 3, all 16 registers.
 *
 * B's columns of a block, all k of them, are a panel: [k][vectors]. Where they lie, their rows are
 * far apart, and lines at such distances push each other out of the first-level cache. So the first
 * block, which reads them there, stores them side by side for the others. A transposed B is brought
 * across first. Lines of the next k are asked for one by one while the multiply-adds of this one
 * run: those of a weight come from far, memory or another core's cache. A block that
 * is added to C asks for its lines of C before it begins.
 *
 * Whatever the size of a block, each element is k multiply-adds from 0, and then added to what C
 * has: so blocks of any size, at an edge or inside, give the same bits. */
#ifndef ETUDE_KERNEL_FLOAT_PRODUCT_INC_C
#define ETUDE_KERNEL_FLOAT_PRODUCT_INC_C

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "kernel/float_product.h"
#include "kernel/simd/simd.h"
#include "kernel/staging.h"
#include "kernel/simd/staging.inc.c"

/* Vectors of a block, at most. */
#define PRODUCT_VECTORS 3

/* What is asked for at each step of a block: a line, and the same of a row further down. */
typedef struct product_walk {
    const float *line;
    int64_t step; /* elements */
} product_walk;

/* What a block reads and writes, at its first row and column. */
typedef struct product_part {
    const float *a, *b;
    float *c;
    int64_t b_step;    /* from row to row of B, where the block reads it */
    float *panel;      /* [k][vectors] */
    const float *bias; /* NULL: none */
    int64_t lanes;     /* of the last vector */
    product_walk next_a, next_b;
} product_part;

/* How a block is compiled: all of it is constant. */
typedef struct product_kind {
    int rows, vectors;
    bool whole; /* the last vector is a full one */
    bool keeps; /* B comes from where it lies, and the panel is filled */
    bool ahead; /* next_a and next_b are gone along */
} product_kind;

/* Sums to C, in the order that float_product.h says. */
ET_INLINE void finish_product(const et_float_product *p, const product_part *at,
                              vf sum[][PRODUCT_VECTORS], const product_kind kind)
{
    ET_UNROLL
    for (int r = 0; r < kind.rows; r++)
        ET_UNROLL
    for (int s = 0; s < kind.vectors; s++) {
        float *c = at->c + r * p->ldc + s * V_LANES;
        const int64_t n = kind.whole || s < kind.vectors - 1 ? V_LANES : at->lanes;
        vf value = sum[r][s];
        if (p->accumulate)
            value = value + v_read_n(c, 0, n, ET_F32);
        if (at->bias)
            value = value + v_read_n(at->bias, s * V_LANES, n, ET_F32);
        if (p->relu)
            value = v_max(v_set(0.0f), value);
        v_write_n(c, 0, value, n, ET_F32);
    }
}

/* A row of B: a panel's is in whole vectors. */
ET_INLINE void take_row(vf right[PRODUCT_VECTORS], const float *b, float *panel, int64_t lanes,
                        const product_kind kind)
{
    ET_UNROLL
    for (int s = 0; s < kind.vectors; s++) {
        const bool full = kind.whole || !kind.keeps || s < kind.vectors - 1;
        right[s] = full ? v_load(b + s * V_LANES) : v_load_n(b + s * V_LANES, lanes);
        if (kind.keeps)
            v_store(panel + s * V_LANES, right[s]);
    }
}

/* Loops over rows and vectors unroll: `sum` is registers. A's rows are reached from two of them, so
 * that few registers lead to all. */
ET_INLINE void product_rows(const et_float_product *p, const product_part *at,
                            const product_kind kind)
{
    vf sum[V_PRODUCT_ROWS][PRODUCT_VECTORS];
    const int half = kind.rows / 2;
    const float *a = at->a, *lower = at->a + half * p->a_row, *b = at->b;
    float *panel = at->panel;
    product_walk next_a = at->next_a, next_b = at->next_b;
    for (int r = 0; r < (p->accumulate ? kind.rows : 0); r++)
        for (int s = 0; s < kind.vectors; s++)
            __builtin_prefetch(at->c + r * p->ldc + s * V_LANES, 1);
    ET_UNROLL
    for (int r = 0; r < kind.rows; r++)
        ET_UNROLL
    for (int s = 0; s < kind.vectors; s++)
        sum[r][s] = v_set(0.0f);
    for (int64_t l = 0; l < p->k; l++, b += at->b_step) {
        vf right[PRODUCT_VECTORS];
        take_row(right, b, panel, at->lanes, kind);
        panel += kind.vectors * V_LANES;
        if (kind.ahead) {
            __builtin_prefetch(next_a.line, 0, 2);
            __builtin_prefetch(next_b.line, 0, 2);
            next_a.line += next_a.step;
            next_b.line += next_b.step;
        }
        ET_UNROLL
        for (int r = 0; r < kind.rows; r++) {
            const vf left = v_set(r < half ? a[r * p->a_row] : lower[(r - half) * p->a_row]);
            ET_UNROLL
            for (int s = 0; s < kind.vectors; s++)
                sum[r][s] = v_fma(left, right[s], sum[r][s]);
        }
        a += p->a_step;
        lower += p->a_step;
    }
    finish_product(p, at, sum, kind);
}

/* What the block of rows i and columns j asks for; false: nothing. The next k rows of B, down a
 * vector's column for each of a panel's first blocks; across, where they are rows that go on, along
 * the first k columns of them, a line's for each block, in the first panel. Of A, where the next k
 * are other rows, what the block itself will read, in the first panel. */
static bool look_ahead(product_part *at, const et_float_product *p, int64_t i, int64_t j,
                       int vectors)
{
    const int64_t block = i / V_PRODUCT_ROWS, line = 64 / sizeof(float);
    const bool a_comes = p->a_step != 1 && j == 0;
    const bool b_comes = p->across ? j == 0 && block * line < p->k : block < vectors;
    at->next_a = a_comes ? (product_walk){ at->a + p->k * p->a_step, p->a_step }
                         : (product_walk){ at->a, 0 };
    at->next_b = (product_walk){ at->a, 0 };
    if (b_comes && p->across)
        at->next_b = (product_walk){ p->b + p->k + block * line, p->ldb };
    else if (b_comes)
        at->next_b = (product_walk){ p->b + p->k * p->ldb + j + block * V_LANES, p->ldb };
    return p->ahead && (a_comes || b_comes);
}

/* All rows of C, columns j .. j + columns. Rows that are no block come one by one. */
ET_INLINE void product_panel(const et_float_product *p, float *panel, int64_t j, int64_t columns,
                             const int vectors, const bool whole)
{
    const int64_t width = vectors * V_LANES;
    product_part at = { .b = p->across ? panel : p->b + j,
                        .b_step = p->across ? width : p->ldb,
                        .panel = panel,
                        .bias = p->bias ? p->bias + j : NULL,
                        .lanes = columns - (vectors - 1) * V_LANES };
    if (p->across) {
        const et_stored from = { p->b + j * p->ldb, columns, p->k, p->ldb, ET_F32 };
        stage_across(panel, p->k, width, ET_F32, &from);
    }
    for (int64_t i = 0; i < p->m;) {
        const bool block = i + V_PRODUCT_ROWS <= p->m, keeps = at.b != panel;
        at.a = p->a + i * p->a_row;
        at.c = p->c + i * p->ldc + j;
        const bool ahead = block && look_ahead(&at, p, i, j, vectors);
        if (!block && keeps)
            product_rows(p, &at, (product_kind){ 1, vectors, whole, true, false });
        else if (!block)
            product_rows(p, &at, (product_kind){ 1, vectors, whole, false, false });
        else if (keeps && ahead)
            product_rows(p, &at, (product_kind){ V_PRODUCT_ROWS, vectors, whole, true, true });
        else if (keeps)
            product_rows(p, &at, (product_kind){ V_PRODUCT_ROWS, vectors, whole, true, false });
        else if (ahead)
            product_rows(p, &at, (product_kind){ V_PRODUCT_ROWS, vectors, whole, false, true });
        else
            product_rows(p, &at, (product_kind){ V_PRODUCT_ROWS, vectors, whole, false, false });
        at.b = panel;
        at.b_step = width;
        i += block ? V_PRODUCT_ROWS : 1;
    }
}

/* Panels of three vectors; where one would be left over, two of two. Vectors 4 = 2 + 2, 5 = 3 + 2,
 * 7 = 3 + 2 + 2, 8 = 3 + 3 + 2: one vector alone would leave the units of multiply-add waiting for
 * loads, and comes only where n has a single one. What is less than a vector comes last, masked. */
static void float_product(const et_float_product *p)
{
    _Alignas(64) float panel[ET_FLOAT_PRODUCT_DEPTH * PRODUCT_VECTORS * V_LANES];
    const int64_t vectors = p->n / V_LANES;
    et_assert(p->m >= 0 && p->n >= 0 && p->k >= 1 && p->k <= ET_FLOAT_PRODUCT_DEPTH);
    et_assert(p->a_row == 1 || p->a_step == 1);
    et_assert(p->ldb >= (p->across ? p->k : p->n) && p->ldc >= p->n);
    int64_t j = 0, left = vectors;
    for (; left == 3 || left > 4; left -= 3, j += 3 * V_LANES)
        product_panel(p, panel, j, 3 * V_LANES, 3, true);
    for (; left >= 2; left -= 2, j += 2 * V_LANES)
        product_panel(p, panel, j, 2 * V_LANES, 2, true);
    if (left)
        product_panel(p, panel, j, V_LANES, 1, true), j += V_LANES;
    if (j < p->n)
        product_panel(p, panel, j, p->n - j, 1, false);
}

#endif
