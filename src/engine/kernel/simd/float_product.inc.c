/* C = A B by outer products of columns of A and rows of B (arguments.h).
 *
 *   C[i, j] = sum over l of A[i, l] B[l, j]
 *
 * V_PRODUCT_ROWS elements of a column of A times up to three vectors of a row of B make as many
 * sums as registers allow; each vector needs a load, each element a broadcast. The sum of an
 * element runs over l in order, in any block. A lane is a unit: a float32, or two bfloat16 of
 * neighbouring l, which an instruction multiplies and adds to one sum.
 *
 * With 16 lanes: 8 x 3 sums, 3 vectors of B and 1 element of A are 28 of 32 registers, and a step
 * of l is 3 loads and 8 broadcasts for 24 multiply-adds. With 8 lanes: 4 x 3, all 16 registers.
 *
 * B's columns of a block, all k of them, are a panel: [units][vectors]. In B their rows are far
 * apart, and lines at such distances evict each other from the first-level cache. So the first
 * block, which reads them from B, stores them side by side for the other blocks. A transposed B is
 * transposed first. A transposed A, whose columns are equally far apart, is first copied to the
 * room, in panels of its rows, [m / V_LANES][units][V_LANES], of which a block uses half (the
 * packing of Goto, van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication"). Lines
 * of the next k are prefetched one by one during the multiply-adds of this one: those of a weight
 * come from memory or another core's cache. A block that is added to C prefetches its lines of C
 * before it begins.
 *
 * For any size of a block, each element is its units' multiply-adds from 0, and then added to C. So
 * blocks of any size, at an edge or inside, give the same bits. */
#ifndef ETUDE_KERNEL_FLOAT_PRODUCT_INC_C
#define ETUDE_KERNEL_FLOAT_PRODUCT_INC_C

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/simd/simd.h"
#include "engine/kernel/simd/staging.inc.c"

/* Vectors of a block, at most. */
#define PRODUCT_VECTORS 3

/* Floats of a cache line, and whether a block reads so little of a line that it would be fetched
 * again. */
#define LINE         16
#define FILLS_BEFORE (V_PRODUCT_ROWS * 2 < LINE)

/* Lines that each step of a block prefetches: a line, and the same of a row further down. */
typedef struct product_walk {
    const char *line;
    int64_t step; /* bytes */
} product_walk;

/* Operands and result of a block, at its first row and column. */
typedef struct product_part {
    const float *a; /* units */
    float *room;    /* place of these in the room */
    const void *b;  /* elements if B is read in place, else units */
    float *c;
    int64_t b_step;    /* bytes from row to row of B, as the block reads it */
    float *panel;      /* [units][vectors] */
    const float *bias; /* NULL: none */
    int64_t lanes;     /* of the last vector */
    product_walk next_a, next_b;
} product_part;

/* How a block is compiled. All members are constants, except keeps and ahead in the few blocks that
 * fill the panel or prefetch. Testing these costs little compared to a unit's multiply-adds, and
 * saves half of the compiled versions. */
typedef struct product_kind {
    int rows, vectors;
    bool whole;  /* the last vector is a full one */
    bool keeps;  /* reads B in place, and fills the panel */
    bool ahead;  /* next_a and next_b are gone along */
    bool stores; /* reads A in place, and fills the room */
    bool packed; /* A comes from the room */
    bool pairs;  /* units are of two bfloat16 */
} product_kind;

/* Sums to C, in the order that arguments.h says. Most blocks add to C, without a branch at each
 * sum. */
