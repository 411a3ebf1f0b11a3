/* Attention by its formula, in double, element by element: the slow reference of the fast kernels.
 * For a segment and a head, with scores s_ij = scale q_i . k_j over the keys j that query i sees:
 *
 *   P_ij = exp(s_ij - lse_i),  lse_i = log sum_j exp(s_ij)
 *   out_i = sum_j P_ij kept_ij v_j
 * with kept_ij 0 or the scale of dropout. Derivatives, with D_i = sum_j P_ij kept_ij dP_ij and
 * dP_ij = dout_i . v_j (Vaswani et al. 2017 for the forward pass; the backward pass as in Dao et
 * al. 2022, "FlashAttention", section 3.1):
 *
 *   ds_ij = P_ij (kept_ij dP_ij - D_i)
 *   dq_i = scale sum_j ds_ij k_j,  dk_j = scale sum_i ds_ij q_i,  dv_j = sum_i P_ij kept_ij dout_i
 *
 * The backward pass computes P again from scores and the lse of the forward pass. Scores are
 * computed several times instead of stored. The scratch is one row of weights; derivatives also
 * need [keys, head_dim] twice. */
#include "engine/kernel/reference/reference.h"

#include <math.h>

#include "base/assert.h"

/* One (segment, head): where its rows and columns are. */
typedef struct tile {
    int64_t query_begin, key_begin; /* first rows */
    int queries, keys;              /* rows */
    int head, column;               /* column: head * head_dim */
} tile;

static tile tile_of(const et_attention_shape *shape, int segment, int head)
{
    return (tile){
        .query_begin = shape->query_offsets[segment],
        .key_begin = shape->key_offsets[segment],
        .queries = shape->query_offsets[segment + 1] - shape->query_offsets[segment],
        .keys = shape->key_offsets[segment + 1] - shape->key_offsets[segment],
        .head = head,
        .column = head * shape->head_dim,
    };
}

/* Keys that query i of a segment sees. Causal: query i sees keys 0 to i, of as many as there
 * are. */
static int visible(const et_attention_shape *shape, const tile *at, int i)
{
    return shape->causal && i + 1 < at->keys ? i + 1 : at->keys;
}

/* Over one head's columns. */
static double dot(const void *x, int64_t x_at, const void *y, int64_t y_at, int count,
                  et_dtype dtype)
{
    et_assert(count > 0);
    double sum = 0;
    for (int d = 0; d < count; d++)
        sum += et_reference_load(x, x_at + d, dtype) * et_reference_load(y, y_at + d, dtype);
    return sum;
}

/* scale * q_i . k_j */
static double score(const et_attention_shape *shape, const tile *at, const void *q, const void *k,
                    int i, int j)
{
    int64_t q_at = (at->query_begin + i) * shape->query_stride + at->column;
    int64_t k_at = (at->key_begin + j) * shape->key_stride + at->column;
    return shape->scale * dot(q, q_at, k, k_at, shape->head_dim, shape->dtype);
}

/* What dropout multiplies weight (i, j) with: 0 or the scale. The element's number is (row *
 * heads + head) << 16 | key: it depends on no other segment's length, so a sentence drops the
 * same weights in any batch. */
static double kept(const et_attention_shape *shape, const tile *at, int i, int j)
{
    uint64_t row = (uint64_t)(at->query_begin + i) * (uint64_t)shape->heads;
    uint64_t element = ((row + (uint64_t)at->head) << 16) + (uint64_t)j;
    if (shape->rate == 0)
        return 1;
    return et_reference_keep(shape->random, shape->rate, element) ? et_dropout_scale(shape->rate)
                                                                  : 0;
}

/* One row of weights: weight[j] = softmax(score)_j; returns log of the sum of exp. Subtracts the
 * largest score before exp, so that nothing overflows. */
static double weights_of(float *weight, const et_attention_shape *shape, const tile *at,
                         const void *q, const void *k, int i)
{
    int seen = visible(shape, at, i);
    double largest = -INFINITY, sum = 0;
    for (int j = 0; j < seen; j++)
        largest = fmax(largest, score(shape, at, q, k, i, j));
    for (int j = 0; j < seen; j++)
        sum += exp(score(shape, at, q, k, i, j) - largest);
    double lse = largest + log(sum);
    for (int j = 0; j < seen; j++)
        weight[j] = (float)exp(score(shape, at, q, k, i, j) - lse);
    return lse;
}

