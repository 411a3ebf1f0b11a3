/* Attention of one query row over a cache. The softmax is computed block by block, in blocks of
 * CACHED_BLOCK positions; if a block has a larger score, the output so far is rescaled (Milakov,
 * Gimelshein 2018: "Online normalizer calculation for softmax").
 *
 * One head of one row is a chain of short steps, and each step waits for the previous one. So
 * several heads take each step together, and the CPU works on one head while another waits.
 *
 *   h heads that are computed together, p positions of a block, d columns, s vectors of them
 *
 *   for each block:  M' = max(M, its scores);  sum and out times e^(M - M')
 *                    sum += e^(score - M'),  out += e^(score - M') value
 *   at the end:      out / sum
 *
 * Invariants: blocks begin at multiples of CACHED_BLOCK in the row's own positions, and sums run in
 * their order, so a row's bits depend on its own cache only; no score is kept beyond its block.
 *
 * Memory: keys and values are read once, from rows that a table of slots may scatter anywhere;
 * scores, weights and outputs stay on the stack: 2 KiB of weights and 4 KiB each of queries and
 * outputs. */
#ifndef ETUDE_KERNEL_CACHED_ATTENTION_INC_C
#define ETUDE_KERNEL_CACHED_ATTENTION_INC_C

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/simd.h"

/* Positions of a block, whole vectors of every table; heads that go together. */
#define CACHED_BLOCK 64
#define CACHED_HEADS 8

/* A block of positions: where their keys and values begin, in elements. The last position is
 * repeated up to a whole vector, so that vectors of positions need no ends. */
typedef struct cached_block {
    int64_t key[CACHED_BLOCK], value[CACHED_BLOCK];
    int count;
} cached_block;

/* Heads' softmaxes so far: e^(score - largest) sums, and the outputs times their sums. On the stack
 * of the thread; used again for the next heads of the row. */
typedef struct cached_heads {
    int count, width;            /* width: a head's columns in whole vectors */
    float largest[CACHED_HEADS]; /* score */
    float sum[CACHED_HEADS];
    float weight[CACHED_HEADS]
                [CACHED_BLOCK];          /* scores, then e^(score - largest), 0 past the last */
    float query[ET_CACHED_HEAD_DIM_MAX]; /* [count, width] */
    float out[ET_CACHED_HEAD_DIM_MAX];   /* [count, width] */
} cached_heads;

/* Positions first .. of a row: once for all heads that go together. The copies of the last position
 * are read but never counted. */
static void find_block(cached_block *b, const et_cached_attention_shape *shape, int64_t row,
                       int first)
{
    const int left = shape->length[row] - first;
    b->count = left < CACHED_BLOCK ? left : CACHED_BLOCK;
    const int whole = (b->count + V_LANES - 1) / V_LANES * V_LANES;
    const int32_t *slot = shape->slot ? shape->slot + row * shape->slot_stride + first : NULL;
    for (int p = 0; p < whole; p++) {
        const int at = p < b->count ? p : b->count - 1;
        const int64_t cached = slot ? slot[at] : shape->begin[row] + (int64_t)first + at;
        b->key[p] = cached * shape->key_stride;
        b->value[p] = cached * shape->value_stride;
    }
}

/* Scores of V_LANES positions: their products are summed together. vectors is a constant, or 0
 * for a head of any width. */
ET_INLINE vf cached_scores(const float *query, const int64_t *key, const void *keys, int64_t column,
                           int dim, const int vectors, et_dtype dtype)
{
    vf sum[V_LANES];
    ET_UNROLL
    for (int p = 0; p < V_LANES; p++) {
        const int64_t at = key[p] + column;
        sum[p] = v_load(query) * v_read_n(keys, at, vectors ? V_LANES : dim, dtype);
        if (vectors) {
            ET_UNROLL
            for (int s = 1; s < vectors; s++)
                sum[p] = v_fma(v_load(query + s * V_LANES), v_read(keys, at + s * V_LANES, dtype),
                               sum[p]);
        } else {
            for (int d = V_LANES; d < dim; d += V_LANES)
                sum[p] = v_fma(v_load(query + d), v_read_n(keys, at + d, dim - d, dtype), sum[p]);
        }
    }
    return v_sums(sum);
}

