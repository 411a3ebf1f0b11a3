/* Softmax cross-entropy in parts of the vocabulary (arguments.h). A part's row is a few
 * vectors: the second reading is from the first-level cache.
 *
 * This saves memory: logits of [R, V] never exist. A product makes a part, which is read here twice
 * while it is in cache. Only e^(x - m) is stored for derivatives, as bfloat16 on request: values in
 * [0, 1] with a relative error of at most 2^-9.
 *
 *   part    m, s and sum of x - m of each row, and e^(x - m)
 *   join    M, S, the loss; s becomes f = e^(m - M) / S
 *   grad    p - t = f e^(x - m) - t
 *
 * With two samples of dropout both are read side by side: `part` gets their difference from the
 * logits, and `grad` from the logarithms of the stored values. */
#ifndef ETUDE_KERNEL_SOFTMAX_PARTS_INC_C
#define ETUDE_KERNEL_SOFTMAX_PARTS_INC_C

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/simd.h"
#include "engine/kernel/simd/softmax.inc.c"

/* A row without a label gets 0 for everything; join's results for it are not used. The part that
 * holds the label also keeps its logit. */
ET_INLINE void part_rows(const et_softmax_rows *rows, int64_t part, void *kept, const float *logits,
                         et_dtype dtype)
{
    const int64_t columns = et_softmax_part_columns(rows, part), first = part * rows->columns;
    for (int64_t t = 0; t < rows->rows; t++) {
        const int64_t at = part * rows->rows + t, label = rows->labels[t] - first;
        const float *x = logits + t * columns;
        if (rows->labels[t] < 0) {
            rows->largest[at] = rows->sum[at] = rows->shifted[at] = 0.0f;
            continue;
        }
        const float largest = row_largest(x, 0, columns, ET_F32);
        rows->largest[at] = largest;
        rows->sum[at] = row_exp_sum(x, 0, columns, ET_F32, largest, &rows->shifted[at], kept,
                                    t * columns, dtype);
        if (label < 0 || label >= columns)
            continue;
        rows->label_logit[t] = x[label];
        rows->label_leads[t] = row_first_largest(x, largest, 0, (int32_t)label, ET_F32);
    }
}

/* sum of e^(x - m) (x - y) for each row of a part. Computes the exponentials again, because the
 * kept ones may be rounded. */
static void part_apart(const et_softmax_rows *rows, int64_t part, const float *logits)
{
    const int64_t columns = et_softmax_part_columns(rows, part);
    for (int64_t t = 0; t < rows->rows; t++) {
        const int64_t at = part * rows->rows + t;
        const float *x = logits + t * columns,
                    *y = logits + et_softmax_other_draw(rows, t) * columns;
        const vf largest = v_set(rows->largest[at]);
        vf sum = v_set(0.0f);
        for (int64_t j = 0; j < columns && rows->labels[t] >= 0; j += V_LANES) {
            const int64_t n = columns - j;
            const vf a = v_get_n(x, j, n), b = v_get_n(y, j, n);
            const vf all = v_exp(a - largest);
            const vf e = n < V_LANES ? v_select(v_first(n), all, v_set(0.0f)) : all;
            sum = v_fma(e, a - b, sum);
        }
        rows->apart[at] = v_sum(sum);
    }
}

static void softmax_part(const et_softmax_rows *rows, int64_t part, void *kept, et_dtype dtype,
                         const float *logits)
{
    ET_BY_DTYPE(dtype, part_rows, rows, part, kept, logits);
    if (rows->apart)
        part_apart(rows, part, logits);
}

/* One vector of rows, lane by lane. */
typedef struct joined {
    float largest[V_LANES], sum[V_LANES], shifted[V_LANES];
    float leader[V_LANES]; /* the first part that has the largest */
} joined;

/* Joins rows begin .. begin + n - 1, n at most V_LANES; sum becomes f. Works across rows: a vector
 * has one part of V_LANES adjacent rows; sums go over the parts in order. The sum of x - M over a
 * part is that of x - m plus (m - M) for each column. If several parts have the same largest logit,
 * the first leads, because argmax takes the first. Part numbers as float32 are exact up to 2^24. */