ET_INLINE void finish_product(const et_float_product *p, const product_part *at,
                              vf sum[][PRODUCT_VECTORS], const product_kind kind)
{
    const int64_t ldc = p->ldc;
    if (kind.whole && p->accumulate && !at->bias && !p->relu) {
        ET_UNROLL
        for (int r = 0; r < kind.rows; r++)
            ET_UNROLL
        for (int s = 0; s < kind.vectors; s++) {
            float *c = at->c + r * ldc + s * V_LANES;
            v_store(c, sum[r][s] + v_load(c));
        }
        return;
    }
    ET_UNROLL
    for (int r = 0; r < kind.rows; r++)
        ET_UNROLL
    for (int s = 0; s < kind.vectors; s++) {
        float *c = at->c + r * p->ldc + s * V_LANES;
        const int64_t n = kind.whole || s < kind.vectors - 1 ? V_LANES : at->lanes;
        vf value = sum[r][s];
        if (p->accumulate)
            value = value + v_get_n(c, 0, n);
        if (at->bias)
            value = value + v_get_n(at->bias, s * V_LANES, n);
        if (p->relu)
            value = v_max(v_set(0.0f), value);
        v_put_n(c, 0, value, n);
    }
}

/* Units of B: row l, for bfloat16 combined with the row after it, which is zeros after the last. A
 * panel has whole vectors. */
ET_INLINE void take_row(vf right[PRODUCT_VECTORS], const void *b, const void *next, float *panel,
                        int64_t lanes, const product_kind kind)
{
    ET_UNROLL
    for (int s = 0; s < kind.vectors; s++) {
        const bool full = kind.whole || !kind.keeps || s < kind.vectors - 1;
        const int64_t at = s * V_LANES;
        const et_bf16 *first = (const et_bf16 *)b + at, *second = (const et_bf16 *)next + at;
        if (kind.keeps && kind.pairs)
            right[s] = full ? v_load_pairs(first, second) : v_load_pairs_n(first, second, lanes);
        else
            right[s] =
                full ? v_load((const float *)b + at) : v_load_n((const float *)b + at, lanes);
        if (kind.keeps)
            v_store(panel + at, right[s]);
    }
}

/* With two bfloat16 in a unit, the last unit may be half empty. */
ET_INLINE int64_t units_of(const et_float_product *p, const bool pairs)
{
    return pairs ? (p->k + 1) / 2 : p->k;
}

/* The position of a block along k. A's rows are reached from two of them, so that few registers
 * lead to all. */
typedef struct product_scratch {
    const float *a, *lower;
    const char *b;
    float *panel, *to;
    product_walk next_a, next_b;
} product_scratch;

/* Unit l. Loops over rows and vectors unroll: `sum` is registers. */
ET_INLINE void product_unit(const et_float_product *p, const product_part *at, product_scratch *now,
                            int64_t l, vf sum[][PRODUCT_VECTORS], const product_kind kind)
{
    static const et_bf16 zeros[PRODUCT_VECTORS * V_LANES] = { 0 };
    const int half = kind.rows / 2;
    const int64_t a_row = kind.packed ? 1 : p->a_row, a_step = kind.packed ? V_LANES : p->a_step;
    const bool pair = 2 * l + 1 < p->k;
    vf right[PRODUCT_VECTORS];
    take_row(right, now->b, pair ? now->b + at->b_step : (const char *)zeros, now->panel, at->lanes,
             kind);
    now->b += kind.keeps && kind.pairs ? 2 * at->b_step : at->b_step;
    now->panel += kind.vectors * V_LANES;
    if (kind.ahead) {
        __builtin_prefetch(now->next_a.line, 0, 2);
        __builtin_prefetch(now->next_b.line, 0, 2);
        now->next_a.line += now->next_a.step;
        now->next_b.line += now->next_b.step;
    }
    if (kind.stores) {
        memcpy(now->to, now->a, (size_t)kind.rows * sizeof *now->a);
        now->to += V_LANES;
    }
    ET_UNROLL
    for (int r = 0; r < kind.rows; r++) {
        const vf left = v_set(r < half ? now->a[r * a_row] : now->lower[(r - half) * a_row]);
        ET_UNROLL
        for (int s = 0; s < kind.vectors; s++)
            sum[r][s] = kind.pairs ? v_dot_pairs(sum[r][s], left, right[s])
                                   : v_fma(left, right[s], sum[r][s]);
    }
    now->a += a_step;
    now->lower += a_step;
}

