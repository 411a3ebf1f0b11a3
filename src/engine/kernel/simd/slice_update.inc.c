/* The optimizer's loops over flat slices, and conversions: element by element, in blocks of
 * FLAT_BLOCK that threads share.
 *
 * Formulas and sources of the update rules are in src/engine/optim/rules/rules.c.
 * Every array is read and written once, vector by vector: weight, slots, gradient, and with
 * `follow` the bfloat16 copy and the moving average in the same pass.
 *
 *   adam   g = scale gradient,  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
 *          w -= decay w,  w -= rate_t m / (sqrt v + epsilon)
 *   sgd    a = momentum a - rate g,  w += -decay w + a  (nesterov: momentum a - rate g)
 *   others kernels.def
 *
 * Tiny values of m and a are set to 0. If a gradient stays 0 (of an inactive unit, of a token that
 * does not occur), they shrink by a factor with every update and become subnormal numbers, such as
 * 0.9^800; because of rounding they never reach 0. The CPU takes hundreds of cycles for each
 * subnormal number in every later update, and they change no weight. v stays as it is, because it
 * is a divisor.
 *
 * Memory bound: adam moves 28 bytes for a parameter (w, m and v in and out, the gradient in), the
 * bfloat16 copy 2 more and the moving average 8. Elements are independent, so the division into
 * blocks changes no bit; for sums (sum_of_squares) the division depends only on the count. */
#ifndef ETUDE_KERNEL_OPTIMIZER_INC_C
#define ETUDE_KERNEL_OPTIMIZER_INC_C

#include <float.h>
#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/simd.h"

/* Elements of a thread's unit of work. 16 KiB of a float32 array: whole vectors of every table, and
 * no line is shared by two threads if arrays begin at one. */
#define FLAT_BLOCK       4096
#define FLAT(count, ...) ET_PARALLEL((count) >= ET_GRAIN, count, FLAT_BLOCK, __VA_ARGS__)

static void to_bf16_part(et_bf16 *to, const float *from, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += V_LANES)
        v_write_n(to, i, v_get_n(from, i, end - i), end - i, ET_BF16);
}

/* To nearest even; from_bf16 is exact. */
static void to_bf16(et_bf16 *to, const float *from, int64_t count)
{
    FLAT(count, to_bf16_part, to, from);
}

static void from_bf16_part(float *to, const et_bf16 *from, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += V_LANES)
        v_put_n(to, i, v_read_n(from, i, end - i, ET_BF16), end - i);
}

static void from_bf16(float *to, const et_bf16 *from, int64_t count)
{
    FLAT(count, from_bf16_part, to, from);
}

static void accumulate_part(float *y, const float *x, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += V_LANES) {
        vf sum = v_get_n(y, i, end - i) + v_get_n(x, i, end - i);
        v_put_n(y, i, sum, end - i);
    }
}

/* y += x */
static void accumulate(float *y, const float *x, int64_t count)
{
    et_assert(count >= 0);
    FLAT(count, accumulate_part, y, x);
}

/* Parts that a sum is cut into: enough for the threads of large machines, few enough to add. */
#define SQUARE_PARTS 64

/* Sums squares of elements begin .. end - 1, whole parts of that length; partial[k] is part k's
 * sum. In double, in which a square of float32 is exact and does not overflow: the sum is finite if
 * all elements are. */
static void squares_part(double *partial, const float *x, int64_t length, int64_t begin,
                         int64_t end)
{
    for (int64_t first = begin; first < end; first += length) {
        const int64_t last = end - first < length ? end : first + length;
        vd sum = { 0 };
        for (int64_t i = first; i < last; i += V_LANES)
            v_add_squares(&sum, v_get_n(x, i, last - i));
        partial[first / length] = v_total(sum);
    }
}

ET_NOINLINE static double long_sum_of_squares(const float *x, int64_t count)
{
    double partial[SQUARE_PARTS], total = 0;
    /* Whole vectors, so that only the last part has a tail. */
    int64_t length = (count + SQUARE_PARTS - 1) / SQUARE_PARTS;
    length = (length + V_LANES - 1) / V_LANES * V_LANES;
    ET_PARALLEL(count >= ET_GRAIN, count, length, squares_part, partial, x, length);
    for (int64_t part = 0; part * length < count; part++)
        total += partial[part];
    return total;
}

/* The division depends only on count: at most SQUARE_PARTS equal parts, added in order. 1,000,000
 * elements: 64 parts of 15,625, rounded up to 15,632 with 16 lanes. If there are few elements, each
 * vector is a part. */
static double sum_of_squares(const float *x, int64_t count)
{
    et_assert(count >= 0);
    if (count > SQUARE_PARTS * V_LANES)
        return long_sum_of_squares(x, count);
    double total = 0;
    for (int64_t i = 0; i < count; i += V_LANES) {
        vd sum = { 0 };
        v_add_squares(&sum, v_get_n(x, i, count - i));
        total += v_total(sum);
    }
    return total;
}