/* One query row of one head. */
static void attend(void *out, float *lse, const void *q, const void *k, const void *v,
                   const et_attention_shape *shape, const tile *at, float *weight, int i)
{
    int64_t row = at->query_begin + i;
    double row_lse = weights_of(weight, shape, at, q, k, i);
    if (lse)
        lse[row * shape->heads + at->head] = (float)row_lse;
    for (int d = 0; d < shape->head_dim; d++) {
        double sum = 0;
        for (int j = 0; j < visible(shape, at, i); j++) {
            int64_t v_at = (at->key_begin + j) * shape->value_stride + at->column + d;
            double value = et_reference_load(v, v_at, shape->dtype);
            sum += weight[j] * kept(shape, at, i, j) * value;
        }
        et_reference_store(out, row * shape->out_stride + at->column + d, sum, shape->dtype);
    }
}

/* lse NULL: nobody needs the derivatives. */
void et_reference_attention(void *out, float *lse, const void *q, const void *k, const void *v,
                            const et_attention_shape *shape, float *scratch)
{
    for (int segment = 0; segment < shape->segments; segment++)
        for (int head = 0; head < shape->heads; head++) {
            tile at = tile_of(shape, segment, head);
            et_assert((size_t)at.keys <= shape->scratch_per_thread);
            for (int i = 0; i < at.queries; i++)
                attend(out, lse, q, k, v, shape, &at, scratch, i);
        }
}

/* The sums that one tile's gradient needs, [keys, head_dim] each. */
typedef struct sums {
    float *weight, *dscore; /* [keys], of the query in hand */
    float *dk, *dv;         /* [keys, head_dim], sums over the queries so far */
} sums;

/* dscore_j = P_j (kept_j dP_j - D), D = sum_j P_j kept_j dP_j, dP_j = dout . v_j. */
static void score_grad(sums *to, const et_attention_shape *shape, const tile *at, const void *dout,
                       const void *q, const void *k, const void *v, const float *lse, int i)
{
    int seen = visible(shape, at, i);
    int64_t row = at->query_begin + i;
    double total = 0;
    for (int j = 0; j < seen; j++) {
        int64_t v_at = (at->key_begin + j) * shape->value_stride + at->column;
        double dweight =
            dot(dout, row * shape->out_stride + at->column, v, v_at, shape->head_dim, shape->dtype);
        double row_lse = lse[row * shape->heads + at->head];
        to->weight[j] = (float)exp(score(shape, at, q, k, i, j) - row_lse);
        to->dscore[j] = (float)(kept(shape, at, i, j) * dweight);
        total += (double)to->weight[j] * to->dscore[j];
    }
    for (int j = 0; j < seen; j++)
        to->dscore[j] = (float)(to->weight[j] * (to->dscore[j] - total));
}

/* dq_i = scale sum_j dscore_j k_j; dk_j += scale dscore_j q_i; dv_j += P_j kept_j dout_i. */
static void spread(sums *to, void *dq, const et_attention_shape *shape, const tile *at,
                   const void *dout, const void *q, const void *k, int i)
{
    int64_t row = at->query_begin + i;
    for (int d = 0; d < shape->head_dim; d++) {
        int64_t q_at = row * shape->query_stride + at->column + d;
        double q_value = et_reference_load(q, q_at, shape->dtype), dq_sum = 0;
        double dout_value =
            et_reference_load(dout, row * shape->out_stride + at->column + d, shape->dtype);
        for (int j = 0; j < visible(shape, at, i); j++) {
            int64_t k_at = (at->key_begin + j) * shape->key_stride + at->column + d;
            double dscore = to->dscore[j] * shape->scale;
            dq_sum += dscore * et_reference_load(k, k_at, shape->dtype);
            to->dk[j * shape->head_dim + d] += (float)(dscore * q_value);
            to->dv[j * shape->head_dim + d] +=
                (float)(to->weight[j] * kept(shape, at, i, j) * dout_value);
        }
        et_reference_store(dq, q_at, dq_sum, shape->dtype);
    }
}

