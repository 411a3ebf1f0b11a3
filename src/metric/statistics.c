/* Weighted mean, variance and number of values x with weight w:
 *
 *   mean = S(w x) / S(w),  square = S(w x^2) / S(w),  var = max(0, S(w (x - mean)^2) / S(w))
 *
 * This file has a kind of metric, and an object with one state of it; for arrays, the object also
 * has the sums of further elements. The sums are exact, so single values and many at once give the
 * same bits. */
#include <etude/statistics.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "metric/metric.h"

enum { WEIGHT, TOTAL, SQUARED, SUMS };

/* The sums of an element. */
enum { OF_ELEMENT = SUMS - TOTAL };

/* sums and counter are the state of the kind, of element 0. */
struct et_statistics {
    et_exact_sum sums[SUMS];
    int64_t counter;
    et_shape shape;
    int64_t elements;
    et_exact_sum more[][OF_ELEMENT]; /* [elements - 1]: TOTAL and SQUARED of element 1, ... */
};

static const char *const sum_names[] = { "weight", "total", "squared", NULL };
static const char *const value_names[] = { "mean", "stddev", "var", "weight_sum", "counter", NULL };

static int64_t one_count(const et_metric *metric)
{
    (void)metric;
    return 1;
}

/* sums: of an element. */
static void add_value(et_exact_sum *sums, double w, double x)
{
    if (w == 0) /* 0 times NaN would be NaN */
        return;
    et_exact_sum_add(&sums[0], w * x);
    et_exact_sum_add_square(&sums[SQUARED - TOTAL], w, x);
}

static et_moments moments(const et_exact_sum *weight, const et_exact_sum *sums)
{
    const et_exact_sum *squared = &sums[SQUARED - TOTAL];
    const double w = et_exact_sum_value(weight);
    const double deviation = et_exact_sum_deviation(weight, &sums[0], squared);
    et_moments m = { .mean = et_exact_sum_value(&sums[0]) / w,
                     .square = et_exact_sum_value(squared) / w,
                     .var = deviation < 0 ? 0 : deviation / w };
    m.stddev = sqrt(m.var);
    return m;
}

static void add(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample)
{
    (void)metric;
    et_exact_sum_add(&sums[WEIGHT], sample->weight);
    add_value(&sums[TOTAL], sample->weight, sample->value);
    ++*counts;
}

static void value(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double *values)
{
    (void)metric;
    const et_moments m = moments(&sums[WEIGHT], &sums[TOTAL]);
    values[0] = m.mean;
    values[1] = m.stddev;
    values[2] = m.var;
    values[3] = et_exact_sum_value(&sums[WEIGHT]);
    values[4] = (double)*counts;
}

static const et_metric_class class = { .name = "statistics",
                                       .values = value_names,
                                       .sums = sum_names,
                                       .count = one_count,
                                       .add = add,
                                       .value = value };

const et_metric et_metric_statistics = { &class };

/* ---- one of them as an object ---- */

int et_statistics_new_array(et_statistics **out, et_shape shape, et_error *error)
{
    const int64_t elements = et_shape_count(shape);
    et_statistics *self = NULL;
    const size_t one = sizeof *self->more;
    *out = NULL;
    if (elements < 1 || (uint64_t)elements > (PTRDIFF_MAX - sizeof *self) / one)
        return et_fail(error, ET_ECONFIG, "statistics of arrays %s: %s",
                       et_shape_print(shape, (char[ET_SHAPE_TEXT_MAX]){ 0 }),
                       elements == 0 ? "give at least one element"
                                     : "the shape is invalid, or too large for any memory");
    const size_t bytes = sizeof *self + (size_t)(elements - 1) * one;
    self = et_alloc_zero(1, bytes);
    if (!self)
        return et_alloc_failed(error, "statistics");
    self->shape = shape;
    self->elements = elements;
    *out = self;
    return ET_OK;
}

int et_statistics_new(et_statistics **out, et_error *error)
{
    return et_statistics_new_array(out, et_shape_scalar(), error);
}

void et_statistics_free(et_statistics *statistics)
{
    et_free(statistics);
}

void et_statistics_reset(et_statistics *statistics)
{
    const size_t more = (statistics->elements - 1) * sizeof *statistics->more;
    memset(statistics->sums, 0, sizeof statistics->sums);
    memset(statistics->more, 0, more);
    statistics->counter = 0;
}