/* inner: the block neither fills a panel nor prefetches, as most blocks of several rows. Their loop
 * is the one to unroll. */
ET_INLINE void product_rows(const et_float_product *p, const product_part *at,
                            const product_kind kind, const bool inner)
{
    vf sum[V_PRODUCT_ROWS][PRODUCT_VECTORS];
    const int64_t units = units_of(p, kind.pairs), a_row = kind.packed ? 1 : p->a_row;
    product_scratch now = {
        at->a, at->a + kind.rows / 2 * a_row, at->b, at->panel, at->room, at->next_a, at->next_b
    };
    for (int r = 0; r < (p->accumulate ? kind.rows : 0); r++) {
        for (int s = 0; s < kind.vectors; s += LINE / V_LANES)
            __builtin_prefetch(at->c + r * p->ldc + s * V_LANES, 1);
    }
    ET_UNROLL
    for (int r = 0; r < kind.rows; r++)
        ET_UNROLL
    for (int s = 0; s < kind.vectors; s++)
        sum[r][s] = v_set(0.0f);
    if (inner) {
        ET_UNROLL_BY(V_PRODUCT_UNITS)
        for (int64_t l = 0; l < units; l++)
            product_unit(p, at, &now, l, sum, kind);
    } else {
        for (int64_t l = 0; l < units; l++)
            product_unit(p, at, &now, l, sum, kind);
    }
    finish_product(p, at, sum, kind);
}

/* Chooses the lines that the block of rows i and columns j prefetches; false: none. For B, a
 * panel's first blocks prefetch the next panel, a line of each of its rows, so that little waits in
 * the caches for long. For a B across, whose rows continue, each block of the first panel
 * prefetches a line of the next k. The first panel of the next k follows the last panel, whose
 * blocks prefetch the next A if it has other rows. bfloat16 has twice as many rows as a block has
 * units, so each of two neighbouring blocks, which have the same lines, prefetches half. */
static bool look_ahead(product_part *at, const et_float_product *p, int64_t i, int64_t j,
                       int vectors)
{
    const bool pairs = p->ab == ET_BF16;
    const int64_t size = pairs ? 2 : 4, units = units_of(p, pairs), line = 64 / size;
    const int64_t block = i / V_PRODUCT_ROWS, across = pairs ? block / 2 : block;
    const int64_t half = pairs ? block % 2 * units : 0;
    const bool last = j + vectors * V_LANES >= p->n;
    const int64_t column = (last ? 0 : j + vectors * V_LANES) + across * line;
    const bool a_comes =
        p->ahead && last && p->a_step != 1 && i % line < (pairs ? 2 : 1) * V_PRODUCT_ROWS;
    const bool b_comes = p->across ? p->ahead && j == 0 && block * line < p->k
                                   : (p->ahead || !last) && column < p->n &&
                                         across * line < PRODUCT_VECTORS * V_LANES;
    if (!a_comes && !b_comes)
        return false;
    const char *a = p->a, *b = p->b;
    at->next_a = at->next_b = (product_walk){ b, 0 };
    if (a_comes)
        at->next_a = (product_walk){ a + (i * p->a_row + (p->k + half) * p->a_step) * size,
                                     p->a_step * size };
    if (b_comes && p->across)
        at->next_b = (product_walk){ b + (p->k + block * line) * size, p->ldb * size };
    else if (b_comes)
        at->next_b = (product_walk){ b + (((last ? p->k : 0) + half) * p->ldb + column) * size,
                                     p->ldb * size };
    return true;
}