static joined join_vector(const et_softmax_rows *rows, int64_t begin, int64_t n)
{
    vf most = v_set(-INFINITY), leader = v_set(0.0f), total = v_set(0.0f), shift = total;
    const int64_t stride = rows->rows;
    for (int64_t p = 0; p < rows->parts; p++) {
        const vf largest = v_get_n(rows->largest, p * stride + begin, n);
        leader = v_select(v_gt(largest, most), v_set((float)p), leader);
        most = v_max(largest, most);
    }
    for (int64_t p = 0; p < rows->parts; p++) {
        const int64_t at = p * stride + begin;
        const vf lower = v_get_n(rows->largest, at, n) - most, f = v_exp(lower);
        const vf columns = v_set((float)et_softmax_part_columns(rows, p));
        total = v_fma(v_get_n(rows->sum, at, n), f, total);
        shift = shift + v_fma(columns, lower, v_get_n(rows->shifted, at, n));
        v_put_n(rows->sum, at, f, n);
    }
    const vf inverse = v_set(1.0f) / total;
    for (int64_t at = begin; at < rows->parts * stride; at += stride)
        v_put_n(rows->sum, at, v_get_n(rows->sum, at, n) * inverse, n);
    joined found;
    v_store(found.largest, most);
    v_store(found.sum, total);
    v_store(found.shifted, shift);
    v_store(found.leader, leader);
    return found;
}

/* As in entropy_row: loss = lse - on z_y - off (sum of the others' z) - C with z = x - M. */
static void join_row(const et_softmax_rows *rows, const smoothed *target, int64_t t,
                     const joined *from, int lane)
{
    if (rows->labels[t] < 0) {
        rows->loss[t] = rows->nll[t] = rows->correct[t] = 0.0f;
        return;
    }
    const double lse = log((double)from->sum[lane]);
    const double mine = (double)rows->label_logit[t] - from->largest[lane];
    const int64_t part = rows->labels[t] / rows->columns; /* the part with the label */
    const bool leads = from->leader[lane] == (float)part;
    double loss = lse - (double)target->on * mine - target->entropy;
    if (target->off > 0)
        loss -= (double)target->off * ((double)from->shifted[lane] - mine);
    rows->loss[t] = (float)loss;
    rows->nll[t] = (float)(lse - mine);
    rows->correct[t] = leads ? rows->label_leads[t] : 0.0f;
}

/* Adds the term for two draws, and halves everything: parts in order; f is in the place of s. */
static void join_draws(const et_softmax_rows *rows, int64_t t)
{
    double mean = 0;
    for (int64_t at = t; at < rows->parts * rows->rows; at += rows->rows)
        mean += (double)rows->sum[at] * (double)rows->apart[at];
    rows->mean_apart[t] = (float)mean;
    rows->loss[t] = (float)(0.5 * (double)rows->loss[t] + 0.25 * (double)rows->agreement * mean);
    rows->nll[t] *= 0.5f;
    rows->correct[t] *= 0.5f;
}

/* Vectors of rows begin at `begin`; a row's lanes do not mix, so cuts change no bit. */
static void softmax_join(const et_softmax_rows *rows, int64_t begin, int64_t end)
{
    et_assert(begin >= 0 && end <= rows->rows);
    const smoothed target = smoothed_of(rows->smoothing, rows->vocabulary);
    for (int64_t t = begin; t < end; t += V_LANES) {
        const int64_t n = end - t < V_LANES ? end - t : V_LANES;
        const joined found = join_vector(rows, t, n);
        for (int lane = 0; lane < n; lane++)
            join_row(rows, &target, t + lane, &found, lane);
    }
    for (int64_t t = begin; rows->apart && t < end; t++)
        if (rows->labels[t] >= 0)
            join_draws(rows, t);
}

/* gradient = f kept - off for all columns; the label's own is written afterwards. */
ET_INLINE void part_grad_row(void *gradient, const void *kept, int64_t at, int64_t columns, float f,
                             float off, et_dtype to, et_dtype dtype)
{
    for (int64_t j = 0; j < columns; j += V_LANES) {
        const vf e = v_read_n(kept, at + j, columns - j, dtype);
        v_write_n(gradient, at + j, v_fma(e, v_set(f), v_set(-off)), columns - j, to);
    }
}

/* Without a label: zeros, whatever kept holds. */
ET_INLINE void part_grad(const et_softmax_rows *rows, const smoothed *target, int64_t part,
                         void *gradient, const void *kept, et_dtype to, et_dtype dtype)
{
    const int64_t columns = et_softmax_part_columns(rows, part), first = part * rows->columns;
    const size_t bytes = (size_t)columns * (to == ET_BF16 ? 2 : 4);
    for (int64_t t = 0; t < rows->rows; t++) {
        const int64_t at = t * columns, label = rows->labels[t] - first;
        if (rows->labels[t] < 0) {
            memset((char *)gradient + (size_t)t * bytes, 0, bytes);
            continue;
        }
        const float f = rows->sum[part * rows->rows + t];
        part_grad_row(gradient, kept, at, columns, f, target->off, to, dtype);
        if (label < 0 || label >= columns)
            continue;
        const float mine = row_value(kept, at + label, dtype) * f - target->on;
        v_write_n(gradient, at + label, v_set(mine), 1, to);
    }
}