void et_statistics_collect(et_statistics *statistics, double value, double weight)
{
    et_assert(statistics->shape.rank == 0);
    et_metric_add(&et_metric_statistics, statistics,
                  &(et_sample){ .value = value, .weight = weight });
}

void et_statistics_collect_all(et_statistics *statistics, const double *values,
                               const double *weights, size_t count)
{
    for (size_t i = 0; i < count; i++)
        et_statistics_collect(statistics, values[i], weights ? weights[i] : 1);
}

/* ---- arrays ---- */

/* The last dimensions of a shape, without the first `from`. */
static et_shape last_of(et_shape shape, int from)
{
    et_shape last = { .rank = shape.rank - from };
    for (int i = 0; i < last.rank; i++)
        last.size[i] = shape.size[from + i];
    return last;
}

/* Weights have at most the batch's dimensions, aligned at the last one, each of its size or 1. */
static bool broadcasts(et_shape weights, et_shape batch)
{
    const int more = batch.rank - weights.rank;
    bool fits = more >= 0;
    for (int i = 0; fits && i < weights.rank; i++)
        fits = weights.size[i] == 1 || weights.size[i] == batch.size[more + i];
    return fits;
}

/* Value number n of the batch has this weight, if weights broadcast. */
static int64_t weight_at(et_shape weights, et_shape batch, int64_t n)
{
    int64_t at = 0, stride = 1;
    for (int i = batch.rank - 1, k = weights.rank - 1; k >= 0; i--, k--) {
        at += weights.size[k] == 1 ? 0 : n % batch.size[i] * stride;
        stride *= weights.size[k];
        n /= batch.size[i];
    }
    return at;
}

int et_statistics_collect_array(et_statistics *self, const double *values, et_shape shape,
                                const double *weights, et_shape weights_shape, et_error *error)
{
    const int64_t count = et_shape_count(shape), weighted = et_shape_count(weights_shape);
    char text[ET_SHAPE_TEXT_MAX], other[ET_SHAPE_TEXT_MAX];
    if (count == 0)
        return ET_OK;
    if (count < 0 || shape.rank < self->shape.rank ||
        !et_shape_equal(last_of(shape, shape.rank - self->shape.rank), self->shape))
        return et_fail(error, ET_EDATA, "shape mismatch: values of %s do not end with %s",
                       et_shape_print(shape, text), et_shape_print(self->shape, other));
    et_shape batch = shape;
    batch.rank -= self->shape.rank;
    if (weights && weighted && (weighted < 0 || !broadcasts(weights_shape, batch)))
        return et_fail(error, ET_EDATA, "weights of %s do not broadcast to %s values",
                       et_shape_print(weights_shape, text), et_shape_print(batch, other));
    for (int64_t n = 0; n < count / self->elements; n++) {
        const double *value = values + n * self->elements;
        double weight = weights && weighted ? weights[weight_at(weights_shape, batch, n)] : 1;
        et_metric_add(&et_metric_statistics, self,
                      &(et_sample){ .value = *value, .weight = weight });
        for (int64_t i = 1; i < self->elements; i++)
            add_value(self->more[i - 1], weight, value[i]);
    }
    return ET_OK;
}

/* ---- getters ---- */

et_shape et_statistics_shape(const et_statistics *statistics)
{
    return statistics->shape;
}

int64_t et_statistics_counter(const et_statistics *statistics)
{
    return statistics->counter;
}

double et_statistics_weight_sum(const et_statistics *statistics)
{
    return et_exact_sum_value(&statistics->sums[WEIGHT]);
}

et_moments et_statistics_moments(const et_statistics *self, int64_t element)
{
    const double none = element < 0 || element >= self->elements ? (double)NAN : 0;
    if (isnan(none) || !self->counter)
        return (et_moments){ none, none, none, none };
    return moments(&self->sums[WEIGHT], element ? self->more[element - 1] : &self->sums[TOTAL]);
}

double et_statistics_mean(const et_statistics *statistics)
{
    return et_statistics_moments(statistics, 0).mean;
}

double et_statistics_var(const et_statistics *statistics)
{
    return et_statistics_moments(statistics, 0).var;
}

double et_statistics_stddev(const et_statistics *statistics)
{
    return et_statistics_moments(statistics, 0).stddev;
}
