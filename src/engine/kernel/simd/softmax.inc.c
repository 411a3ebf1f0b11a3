/* Softmax over a vocabulary: cross-entropy with its derivative, log-probabilities, and the largest
 * k. Rows are independent; one thread computes a row.
 *
 *   loss = -sum_i t_i log p_i - H(t)
 *
 * tests/engine/kernel/reference/softmax.c has the formulas and their sources.
 *
 * There are three passes over a row: the largest, the sum of exponentials (stored in the row if it
 * is float32 and becomes derivatives), the derivatives. A row of a usual vocabulary is tens of
 * kilobytes, so the later passes read it from cache.
 *
 * Invariants:
 *   (1) the largest is subtracted before every exponential: none exceeds 1, and their sum is at
 *       least 1 (from the largest) and has a logarithm;
 *   (2) a row's sums are always added in the order of its vectors, so bits are the same on any
 *       thread;
 *   (3) the label's logit is read before its row is overwritten.
 *
 * With derivatives, a float32 row is read three times and written twice, because it stores the
 * exponentials; a bfloat16 row would round them, so they are computed twice. */
#ifndef ETUDE_KERNEL_SOFTMAX_INC_C
#define ETUDE_KERNEL_SOFTMAX_INC_C

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/simd.h"

/* The largest of a row; four running maxima hide the latency. A NaN may be lost here: the sum
 * of exponentials finds it again. */
ET_INLINE float row_largest(const void *x, int64_t at, int64_t count, et_dtype dtype)
{
    vf most[4];
    int64_t i = 0;
    for (int k = 0; k < 4; k++)
        most[k] = v_set(-INFINITY);
    for (; i + 4 * V_LANES <= count; i += 4 * V_LANES)
        ET_UNROLL
    for (int k = 0; k < 4; k++)
        most[k] = v_max(v_read(x, at + i + k * V_LANES, dtype), most[k]);
    for (; i < count; i += V_LANES) {
        vf value = v_read_n(x, at + i, count - i, dtype);
        value = v_select(v_first(count - i), value, most[0]);
        most[0] = v_max(value, most[0]);
    }
    return v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
}

/* Returns the sum of e^(x - largest) over x[at ..], and in *shifted the sum of x - largest. The
 * exponentials are stored in kept[kept_at ..], which may be x itself if both are float32; NULL:
 * they are not stored. Lanes beyond the end read as 0 and must not count: e^(0 - largest) would. */
ET_INLINE float row_exp_sum(const void *x, int64_t at, int64_t count, et_dtype dtype, float largest,
                            float *shifted, void *kept, int64_t kept_at, et_dtype kept_type)
{
    vf sum = v_set(0.0f), shift = v_set(0.0f);
    for (int64_t i = 0; i < count; i += V_LANES) {
        const int64_t n = count - i;
        vf z = v_read_n(x, at + i, n, dtype) - v_set(largest);
        vf e = v_exp(z);
        if (kept)
            v_write_n(kept, kept_at + i, e, n, kept_type);
        if (n < V_LANES) {
            z = v_select(v_first(n), z, v_set(0.0f));
            e = v_select(v_first(n), e, v_set(0.0f));
        }
        sum = sum + e;
        shift = shift + z;
    }
    *shifted = v_sum(shift);
    return v_sum(sum);
}

/* Whether element y is the first with the row's largest value. Elements before y are only searched
 * if the label has the largest value, so most rows end at the first comparison. */
ET_INLINE bool row_first_largest(const void *x, float largest, int64_t at, int32_t y,
                                 et_dtype dtype)
{
    if (!(row_value(x, at + y, dtype) == largest))
        return false;
    for (int32_t i = 0; i < y; i++)
        if (row_value(x, at + i, dtype) == largest)
            return false;
    return true;
}

/* The smoothed target: `on` at the label, `off` elsewhere; C is its entropy. */
typedef struct smoothed {
    float on, off;
    double entropy;
} smoothed;

/* With one class there is nothing to smooth, and without smoothing no entropy. on = 1 - e, off =
 * e / (V - 1), C = -on log on - (V - 1) off log off. Example: e = 0.1 of 11 classes gives 0.9 and
 * 0.01. */
static smoothed smoothed_of(float smoothing, int64_t vocabulary)
{
    if (vocabulary == 1 || smoothing == 0)
        return (smoothed){ .on = 1 };
    const double others = (double)(vocabulary - 1), on = 1.0 - smoothing, off = smoothing / others;
    return (smoothed){ (float)on, (float)off, -on * log(on) - others * off * log(off) };
}

/* p - t in place: p = e^(x - largest) / sum. The label's element is computed separately at the end,
 * from its old value. kept: x holds the exponentials already. For the label p - on replaces p -
 * off. */
