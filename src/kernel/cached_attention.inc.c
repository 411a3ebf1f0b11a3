/* Attention of one query row over a cache: the softmax runs along blocks of CACHED_BLOCK
 * positions, the running output is rescaled when a block brings a larger score (Milakov,
 * Gimelshein 2018: "Online normalizer calculation for softmax"). */

#define CACHED_BLOCK 64

static int64_t cache_row(const et_cached_attention_shape *shape, int64_t row, int position)
{
    return shape->slot ? shape->slot[row * shape->slot_stride + position]
                       : shape->begin[row] + (int64_t)position;
}

/* A row's softmax so far: e^(score - largest) sums, and the output times their sum. */
typedef struct running {
    float largest, sum;
    float out[ET_CACHED_HEAD_DIM_MAX];
} running;

static void rescale(running *so_far, float largest, int dim)
{
    const float factor = expf(so_far->largest - largest);
    for (int d = 0; d < dim; d += V_LANES)
        v_store(so_far->out + d, v_load(so_far->out + d) * v_set(factor));
    so_far->sum *= factor;
    so_far->largest = largest;
}

/* score[p] of positions 0 .. count of a block, row[p] their cache rows' columns; returns the
 * largest. V_LANES products are summed together. */
ET_INLINE float cached_scores(float *score, const float *q, const void *keys, const int64_t *row,
                              int head_dim, int count, et_dtype dtype)
{
    vf largest = v_set(-INFINITY);
    for (int first = 0; first < count; first += V_LANES) {
        const int n = count - first;
        vf sum[V_LANES];
        ET_UNROLL
        for (int p = 0; p < V_LANES; p++)
            sum[p] = v_set(0.0f);
        for (int p = 0; p < V_LANES && p < n; p++) {
            vf one = v_load(q) * v_read_n(keys, row[first + p], head_dim, dtype);
            for (int d = V_LANES; d < head_dim; d += V_LANES)
                one = v_fma(v_load(q + d), v_read_n(keys, row[first + p] + d, head_dim - d, dtype),
                            one);
            sum[p] = one;
        }
        const vf total = v_sums(sum);
        v_store(score + first, total);
        largest = v_max(v_select(v_first(n), total, v_set(-INFINITY)), largest);
    }
    return v_largest(largest);
}

/* Columns d .. d + vectors * V_LANES of a head: vectors is a constant, so the sums are registers.
 */
ET_INLINE void cached_add_columns(running *so_far, const float *weight, const void *values,
                                  const int64_t *row, int head_dim, int count, int d,
                                  const int vectors, et_dtype dtype)
{
    vf sum[4];
    ET_UNROLL
    for (int s = 0; s < vectors; s++)
        sum[s] = v_load(so_far->out + d + s * V_LANES);
    for (int p = 0; p < count; p++) {
        const vf factor = v_set(weight[p]);
        ET_UNROLL
        for (int s = 0; s < vectors; s++) {
            const int at = d + s * V_LANES;
            sum[s] = v_fma(factor, v_read_n(values, row[p] + at, head_dim - at, dtype), sum[s]);
        }
    }
    ET_UNROLL
    for (int s = 0; s < vectors; s++)
        v_store(so_far->out + d + s * V_LANES, sum[s]);
}

ET_INLINE void cached_add(running *so_far, const float *weight, const void *values,
                          const int64_t *row, int head_dim, int count, et_dtype dtype)
{
    int d = 0;
    for (; d + 4 * V_LANES <= head_dim; d += 4 * V_LANES)
        cached_add_columns(so_far, weight, values, row, head_dim, count, d, 4, dtype);
    for (; d + 2 * V_LANES <= head_dim; d += 2 * V_LANES)
        cached_add_columns(so_far, weight, values, row, head_dim, count, d, 2, dtype);
    for (; d < head_dim; d += V_LANES)
        cached_add_columns(so_far, weight, values, row, head_dim, count, d, 1, dtype);
}

ET_INLINE void attend_cache(void *out, const void *q, const void *keys, const void *values,
                            const et_cached_attention_shape *shape, int64_t row, int head,
                            et_dtype dtype)
{
    const int head_dim = shape->head_dim, dim = (head_dim + V_LANES - 1) / V_LANES * V_LANES;
    const int64_t column = (int64_t)head * head_dim;
    float query[ET_CACHED_HEAD_DIM_MAX], score[CACHED_BLOCK];
    int64_t key[CACHED_BLOCK], value[CACHED_BLOCK];
    running so_far = { .largest = -INFINITY };
    for (int d = 0; d < dim; d += V_LANES) {
        vf part = v_read_n(q, row * shape->query_stride + column + d, head_dim - d, dtype);
        v_store(query + d, part * v_set(shape->scale));
        v_store(so_far.out + d, v_set(0.0f));
    }
    for (int first = 0; first < shape->length[row]; first += CACHED_BLOCK) {
        const int left = shape->length[row] - first;
        const int count = left < CACHED_BLOCK ? left : CACHED_BLOCK;
        for (int p = 0; p < count; p++) {
            const int64_t at = cache_row(shape, row, first + p);
            key[p] = at * shape->key_stride + column;
            value[p] = at * shape->value_stride + column;
        }
        const float largest = cached_scores(score, query, keys, key, head_dim, count, dtype);
        if (first == 0)
            so_far.largest = largest;
        else if (largest > so_far.largest)
            rescale(&so_far, largest, dim);
        vf sum = v_set(0.0f);
        for (int p = 0; p < count; p += V_LANES) {
            vf e = v_exp(v_load_n(score + p, count - p) - v_set(so_far.largest));
            e = v_select(v_first(count - p), e, v_set(0.0f));
            v_store(score + p, e);
            sum = sum + e;
        }
        so_far.sum += v_sum(sum);
        cached_add(&so_far, score, values, value, head_dim, count, dtype);
    }
    const vf inverse = v_set(shape->length[row] > 0 ? 1.0f / so_far.sum : 0.0f);
    for (int d = 0; d < head_dim; d += V_LANES)
        v_write_n(out, row * shape->out_stride + column + d, v_load(so_far.out + d) * inverse,
                  head_dim - d, dtype);
}

static void cached_attention(void *out, const void *q, const void *keys, const void *values,
                             const et_cached_attention_shape *shape)
{
    const int64_t items = (int64_t)shape->rows * shape->heads;
    et_assert(shape->head_dim <= ET_CACHED_HEAD_DIM_MAX);
#pragma omp parallel for schedule(static) if (items * shape->head_dim >= ET_GRAIN / 16)
    for (int64_t item = 0; item < items; item++)
        ET_BY_DTYPE(shape->dtype, attend_cache, out, q, keys, values, shape, item / shape->heads,
                    (int)(item % shape->heads));
}