/* Most blocks have a version without keeps and ahead. */
ET_INLINE void rows_of_block(const et_float_product *p, const product_part *at, product_kind kind,
                             bool keeps, bool ahead)
{
    if (!keeps && !ahead) {
        product_rows(p, at, kind, true);
    } else {
        kind.keeps = keeps;
        kind.ahead = ahead;
        product_rows(p, at, kind, false);
    }
}

ET_INLINE void lone_row(const et_float_product *p, const product_part *at, product_kind kind,
                        bool keeps)
{
    kind.rows = 1;
    kind.keeps = keeps;
    product_rows(p, at, kind, false);
}

/* All rows of C, columns j .. j + columns. Rows that are no block come one by one. */
ET_INLINE void product_panel(const et_float_product *p, float *panel, int64_t j, int64_t columns,
                             const product_kind kind)
{
    const int64_t width = kind.vectors * V_LANES, size = kind.pairs ? 2 : 4;
    const int64_t units = units_of(p, kind.pairs);
    product_part at = { .b = p->across ? (const char *)panel : (const char *)p->b + j * size,
                        .b_step = p->across ? width * 4 : p->ldb * size,
                        .panel = panel,
                        .bias = p->bias ? p->bias + j : NULL,
                        .lanes = columns - (kind.vectors - 1) * V_LANES };
    if (p->across) {
        const et_stored from = { (const float *)p->b + j * p->ldb, columns, p->k, p->ldb, ET_F32 };
        stage_across(panel, p->k, width, ET_F32, &from);
    }
    for (int64_t i = 0; i < p->m;) {
        const bool block = i + V_PRODUCT_ROWS <= p->m, keeps = at.b != panel;
        if (kind.stores || kind.packed)
            at.room = (float *)p->room + i / V_LANES * V_LANES * units + i % V_LANES;
        at.a = kind.packed ? at.room : (const float *)p->a + i * p->a_row;
        at.c = p->c + i * p->ldc + j;
        const bool ahead = block && look_ahead(&at, p, i, j, kind.vectors);
        if (block)
            rows_of_block(p, &at, kind, keeps, ahead);
        else
            lone_row(p, &at, kind, keeps);
        at.b = panel;
        at.b_step = width * 4;
        i += block ? V_PRODUCT_ROWS : 1;
    }
}

/* Columns from j on that are a panel of so many vectors; lanes: less than one. */
ET_INLINE void panel_of(const et_float_product *p, float *panel, int64_t j, const int vectors,
                        const int64_t lanes, product_kind kind)
{
    kind.rows = V_PRODUCT_ROWS;
    kind.vectors = vectors;
    kind.whole = lanes == 0;
    product_panel(p, panel, j, lanes ? lanes : vectors * V_LANES, kind);
}

/* The number of vectors of the next panel; 0: less than one vector is left. Panels have three
 * vectors; if one would be left over, two panels have two. Vectors 4 = 2 + 2, 5 = 3 + 2, 7 = 3 + 2
 * + 2, 8 = 3 + 3 + 2. A single vector would leave the multiply-add units waiting for loads, so it
 * only occurs if n has just one. A part of a vector comes last, masked. */
static int next_vectors(const et_float_product *p, int64_t j)
{
    const int64_t left = (p->n - j) / V_LANES;
    return left == 3 || left > 4 ? 3 : left >= 2 ? 2 : (int)left;
}

/* The panel's size is not a constant here, so each size has its own compiled version. */
ET_INLINE int64_t any_panel(const et_float_product *p, float *panel, int64_t j,
                            const product_kind kind)
{
    switch (next_vectors(p, j)) {
    case 3:
        panel_of(p, panel, j, 3, 0, kind);
        return j + 3 * V_LANES;
    case 2:
        panel_of(p, panel, j, 2, 0, kind);
        return j + 2 * V_LANES;
    case 1:
        panel_of(p, panel, j, 1, 0, kind);
        return j + V_LANES;
    default:
        panel_of(p, panel, j, 1, p->n - j, kind);
        return p->n;
    }
}

