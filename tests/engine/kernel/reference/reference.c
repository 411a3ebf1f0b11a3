/* The table of the reference, and its short functions: embedding, conversions, the optimizer's
 * loops, initial values. Each function is the formula in kernels.h, computed element by element on
 * one thread. Tests compare every other table with it.
 *
 * Sums are in double. The optimizer is not: m, v and w are float32 from step to step, so the
 * reference has the operations of the fast kernels in the same order. Results may differ only where
 * fast kernels round a product and a sum once. */
#include "engine/kernel/reference/reference.h"

#include <float.h>
#include <math.h>

/* y[t] = scale table[ids[t]] + positions[position[t]], rounded once. */
void et_reference_embedding(void *y, const int32_t *ids, const int32_t *position,
                            const float *table, const float *positions, float scale, int64_t rows,
                            int64_t width, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t d = 0; d < width; d++) {
            double value = 0;
            if (ids[t] >= 0) {
                value = (double)table[ids[t] * width + d] * scale;
                if (positions && position[t] >= 0)
                    value += positions[position[t] * width + d];
            }
            et_reference_store(y, t * width + d, value, dtype);
        }
    }
}

/* dtable[ids[t]] += scale dy[t], in the order of t; dtable is float32. */
void et_reference_embedding_grad(float *dtable, const int32_t *ids, const void *dy, float scale,
                                 int64_t rows, int64_t width, int64_t vocabulary, et_dtype dtype)
{
    (void)vocabulary;
    for (int64_t t = 0; t < rows; t++)
        for (int64_t d = 0; d < width && ids[t] >= 0; d++)
            dtable[ids[t] * width + d] +=
                (float)(et_reference_load(dy, t * width + d, dtype) * scale);
}

void et_reference_to_bf16(et_bf16 *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = et_bf16_from_float(from[i]);
}

void et_reference_from_bf16(float *to, const et_bf16 *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = et_bf16_to_float(from[i]);
}

