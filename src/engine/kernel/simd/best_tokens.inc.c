/* The likeliest tokens of each row: all logits by bytes, then in float32 the logits that may be
 * among the best. arguments.h has the reason.
 *
 *   j tokens, z logits, k how many are wanted
 *
 * A row in steps:
 *   quantize_row, run_panel x as bytes, all logits from bytes
 *   floor_of                a number that k logits reach for certain, by lower bounds
 *   find_open               tokens whose upper bound is above it, and the rest's share of the sum
 *   measure_open            the logits of these in float32, exactly as for every token
 *   top_row                 the k largest of these, with log p by the sum of both shares
 *
 * Example for k = 1: logits by bytes 3.0, 2.9, 1.0 with bounds of 0.2 -> floor 2.8; 3.0 and 2.9 are
 * open (2.9 + 0.2 > 2.8), 1.0 is not.
 *
 * Memory: the bytes of the weight are read once for ET_BEST_ROWS rows; a row's logits are written
 * once and read twice; of the float32 table only the rows of open tokens are read.
 *
 * A token is excluded only by bounds, which hold with all rounding errors; all other tokens are
 * compared in float32. So the result equals float32 for all tokens; large bounds only cost time. */
#ifndef ETUDE_KERNEL_BEST_TOKENS_INC_C
#define ETUDE_KERNEL_BEST_TOKENS_INC_C

#include <math.h>
#include <omp.h>
#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/row_product.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/row_product.inc.c"
#include "engine/kernel/simd/simd.h"
#include "engine/kernel/simd/softmax.inc.c"

/* The logit of a column past the last token: below all, and finite. */
#define NO_TOKEN (-1e30f)

/* The row in float32: |x| and |x - x'|, a little too large for their own rounding. */
typedef struct row_size {
    float length, error;
} row_size;

/* The factors cover the rounding of these sums themselves. */
static row_size size_row(const float *x, byte_scale scale, int64_t width)
{
    vf length = v_set(0.0f), error = v_set(0.0f);
    for (int64_t i = 0; i < width; i += V_LANES) {
        const vf value = v_get_n(x, i, width - i);
        const vf off = v_fma(v_set(-scale.unit), v_round(value * v_set(scale.inverse)), value);
        length = v_fma(value, value, length);
        error = v_fma(off, off, error);
    }
    const float whole = sqrtf(v_sum(length));
    return (row_size){ whole * 1.0001f, sqrtf(v_sum(error)) * 1.0001f + whole * 1e-6f };
}

/* How far the logits of tokens j .. may be off. |e| |w'| + |x| |d|, as arguments.h has it. */
ET_INLINE vf logit_bound(const et_row_weight *w, row_size size, int64_t j)
{
    return v_fma(v_set(size.error), v_load(w->length + j),
                 v_set(size.length) * v_load(w->error + j));
}

/* The largest length and error of all tokens: no token's bound is larger than the bound from these.
 * One product of these bounds a whole row, before any single token is examined. */
static row_size size_tokens(const et_row_weight *w)
{
    vf length = v_set(0.0f), error = v_set(0.0f);
    for (int64_t j = 0; j < w->n; j += V_LANES) { /* panels are filled up with zeros */
        length = v_max(v_load(w->length + j), length);
        error = v_max(v_load(w->error + j), error);
    }
    return (row_size){ v_largest(length), v_largest(error) };
}

/* How many of the groups are above a value. groups is a multiple of V_LANES. */
static int count_above(const float *group, int groups, float value)
{
    int count = 0;
    for (int g = 0; g < groups; g += V_LANES)
        count += __builtin_popcount(v_lanes(v_gt(v_load(group + g), v_set(value))));
    return count;
}

/* A number that more than k - 1 groups exceed, as large as ten halvings can find: a slightly low
 * floor only leaves a few more tokens open. The invariant: at least k groups exceed `low`. It holds
 * at first because low is below all bounds. With fewer tokens than groups, one group is minus
 * infinity, and so is the result. */
