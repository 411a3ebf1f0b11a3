/* Layer normalization, its derivative, and sums: over rows, divided into blocks of ET_ROW_BLOCK
 * rows whose partial sums in scratch are added in order, and over all elements.
 *
 *   mean = sum x / D,  rstd = 1 / sqrt(sum (x - mean)^2 / D + epsilon),  n = (x - mean) rstd
 *   y = n gamma + beta                                        (Ba, Kiros, Hinton 2016)
 *   g = dy gamma:  dx = rstd (g - mean(g) - n mean(g n)),  dgamma = sum dy n,  dbeta = sum dy
 *
 * The variance is of deviations from the mean, in a separate pass: the mean of squares minus the
 * square of the mean would cancel for a large mean. A row is a few kilobytes, so the second and
 * third pass over it read the first-level cache; memory is read once and written once.
 *
 * Partial sums make sums over rows equal for any number of threads: block b is always rows 128 b ..
 * 128 b + 127, and blocks are added from the first to the last. */
#ifndef ETUDE_KERNEL_NORM_INC_C
#define ETUDE_KERNEL_NORM_INC_C

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/kernel/kernels.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/simd.h"

/* stats becomes (mean, rstd). Lanes beyond the end read as 0, which is right for the sum, but their
 * deviations would be -mean, so they are masked there. */
ET_INLINE void norm_row(void *y, float *stats, const void *x, const float *gamma, const float *beta,
                        float epsilon, int64_t at, int64_t width, et_dtype dtype)
{
    vf total = v_set(0.0f), squares = v_set(0.0f);
    for (int64_t d = 0; d < width; d += V_LANES)
        total = total + v_read_n(x, at + d, width - d, dtype);
    const float mean = v_sum(total) / (float)width;
    for (int64_t d = 0; d < width; d += V_LANES) {
        vf deviation = v_read_n(x, at + d, width - d, dtype) - v_set(mean);
        deviation = v_select(v_first(width - d), deviation, v_set(0.0f));
        squares = v_fma(deviation, deviation, squares);
    }
    const float rstd = 1.0f / sqrtf(v_sum(squares) / (float)width + epsilon);
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        vf normal = (v_read_n(x, at + d, n, dtype) - v_set(mean)) * v_set(rstd);
        vf g = v_get_n(gamma, d, n), b = v_get_n(beta, d, n);
        v_write_n(y, at + d, v_fma(normal, g, b), n, dtype);
    }
    stats[0] = mean;
    stats[1] = rstd;
}

/* Rows begin .. end - 1. stats NULL: nobody wants the derivative. */
static void norm_part(void *y, float *stats, const void *x, const float *gamma, const float *beta,
                      float epsilon, int64_t width, et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        float unused[2], *keep = stats ? stats + 2 * t : unused;
        ET_BY_DTYPE(dtype, norm_row, y, keep, x, gamma, beta, epsilon, (t * width), width);
    }
}

/* A row is one thread's, so no bit depends on the cuts. */
static void layer_norm(void *y, float *stats, const void *x, const float *gamma, const float *beta,
                       float epsilon, int64_t rows, int64_t width, et_dtype dtype)
{
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, norm_part, y, stats, x, gamma, beta, epsilon,
                width, dtype);
}

/* One row, from element `at`: first the two means, then dx and y. This row's share is added to
 * dgamma and dbeta, the block's partial sums. y may be x and dx may be dy, because a vector is read
 * before it is written. */