/* Columns of A that go to the room together: some lines of each row, so that they come in a row. */
#define ROOM_PANELS 4

/* A of bfloat16 as stored, [k, m], to the room: units of rows l and l + 1, by panels of V_LANES
 * columns. */
static void fill_room_pairs(const et_float_product *p)
{
    static const et_bf16 zeros[ROOM_PANELS * V_LANES] = { 0 };
    const int64_t units = units_of(p, true);
    for (int64_t first = 0; first < p->m; first += ROOM_PANELS * V_LANES) {
        const int64_t left = p->m - first;
        const int64_t columns = left < ROOM_PANELS * V_LANES ? left : ROOM_PANELS * V_LANES;
        const int64_t whole = columns / V_LANES * V_LANES;
        const et_bf16 *row = (const et_bf16 *)p->a + first;
        float *to = (float *)p->room + first * units;
        for (int64_t l = 0; l < units; l++, to += V_LANES, row += 2 * p->a_step) {
            const et_bf16 *next = 2 * l + 1 < p->k ? row + p->a_step : zeros;
            for (int64_t i = 0; i < whole; i += V_LANES)
                v_store(to + i * units, v_load_pairs(row + i, next + i));
            if (whole < columns)
                v_store(to + whole * units,
                        v_load_pairs_n(row + whole, next + whole, columns - whole));
        }
    }
}

/* Number of rows of A that are prefetched ahead: a CPU does not predict lines that are a row apart.
 */
#define ROWS_AHEAD 8

/* The same of float32. */
static void fill_room_floats(const et_float_product *p)
{
    for (int64_t first = 0; first < p->m; first += ROOM_PANELS * V_LANES) {
        const int64_t left = p->m - first;
        const int64_t columns = left < ROOM_PANELS * V_LANES ? left : ROOM_PANELS * V_LANES;
        const int64_t whole = columns / V_LANES * V_LANES;
        const float *row = (const float *)p->a + first;
        float *to = (float *)p->room + first * p->k;
        for (int64_t l = 0; l < p->k; l++, to += V_LANES, row += p->a_step) {
            const float *next = l + ROWS_AHEAD < p->k ? row + ROWS_AHEAD * p->a_step : row;
            for (int64_t i = 0; i < columns; i += LINE)
                __builtin_prefetch(next + i);
            for (int64_t i = 0; i < whole; i += V_LANES)
                v_store(to + i * p->k, v_load(row + i));
            if (whole < columns)
                v_store(to + whole * p->k, v_load_n(row + whole, columns - whole));
        }
    }
}

/* Copies a float32 A to the room before the first block; or the first panel's blocks, which read A
 * in place, store it there. */
static void float_product(const et_float_product *p)
{
    _Alignas(64) float panel[ET_FLOAT_PRODUCT_DEPTH * PRODUCT_VECTORS * V_LANES];
    int64_t j = 0;
    et_assert(p->m >= 0 && p->n >= 0 && p->k >= 1 && p->k <= et_float_product_depth(p->ab));
    et_assert(p->a_row == 1 || p->a_step == 1);
    et_assert(p->ldb >= (p->across ? p->k : p->n) && p->ldc >= p->n);
    et_assert(!p->room || (p->a_row == 1 && !p->across));
    if (p->ab == ET_BF16) {
        et_assert(p->room);
        fill_room_pairs(p);
        while (j < p->n)
            j = any_panel(p, panel, j, (product_kind){ .packed = true, .pairs = true });
    } else if (p->room) {
        if (FILLS_BEFORE)
            fill_room_floats(p);
        else if (p->n > 0)
            j = any_panel(p, panel, j, (product_kind){ .stores = true });
        while (j < p->n)
            j = any_panel(p, panel, j, (product_kind){ .packed = true });
    } else {
        while (j < p->n)
            j = any_panel(p, panel, j, (product_kind){ 0 });
    }
}

#endif
