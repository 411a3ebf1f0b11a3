/* The reference of layers other than the Transformer's (engine/kernel/arguments.h): one
 * obvious loop per formula, sums in double. */
#include "engine/kernel/reference/reference.h"

#include <math.h>

void et_reference_rms_norm(void *y, float *rstd, const void *x, const float *gamma, float epsilon,
                           int64_t rows, int64_t width, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        double square = 0;
        for (int64_t d = 0; d < width; d++)
            square += pow(et_reference_load(x, t * width + d, dtype), 2) / (double)width;
        double scale = 1.0 / sqrt(square + epsilon);
        for (int64_t d = 0; d < width; d++)
            et_reference_store(
                y, t * width + d,
                et_reference_load(x, t * width + d, dtype) * scale * (double)gamma[d], dtype);
        if (rstd)
            rstd[t] = (float)scale;
    }
}

/* dgamma first, as dx may be dy. */
void et_reference_rms_norm_grad(void *dx, float *dgamma, float *scratch, const void *dy,
                                const void *x, const float *rstd, const float *gamma, int64_t rows,
                                int64_t width, et_dtype dtype)
{
    (void)scratch;
    for (int64_t d = 0; d < width; d++) {
        double sum = 0;
        for (int64_t t = 0; t < rows; t++)
            sum += et_reference_load(dy, t * width + d, dtype) *
                   et_reference_load(x, t * width + d, dtype) * (double)rstd[t];
        dgamma[d] = (float)sum;
    }
    for (int64_t t = 0; t < rows; t++) {
        double mean = 0;
        for (int64_t d = 0; d < width; d++)
            mean += et_reference_load(dy, t * width + d, dtype) * (double)gamma[d] *
                    et_reference_load(x, t * width + d, dtype) * (double)rstd[t] / (double)width;
        for (int64_t d = 0; d < width; d++) {
            double g = et_reference_load(dy, t * width + d, dtype) * (double)gamma[d];
            double n = et_reference_load(x, t * width + d, dtype) * (double)rstd[t];
            et_reference_store(dx, t * width + d, (double)rstd[t] * (g - n * mean), dtype);
        }
    }
}

static bool counts(const et_counted *counted, int64_t t)
{
    return !counted->mask || counted->mask[t / counted->each] != 0;
}

static double number_of(const et_counted *counted, int64_t rows)
{
    double number = 0;
    for (int64_t t = 0; t < rows; t++)
        number += counts(counted, t);
    return number > 0 ? number : 1;
}

void et_reference_column_moments(float *mean, float *variance, float *scratch, const void *x,
                                 const et_counted *counted, int64_t rows, int64_t width,
                                 et_dtype dtype)
{
    (void)scratch;
    const double number = number_of(counted, rows);
    for (int64_t d = 0; d < width; d++) {
        double sum = 0, squares = 0;
        for (int64_t t = 0; t < rows; t++)
            if (counts(counted, t))
                sum += et_reference_load(x, t * width + d, dtype);
        sum /= number;
        for (int64_t t = 0; t < rows; t++)
            if (counts(counted, t))
                squares += pow(et_reference_load(x, t * width + d, dtype) - sum, 2);
        mean[d] = (float)sum;
        variance[d] = (float)(squares / number);
    }
}

static double rstd_of(const et_batch_statistics *norm, int64_t d)
{
    return 1.0 / sqrt((double)norm->variance[d] + (double)norm->epsilon);
}

void et_reference_batch_norm(void *y, const void *x, const et_batch_statistics *norm, int64_t rows,
                             int64_t width, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++)
        for (int64_t d = 0; d < width; d++) {
            double n = (et_reference_load(x, t * width + d, dtype) - (double)norm->mean[d]) *
                       rstd_of(norm, d);
            double value = n * (double)norm->gamma[d] + (double)norm->beta[d];
            et_reference_store(y, t * width + d, counts(&norm->counted, t) ? value : 0, dtype);
        }
}

