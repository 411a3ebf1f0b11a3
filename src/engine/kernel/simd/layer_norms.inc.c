/* Norms other than layer norm (norm.inc.c): RMS norm of each row, and batch norm over rows.
 *
 *   rms:    rstd = 1 / sqrt(sum x^2 / D + epsilon),  n = x rstd,  y = n gamma
 *           g = dy gamma:  dx = rstd (g - n mean(g n)),  dgamma = sum dy n
 *   batch:  n = (x - mean) rstd by columns,  y = n gamma + beta
 *           dx = gamma rstd (dy - sum dy / T - n sum(dy n) / T)
 *
 * The kernels of batch norm process a vector of columns through a block of rows, so values of the
 * columns stay in registers; rows that do not count are skipped. Sums over rows are partial sums of
 * blocks, added in order. */
#ifndef ETUDE_KERNEL_LAYER_NORMS_INC_C
#define ETUDE_KERNEL_LAYER_NORMS_INC_C

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/kernel/kernels.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/norm.inc.c"
#include "engine/kernel/simd/simd.h"

ET_INLINE void rms_row(void *y, float *rstd, const void *x, const float *gamma, float epsilon,
                       int64_t at, int64_t width, et_dtype dtype)
{
    vf squares = v_set(0.0f);
    for (int64_t d = 0; d < width; d += V_LANES) {
        vf value = v_read_n(x, at + d, width - d, dtype);
        squares = v_fma(value, value, squares);
    }
    *rstd = 1.0f / sqrtf(v_sum(squares) / (float)width + epsilon);
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        vf normal = v_read_n(x, at + d, n, dtype) * v_set(*rstd);
        v_write_n(y, at + d, normal * v_get_n(gamma, d, n), n, dtype);
    }
}

static void rms_part(void *y, float *rstd, const void *x, const float *gamma, float epsilon,
                     int64_t width, et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        float unused = 0, *keep = rstd ? rstd + t : &unused;
        ET_BY_DTYPE(dtype, rms_row, y, keep, x, gamma, epsilon, (t * width), width);
    }
}

static void rms_norm(void *y, float *rstd, const void *x, const float *gamma, float epsilon,
                     int64_t rows, int64_t width, et_dtype dtype)
{
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, rms_part, y, rstd, x, gamma, epsilon, width,
                dtype);
}

/* dgamma: the block's partial sum, added to. */
ET_INLINE void rms_grad_row(void *dx, float *dgamma, const void *dy, const void *x, float rstd,
                            const float *gamma, int64_t at, int64_t width, et_dtype dtype)
{
    const vf scale = v_set(rstd);
    vf sum = v_set(0.0f);
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        vf normal = v_read_n(x, at + d, n, dtype) * scale;
        vf g = v_read_n(dy, at + d, n, dtype) * v_get_n(gamma, d, n);
        sum = v_fma(g, normal, sum);
    }
    const vf mean = v_set(v_sum(sum) / (float)width);
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        vf normal = v_read_n(x, at + d, n, dtype) * scale;
        vf dy_here = v_read_n(dy, at + d, n, dtype);
        vf g = dy_here * v_get_n(gamma, d, n);
        v_put_n(dgamma, d, v_fma(dy_here, normal, v_get_n(dgamma, d, n)), n);
        v_write_n(dx, at + d, scale * (g - normal * mean), n, dtype);
    }
}

/* Whole blocks of rows; a block's partial sums are at its index. */
static void rms_grad_part(void *dx, float *scratch, const void *dy, const void *x,
                          const float *rstd, const float *gamma, int64_t width, et_dtype dtype,
                          int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        float *partial = scratch + t / ET_ROW_BLOCK * width;
        if (t % ET_ROW_BLOCK == 0)
            memset(partial, 0, (size_t)width * sizeof *partial);
        ET_BY_DTYPE(dtype, rms_grad_row, dx, partial, dy, x, rstd[t], gamma, (t * width), width);
    }
}

static void rms_norm_grad(void *dx, float *dgamma, float *scratch, const void *dy, const void *x,
                          const float *rstd, const float *gamma, int64_t rows, int64_t width,
                          et_dtype dtype)
{
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, ET_ROW_BLOCK, rms_grad_part, dx, scratch, dy, x,
                rstd, gamma, width, dtype);
    add_partials(dgamma, scratch, et_row_blocks(rows), width, width);
}

/* ---- over a batch ---- */

/* Moves *first to the next counted row, and returns the end of this run of counted rows; `end` if
 * there is none. */
