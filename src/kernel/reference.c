/* The reference's table, and those of its functions that are short enough to need no file of their
 * own: embedding, conversions, the optimizer's loops, start values. Each is its formula in
 * kernels.h, one element after another on one thread; tests hold every other table against it.
 *
 * Sums are in double. The optimizer is not: m, v and w are float32 from step to step, so its
 * operations are those of the fast kernels in their order, and may differ from them only where
 * these fuse a product and a sum into one rounding. */
#include "kernel/reference.h"

#include <float.h>
#include <math.h>

/* y[t] = scale table[ids[t]] + positions[position[t]], rounded once. */
static void embedding(void *y, const int32_t *ids, const int32_t *position, const float *table,
                      const float *positions, float scale, int64_t rows, int64_t width,
                      et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t d = 0; d < width; d++) {
            double value = 0;
            if (ids[t] >= 0) {
                value = (double)table[ids[t] * width + d] * scale;
                if (positions)
                    value += positions[position[t] * width + d];
            }
            et_reference_store(y, t * width + d, value, dtype);
        }
    }
}

/* dtable[ids[t]] += scale dy[t], in the order of t: onto what is there, which is float32. */
static void embedding_grad(float *dtable, const int32_t *ids, const void *dy, float scale,
                           int64_t rows, int64_t width, int64_t vocabulary, et_dtype dtype)
{
    (void)vocabulary;
    for (int64_t t = 0; t < rows; t++)
        for (int64_t d = 0; d < width && ids[t] >= 0; d++)
            dtable[ids[t] * width + d] +=
                (float)(et_reference_load(dy, t * width + d, dtype) * scale);
}

static void to_bf16(et_bf16 *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = et_bf16_from_float(from[i]);
}

static void from_bf16(float *to, const et_bf16 *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = et_bf16_to_float(from[i]);
}

static double sum_of_squares(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

/* What follows every update: the bfloat16 copy and the moving average. */
static void follow(float w, et_bf16 *shadow, float *average, float average_decay, int64_t i)
{
    if (shadow)
        shadow[i] = et_bf16_from_float(w);
    if (average)
        average[i] += (1.0f - average_decay) * (w - average[i]);
}

/* A moment or momentum that no longer moves a weight is 0. */
static float settled(float x)
{
    return fabsf(x) <= FLT_MIN ? 0.0f : x;
}

/* m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= decay w, w -= rate_t m / (sqrt v + epsilon);
 * g is the gradient, scaled. */
static void adam(float *weight, float *m, float *v, const float *gradient, et_bf16 *shadow,
                 float *average, float rate_t, float beta_1, float beta_2, float epsilon,
                 float decay, float gradient_scale, float average_decay, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = settled(beta_1 * m[i] + (1.0f - beta_1) * g);
        v[i] = beta_2 * v[i] + (1.0f - beta_2) * g * g;
        weight[i] -= decay * weight[i];
        weight[i] -= rate_t * m[i] / (sqrtf(v[i]) + epsilon);
        follow(weight[i], shadow, average, average_decay, i);
    }
}

/* a = momentum a - rate g; w += a, with nesterov w += momentum a - rate g. */
static void sgd(float *weight, float *accumulator, const float *gradient, et_bf16 *shadow,
                float *average, float rate, float momentum, bool nesterov, float decay,
                float gradient_scale, float average_decay, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float step = -rate * (gradient[i] * gradient_scale);
        if (accumulator) {
            accumulator[i] = settled(momentum * accumulator[i] + step);
            step = nesterov ? momentum * accumulator[i] + step : accumulator[i];
        }
        weight[i] -= decay * weight[i];
        weight[i] += step;
        follow(weight[i], shadow, average, average_decay, i);
    }
}

static void accumulate(float *y, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += x[i];
}

/* By the functions of base that define these numbers, one at a time. */
static void draw_uniform(float *to, int64_t first, int64_t count, float scale, et_random random)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = scale * (2 * et_random_uniform(random, (uint64_t)(first + i)) - 1);
}

static void draw_normal(float *to, int64_t first, int64_t count, float scale, et_random random)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = scale * et_random_normal(random, (uint64_t)(first + i));
}

/* A panel of one column: packed weights are then matrices by columns. */
const et_kernels et_kernels_reference = {
    .name = "reference",
    .panel = 1,
    .elementwise = et_reference_elementwise,
    .layer_norm = et_reference_layer_norm,
    .layer_norm_grad = et_reference_layer_norm_grad,
    .column_sum = et_reference_column_sum,
    .sum = et_reference_sum,
    .fill = et_reference_fill,
    .embedding = embedding,
    .embedding_grad = embedding_grad,
    .attention = et_reference_attention,
    .attention_grad = et_reference_attention_grad,
    .cached_attention = et_reference_cached_attention,
    .row_product = et_reference_row_product,
    .best_pieces = et_reference_best_pieces,
    .softmax_cross_entropy = et_reference_softmax_cross_entropy,
    .log_softmax = et_reference_log_softmax,
    .top_k = et_reference_top_k,
    .to_bf16 = to_bf16,
    .from_bf16 = from_bf16,
    .sum_of_squares = sum_of_squares,
    .adam = adam,
    .sgd = sgd,
    .accumulate = accumulate,
    .draw_uniform = draw_uniform,
    .draw_normal = draw_normal,
    .staging = &et_reference_staging,
    .softmax_parts = &et_reference_softmax_parts,
    .float_product = et_reference_float_product,
    .layers = &et_reference_layers,
};