ET_INLINE void row_gradient(void *x, const smoothed *target, float largest, float sum, bool kept,
                            int32_t label, int64_t at, int64_t count, et_dtype dtype)
{
    const vf inverse = v_set(1.0f / sum), off = v_set(target->off);
    const float mine = row_value(x, at + label, dtype);
    for (int64_t i = 0; i < count; i += V_LANES) {
        vf e = v_read_n(x, at + i, count - i, dtype);
        if (!kept)
            e = v_exp(e - v_set(largest));
        v_write_n(x, at + i, v_fma(e, inverse, v_set(0.0f) - off), count - i, dtype);
    }
    /* mine was read before the loop overwrote it: the exponential where those were kept. */
    const float p = (kept ? mine : expf(mine - largest)) / sum;
    if (dtype == ET_BF16)
        ((et_bf16 *)x)[at + label] = et_bf16_from_float(p - target->on);
    else
        ((float *)x)[at + label] = p - target->on;
}

/* loss = lse - on z_y - off (sum of the others' z) - C, with z = x - largest throughout, so that
 * large logits do not cancel; on + (V - 1) off = 1. nll = lse - z_y, without smoothing. */
ET_INLINE void entropy_row(void *x, float *loss, float *nll, float *correct, const smoothed *target,
                           int32_t label, bool gradient, int64_t at, int64_t count, et_dtype dtype)
{
    const bool keep = gradient && dtype == ET_F32;
    const float largest = row_largest(x, at, count, dtype);
    const float mine = row_value(x, at + label, dtype) - largest;
    *correct = row_first_largest(x, largest, at, label, dtype) ? 1.0f : 0.0f;
    float shifted;
    const float sum =
        row_exp_sum(x, at, count, dtype, largest, &shifted, keep ? x : NULL, at, dtype);
    const double lse = log((double)sum);
    *nll = (float)(lse - mine);
    *loss = (float)(lse - (double)target->on * mine - target->entropy);
    if (target->off > 0)
        *loss = (float)(*loss - (double)target->off * ((double)shifted - mine));
    if (gradient)
        row_gradient(x, target, largest, sum, keep, label, at, count, dtype);
}

/* Rows begin .. end - 1. Without a label the row counts nowhere and its derivatives are zeros. */
static void entropy_part(void *logits, float *loss, float *nll, float *correct,
                         const int32_t *labels, const smoothed *target, bool gradient,
                         int64_t vocabulary, et_dtype dtype, int64_t begin, int64_t end)
{
    const size_t size = (size_t)vocabulary * (dtype == ET_BF16 ? 2 : 4);
    for (int64_t t = begin; t < end; t++) {
        et_assert(labels[t] < vocabulary);
        if (labels[t] >= 0) {
            ET_BY_DTYPE(dtype, entropy_row, logits, &loss[t], &nll[t], &correct[t], target,
                        labels[t], gradient, (t * vocabulary), vocabulary);
            continue;
        }
        loss[t] = nll[t] = correct[t] = 0.0f;
        if (gradient)
            memset((char *)logits + (size_t)t * size, 0, size);
    }
}

/* Few classes would leave most of a vector empty: there a lane is a row, and classes follow one
 * another. Arithmetic as above, but the logarithm is float32. At most a vector of the widest table:
 * there a row of few classes is a column of few_rows.x. */
#define FEW_CLASSES 16

typedef struct few_rows {
    _Alignas(64) float x[FEW_CLASSES][V_LANES]; /* logits, then derivatives */
    _Alignas(64) float mine[V_LANES], nll[V_LANES], loss[V_LANES];
    _Alignas(64) float first[V_LANES]; /* the class that has the largest logit first; -1: none */
} few_rows;

/* Common to all rows of a call. */
typedef struct few_call {
    void *logits;                /* [rows, classes] */
    float *loss, *nll, *correct; /* [rows] */
    const int32_t *labels;
    smoothed target;
    int classes;
    bool gradient;
} few_call;

/* Takes up to V_LANES rows from row `at` on; mine is the label's logit. Lanes without a row repeat
 * the first row, lanes without a label have any logit. */
ET_INLINE void few_take(few_rows *few, const void *x, const int32_t *labels, int64_t at, int n,
                        int classes, et_dtype dtype)
{
    const bool scattered = n < V_LANES;
    for (int c = 0; scattered && c < classes; c++)
        v_store(few->x[c], v_set(row_value(x, at + c, dtype)));
    if (scattered)
        v_store(few->mine, v_set(few->x[labels[0] > 0 ? labels[0] : 0][0]));
    for (int i = scattered; i < n; i++) {
        for (int c = 0; c < classes; c++)
            few->x[c][i] = row_value(x, at + (int64_t)i * classes + c, dtype);
        few->mine[i] = few->x[labels[i] > 0 ? labels[i] : 0][i];
    }
}