ET_INLINE int64_t counted_run(const et_counted *counted, int64_t *first, int64_t end)
{
    if (!counted->mask)
        return end;
    int64_t sample = *first / counted->each, last;
    while (*first < end && counted->mask[sample] == 0.0f)
        *first = ++sample * counted->each;
    for (last = *first; last < end && counted->mask[sample] != 0.0f;)
        last = ++sample * counted->each;
    return last < end ? last : end;
}

/* How many rows count; at least 1, to divide by. */
static float counted_rows(const et_counted *counted, int64_t rows)
{
    int64_t number = 0;
    for (int64_t t = 0, last; t < rows; t = last) {
        last = counted_run(counted, &t, rows);
        number += last > t ? last - t : 0;
    }
    return number > 0 ? (float)number : 1.0f;
}

/* Zeros, to rows begin .. end - 1 that do not count. */
ET_INLINE void clear_uncounted(void *y, const et_counted *counted, int64_t begin, int64_t end,
                               int64_t width, et_dtype dtype)
{
    for (int64_t t = begin; t < end;) {
        const int64_t from = t, last = counted_run(counted, &t, end);
        const int64_t to = t < end ? t : end;
        for (int64_t i = from * width; i < to * width; i += V_LANES)
            v_write_n(y, i, v_set(0.0f), to * width - i, dtype);
        t = last;
    }
}

/* mean NULL: the sum of x; else of the squares of its deviations. */
ET_INLINE void add_counted(float *sum, const void *x, const et_counted *counted, const float *mean,
                           int64_t begin, int64_t end, int64_t width, et_dtype dtype)
{
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        const vf middle = mean ? v_get_n(mean, d, n) : v_set(0.0f);
        vf total = v_set(0.0f);
        for (int64_t t = begin, last; t < end; t = last) {
            last = counted_run(counted, &t, end);
            for (; t < last; t++) {
                vf value = v_read_n(x, t * width + d, n, dtype) - middle;
                if (mean)
                    total = v_fma(value, value, total);
                else
                    total = total + value;
            }
        }
        v_put_n(sum, d, total, n);
    }
}

static void moments_part(float *scratch, const void *x, const et_counted *counted,
                         const float *mean, int64_t width, et_dtype dtype, int64_t begin,
                         int64_t end)
{
    for (int64_t t = begin; t < end; t += ET_ROW_BLOCK) {
        const int64_t last = end - t < ET_ROW_BLOCK ? end : t + ET_ROW_BLOCK;
        ET_BY_DTYPE(dtype, add_counted, scratch + t / ET_ROW_BLOCK * width, x, counted, mean, t,
                    last, width);
    }
}

/* Deviations from the mean, in a separate pass; norm.inc.c says why. */
static void column_moments(float *mean, float *variance, float *scratch, const void *x,
                           const et_counted *counted, int64_t rows, int64_t width, et_dtype dtype)
{
    const float number = counted_rows(counted, rows);
    const bool much = rows * width >= ET_GRAIN;
    ET_PARALLEL(much, rows, ET_ROW_BLOCK, moments_part, scratch, x, counted, (const float *)NULL,
                width, dtype);
    add_partials(mean, scratch, et_row_blocks(rows), width, width);
    for (int64_t d = 0; d < width; d++)
        mean[d] /= number;
    ET_PARALLEL(much, rows, ET_ROW_BLOCK, moments_part, scratch, x, counted, mean, width, dtype);
    add_partials(variance, scratch, et_row_blocks(rows), width, width);
    for (int64_t d = 0; d < width; d++)
        variance[d] /= number;
}

/* Lanes d .. of 1 / sqrt(variance + epsilon). */
ET_INLINE vf batch_rstd(const et_batch_statistics *norm, int64_t d, int64_t n)
{
    const vf variance = v_get_n(norm->variance, d, n);
    return v_set(1.0f) / v_sqrt(variance + v_set(norm->epsilon));
}

ET_INLINE void batch_rows(void *y, const void *x, const et_batch_statistics *norm, int64_t begin,
                          int64_t end, int64_t width, et_dtype dtype)
{
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        const vf mean = v_get_n(norm->mean, d, n), beta = v_get_n(norm->beta, d, n);
        const vf scale = batch_rstd(norm, d, n) * v_get_n(norm->gamma, d, n);
        for (int64_t t = begin, last; t < end; t = last) {
            last = counted_run(&norm->counted, &t, end);
            for (; t < last; t++) {
                const int64_t at = t * width + d;
                v_write_n(y, at, v_fma(v_read_n(x, at, n, dtype) - mean, scale, beta), n, dtype);
            }
        }
    }
    clear_uncounted(y, &norm->counted, begin, end, width, dtype);
}