static float exceeded_by(const float *group, int groups, int k, float most)
{
    vf lowest = v_load(group);
    for (int g = V_LANES; g < groups; g += V_LANES)
        lowest = v_min(v_load(group + g), lowest);
    float low = -v_largest(v_set(0.0f) - lowest), high = most;
    low = nextafterf(low, -INFINITY);
    for (int i = 0; i < 10 && isfinite(low); i++) {
        const float middle = low + (high - low) / 2;
        if (count_above(group, groups, middle) >= k)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A number that at least k logits exceed; *most: an upper bound of the largest logit. Groups share
 * no token, so k groups whose lower bounds exceed the number are k tokens. Token j is in group j
 * modulo the number of groups, so that a vector of tokens meets a vector of groups. If two of the
 * best k are in one group, they count once, which lowers the floor a little. So a large k has more
 * groups; a small k has fewer, which are faster to search. Never below half of NO_TOKEN, which
 * excludes columns past the last token. */
static float floor_of(const et_best_buffers *in, const et_row_weight *w, const float *z,
                      row_size size, int k, float *most)
{
    const int groups = k <= ET_BEST_GROUPS / 16 ? ET_BEST_GROUPS / 4 : ET_BEST_GROUPS;
    vf largest = v_set(-INFINITY);
    for (int g = 0; g < groups; g += V_LANES)
        v_store(in->group + g, v_set(-INFINITY));
    for (int64_t j = 0; j < w->n; j += V_LANES) {
        float *group = in->group + (j & (groups - 1));
        v_store(group, v_max(v_load(z + j) - logit_bound(w, size, j), v_load(group)));
    }
    for (int g = 0; g < groups; g += V_LANES)
        largest = v_max(v_load(in->group + g), largest);
    *most = v_largest(largest);
    return fmaxf(exceeded_by(in->group, groups, k, *most), NO_TOKEN / 2);
}

/* Lists the open tokens of a vector, those whose upper bound is above the floor, and returns the
 * number of open tokens, which may exceed the list. Their rows of the table are read soon, from
 * memory, so the first two lines of each are prefetched. */
static int list_open(const et_best_buffers *in, const et_best_tokens *shape, vm open, int64_t j,
                     int count)
{
    for (unsigned lanes = v_lanes(open); lanes; lanes &= lanes - 1, count++) {
        const int64_t token = j + __builtin_ctz(lanes);
        if (count >= ET_BEST_OPEN)
            continue;
        in->open_token[count] = (int32_t)token;
        __builtin_prefetch(shape->table + token * shape->weight->k);
        __builtin_prefetch(shape->table + token * shape->weight->k + 16);
    }
    return count;
}

/* Lists the open tokens and returns their number, as list_open counts. *rest becomes the sum of
 * e^(z - shift) over the others. most is the largest bound of the row: only few vectors need a
 * closer look. Excluded tokens are below the floor, and so below shift: each adds at most 1, and
 * nothing overflows. */
static int find_open(const et_best_buffers *in, const et_best_tokens *shape, const float *z,
                     row_size size, float most, float floor, float shift, float *rest)
{
    const vf unit = v_set(1.44269504f), from = v_set(shift * -1.44269504f);
    vf sum = v_set(0.0f);
    int count = 0;
    for (int64_t j = 0; j < shape->weight->n; j += V_LANES) {
        const vf value = v_load(z + j);
        vf e = v_exp2(v_fma(value, unit, from));
        if (v_any(v_gt(value, v_set(floor - most)))) {
            const vm open = v_gt(value + logit_bound(shape->weight, size, j), v_set(floor));
            count = list_open(in, shape, open, j, count);
            e = v_select(open, v_set(0.0f), e);
        }
        sum = sum + e;
    }
    *rest = v_sum(sum);
    return count;
}

/* x . w, in one order for every row and token. Four sums hide the latency of the fused
 * multiply-add. */
static float dot(const float *x, const float *w, int64_t width)
{
    vf sum[4];
    int64_t i = 0;
    for (int s = 0; s < 4; s++)
        sum[s] = v_set(0.0f);
    for (; i + 4 * V_LANES <= width; i += 4 * V_LANES)
        ET_UNROLL
    for (int s = 0; s < 4; s++)
        sum[s] = v_fma(v_load(x + i + s * V_LANES), v_load(w + i + s * V_LANES), sum[s]);
    for (; i < width; i += V_LANES)
        sum[0] = v_fma(v_get_n(x, i, width - i), v_get_n(w, i, width - i), sum[0]);
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* The results of a row. */
typedef struct best_row {
    float *log_p;
    int32_t *token;
    const float *x;
    int k;
} best_row;

/* Computes every logit in float32, into z. Used if the bounds do not help; correct by definition.
 */
static void whole_row(const et_best_tokens *shape, best_row row, float *z)
{
    const int64_t n = shape->weight->n, width = shape->weight->k;
    for (int64_t j = 0; j < n; j++)
        z[j] = dot(row.x, shape->table + j * width, width);
    log_softmax_row(z, n);
    top_row(row.log_p, row.token, z, row.k, n);
}

/* The list's logits in float32, and e^(logit - shift) summed. */
static float measure_open(const et_best_buffers *in, const et_best_tokens *shape, const float *x,
                          int count, float shift)
{
    const int64_t width = shape->weight->k;
    vf sum = v_set(0.0f);
    for (int i = 0; i < count; i++)
        in->open_logit[i] = dot(x, shape->table + in->open_token[i] * width, width);
    for (int i = 0; i < count; i += V_LANES) {
        const vf e = v_exp(v_load_n(in->open_logit + i, count - i) - v_set(shift));
        sum = sum + v_select(v_first(count - i), e, v_set(0.0f));
    }
    return v_sum(sum);
}

/* Falls back to the whole row if too few or too many tokens are open, or a number is not finite.
 * The factor covers the rounding of `most`. log p is computed in double: logit and logarithm may
 * both be large while their difference is small. */
static void find_best(const et_best_buffers *in, const et_best_tokens *shape, best_row row,
                      byte_scale scale, row_size tokens, float *z)
{
    const row_size size = size_row(row.x, scale, shape->weight->k);
    float shift, rest;
    const int exact = row.k > ET_BEST_EXACT ? row.k : ET_BEST_EXACT;
    const float floor = floor_of(in, shape->weight, z, size, exact, &shift);
    const float most = size.error * tokens.length + size.length * tokens.error;
    const int count = find_open(in, shape, z, size, most * 1.00001f, floor, shift, &rest);
    if (count < row.k || count > ET_BEST_OPEN) {
        whole_row(shape, row, z);
        return;
    }
    const float sum = rest + measure_open(in, shape, row.x, count, shift);
    if (!isfinite(sum)) {
        whole_row(shape, row, z);
        return;
    }
    const double lse = (double)shift + log((double)sum);
    top_row(row.log_p, row.token, in->open_logit, row.k, count);
    for (int i = 0; i < row.k; i++) {
        row.log_p[i] = (float)((double)row.log_p[i] - lse);
        row.token[i] = in->open_token[row.token[i]];
    }
}

/* At most ET_BEST_ROWS rows from `first` on: their logits by bytes, panel by panel. A panel of the
 * weight is read once for all rows of a block. Rows past the last are not computed; columns past
 * the last token are, and then put below all others. */
static void best_block(float *log_p, int32_t *token, const void *h, const et_best_tokens *shape,
                       int64_t first)
{
    const et_row_weight *w = shape->weight;
    const int64_t left = shape->rows - first, width = w->k, stride = et_row_stride(width);
    const int64_t rows = left < ET_BEST_ROWS ? left : ET_BEST_ROWS;
    const size_t own = (size_t)omp_get_thread_num() * et_best_scratch(w);
    const et_best_buffers in = et_best_buffers_at((char *)shape->scratch + own, w);
    const row_size tokens = size_tokens(w);
    byte_scale scale[ET_BEST_ROWS];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < width; i += V_LANES) {
            const int64_t at = (first + r) * width + i, n = width - i;
            v_store_n(in.x + r * width + i, v_read_n(h, at, n, shape->dtype), n);
        }
        scale[r] = quantize_row(in.bytes + r * stride, in.x + r * width, width, ET_F32);
        in.scale[r] = scale[r].unit;
    }
    const row_block b = { .x = in.bytes,
                          .y = in.logits,
                          .row_scale = in.scale,
                          .scale = w->scale,
                          .offset = w->offset,
                          .k = width,
                          .x_stride = stride,
                          .y_stride = in.columns,
                          .columns = w->n };
    for (int64_t p = 0; p < in.columns / PANEL; p++)
        run_panel(&b, w, rows, p);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = w->n; j < in.columns; j++)
            in.logits[r * in.columns + j] = NO_TOKEN;
        const best_row row = { log_p + (first + r) * shape->count,
                               token + (first + r) * shape->count, in.x + r * width, shape->count };
        find_best(&in, shape, row, scale[r], tokens, in.logits + r * in.columns);
    }
}

/* Blocks of rows to threads; a row's bits do not depend on its neighbours. */
static void best_tokens(float *log_p, int32_t *token, const void *h, const et_best_tokens *shape)
{
    const et_row_weight *w = shape->weight;
    et_assert(w->kind == ET_ROW_INT8 && w->panel == PANEL);
    et_assert(shape->count >= 1 && shape->count <= ET_BEST_COUNT_MAX && shape->count <= w->n);
#pragma omp parallel for schedule(static) if (shape->rows * w->n * w->k >= ROW_GRAIN &&            \
                                              !omp_in_parallel())
    for (int64_t first = 0; first < shape->rows; first += ET_BEST_ROWS)
        best_block(log_p, token, h, shape, first);
}

#endif