/* The formulas of entropy_row, lane by lane; sums over classes are in their order, so a lane's
 * result does not depend on the others. `first` goes from the last class to the first; a NaN is not
 * the largest. */
ET_NOINLINE static void few_losses(few_rows *few, const smoothed *target, int classes)
{
    vf largest = v_set(-INFINITY), sum = v_set(0.0f), shift = v_set(0.0f), first = v_set(-1.0f);
    for (int c = 0; c < classes; c++)
        largest = v_max(v_load(few->x[c]), largest);
    for (int c = classes - 1; c >= 0; c--)
        first = v_select(v_not_le(largest, v_load(few->x[c])), first, v_set((float)c));
    v_store(few->first, first);
    for (int c = 0; c < classes; c++) {
        const vf z = v_load(few->x[c]) - largest, e = v_exp(z);
        v_store(few->x[c], e);
        shift = shift + z;
        sum = sum + e;
    }
    const vf inverse = v_set(1.0f) / sum, off = v_set(target->off);
    for (int c = 0; c < classes; c++)
        v_store(few->x[c], v_fma(v_load(few->x[c]), inverse, v_set(0.0f) - off));
    /* A sum that is not finite is kept, whatever v_log makes of it. */
    const vf mine = v_load(few->mine) - largest, lse = v_log(sum) + sum * v_set(0.0f);
    vf loss = lse - v_set(target->on) * mine - v_set((float)target->entropy);
    if (target->off > 0)
        loss = loss - off * (shift - mine);
    v_store(few->nll, lse - mine);
    v_store(few->loss, loss);
}

/* Stores one row's results; its derivative is p - on at the label, and p - off elsewhere. */
ET_INLINE void few_put(const few_rows *few, void *x, const smoothed *target, int32_t label, int i,
                       int64_t at, int classes, et_dtype dtype)
{
    for (int c = 0; c < classes; c++) {
        float d = label >= 0 ? few->x[c][i] : 0.0f;
        if (c == label)
            d = d + target->off - target->on;
        if (dtype == ET_BF16)
            ((et_bf16 *)x)[at + c] = et_bf16_from_float(d);
        else
            ((float *)x)[at + c] = d;
    }
}

/* Rows at .. at + n - 1 of the call. */
ET_INLINE void few_put_all(const few_rows *few, const few_call *call, int64_t at, int n,
                           et_dtype dtype)
{
    for (int i = 0; i < n; i++) {
        const int32_t label = call->labels[at + i];
        et_assert(label < call->classes);
        call->loss[at + i] = label >= 0 ? few->loss[i] : 0.0f;
        call->nll[at + i] = label >= 0 ? few->nll[i] : 0.0f;
        call->correct[at + i] = label >= 0 && few->first[i] == (float)label ? 1.0f : 0.0f;
        if (call->gradient)
            few_put(few, call->logits, &call->target, label, i, (at + i) * call->classes,
                    call->classes, dtype);
    }
}

/* A separate function, because values common to all blocks then fit into registers. */
ET_NOINLINE static void few_block(const few_call *call, int64_t at, int n, et_dtype dtype)
{
    few_rows few;
    ET_BY_DTYPE(dtype, few_take, &few, call->logits, call->labels + at, at * call->classes, n,
                call->classes);
    few_losses(&few, &call->target, call->classes);
    ET_BY_DTYPE(dtype, few_put_all, &few, call, at, n);
}

/* Rows come in whole vectors to a thread (ET_PARALLEL's unit is V_LANES), so which rows share a
 * vector does not depend on threads. */
static void few_part(const few_call *call, et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t += V_LANES)
        few_block(call, t, end - t < V_LANES ? (int)(end - t) : V_LANES, dtype);
}

/* Chooses by the number of classes: lanes are classes if there are many, and rows if there are few.
 */
static void softmax_cross_entropy(void *logits, float *loss, float *nll, float *correct,
                                  const int32_t *labels, float smoothing, bool gradient,
                                  int64_t rows, int64_t vocabulary, et_dtype dtype)
{
    et_assert(vocabulary >= 1 && smoothing >= 0 && smoothing < 1);
    const smoothed target = smoothed_of(smoothing, vocabulary);
    if (vocabulary <= FEW_CLASSES) {
        const few_call call = { logits,          loss,    nll, correct, labels, target,
                                (int)vocabulary, gradient };
        ET_PARALLEL(rows * vocabulary >= ET_GRAIN, rows, V_LANES, few_part, &call, dtype);
        return;
    }
    ET_PARALLEL(rows * vocabulary >= ET_GRAIN, rows, 1, entropy_part, logits, loss, nll, correct,
                labels, &target, gradient, vocabulary, dtype);
}

