/* The recurrence of the SSRU, and its derivative. Columns do not depend on each other: one item of
 * work is a block of columns of a segment, whose state stays in registers from row to row.
 *
 *   t row, d column, s vectors of a block
 *
 *   c[t]     = f[t] c[t - 1] + (1 - f[t]) x[t]
 *   e[t]     = dc[t] + f[t + 1] e[t + 1]                      (e: derivative by c[t], in all)
 *   dx[t]    = e[t] (1 - f[t])
 *   dgate[t] = e[t] (c[t - 1] - x[t]) f[t] (1 - f[t])
 *
 * Rows are read and written once. A row's step waits for the row before, so a block has several
 * vectors, which wait together. */
#ifndef ETUDE_KERNEL_RECURRENCE_INC_C
#define ETUDE_KERNEL_RECURRENCE_INC_C

#include <stdint.h>

#include "engine/kernel/arguments.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/simd.h"

#define RECURRENCE_VECTORS 4
#define RECURRENCE_COLUMNS (RECURRENCE_VECTORS * V_LANES)

static int64_t recurrence_blocks(const et_recurrence *r)
{
    return (r->width + RECURRENCE_COLUMNS - 1) / RECURRENCE_COLUMNS;
}

/* Rows of segment s: begin .. end - 1. */
ET_INLINE int64_t recurrence_begin(const et_recurrence *r, int64_t s)
{
    return r->offsets ? r->offsets[s] : s;
}

/* The place of c before row t in the state; NULL: zeros. */
ET_INLINE const float *recurrence_before(const et_recurrence *r, int64_t segment)
{
    const int64_t from = r->where ? r->where[2 * segment] : -1;
    return from < 0 ? NULL : r->state + from * r->width;
}

/* Columns d .. of a segment; vectors is a constant. left: columns from d on, if the last vector may
 * be part of one. */
ET_INLINE void recurrence_columns(void *c, const et_recurrence *r, int64_t segment, int64_t d,
                                  int64_t left, const int vectors, et_dtype dtype)
{
    const float *before = recurrence_before(r, segment);
    vf sum[RECURRENCE_VECTORS];
    ET_UNROLL
    for (int s = 0; s < vectors; s++)
        sum[s] = before ? v_get_n(before, d + s * V_LANES, left - s * V_LANES) : v_set(0);
    for (int64_t t = recurrence_begin(r, segment); t < recurrence_begin(r, segment + 1); t++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++) {
        const int64_t at = t * r->width + d + s * V_LANES, n = left - s * V_LANES;
        const vf f = v_sigmoid(v_read_n(r->gate, at, n, dtype));
        sum[s] = v_fma(f, sum[s], (v_set(1) - f) * v_read_n(r->x, at, n, dtype));
        v_write_n(c, at, sum[s], n, dtype);
    }
    ET_UNROLL
    for (int s = 0; s < vectors; s++)
        if (r->where)
            v_put_n(r->state, r->where[2 * segment + 1] * r->width + d + s * V_LANES, sum[s],
                    left - s * V_LANES);
}

/* A whole block has loops of constant length. */
ET_INLINE void recurrence_block(void *c, const et_recurrence *r, int64_t item, et_dtype dtype)
{
    const int64_t segment = item / recurrence_blocks(r);
    const int64_t d = item % recurrence_blocks(r) * RECURRENCE_COLUMNS, left = r->width - d;
    if (left >= RECURRENCE_COLUMNS)
        recurrence_columns(c, r, segment, d, RECURRENCE_COLUMNS, RECURRENCE_VECTORS, dtype);
    else
        for (int64_t e = 0; e < left; e += V_LANES)
            recurrence_columns(c, r, segment, d + e, left - e, 1, dtype);
}

static void recurrence_part(void *c, const et_recurrence *r, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++)
        ET_BY_DTYPE(r->dtype, recurrence_block, c, r, item);
}

static void recurrence(void *c, const et_recurrence *r)
{
    const int64_t rows = recurrence_begin(r, r->segments);
    ET_PARALLEL(rows * r->width >= ET_GRAIN, r->segments * recurrence_blocks(r), 1, recurrence_part,
                c, r);
}

/* Backwards in time. c[t - 1] is read as it was stored. */
ET_INLINE void recurrence_columns_grad(void *dx, void *dgate, const void *dc, const void *c,
                                       const et_recurrence *r, int64_t segment, int64_t d,
                                       int64_t left, const int vectors, et_dtype dtype)
{
    const int64_t begin = recurrence_begin(r, segment);
    vf later[RECURRENCE_VECTORS]; /* f[t + 1] e[t + 1] */
    ET_UNROLL
    for (int s = 0; s < vectors; s++)
        later[s] = v_set(0);
    for (int64_t t = recurrence_begin(r, segment + 1); t-- > begin;)
        ET_UNROLL
    for (int s = 0; s < vectors; s++) {
        const int64_t at = t * r->width + d + s * V_LANES, n = left - s * V_LANES;
        const vf f = v_sigmoid(v_read_n(r->gate, at, n, dtype)), rest = v_set(1) - f;
        const vf before = t > begin ? v_read_n(c, at - r->width, n, dtype) : v_set(0);
        const vf e = v_read_n(dc, at, n, dtype) + later[s];
        if (dgate)
            v_write_n(dgate, at, e * (before - v_read_n(r->x, at, n, dtype)) * (f * rest), n,
                      dtype);
        if (dx)
            v_write_n(dx, at, e * rest, n, dtype);
        later[s] = f * e;
    }
}

ET_INLINE void recurrence_block_grad(void *dx, void *dgate, const void *dc, const void *c,
                                     const et_recurrence *r, int64_t item, et_dtype dtype)
{
    const int64_t segment = item / recurrence_blocks(r);
    const int64_t d = item % recurrence_blocks(r) * RECURRENCE_COLUMNS, left = r->width - d;
    if (left >= RECURRENCE_COLUMNS)
        recurrence_columns_grad(dx, dgate, dc, c, r, segment, d, RECURRENCE_COLUMNS,
                                RECURRENCE_VECTORS, dtype);
    else
        for (int64_t e = 0; e < left; e += V_LANES)
            recurrence_columns_grad(dx, dgate, dc, c, r, segment, d + e, left - e, 1, dtype);
}

static void recurrence_grad_part(void *dx, void *dgate, const void *dc, const void *c,
                                 const et_recurrence *r, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++)
        ET_BY_DTYPE(r->dtype, recurrence_block_grad, dx, dgate, dc, c, r, item);
}

static void recurrence_grad(void *dx, void *dgate, const void *dc, const void *c,
                            const et_recurrence *r)
{
    const int64_t rows = recurrence_begin(r, r->segments);
    ET_PARALLEL(rows * r->width >= ET_GRAIN, r->segments * recurrence_blocks(r), 1,
                recurrence_grad_part, dx, dgate, dc, c, r);
}

#endif