/* Follows every update: the bfloat16 copy and the moving average. average += (1 - decay) (w -
 * average) equals decay average + (1 - decay) w, with one rounding less. */
ET_INLINE void follow(vf w, const et_slice_update *u, int64_t i, int64_t n)
{
    if (u->shadow)
        v_write_n(u->shadow, i, w, n, ET_BF16);
    if (u->average) {
        const vf before = v_get_n(u->average, i, n), part = v_set(1.0f - u->average_decay);
        v_put_n(u->average, i, v_fma(part, w - before, before), n);
    }
}

/* x, or 0 if x is not larger than the smallest normal number. A NaN stays: v_max returns it as its
 * second operand, and v_not_le is true for it. */
ET_INLINE vf settle(vf x)
{
    const vf size = v_max(x, v_set(0.0f) - x);
    return v_select(v_not_le(size, v_set(FLT_MIN)), x, v_set(0.0f));
}

/* m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2 */
ET_INLINE void add_moments(vf *m, vf *v, vf g, float beta_1, float beta_2)
{
    *m = settle(v_fma(v_set(1.0f - beta_1), g, v_set(beta_1) * *m));
    *v = v_fma(v_set(1.0f - beta_2) * g, g, v_set(beta_2) * *v);
}

/* g is scaled first (tokens, clipping); decay uses the weight before the step. epsilon is added to
 * the root, outside the bias correction, as in Keras. If m and v are 0, the step is 0 unless
 * epsilon is 0. largest, which is NULL for Adam, replaces v as the divisor; it keeps a NaN of v.
 * Copies of the arguments stay in registers, because no store can change them.
 */
ET_INLINE void adam_elements(const et_slice_update *update, const et_adam_moments *moments,
                             float *largest, int64_t begin, int64_t end)
{
    const et_slice_update u = *update;
    const et_adam_moments a = *moments;
    for (int64_t i = begin; i < end; i += V_LANES) {
        const int64_t n = end - i;
        vf g = v_get_n(u.gradient, i, n) * v_set(u.gradient_scale);
        vf w = v_get_n(u.weight, i, n), first = v_get_n(a.m, i, n);
        vf second = v_get_n(a.v, i, n);
        add_moments(&first, &second, g, a.beta_1, a.beta_2);
        const vf most = largest ? v_max(v_get_n(largest, i, n), second) : second;
        w = w - v_set(u.decay) * w;
        w = w - v_set(a.rate_t) * first / (v_sqrt(most) + v_set(a.epsilon));
        v_put_n(a.m, i, first, n);
        v_put_n(a.v, i, second, n);
        if (largest)
            v_put_n(largest, i, most, n);
        v_put_n(u.weight, i, w, n);
        follow(w, &u, i, n);
    }
}

static void adam_part(const et_slice_update *update, const et_adam_moments *moments, int64_t begin,
                      int64_t end)
{
    adam_elements(update, moments, NULL, begin, end);
}

/* rate_t has the bias correction in it (engine/optim/rules/rules.c). */
static void adam(const et_slice_update *update, const et_adam_moments *moments)
{
    const int64_t count = update->count;
    et_assert(count >= 0 && moments->beta_1 < 1 && moments->beta_2 < 1);
    FLAT(count, adam_part, update, moments);
}

static void amsgrad_part(const et_slice_update *update, const et_adam_moments *moments,
                         float *largest, int64_t begin, int64_t end)
{
    adam_elements(update, moments, largest, begin, end);
}

static void amsgrad(const et_slice_update *update, const et_adam_moments *moments, float *largest)
{
    const int64_t count = update->count;
    et_assert(count >= 0 && moments->beta_1 < 1 && moments->beta_2 < 1 && largest);
    FLAT(count, amsgrad_part, update, moments, largest);
}

/* a = momentum a - rate g; nesterov looks ahead by momentum a. All terms use the old w: decay and
 * step do not affect each other. */
static void sgd_part(const et_slice_update *update, const et_momentum *momentum, int64_t begin,
                     int64_t end)
{
    const et_slice_update u = *update;
    const et_momentum m = *momentum;
    for (int64_t i = begin; i < end; i += V_LANES) {
        const int64_t n = end - i;
        vf g = v_get_n(u.gradient, i, n) * v_set(u.gradient_scale);
        vf step = v_set(-m.rate) * g, w = v_get_n(u.weight, i, n);
        if (m.accumulator) {
            vf a = v_get_n(m.accumulator, i, n);
            a = settle(v_fma(v_set(m.momentum), a, step));
            v_put_n(m.accumulator, i, a, n);
            step = m.nesterov ? v_fma(v_set(m.momentum), a, step) : a;
        }
        w = w - v_set(u.decay) * w + step;
        v_put_n(u.weight, i, w, n);
        follow(w, &u, i, n);
    }
}