/* ---- the distribution itself ---- */

/* x - largest - log sum, in this order: the difference is small if the result is. */
ET_INLINE void log_softmax_at(void *y, const void *x, int64_t at, int64_t count, et_dtype dtype)
{
    float shifted;
    const float largest = row_largest(x, at, count, dtype);
    const float sum = row_exp_sum(x, at, count, dtype, largest, &shifted, NULL, 0, dtype);
    const vf lse = v_set((float)log((double)sum)), most = v_set(largest);
    for (int64_t i = 0; i < count; i += V_LANES)
        v_write_n(y, at + i, v_read_n(x, at + i, count - i, dtype) - most - lse, count - i, dtype);
}

/* A row of float32 in place. */
static void log_softmax_row(float *x, int64_t count)
{
    log_softmax_at(x, x, 0, count, ET_F32);
}

static void log_softmax_part(void *y, const void *x, int64_t width, et_dtype dtype, int64_t begin,
                             int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        ET_BY_DTYPE(dtype, log_softmax_at, y, x, (t * width), width);
}

/* Rows to threads. */
static void log_softmax(void *y, const void *x, int64_t rows, int64_t width, et_dtype dtype)
{
    et_assert(width >= 1);
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, log_softmax_part, y, x, width, dtype);
}

/* The exponentials are computed twice where keeping them would round them. */
ET_INLINE void softmax_at(void *y, const void *x, int64_t at, int64_t count, et_dtype dtype)
{
    const bool kept = dtype == ET_F32;
    float shifted;
    const float largest = row_largest(x, at, count, dtype);
    const float sum =
        row_exp_sum(x, at, count, dtype, largest, &shifted, kept ? y : NULL, at, dtype);
    const vf inverse = v_set(1.0f / sum);
    for (int64_t i = 0; i < count; i += V_LANES) {
        vf e = v_read_n(kept ? y : x, at + i, count - i, dtype);
        if (!kept)
            e = v_exp(e - v_set(largest));
        v_write_n(y, at + i, e * inverse, count - i, dtype);
    }
}

static void softmax_rows_part(void *y, const void *x, int64_t width, et_dtype dtype, int64_t begin,
                              int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        ET_BY_DTYPE(dtype, softmax_at, y, x, (t * width), width);
}

static void softmax(void *y, const void *x, int64_t rows, int64_t width, et_dtype dtype)
{
    et_assert(width >= 1);
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, softmax_rows_part, y, x, width, dtype);
}

static void labelled(float *y, const int32_t *labels, int64_t rows)
{
    for (int64_t t = 0; t < rows; t++)
        y[t] = labels[t] >= 0 ? 1.0f : 0.0f;
}

/* Whether value comes before an earlier one of the row: only if it is larger. A NaN comes after all
 * numbers. */
static bool beats(float value, float earlier)
{
    return value > earlier || (isnan(earlier) && !isnan(value));
}

/* Puts x[i] into the sorted list of `have` values, of which k are kept. Inserts from the end,
 * because most values belong near the end, and k is small. have < k: the list grows by one; else
 * its last value falls out. Returns the new length. */
static int top_insert(float *value, int32_t *index, int have, int k, float x, int32_t i)
{
    int at = have < k ? have : k - 1;
    for (; at > 0 && beats(x, value[at - 1]); at--) {
        value[at] = value[at - 1];
        index[at] = index[at - 1];
    }
    value[at] = x;
    index[at] = i;
    return have < k ? have + 1 : k;
}

/* A vector is examined only if one of its lanes exceeds the last of the list, which is rare after
 * the first few vectors. v_not_le instead of v_gt, so that a vector with a NaN is examined.
 * Elements come in ascending order, and an equal value does not exceed, so the smaller index stays
 * first among equal values. */
static void top_row(float *value, int32_t *index, const float *x, int k, int64_t width)
{
    int have = 0;
    for (int64_t i = 0; i < width; i += V_LANES) {
        const int64_t n = width - i < V_LANES ? width - i : V_LANES;
        if (have == k && !v_any(v_not_le(v_get_n(x, i, n), v_set(value[k - 1]))) && n == V_LANES)
            continue;
        for (int64_t j = i; j < i + n; j++)
            if (have < k || beats(x[j], value[k - 1]))
                have = top_insert(value, index, have, k, x[j], (int32_t)j);
    }
}

static void top_k_part(float *value, int32_t *index, const float *x, int k, int64_t width,
                       int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        top_row(value + t * k, index + t * k, x + t * width, k, width);
}

/* Rows to threads; k of each are written, largest first. */
static void top_k(float *value, int32_t *index, const float *x, int k, int64_t rows, int64_t width)
{
    et_assert(k >= 1 && k <= width);
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, top_k_part, value, index, x, k, width);
}

#endif