/* Column d: first its sums over the rows that count, then dx, which may be dy. */
static void batch_norm_grad_column(void *dx, float *dgamma, float *dbeta, const void *dy,
                                   const void *x, const et_batch_statistics *norm, int64_t rows,
                                   int64_t width, int64_t d, et_dtype dtype)
{
    const et_counted *counted = &norm->counted;
    const double rstd = rstd_of(norm, d), mean = (double)norm->mean[d];
    const double share = norm->given ? 0 : 1.0 / number_of(counted, rows);
    double gamma_sum = 0, beta_sum = 0;
    for (int64_t t = 0; t < rows; t++) {
        if (!counts(counted, t))
            continue;
        double n = (et_reference_load(x, t * width + d, dtype) - mean) * rstd;
        gamma_sum += et_reference_load(dy, t * width + d, dtype) * n;
        beta_sum += et_reference_load(dy, t * width + d, dtype);
    }
    *dgamma = (float)gamma_sum;
    *dbeta = (float)beta_sum;
    for (int64_t t = 0; t < rows; t++) {
        double n = (et_reference_load(x, t * width + d, dtype) - mean) * rstd;
        double left =
            et_reference_load(dy, t * width + d, dtype) - beta_sum * share - n * gamma_sum * share;
        et_reference_store(dx, t * width + d,
                           counts(counted, t) ? (double)norm->gamma[d] * rstd * left : 0, dtype);
    }
}

void et_reference_batch_norm_grad(void *dx, float *dgamma, float *dbeta, float *scratch,
                                  const void *dy, const void *x, const et_batch_statistics *norm,
                                  int64_t rows, int64_t width, et_dtype dtype)
{
    (void)scratch;
    for (int64_t d = 0; d < width; d++)
        batch_norm_grad_column(dx, &dgamma[d], &dbeta[d], dy, x, norm, rows, width, d, dtype);
}

void et_reference_embed_columns(void *y, const int32_t *ids, const float *table,
                                const et_column_embedding *s)
{
    for (int64_t t = 0; t < s->rows; t++) {
        int64_t at = t * s->width, first = 0;
        for (int c = 0; c < s->count; c++) {
            int64_t id = ids[t * s->count + c], width = s->column[c].width;
            for (int64_t d = 0; d < width; d++)
                et_reference_store(y, at + d, id < 0 ? 0 : (double)table[first + id * width + d],
                                   s->dtype);
            at += width;
            first += s->column[c].rows * width;
        }
    }
}

void et_reference_embed_columns_grad(float *dtable, const int32_t *ids, const void *dy,
                                     const et_column_embedding *s)
{
    for (int64_t t = 0; t < s->rows; t++) {
        int64_t at = t * s->width, first = 0;
        for (int c = 0; c < s->count; c++) {
            int64_t id = ids[t * s->count + c], width = s->column[c].width;
            for (int64_t d = 0; d < width && id >= 0; d++)
                dtable[first + id * width + d] += (float)et_reference_load(dy, at + d, s->dtype);
            at += width;
            first += s->column[c].rows * width;
        }
    }
}

static double column_scale(const et_scaled_matrix *s, int64_t g, int64_t n)
{
    return s->column_scale ? (double)s->column_scale[g * s->width + n] : 1;
}

void et_reference_scaled_copies(void *y, const et_scaled_matrix *s)
{
    for (int64_t k = 0; k < s->rows; k++)
        for (int64_t g = 0; g < s->count; g++)
            for (int64_t n = 0; n < s->width; n++)
                et_reference_store(y, (k * s->count + g) * s->width + n,
                                   (double)s->w[k * s->width + n] *
                                       (double)s->row_scale[g * s->rows + k] *
                                       column_scale(s, g, n),
                                   s->dtype);
}

/* Element of dy times the operands but the one that it is for. */
static double copies_term(const et_scaled_matrix_grad *to, const et_scaled_matrix *s, int64_t g,
                          int64_t k, int64_t n, const void *except)
{
    double dy = et_reference_load(to->dy, (k * s->count + g) * s->width + n, s->dtype);
    double w = except == s->w ? 1 : (double)s->w[k * s->width + n];
    double row = except == s->row_scale ? 1 : (double)s->row_scale[g * s->rows + k];
    return dy * w * row * (except && except == s->column_scale ? 1 : column_scale(s, g, n));
}

void et_reference_scaled_copies_grad(const et_scaled_matrix_grad *to, const et_scaled_matrix *s)
{
    for (int64_t k = 0; k < s->rows; k++)
        for (int64_t n = 0; n < s->width; n++) {
            double sum = 0;
            for (int64_t g = 0; g < s->count; g++)
                sum += copies_term(to, s, g, k, n, s->w);
            to->dw[k * s->width + n] = (float)sum;
        }
    for (int64_t g = 0; g < s->count; g++) {
        for (int64_t k = 0; k < s->rows; k++) {
            double sum = 0;
            for (int64_t n = 0; n < s->width; n++)
                sum += copies_term(to, s, g, k, n, s->row_scale);
            to->drow[g * s->rows + k] = (float)sum;
        }
        for (int64_t n = 0; n < s->width && to->dcolumn; n++) {
            double sum = 0;
            for (int64_t k = 0; k < s->rows; k++)
                sum += copies_term(to, s, g, k, n, s->column_scale);
            to->dcolumn[g * s->width + n] = (float)sum;
        }
    }
}

