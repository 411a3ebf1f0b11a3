/* Copies of a matrix with scaled rows and columns, and their derivatives.
 *
 *   k row, n column of the matrix [K, N]; g copy
 *
 *   y[k, g N + n]     = w[k, n] row_scale[g K + k] column_scale[g N + n]
 *   dw[k, n]          = sum over g of dy row_scale column_scale
 *   drow[g K + k]     = sum over n of dy w column_scale
 *   dcolumn[g N + n]  = sum over k of dy w row_scale
 *
 * Threads share the rows for y, dw and drow, and the copies for dcolumn. One thread computes each
 * sum, in the order of g, n and k. */
#ifndef ETUDE_KERNEL_SCALED_COPIES_INC_C
#define ETUDE_KERNEL_SCALED_COPIES_INC_C

#include <stdint.h>

#include "engine/kernel/arguments.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/simd.h"

/* Lanes of a copy's column scales. */
ET_INLINE vf column_scale(const et_scaled_matrix *s, int64_t g, int64_t n)
{
    return s->column_scale ? v_get_n(s->column_scale, g * s->width + n, s->width - n) : v_set(1);
}

ET_INLINE void scaled_copies_row(void *y, const et_scaled_matrix *s, int64_t k, et_dtype dtype)
{
    const int64_t width = s->width;
    for (int64_t g = 0; g < s->count; g++) {
        const vf row = v_set(s->row_scale[g * s->rows + k]);
        for (int64_t n = 0; n < width; n += V_LANES) {
            const vf w = v_get_n(s->w, k * width + n, width - n);
            v_write_n(y, (k * s->count + g) * width + n, w * row * column_scale(s, g, n), width - n,
                      dtype);
        }
    }
}

static void scaled_copies_part(void *y, const et_scaled_matrix *s, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++)
        ET_BY_DTYPE(s->dtype, scaled_copies_row, y, s, k);
}

static void scaled_copies(void *y, const et_scaled_matrix *s)
{
    ET_PARALLEL(s->rows * s->count * s->width >= ET_GRAIN, s->rows, 1, scaled_copies_part, y, s);
}

/* The row of dw is in cache for all copies. */
ET_INLINE void scaled_copies_row_grad(const et_scaled_matrix_grad *to, const et_scaled_matrix *s,
                                      int64_t k, et_dtype dtype)
{
    const int64_t width = s->width;
    for (int64_t g = 0; g < s->count; g++) {
        const vf row = v_set(s->row_scale[g * s->rows + k]);
        vf sum = v_set(0);
        for (int64_t n = 0; n < width; n += V_LANES) {
            const int64_t at = k * width + n, left = width - n;
            const vf dy = v_read_n(to->dy, (k * s->count + g) * width + n, left, dtype) *
                          column_scale(s, g, n);
            const vf before = g ? v_get_n(to->dw, at, left) : v_set(0);
            v_put_n(to->dw, at, v_fma(dy, row, before), left);
            sum = v_fma(dy, v_get_n(s->w, at, left), sum);
        }
        to->drow[g * s->rows + k] = v_sum(sum);
    }
}

static void scaled_copies_row_grad_part(const et_scaled_matrix_grad *to, const et_scaled_matrix *s,
                                        int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++)
        ET_BY_DTYPE(s->dtype, scaled_copies_row_grad, to, s, k);
}

ET_INLINE void scaled_copies_column_grad(const et_scaled_matrix_grad *to, const et_scaled_matrix *s,
                                         int64_t g, et_dtype dtype)
{
    const int64_t width = s->width;
    for (int64_t k = 0; k < s->rows; k++) {
        const vf row = v_set(s->row_scale[g * s->rows + k]);
        for (int64_t n = 0; n < width; n += V_LANES) {
            const int64_t at = g * width + n, left = width - n;
            const vf dy = v_read_n(to->dy, k * s->count * width + at, left, dtype);
            const vf before = k ? v_get_n(to->dcolumn, at, left) : v_set(0);
            const vf w = v_get_n(s->w, k * width + n, left) * row;
            v_put_n(to->dcolumn, at, v_fma(dy, w, before), left);
        }
    }
}

static void scaled_copies_column_grad_part(const et_scaled_matrix_grad *to,
                                           const et_scaled_matrix *s, int64_t begin, int64_t end)
{
    for (int64_t g = begin; g < end; g++)
        ET_BY_DTYPE(s->dtype, scaled_copies_column_grad, to, s, g);
}

static void scaled_copies_grad(const et_scaled_matrix_grad *to, const et_scaled_matrix *s)
{
    const bool much = s->rows * s->count * s->width >= ET_GRAIN;
    ET_PARALLEL(much, s->rows, 1, scaled_copies_row_grad_part, to, s);
    if (to->dcolumn)
        ET_PARALLEL(much, s->count, 1, scaled_copies_column_grad_part, to, s);
}

#endif