static void sgd(const et_slice_update *update, const et_momentum *momentum)
{
    const int64_t count = update->count;
    et_assert(count >= 0);
    FLAT(count, sgd_part, update, momentum);
}

/* The mean of squares with g in it, less the mean's square if centered. */
ET_INLINE vf deviation(const et_mean_squares *s, vf g, int64_t i, int64_t n)
{
    const vf part = v_set(1.0f - s->rho);
    vf squares = v_set(s->rho) * v_get_n(s->squares, i, n);
    squares = v_fma(part * g, g, squares);
    v_put_n(s->squares, i, squares, n);
    if (!s->mean)
        return squares;
    const vf mean = settle(v_fma(part, g, v_set(s->rho) * v_get_n(s->mean, i, n)));
    v_put_n(s->mean, i, mean, n);
    /* In this order a NaN comes through. */
    return v_max(v_set(0.0f), squares - mean * mean);
}

/* epsilon is under the root with momentum, outside it without. */
static void rmsprop_part(const et_slice_update *update, const et_mean_squares *given, int64_t begin,
                         int64_t end)
{
    const et_slice_update u = *update;
    const et_mean_squares s = *given;
    for (int64_t i = begin; i < end; i += V_LANES) {
        const int64_t n = end - i;
        vf g = v_get_n(u.gradient, i, n) * v_set(u.gradient_scale);
        vf d = deviation(&s, g, i, n), step = v_set(s.rate) * g, w = v_get_n(u.weight, i, n);
        if (s.accumulator) {
            const vf a = v_get_n(s.accumulator, i, n);
            step = step / v_sqrt(d + v_set(s.epsilon));
            step = settle(v_fma(v_set(s.momentum), a, step));
            v_put_n(s.accumulator, i, step, n);
        } else {
            step = step / (v_sqrt(d) + v_set(s.epsilon));
        }
        w = w - v_set(u.decay) * w - step;
        v_put_n(u.weight, i, w, n);
        follow(w, &u, i, n);
    }
}

static void rmsprop(const et_slice_update *update, const et_mean_squares *squares)
{
    const int64_t count = update->count;
    et_assert(count >= 0 && squares->squares);
    FLAT(count, rmsprop_part, update, squares);
}

static void adagrad_part(const et_slice_update *update, const et_square_sums *given, int64_t begin,
                         int64_t end)
{
    const et_slice_update u = *update;
    const et_square_sums s = *given;
    for (int64_t i = begin; i < end; i += V_LANES) {
        const int64_t n = end - i;
        vf g = v_get_n(u.gradient, i, n) * v_set(u.gradient_scale);
        vf sum = v_fma(g, g, v_get_n(s.squares, i, n)), w = v_get_n(u.weight, i, n);
        v_put_n(s.squares, i, sum, n);
        w = w - v_set(u.decay) * w - v_set(s.rate) * g / (v_sqrt(sum) + v_set(s.epsilon));
        v_put_n(u.weight, i, w, n);
        follow(w, &u, i, n);
    }
}

static void adagrad(const et_slice_update *update, const et_square_sums *squares)
{
    const int64_t count = update->count;
    et_assert(count >= 0 && squares->squares);
    FLAT(count, adagrad_part, update, squares);
}

/* No weight moves: how far is known when all of a tensor's directions are. */
static void adam_direction_part(const et_adam_direction *given, int64_t begin, int64_t end)
{
    const et_adam_direction d = *given;
    for (int64_t i = begin; i < end; i += V_LANES) {
        const int64_t n = end - i;
        vf g = v_get_n(d.gradient, i, n) * v_set(d.gradient_scale);
        vf first = v_get_n(d.m, i, n), second = v_get_n(d.v, i, n);
        add_moments(&first, &second, g, d.beta_1, d.beta_2);
        g = first * v_set(d.m_scale) / (v_sqrt(second * v_set(d.v_scale)) + v_set(d.epsilon));
        g = v_fma(v_set(d.decay), v_get_n(d.weight, i, n), g);
        v_put_n(d.m, i, first, n);
        v_put_n(d.v, i, second, n);
        v_put_n(d.gradient, i, g, n);
    }
}

static void adam_direction(const et_adam_direction *direction)
{
    const int64_t count = direction->count;
    et_assert(count >= 0 && direction->beta_1 < 1 && direction->beta_2 < 1);
    FLAT(count, adam_direction_part, direction);
}

static void blend_part(float *y, const float *x, float a, float b, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += V_LANES) {
        const int64_t n = end - i;
        const vf part = v_set(b) * v_get_n(x, i, n);
        v_put_n(y, i, settle(v_fma(v_set(a), v_get_n(y, i, n), part)), n);
    }
}

/* y = a y + b x */
static void blend(float *y, const float *x, float a, float b, int64_t count)
{
    et_assert(count >= 0);
    FLAT(count, blend_part, y, x, a, b);
}

#endif