ET_INLINE void norm_grad_row(const et_layer_norm_grad *norm, float *dgamma, float *dbeta,
                             const float *stats, int64_t at, et_dtype dtype)
{
    const et_layer_norm_grad of = *norm;
    const int64_t width = of.width;
    const vf mean = v_set(stats[0]), rstd = v_set(stats[1]);
    vf sum_g = v_set(0.0f), sum_gn = v_set(0.0f);
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        vf normal = (v_read_n(of.x, at + d, n, dtype) - mean) * rstd;
        vf g = v_read_n(of.dy, at + d, n, dtype) * v_get_n(of.gamma, d, n);
        sum_g = sum_g + g;
        sum_gn = v_fma(g, normal, sum_gn); /* g is 0 beyond the row's end */
    }
    const vf mean_g = v_set(v_sum(sum_g) / (float)width);
    const vf mean_gn = v_set(v_sum(sum_gn) / (float)width);
    for (int64_t d = 0; d < width; d += V_LANES) {
        const int64_t n = width - d;
        vf normal = (v_read_n(of.x, at + d, n, dtype) - mean) * rstd;
        vf dy_here = v_read_n(of.dy, at + d, n, dtype);
        vf scale = v_get_n(of.gamma, d, n), g = dy_here * scale;
        vf gamma_here = v_get_n(dgamma, d, n), beta_here = v_get_n(dbeta, d, n);
        v_put_n(dgamma, d, v_fma(dy_here, normal, gamma_here), n);
        v_put_n(dbeta, d, beta_here + dy_here, n);
        v_write_n(of.dx, at + d, rstd * (g - mean_g - normal * mean_gn), n, dtype);
        if (of.y) {
            vf beta = v_get_n(of.beta, d, n);
            v_write_n(of.y, at + d, v_fma(normal, scale, beta), n, dtype);
        }
    }
}

static void add_partials_part(float *sum, const float *partial, int64_t blocks, int64_t stride,
                              int64_t begin, int64_t end)
{
    for (int64_t d = begin; d < end; d += V_LANES) {
        vf total = v_set(0.0f);
        for (int64_t block = 0; block < blocks; block++)
            total = total + v_get_n(partial, block * stride + d, end - d);
        v_put_n(sum, d, total, end - d);
    }
}

/* sum[d] = sum of the blocks' partial sums, partial[block * stride + d], in order. */
static void add_partials(float *sum, const float *partial, int64_t blocks, int64_t stride,
                         int64_t width)
{
    ET_PARALLEL(blocks * width >= ET_GRAIN, width, V_LANES, add_partials_part, sum, partial, blocks,
                stride);
}

/* Rows begin .. end - 1, whole blocks of them; a block's partial sums are at its index. */
static void norm_grad_part(const et_layer_norm_grad *norm, int64_t begin, int64_t end)
{
    const int64_t width = norm->width;
    float *partial = norm->scratch + begin / ET_ROW_BLOCK * 2 * width;
    for (int64_t t = begin; t < end; t++) {
        if (t > begin && t % ET_ROW_BLOCK == 0)
            partial += 2 * width;
        if (t % ET_ROW_BLOCK == 0)
            memset(partial, 0, (size_t)(2 * width) * sizeof *partial);
        ET_BY_DTYPE(norm->dtype, norm_grad_row, norm, partial, partial + width, norm->stats + 2 * t,
                    (t * width));
    }
}

/* scratch [blocks][2][width]: partial dgamma, then dbeta, of each block. */
static void layer_norm_grad(const et_layer_norm_grad *norm)
{
    const int64_t width = norm->width, blocks = et_row_blocks(norm->rows);
    ET_PARALLEL(norm->rows * width >= ET_GRAIN, norm->rows, ET_ROW_BLOCK, norm_grad_part, norm);
    if (norm->dgamma)
        add_partials(norm->dgamma, norm->scratch, blocks, 2 * width, width);
    if (norm->dbeta)
        add_partials(norm->dbeta, norm->scratch + width, blocks, 2 * width, width);
}

/* sum[d] = sum over rows begin .. end - 1 of x[t, d]; a vector of columns at a time, so that its
 * sum is a register. */
ET_INLINE void add_rows(float *sum, const void *x, int64_t begin, int64_t end, int64_t width,
                        et_dtype dtype)
{
    for (int64_t d = 0; d < width; d += V_LANES) {
        vf total = v_set(0.0f);
        for (int64_t t = begin; t < end; t++)
            total = total + v_read_n(x, t * width + d, width - d, dtype);
        v_put_n(sum, d, total, width - d);
    }
}

/* Whole blocks, each to its place in scratch. */
static void column_sum_part(float *scratch, const void *x, int64_t width, et_dtype dtype,
                            int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t += ET_ROW_BLOCK) {
        const int64_t block = t / ET_ROW_BLOCK;
        const int64_t last = end - t < ET_ROW_BLOCK ? end : t + ET_ROW_BLOCK;
        ET_BY_DTYPE(dtype, add_rows, scratch + block * width, x, t, last, width);
    }
}