/* The derivative by the logits of a row x and of its other draw y, but for the target: with d = x -
 * y they are p (1 / 2 + w (1 + d - E_p[d])) - w q and q (1 / 2 + w (1 - d - E_q[-d])) - w p, where
 * w = a / 4. */
typedef struct draws {
    vf f[2];        /* p = f[0] e^(x - m), q likewise */
    vf constant[2]; /* 1 / 2 + w - w E[..] */
    vf lead;        /* m of x less m of y */
    vf weight;      /* w */
} draws;

ET_INLINE draws draws_of(const et_softmax_rows *rows, int64_t part, int64_t t)
{
    const int64_t u = et_softmax_other_draw(rows, t), at = part * rows->rows;
    const float weight = 0.25f * rows->agreement;
    return (draws){ { v_set(rows->sum[at + t]), v_set(rows->sum[at + u]) },
                    { v_set(0.5f + weight - weight * rows->mean_apart[t]),
                      v_set(0.5f + weight - weight * rows->mean_apart[u]) },
                    v_set(rows->largest[at + t] - rows->largest[at + u]),
                    v_set(weight) };
}

/* Turns the kept x and y into derivatives. A value that has underflowed counts as the smallest
 * normal number in its logarithm. */
ET_INLINE void draws_grad(const draws *of, vf *x, vf *y)
{
    const vf least = v_set(FLT_MIN);
    const vf d = v_log(v_max(*x, least)) - v_log(v_max(*y, least)) + of->lead;
    const vf p = *x * of->f[0], q = *y * of->f[1];
    *x = p * v_fma(of->weight, d, of->constant[0]) - of->weight * q;
    *y = q * v_fma(v_set(0.0f) - of->weight, d, of->constant[1]) - of->weight * p;
}

ET_INLINE void draws_grad_row(void *gradient, const void *kept, int64_t x_at, int64_t y_at,
                              int64_t columns, const draws *of, float off, et_dtype to,
                              et_dtype dtype)
{
    for (int64_t j = 0; j < columns; j += V_LANES) {
        vf x = v_read_n(kept, x_at + j, columns - j, dtype);
        vf y = v_read_n(kept, y_at + j, columns - j, dtype);
        draws_grad(of, &x, &y);
        v_write_n(gradient, x_at + j, x - v_set(off), columns - j, to);
        v_write_n(gradient, y_at + j, y - v_set(off), columns - j, to);
    }
}

/* As part_grad, for the rows of the first draw and their other draws. */
ET_INLINE void part_grad_draws(const et_softmax_rows *rows, const smoothed *target, int64_t part,
                               void *gradient, const void *kept, et_dtype to, et_dtype dtype)
{
    const int64_t columns = et_softmax_part_columns(rows, part), first = part * rows->columns;
    const size_t bytes = (size_t)columns * (to == ET_BF16 ? 2 : 4);
    for (int64_t t = 0; t < rows->rows / 2; t++) {
        const int64_t x_at = t * columns, y_at = et_softmax_other_draw(rows, t) * columns;
        const int64_t label = rows->labels[t] - first;
        if (rows->labels[t] < 0) {
            memset((char *)gradient + (size_t)t * bytes, 0, bytes);
            memset((char *)gradient + (size_t)et_softmax_other_draw(rows, t) * bytes, 0, bytes);
            continue;
        }
        const draws of = draws_of(rows, part, t);
        draws_grad_row(gradient, kept, x_at, y_at, columns, &of, 0.5f * target->off, to, dtype);
        if (label < 0 || label >= columns)
            continue;
        vf x = v_set(row_value(kept, x_at + label, dtype));
        vf y = v_set(row_value(kept, y_at + label, dtype));
        draws_grad(&of, &x, &y);
        v_write_n(gradient, x_at + label, x - v_set(0.5f * target->on), 1, to);
        v_write_n(gradient, y_at + label, y - v_set(0.5f * target->on), 1, to);
    }
}

static void softmax_part_grad(const et_softmax_rows *rows, int64_t part, void *gradient,
                              et_dtype to, const void *kept, et_dtype dtype)
{
    const smoothed target = smoothed_of(rows->smoothing, rows->vocabulary);
    if (rows->apart && to == ET_BF16)
        ET_BY_DTYPE(dtype, part_grad_draws, rows, &target, part, gradient, kept, ET_BF16);
    else if (rows->apart)
        ET_BY_DTYPE(dtype, part_grad_draws, rows, &target, part, gradient, kept, ET_F32);
    else if (to == ET_BF16)
        ET_BY_DTYPE(dtype, part_grad, rows, &target, part, gradient, kept, ET_BF16);
    else
        ET_BY_DTYPE(dtype, part_grad, rows, &target, part, gradient, kept, ET_F32);
}

static const et_softmax_parts softmax_parts = {
    .part = softmax_part,
    .join = softmax_join,
    .grad = softmax_part_grad,
};

#endif
