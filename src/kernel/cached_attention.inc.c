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

/* score[p] of positions first .. first + count; returns the largest. */
ET_INLINE float cached_scores(float *score, const float *q, const void *keys,
                              const et_cached_attention_shape *shape, int64_t row, int64_t column,
                              int first, int count, et_dtype dtype)
{
    float largest = -INFINITY;
    for (int p = 0; p < count; p++) {
        const int64_t at = cache_row(shape, row, first + p) * shape->key_stride + column;
        vf sum = v_set(0.0f);
        for (int d = 0; d < shape->head_dim; d += V_LANES)
            sum = v_fma(v_load(q + d), v_read_n(keys, at + d, shape->head_dim - d, dtype), sum);
        score[p] = v_sum(sum);
        largest = score[p] > largest ? score[p] : largest;
    }
    return largest;
}

ET_INLINE void cached_add(running *so_far, const float *weight, const void *values,
                          const et_cached_attention_shape *shape, int64_t row, int64_t column,
                          int first, int count, et_dtype dtype)
{
    for (int d = 0; d < shape->head_dim; d += V_LANES) {
        vf sum = v_load(so_far->out + d);
        for (int p = 0; p < count; p++) {
            const int64_t at = cache_row(shape, row, first + p) * shape->value_stride + column;
            sum =
                v_fma(v_set(weight[p]), v_read_n(values, at + d, shape->head_dim - d, dtype), sum);
        }
        v_store(so_far->out + d, sum);
    }
}

ET_INLINE void attend_cache(void *out, const void *q, const void *keys, const void *values,
                            const et_cached_attention_shape *shape, int64_t row, int head,
                            et_dtype dtype)
{
    const int head_dim = shape->head_dim, dim = (head_dim + V_LANES - 1) / V_LANES * V_LANES;
    const int64_t column = (int64_t)head * head_dim;
    float query[ET_CACHED_HEAD_DIM_MAX], score[CACHED_BLOCK];
    running so_far = { .largest = -INFINITY };
    for (int d = 0; d < dim; d += V_LANES) {
        vf value = v_read_n(q, row * shape->query_stride + column + d, head_dim - d, dtype);
        v_store(query + d, value * v_set(shape->scale));
        v_store(so_far.out + d, v_set(0.0f));
    }
    for (int first = 0; first < shape->length[row]; first += CACHED_BLOCK) {
        const int left = shape->length[row] - first;
        const int count = left < CACHED_BLOCK ? left : CACHED_BLOCK;
        const float largest =
            cached_scores(score, query, keys, shape, row, column, first, count, dtype);
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
        cached_add(&so_far, score, values, shape, row, column, first, count, dtype);
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