/* One block's partial sums are the sums. */
static void column_sum(float *sum, float *scratch, const void *x, int64_t rows, int64_t width,
                       et_dtype dtype)
{
    const int64_t blocks = et_row_blocks(rows);
    float *partial = blocks == 1 ? sum : scratch;
    ET_PARALLEL(blocks > 1 && rows * width >= ET_GRAIN, rows, ET_ROW_BLOCK, column_sum_part,
                partial, x, width, dtype);
    if (blocks != 1)
        add_partials(sum, scratch, blocks, width, width);
}

/* sum[t] of rows begin .. end - 1; a row is one thread's. */
ET_INLINE void add_columns(float *sum, const void *x, int64_t begin, int64_t end, int64_t width,
                           et_dtype dtype)
{
    for (int64_t t = begin; t < end; t++) {
        vf total = v_set(0.0f);
        for (int64_t d = 0; d < width; d += V_LANES)
            total = total + v_read_n(x, t * width + d, width - d, dtype);
        sum[t] = v_sum(total);
    }
}

static void row_sum_part(float *sum, const void *x, int64_t width, et_dtype dtype, int64_t begin,
                         int64_t end)
{
    ET_BY_DTYPE(dtype, add_columns, sum, x, begin, end, width);
}

static void row_sum(float *sum, const void *x, int64_t rows, int64_t width, et_dtype dtype)
{
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, row_sum_part, sum, x, width, dtype);
}

/* ---- all elements ---- */

/* Lanes add SUM_RUN / V_LANES numbers in float32, which loses little; the runs are added in
 * double. SUM_PARTS parts of whole runs at most, whatever the threads. */
#define SUM_RUN   1024
#define SUM_PARTS 64

ET_INLINE void sum_run(double *total, const void *x, int64_t first, int64_t last, et_dtype dtype)
{
    vf sum = v_set(0.0f);
    for (int64_t i = first; i < last; i += V_LANES)
        sum = sum + v_read_n(x, i, last - i, dtype);
    *total += v_sum(sum);
}

/* Sums elements begin .. end - 1, whole parts of that length; partial[k] is part k's sum. */
static void sum_part(double *partial, const void *x, et_dtype dtype, int64_t length, int64_t begin,
                     int64_t end)
{
    for (int64_t first = begin; first < end; first += SUM_RUN) {
        const int64_t last = end - first < SUM_RUN ? end : first + SUM_RUN;
        double *const total = &partial[first / length];
        if (first % length == 0)
            *total = 0;
        ET_BY_DTYPE(dtype, sum_run, total, x, first, last);
    }
}

/* length is a multiple of SUM_RUN that depends on count alone. Example: 200,000 elements are 196
 * runs, so parts of 4 runs: 49 of them. */
static double sum(const void *x, int64_t count, et_dtype dtype)
{
    double partial[SUM_PARTS], total = 0;
    const int64_t runs = (count + SUM_RUN - 1) / SUM_RUN;
    const int64_t length = (runs + SUM_PARTS - 1) / SUM_PARTS * SUM_RUN;
    if (count == 0)
        return 0;
    ET_PARALLEL(count >= ET_GRAIN, count, length, sum_part, partial, x, dtype, length);
    for (int64_t k = 0; k * length < count; k++)
        total += partial[k];
    return total;
}

ET_INLINE void fill_run(void *y, float value, int64_t begin, int64_t end, et_dtype dtype)
{
    for (int64_t i = begin; i < end; i += V_LANES)
        v_write_n(y, i, v_set(value), end - i, dtype);
}

static void fill_part(void *y, float value, et_dtype dtype, int64_t begin, int64_t end)
{
    ET_BY_DTYPE(dtype, fill_run, y, value, begin, end);
}

/* SUM_RUN is no more here than a unit of whole vectors. */
static void fill(void *y, float value, int64_t count, et_dtype dtype)
{
    ET_PARALLEL(count >= ET_GRAIN, count, SUM_RUN, fill_part, y, value, dtype);
}

#endif