static void batch_part(void *y, const void *x, const et_batch_statistics *norm, int64_t width,
                       et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t += ET_ROW_BLOCK) {
        const int64_t last = end - t < ET_ROW_BLOCK ? end : t + ET_ROW_BLOCK;
        ET_BY_DTYPE(dtype, batch_rows, y, x, norm, t, last, width);
    }
}

static void batch_norm(void *y, const void *x, const et_batch_statistics *norm, int64_t rows,
                       int64_t width, et_dtype dtype)
{
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, ET_ROW_BLOCK, batch_part, y, x, norm, width, dtype);
}

/* sum[0 .. width - 1] = sums of dy n, then sums of dy. */
ET_INLINE void batch_grad_sums(float *sum, const void *dy, const void *x,
                               const et_batch_statistics *norm, int64_t begin, int64_t end,
                               int64_t width, et_dtype dtype)
{
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        const vf mean = v_get_n(norm->mean, d, n), rstd = batch_rstd(norm, d, n);
        vf gamma_sum = v_set(0.0f), beta_sum = v_set(0.0f);
        for (int64_t t = begin, last; t < end; t = last) {
            last = counted_run(&norm->counted, &t, end);
            for (; t < last; t++) {
                const int64_t at = t * width + d;
                vf dy_here = v_read_n(dy, at, n, dtype);
                vf normal = (v_read_n(x, at, n, dtype) - mean) * rstd;
                gamma_sum = v_fma(dy_here, normal, gamma_sum);
                beta_sum = beta_sum + dy_here;
            }
        }
        v_put_n(sum, d, gamma_sum, n);
        v_put_n(sum + width, d, beta_sum, n);
    }
}

static void batch_sums_part(float *scratch, const void *dy, const void *x,
                            const et_batch_statistics *norm, int64_t width, et_dtype dtype,
                            int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t += ET_ROW_BLOCK) {
        const int64_t last = end - t < ET_ROW_BLOCK ? end : t + ET_ROW_BLOCK;
        ET_BY_DTYPE(dtype, batch_grad_sums, scratch + t / ET_ROW_BLOCK * 2 * width, dy, x, norm, t,
                    last, width);
    }
}

/* share: 1 / rows; 0 if the statistics do not depend on x. */
ET_INLINE void batch_grad_rows(void *dx, const float *dgamma, const float *dbeta, const void *dy,
                               const void *x, const et_batch_statistics *norm, float share,
                               int64_t begin, int64_t end, int64_t width, et_dtype dtype)
{
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        const vf mean = v_get_n(norm->mean, d, n), rstd = batch_rstd(norm, d, n);
        const vf scale = rstd * v_get_n(norm->gamma, d, n);
        const vf by_normal = v_get_n(dgamma, d, n) * v_set(share);
        const vf always = v_get_n(dbeta, d, n) * v_set(share);
        for (int64_t t = begin, last; t < end; t = last) {
            last = counted_run(&norm->counted, &t, end);
            for (; t < last; t++) {
                const int64_t at = t * width + d;
                vf normal = (v_read_n(x, at, n, dtype) - mean) * rstd;
                vf left = v_read_n(dy, at, n, dtype) - always - normal * by_normal;
                v_write_n(dx, at, scale * left, n, dtype);
            }
        }
    }
    clear_uncounted(dx, &norm->counted, begin, end, width, dtype);
}

static void batch_grad_part(void *dx, const float *dgamma, const float *dbeta, const void *dy,
                            const void *x, const et_batch_statistics *norm, float share,
                            int64_t width, et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t += ET_ROW_BLOCK) {
        const int64_t last = end - t < ET_ROW_BLOCK ? end : t + ET_ROW_BLOCK;
        ET_BY_DTYPE(dtype, batch_grad_rows, dx, dgamma, dbeta, dy, x, norm, share, t, last, width);
    }
}

static void batch_norm_grad(void *dx, float *dgamma, float *dbeta, float *scratch, const void *dy,
                            const void *x, const et_batch_statistics *norm, int64_t rows,
                            int64_t width, et_dtype dtype)
{
    const bool much = rows * width >= ET_GRAIN;
    const int64_t blocks = et_row_blocks(rows);
    const float share = norm->given ? 0.0f : 1.0f / counted_rows(&norm->counted, rows);
    ET_PARALLEL(much, rows, ET_ROW_BLOCK, batch_sums_part, scratch, dy, x, norm, width, dtype);
    add_partials(dgamma, scratch, blocks, 2 * width, width);
    add_partials(dbeta, scratch + width, blocks, 2 * width, width);
    ET_PARALLEL(much, rows, ET_ROW_BLOCK, batch_grad_part, dx, dgamma, dbeta, dy, x, norm, share,
                width, dtype);
}

#endif