/* Rescales a head's sum and output to a larger score. Not called in a row's first block, which has
 * no sums yet. */
static void rescale(cached_heads *to, int h, float largest)
{
    const float factor = expf(to->largest[h] - largest);
    float *out = to->out + h * to->width;
    for (int d = 0; d < to->width; d += V_LANES)
        v_store(out + d, v_load(out + d) * v_set(factor));
    to->sum[h] *= factor;
    to->largest[h] = largest;
}

/* Scores of head h become weights. first: of the row. Masked after the exponential: the copies past
 * the last position would count once more. */
static void weigh(cached_heads *to, int h, int count, bool first)
{
    float *weight = to->weight[h];
    vf most = v_set(-INFINITY), sum = v_set(0.0f);
    for (int p = 0; p < count; p += V_LANES) /* past the last: the last again */
        most = v_max(v_load(weight + p), most);
    const float largest = v_largest(most);
    if (first)
        to->largest[h] = largest;
    else if (largest > to->largest[h])
        rescale(to, h, largest);
    const vf shift = v_set(to->largest[h]);
    for (int p = 0; p < count; p += V_LANES) {
        vf e = v_exp(v_load(weight + p) - shift);
        e = v_select(v_first(count - p), e, v_set(0.0f));
        v_store(weight + p, e);
        sum = sum + e;
    }
    to->sum[h] += v_sum(sum);
}

/* Adds weighted values, columns d .. d + vectors * V_LANES of a head: vectors is a constant. Even
 * and odd positions have separate sums. left: columns of the head from d on, if vectors is 1 and
 * the last one may be part of a vector. */
ET_INLINE void add_values(float *out, const float *weight, const cached_block *b,
                          const void *values, int64_t column, int left, const int vectors,
                          et_dtype dtype)
{
    vf even[4], odd[4];
    ET_UNROLL
    for (int s = 0; s < vectors; s++) {
        even[s] = v_load(out + s * V_LANES);
        odd[s] = v_set(0.0f);
    }
    for (int p = 0; p < b->count; p += 2) { /* past the last: the last once more, with weight 0 */
        const vf one = v_set(weight[p]), other = v_set(weight[p + 1]);
        const int64_t first = b->value[p] + column, second = b->value[p + 1] + column;
        ET_UNROLL
        for (int s = 0; s < vectors; s++) {
            const int at = s * V_LANES, n = vectors > 1 ? V_LANES : left;
            even[s] = v_fma(one, v_read_n(values, first + at, n, dtype), even[s]);
            odd[s] = v_fma(other, v_read_n(values, second + at, n, dtype), odd[s]);
        }
    }
    ET_UNROLL
    for (int s = 0; s < vectors; s++)
        v_store(out + s * V_LANES, even[s] + odd[s]);
}

/* A block's part in heads whose first column is `column`; vectors as for cached_scores. Each step
 * for all heads before the next step: their chains of dependent instructions overlap. */
ET_INLINE void attend_block(cached_heads *to, const cached_block *b, const void *keys,
                            const void *values, int64_t column, int dim, bool first,
                            const int vectors, et_dtype dtype)
{
    const int width = vectors ? vectors * V_LANES : to->width;
    for (int h = 0; h < to->count; h++)
        for (int p = 0; p < b->count; p += V_LANES)
            v_store(to->weight[h] + p, cached_scores(to->query + h * width, b->key + p, keys,
                                                     column + h * dim, dim, vectors, dtype));
    for (int h = 0; h < to->count; h++)
        weigh(to, h, b->count, first);
    for (int h = 0; h < to->count; h++) {
        float *out = to->out + h * width;
        if (vectors)
            add_values(out, to->weight[h], b, values, column + h * dim, 0, vectors, dtype);
        for (int d = 0; !vectors && d < dim; d += V_LANES)
            add_values(out + d, to->weight[h], b, values, column + h * dim + d, dim - d, 1, dtype);
    }
}

