/* Pooling over images [N, H, W, C], a vector of channels at a time.
 *
 *   largest:  y = max over the window;  dx = the sum of dy over the windows that chose x
 *   mean:     y = mean over the n elements that the window covers;  dx = sum of dy / n
 *
 * The derivative finds the windows of each element of x, so one thread writes an element of dx
 * once, for any overlap of windows. */
#ifndef ETUDE_KERNEL_POOL_INC_C
#define ETUDE_KERNEL_POOL_INC_C

#include <math.h>
#include <stdint.h>

#include "engine/kernel/arguments.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/simd.h"

/* One output: rows and columns of x that its window covers, and its elements in all. */
typedef struct pool_view {
    int64_t top, bottom, left, right;
    int64_t first_row, first_column; /* begin of the window, which may be outside the image */
} pool_view;

static pool_view pool_view_of(const et_pool_shape *s, int64_t row, int64_t column)
{
    return (pool_view){ .top = et_window_first(&s->down, row),
                        .bottom = et_window_last(&s->down, row),
                        .left = et_window_first(&s->across, column),
                        .right = et_window_last(&s->across, column),
                        .first_row = row * s->down.stride - s->down.before,
                        .first_column = column * s->across.stride - s->across.before };
}

static float pool_share(const pool_view *v)
{
    return 1.0f / (float)((v->bottom - v->top) * (v->right - v->left));
}

/* image: the element of x that sample begins with; at: of y. */
ET_INLINE void pool_largest(void *y, float *largest_at, const void *x, const et_pool_shape *s,
                            const pool_view *v, int64_t image, int64_t at, et_dtype dtype)
{
    for (int64_t c = 0; c < s->channels; c += V_LANES) {
        const int64_t n = s->channels - c;
        vf best = v_set(-INFINITY), where = v_set(-1.0f);
        for (int64_t i = v->top; i < v->bottom; i++)
            for (int64_t j = v->left; j < v->right; j++) {
                const vf value =
                    v_read_n(x, image + (i * s->across.in + j) * s->channels + c, n, dtype);
                const int64_t number =
                    (i - v->first_row) * s->across.kernel + (j - v->first_column);
                /* Takes a value that is not less or equal, so a NaN too, and nothing after a NaN.
                 */
                vf taken = v_select(v_not_le(value, best), v_set((float)number), where);
                vf larger = v_select(v_not_le(value, best), value, best);
                const vm over = v_not_le(best, best);
                where = v_select(over, where, taken);
                best = v_select(over, best, larger);
            }
        v_write_n(y, at + c, best, n, dtype);
        if (largest_at)
            v_put_n(largest_at, at + c, where, n);
    }
}

ET_INLINE void pool_mean(void *y, const void *x, const et_pool_shape *s, const pool_view *v,
                         int64_t image, int64_t at, et_dtype dtype)
{
    for (int64_t c = 0; c < s->channels; c += V_LANES) {
        const int64_t n = s->channels - c;
        vf sum = v_set(0.0f);
        for (int64_t i = v->top; i < v->bottom; i++)
            for (int64_t j = v->left; j < v->right; j++)
                sum = sum + v_read_n(x, image + (i * s->across.in + j) * s->channels + c, n, dtype);
        v_write_n(y, at + c, sum * v_set(pool_share(v)), n, dtype);
    }
}

/* Rows of y, counted over the whole batch. */
static void pool_part(void *y, float *largest_at, const void *x, const et_pool_shape *s,
                      int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / s->down.out * s->down.in * s->across.in * s->channels;
        for (int64_t j = 0; j < s->across.out; j++) {
            const pool_view view = pool_view_of(s, item % s->down.out, j);
            const int64_t at = (item * s->across.out + j) * s->channels;
            if (s->mean)
                ET_BY_DTYPE(s->dtype, pool_mean, y, x, s, &view, image, at);
            else
                ET_BY_DTYPE(s->dtype, pool_largest, y, largest_at, x, s, &view, image, at);
        }
    }
}

static void pool(void *y, float *largest_at, const void *x, const et_pool_shape *s)
{
    const int64_t rows = s->batch * s->down.out;
    ET_PARALLEL(s->batch * s->down.in * s->across.in * s->channels >= ET_GRAIN, rows, 1, pool_part,
                y, largest_at, x, s);
}

/* Element (i, j) of the image whose windows begin at output `image`. */
ET_INLINE void pool_grad_element(void *dx, const void *dy, const float *largest_at,
                                 const et_pool_shape *s, int64_t image, int64_t i, int64_t j,
                                 int64_t to, et_dtype dtype)
{
    const int64_t top = et_window_first_over(&s->down, i),
                  bottom = et_window_last_over(&s->down, i);
    const int64_t left = et_window_first_over(&s->across, j);
    const int64_t right = et_window_last_over(&s->across, j);
    for (int64_t c = 0; c < s->channels; c += V_LANES) {
        const int64_t n = s->channels - c;
        vf sum = v_set(0.0f);
        for (int64_t row = top; row < bottom; row++)
            for (int64_t column = left; column < right; column++) {
                const pool_view view = pool_view_of(s, row, column);
                const int64_t at = image + (row * s->across.out + column) * s->channels + c;
                const vf given = v_read_n(dy, at, n, dtype);
                if (s->mean) {
                    sum = v_fma(given, v_set(pool_share(&view)), sum);
                    continue;
                }
                const vf chosen = v_get_n(largest_at, at, n);
                const vf number = v_set(
                    (float)((i - view.first_row) * s->across.kernel + (j - view.first_column)));
                const vf below = v_select(v_gt(number, chosen), v_set(0.0f), given);
                sum = sum + v_select(v_gt(chosen, number), v_set(0.0f), below);
            }
        v_write_n(dx, to + c, sum, n, dtype);
    }
}

/* Rows of x, counted over the whole batch. */
static void pool_grad_part(void *dx, const void *dy, const float *largest_at,
                           const et_pool_shape *s, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / s->down.in * s->down.out * s->across.out * s->channels;
        for (int64_t j = 0; j < s->across.in; j++) {
            const int64_t to = (item * s->across.in + j) * s->channels;
            ET_BY_DTYPE(s->dtype, pool_grad_element, dx, dy, largest_at, s, image,
                        (item % s->down.in), j, to);
        }
    }
}

static void pool_grad(void *dx, const void *dy, const float *largest_at, const et_pool_shape *s)
{
    const int64_t rows = s->batch * s->down.in;
    ET_PARALLEL(rows * s->across.in * s->channels >= ET_GRAIN, rows, 1, pool_grad_part, dx, dy,
                largest_at, s);
}

#endif