/* Element (row, column, channel) of a sample of x; of y by `out`. */
static int64_t element(const et_pool_shape *s, bool out, int64_t sample, int64_t row,
                       int64_t column, int64_t channel)
{
    int64_t height = out ? s->down.out : s->down.in, width = out ? s->across.out : s->across.in;
    return ((sample * height + row) * width + column) * s->channels + channel;
}

static void pool_one(void *y, float *place, const void *x, const et_pool_shape *s, int64_t sample,
                     int64_t row, int64_t column, int64_t channel)
{
    double best = -INFINITY, sum = 0, count = 0, where = -1;
    for (int64_t i = 0; i < s->down.kernel; i++)
        for (int64_t j = 0; j < s->across.kernel; j++) {
            int64_t at_row = row * s->down.stride - s->down.before + i;
            int64_t at_column = column * s->across.stride - s->across.before + j;
            if (at_row < 0 || at_row >= s->down.in || at_column < 0 || at_column >= s->across.in)
                continue;
            double value = et_reference_load(
                x, element(s, false, sample, at_row, at_column, channel), s->dtype);
            sum += value;
            count++;
            if (!isnan(best) && (isnan(value) || value > best)) {
                best = value;
                where = (double)(i * s->across.kernel + j);
            }
        }
    int64_t at = element(s, true, sample, row, column, channel);
    et_reference_store(y, at, s->mean ? sum / count : best, s->dtype);
    if (place)
        place[at] = (float)where;
}

void et_reference_pool(void *y, float *place, const void *x, const et_pool_shape *s)
{
    for (int64_t sample = 0; sample < s->batch; sample++)
        for (int64_t row = 0; row < s->down.out; row++)
            for (int64_t column = 0; column < s->across.out; column++)
                for (int64_t channel = 0; channel < s->channels; channel++)
                    pool_one(y, place, x, s, sample, row, column, channel);
}

/* What element (i, j) gets of one window: all, nothing, or its share of the mean. */
static double pool_weight(const et_pool_shape *s, const float *place, int64_t at, int64_t row,
                          int64_t column, int64_t i, int64_t j)
{
    int64_t down = i - (row * s->down.stride - s->down.before);
    int64_t across = j - (column * s->across.stride - s->across.before);
    if (down < 0 || down >= s->down.kernel || across < 0 || across >= s->across.kernel)
        return 0;
    if (!s->mean)
        return (double)place[at] == (double)(down * s->across.kernel + across);
    int64_t rows = et_window_last(&s->down, row) - et_window_first(&s->down, row);
    int64_t columns = et_window_last(&s->across, column) - et_window_first(&s->across, column);
    return 1.0 / (double)(rows * columns);
}

static void pool_grad_one(void *dx, const void *dy, const float *place, const et_pool_shape *s,
                          int64_t sample, int64_t i, int64_t j, int64_t channel)
{
    double sum = 0;
    for (int64_t row = 0; row < s->down.out; row++)
        for (int64_t column = 0; column < s->across.out; column++) {
            int64_t at = element(s, true, sample, row, column, channel);
            double weight = pool_weight(s, place, at, row, column, i, j);
            if (weight > 0)
                sum += et_reference_load(dy, at, s->dtype) * weight;
        }
    et_reference_store(dx, element(s, false, sample, i, j, channel), sum, s->dtype);
}

void et_reference_pool_grad(void *dx, const void *dy, const float *place, const et_pool_shape *s)
{
    for (int64_t sample = 0; sample < s->batch; sample++)
        for (int64_t i = 0; i < s->down.in; i++)
            for (int64_t j = 0; j < s->across.in; j++)
                for (int64_t channel = 0; channel < s->channels; channel++)
                    pool_grad_one(dx, dy, place, s, sample, i, j, channel);
}

void et_reference_noise(void *y, int64_t count, et_random random, et_dtype dtype)
{
    for (int64_t i = 0; i < count; i++)
        et_reference_store(y, i, et_random_normal(random, (uint64_t)i), dtype);
}

void et_reference_bernoulli(void *y, const void *p, int64_t first, int64_t count, et_random random,
                            et_dtype dtype)
{
    for (int64_t i = 0; i < count; i++) {
        double u = et_random_uniform(random, (uint64_t)(first + i));
        et_reference_store(y, i, u < et_reference_load(p, i, dtype), dtype);
    }
}