double et_reference_sum_of_squares(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

/* Follows every update: the bfloat16 copy and the moving average. */
static void follow(const et_slice_update *u, int64_t i)
{
    const float w = u->weight[i];
    if (u->shadow)
        u->shadow[i] = et_bf16_from_float(w);
    if (u->average)
        u->average[i] += (1.0f - u->average_decay) * (w - u->average[i]);
}

/* A moment or momentum that no longer moves a weight is 0. */
static float settled(float x)
{
    return fabsf(x) <= FLT_MIN ? 0.0f : x;
}

/* m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= decay w, w -= rate_t m / (sqrt v + epsilon);
 * g is the gradient, scaled. */
void et_reference_adam(const et_slice_update *u, const et_adam_moments *a)
{
    for (int64_t i = 0; i < u->count; i++) {
        float g = u->gradient[i] * u->gradient_scale;
        a->m[i] = settled(a->beta_1 * a->m[i] + (1.0f - a->beta_1) * g);
        a->v[i] = a->beta_2 * a->v[i] + (1.0f - a->beta_2) * g * g;
        u->weight[i] -= u->decay * u->weight[i];
        u->weight[i] -= a->rate_t * a->m[i] / (sqrtf(a->v[i]) + a->epsilon);
        follow(u, i);
    }
}

/* a = momentum a - rate g; w += a, with nesterov w += momentum a - rate g. */
void et_reference_sgd(const et_slice_update *u, const et_momentum *m)
{
    float *a = m->accumulator;
    for (int64_t i = 0; i < u->count; i++) {
        float step = -m->rate * (u->gradient[i] * u->gradient_scale);
        if (a) {
            a[i] = settled(m->momentum * a[i] + step);
            step = m->nesterov ? m->momentum * a[i] + step : a[i];
        }
        u->weight[i] -= u->decay * u->weight[i];
        u->weight[i] += step;
        follow(u, i);
    }
}

/* As adam, over the largest v so far. */
void et_reference_amsgrad(const et_slice_update *u, const et_adam_moments *a, float *largest)
{
    for (int64_t i = 0; i < u->count; i++) {
        float g = u->gradient[i] * u->gradient_scale;
        a->m[i] = settled(a->beta_1 * a->m[i] + (1.0f - a->beta_1) * g);
        a->v[i] = a->beta_2 * a->v[i] + (1.0f - a->beta_2) * g * g;
        largest[i] = largest[i] > a->v[i] ? largest[i] : a->v[i];
        u->weight[i] -= u->decay * u->weight[i];
        u->weight[i] -= a->rate_t * a->m[i] / (sqrtf(largest[i]) + a->epsilon);
        follow(u, i);
    }
}

/* The mean of squares, less the mean's square if centered: s - c^2. */
static float spread(const et_mean_squares *s, int64_t i, float g)
{
    s->squares[i] = s->rho * s->squares[i] + (1.0f - s->rho) * g * g;
    if (!s->mean)
        return s->squares[i];
    s->mean[i] = settled(s->rho * s->mean[i] + (1.0f - s->rho) * g);
    const float d = s->squares[i] - s->mean[i] * s->mean[i];
    return d < 0.0f ? 0.0f : d;
}

/* w -= rate g / (sqrt d + epsilon), or a = momentum a + rate g / sqrt(d + epsilon), w -= a. */
void et_reference_rmsprop(const et_slice_update *u, const et_mean_squares *s)
{
    float *a = s->accumulator;
    for (int64_t i = 0; i < u->count; i++) {
        float g = u->gradient[i] * u->gradient_scale, d = spread(s, i, g), step;
        if (a)
            step = a[i] = settled(s->momentum * a[i] + s->rate * g / sqrtf(d + s->epsilon));
        else
            step = s->rate * g / (sqrtf(d) + s->epsilon);
        u->weight[i] -= u->decay * u->weight[i];
        u->weight[i] -= step;
        follow(u, i);
    }
}

/* s += g^2, w -= rate g / (sqrt s + epsilon) */
void et_reference_adagrad(const et_slice_update *u, const et_square_sums *s)
{
    for (int64_t i = 0; i < u->count; i++) {
        float g = u->gradient[i] * u->gradient_scale;
        s->squares[i] += g * g;
        u->weight[i] -= u->decay * u->weight[i];
        u->weight[i] -= s->rate * g / (sqrtf(s->squares[i]) + s->epsilon);
        follow(u, i);
    }
}

/* m and v as adam's; m m_scale / (sqrt(v v_scale) + epsilon) + decay w */
void et_reference_adam_direction(const et_adam_direction *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        float g = d->gradient[i] * d->gradient_scale;
        d->m[i] = settled(d->beta_1 * d->m[i] + (1.0f - d->beta_1) * g);
        d->v[i] = d->beta_2 * d->v[i] + (1.0f - d->beta_2) * g * g;
        d->gradient[i] = d->m[i] * d->m_scale / (sqrtf(d->v[i] * d->v_scale) + d->epsilon) +
                         d->decay * d->weight[i];
    }
}

void et_reference_blend(float *y, const float *x, float a, float b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = settled(a * y[i] + b * x[i]);
}

void et_reference_accumulate(float *y, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += x[i];
}

/* By the functions of base that define these numbers, one at a time. */
void et_reference_draw_uniform(float *to, int64_t first, int64_t count, float scale,
                               et_random random)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = scale * (2 * et_random_uniform(random, (uint64_t)(first + i)) - 1);
}

void et_reference_draw_normal(float *to, int64_t first, int64_t count, float scale,
                              et_random random)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = scale * et_random_normal(random, (uint64_t)(first + i));
}

/* A panel of one column: packed weights are then matrices by columns. */
const et_kernels et_kernels_reference = {
    .name = "reference",
    .panel = 1,
#define KERNEL(type, name, ...) .name = et_reference_##name,
#include "engine/kernel/kernels.def"
#undef KERNEL
    .staging = &et_reference_staging,
    .softmax_parts = &et_reference_softmax_parts,
};