/* Sums over queries in their order; keys that no query sees get zeros. */
static void tile_grad(void *dq, void *dk, void *dv, const void *dout, const float *lse,
                      const void *q, const void *k, const void *v, const et_attention_shape *shape,
                      const tile *at, float *scratch)
{
    int64_t size = (int64_t)at->keys * shape->head_dim;
    et_assert((size_t)(2 * at->keys + 2 * size) <= shape->scratch_per_thread);
    sums to = { scratch, scratch + at->keys, scratch + 2 * at->keys,
                scratch + 2 * at->keys + size };
    /* dv follows dk in the scratch. */
    for (int64_t i = 0; i < 2 * size; i++)
        to.dk[i] = 0;
    for (int i = 0; i < at->queries; i++) {
        score_grad(&to, shape, at, dout, q, k, v, lse, i);
        spread(&to, dq, shape, at, dout, q, k, i);
    }
    for (int j = 0; dk && j < at->keys; j++)
        for (int d = 0; d < shape->head_dim; d++) {
            int64_t row = at->key_begin + j, from = (int64_t)j * shape->head_dim + d;
            et_reference_store(dk, row * shape->key_stride + at->column + d, to.dk[from],
                               shape->dtype);
            et_reference_store(dv, row * shape->value_stride + at->column + d, to.dv[from],
                               shape->dtype);
        }
}

/* out is not needed here: D is computed from P and dP. A kernel may take D_i = dout_i . out_i
 * instead, which is the same. */
void et_reference_attention_grad(void *dq, void *dk, void *dv, const void *dout, const float *lse,
                                 const void *q, const void *k, const void *v,
                                 const et_attention_shape *shape, float *scratch)
{
    for (int segment = 0; segment < shape->segments; segment++)
        for (int head = 0; head < shape->heads; head++) {
            tile at = tile_of(shape, segment, head);
            tile_grad(dq, dk, dv, dout, lse, q, k, v, shape, &at, scratch);
        }
}

/* The cache row of a position: from the table of slots, or from the begin of a run of rows. */
static int64_t cache_row(const et_cached_attention_shape *shape, int64_t row, int position)
{
    return shape->slot ? shape->slot[row * shape->slot_stride + position]
                       : shape->begin[row] + (int64_t)position;
}

/* scale q . k */
static double cached_score(const et_cached_attention_shape *shape, const void *q, const void *keys,
                           int64_t row, int head, int position)
{
    int64_t column = (int64_t)head * shape->head_dim;
    return shape->scale * dot(q, row * shape->query_stride + column, keys,
                              cache_row(shape, row, position) * shape->key_stride + column,
                              shape->head_dim, shape->dtype);
}

/* One row, one head; the running sum lives on the stack, so kernels need no scratch. A row of
 * length 0 sees nothing and gets zeros. */
static void attend_cache(void *out, const void *q, const void *keys, const void *values,
                         const et_cached_attention_shape *shape, int64_t row, int head)
{
    double largest = -INFINITY, sum = 0, total[ET_CACHED_HEAD_DIM_MAX] = { 0 };
    int64_t column = (int64_t)head * shape->head_dim;
    for (int p = 0; p < shape->length[row]; p++)
        largest = fmax(largest, cached_score(shape, q, keys, row, head, p));
    for (int p = 0; p < shape->length[row]; p++) {
        double weight = exp(cached_score(shape, q, keys, row, head, p) - largest);
        int64_t from = cache_row(shape, row, p) * shape->value_stride + column;
        sum += weight;
        for (int d = 0; d < shape->head_dim; d++)
            total[d] += weight * et_reference_load(values, from + d, shape->dtype);
    }
    for (int d = 0; d < shape->head_dim; d++)
        et_reference_store(out, row * shape->out_stride + column + d, sum > 0 ? total[d] / sum : 0,
                           shape->dtype);
}

/* Rows and heads are independent: a row has the same bits with any other rows. */
void et_reference_cached_attention(void *out, const void *q, const void *keys, const void *values,
                                   const et_cached_attention_shape *shape)
{
    et_assert(shape->head_dim <= ET_CACHED_HEAD_DIM_MAX);
    for (int64_t row = 0; row < shape->rows; row++)
        for (int head = 0; head < shape->heads; head++)
            attend_cache(out, q, keys, values, shape, row, head);
}