/* A query row's columns from `column` on, scaled; nothing summed yet. */
ET_INLINE void begin_heads(cached_heads *to, const void *q, int64_t at, int dim, float scale,
                           et_dtype dtype)
{
    for (int h = 0; h < to->count; h++) {
        to->sum[h] = 0;
        for (int d = 0; d < dim; d += V_LANES) {
            const vf part = v_read_n(q, at + h * dim + d, dim - d, dtype);
            v_store(to->query + h * to->width + d, part * v_set(scale));
            v_store(to->out + h * to->width + d, v_set(0.0f));
        }
    }
}

/* A row that sees nothing has sum 0, and gets zeros. */
ET_INLINE void end_heads(const cached_heads *to, void *out, int64_t at, int dim, et_dtype dtype)
{
    for (int h = 0; h < to->count; h++) {
        const vf inverse = v_set(to->sum[h] > 0 ? 1.0f / to->sum[h] : 0.0f);
        for (int d = 0; d < dim; d += V_LANES)
            v_write_n(out, at + h * dim + d, v_load(to->out + h * to->width + d) * inverse, dim - d,
                      dtype);
    }
}

/* As many heads together as the room for their columns allows. Heads of two and of four vectors (32
 * and 64 columns with 16 lanes) have loops of constant length; others share a slower one. */
ET_INLINE void attend_row(void *out, const void *q, const void *keys, const void *values,
                          const et_cached_attention_shape *shape, int64_t row, et_dtype dtype)
{
    const int dim = shape->head_dim, width = (dim + V_LANES - 1) / V_LANES * V_LANES;
    const int fit = ET_CACHED_HEAD_DIM_MAX / width, most = fit < CACHED_HEADS ? fit : CACHED_HEADS;
    cached_heads to;
    to.width = width;
    cached_block b;
    for (int head = 0; head < shape->heads; head += most) {
        const int64_t column = (int64_t)head * dim;
        to.count = shape->heads - head < most ? shape->heads - head : most;
        begin_heads(&to, q, row * shape->query_stride + column, dim, shape->scale, dtype);
        for (int first = 0; first < shape->length[row]; first += CACHED_BLOCK) {
            find_block(&b, shape, row, first);
            if (dim == 2 * V_LANES)
                attend_block(&to, &b, keys, values, column, dim, first == 0, 2, dtype);
            else if (dim == 4 * V_LANES)
                attend_block(&to, &b, keys, values, column, dim, first == 0, 4, dtype);
            else
                attend_block(&to, &b, keys, values, column, dim, first == 0, 0, dtype);
        }
        end_heads(&to, out, row * shape->out_stride + column, dim, dtype);
    }
}

static void cached_attention_part(void *out, const void *q, const void *keys, const void *values,
                                  const et_cached_attention_shape *shape, int64_t begin,
                                  int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        ET_BY_DTYPE(shape->dtype, attend_row, out, q, keys, values, shape, row);
}

/* `work` does not count positions, of which a row has many, so the grain is smaller. */
static void cached_attention(void *out, const void *q, const void *keys, const void *values,
                             const et_cached_attention_shape *shape)
{
    const int64_t work = (int64_t)shape->rows * shape->heads * shape->head_dim;
    et_assert(shape->head_dim <= ET_CACHED_HEAD_DIM_MAX);
    ET_PARALLEL(work >= ET_GRAIN / 16, shape->rows, 1, cached_attention_part, out, q, keys, values,
                shape);
}

#endif
