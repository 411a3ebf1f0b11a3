/* Layer normalisation, its derivative, sums and fill by their formulas, in double.
 *
 *   mean = sum x / D,  rstd = 1 / sqrt(sum (x - mean)^2 / D + epsilon),  n = (x - mean) rstd
 *   y = n gamma + beta                               (Ba, Kiros, Hinton 2016, "Layer
 * normalization")
 *
 * The derivative, with g = dy gamma the derivative by n. Both mean and rstd depend on x, which
 * subtracts the components of g along a constant and along n:
 *
 *   dx = rstd (g - mean(g) - n mean(g n)),  dgamma = sum over rows of dy n,  dbeta = sum of dy
 *
 * mean and rstd are those of the forward pass, in float32. The reference needs no scratch, which is
 * for partial sums. */
#include "engine/kernel/reference/reference.h"

#include <math.h>

void et_reference_layer_norm(void *y, float *stats, const void *x, const float *gamma,
                             const float *beta, float epsilon, int64_t rows, int64_t width,
                             et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        double mean = 0, variance = 0;
        for (int64_t d = 0; d < width; d++)
            mean += et_reference_load(x, t * width + d, dtype) / (double)width;
        for (int64_t d = 0; d < width; d++) {
            double deviation = et_reference_load(x, t * width + d, dtype) - mean;
            variance += deviation * deviation / (double)width;
        }
        double rstd = 1.0 / sqrt(variance + epsilon);
        for (int64_t d = 0; d < width; d++) {
            double n = (et_reference_load(x, t * width + d, dtype) - mean) * rstd;
            et_reference_store(y, t * width + d, n * gamma[d] + beta[d], dtype);
        }
        if (stats) {
            stats[2 * t] = (float)mean;
            stats[2 * t + 1] = (float)rstd;
        }
    }
}

/* By columns for the parameters, then by rows for x: every sum is one plain loop. dx comes last as
 * it may overwrite dy. */
void et_reference_layer_norm_grad(const et_layer_norm_grad *norm)
{
    const void *dy = norm->dy, *x = norm->x;
    const float *stats = norm->stats, *gamma = norm->gamma;
    const int64_t rows = norm->rows, width = norm->width;
    const et_dtype dtype = norm->dtype;
    for (int64_t d = 0; d < width; d++) {
        double gamma_sum = 0, beta_sum = 0;
        for (int64_t t = 0; t < rows; t++) {
            double n =
                (et_reference_load(x, t * width + d, dtype) - stats[2 * t]) * stats[2 * t + 1];
            gamma_sum += et_reference_load(dy, t * width + d, dtype) * n;
            beta_sum += et_reference_load(dy, t * width + d, dtype);
        }
        if (norm->dgamma)
            norm->dgamma[d] = (float)gamma_sum;
        if (norm->dbeta)
            norm->dbeta[d] = (float)beta_sum;
    }
    for (int64_t t = 0; t < rows; t++) {
        double mean = stats[2 * t], rstd = stats[2 * t + 1], mean_g = 0, mean_gn = 0;
        for (int64_t d = 0; d < width; d++) {
            double n = (et_reference_load(x, t * width + d, dtype) - mean) * rstd;
            double g = et_reference_load(dy, t * width + d, dtype) * gamma[d];
            mean_g += g / (double)width;
            mean_gn += g * n / (double)width;
        }
        for (int64_t d = 0; d < width; d++) {
            double n = (et_reference_load(x, t * width + d, dtype) - mean) * rstd;
            double g = et_reference_load(dy, t * width + d, dtype) * gamma[d];
            et_reference_store(norm->dx, t * width + d, rstd * (g - mean_g - n * mean_gn), dtype);
            if (norm->y)
                et_reference_store(norm->y, t * width + d, n * gamma[d] + norm->beta[d], dtype);
        }
    }
}

/* sum[d] = sum over t of x[t, d] */
void et_reference_column_sum(float *sum, float *scratch, const void *x, int64_t rows, int64_t width,
                             et_dtype dtype)
{
    (void)scratch;
    for (int64_t d = 0; d < width; d++) {
        double total = 0;
        for (int64_t t = 0; t < rows; t++)
            total += et_reference_load(x, t * width + d, dtype);
        sum[d] = (float)total;
    }
}

static double sum_of(const void *x, int64_t first, int64_t count, et_dtype dtype)
{
    double total = 0;
    for (int64_t i = first; i < first + count; i++)
        total += et_reference_load(x, i, dtype);
    return total;
}

/* sum[t] = sum over d of x[t, d] */
void et_reference_row_sum(float *sum, const void *x, int64_t rows, int64_t width, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++)
        sum[t] = (float)sum_of(x, t * width, width, dtype);
}

double et_reference_sum(const void *x, int64_t count, et_dtype dtype)
{
    return sum_of(x, 0, count, dtype);
}

void et_reference_fill(void *y, float value, int64_t count, et_dtype dtype)
{
    for (int64_t i = 0; i < count; i++)
        et_reference_store(y, i, value, dtype);
}
