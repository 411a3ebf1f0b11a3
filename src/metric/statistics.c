/* Weighted mean, variance and number of values x with weight w:
 *
 *   mean = S(w x) / S(w),  var = max(0, S(w (x - mean)^2) / S(w))
 *
 * A kind of metric, and an object that is one state of it. The sums are exact, so single values and
 * many at once give the same bits. */
#include <etude/statistics.h>

#include <math.h>

#include "base/alloc.h"
#include "metric/metric.h"

enum { WEIGHT, TOTAL, SQUARED, SUMS };

/* The state of the kind. */
struct et_statistics {
    et_exact_sum sums[SUMS];
    int64_t counter;
};

static const char *const sum_names[] = { "weight", "total", "squared", NULL };
static const char *const value_names[] = { "mean", "stddev", "var", "weight_sum", "counter", NULL };

static int64_t one_count(const et_metric *metric)
{
    (void)metric;
    return 1;
}

static void add(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample)
{
    (void)metric;
    double w = sample->weight, x = sample->value;
    et_exact_sum_add(&sums[WEIGHT], w);
    et_exact_sum_add(&sums[TOTAL], w * x);
    et_exact_sum_add_square(&sums[SQUARED], w, x);
    ++*counts;
}

static double variance(const et_exact_sum *sums)
{
    double squares = et_exact_sum_deviation(&sums[WEIGHT], &sums[TOTAL], &sums[SQUARED]);
    return squares < 0 ? 0 : squares / et_exact_sum_value(&sums[WEIGHT]);
}

static double mean(const et_exact_sum *sums)
{
    return et_exact_sum_value(&sums[TOTAL]) / et_exact_sum_value(&sums[WEIGHT]);
}

static void value(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double *values)
{
    (void)metric;
    values[0] = mean(sums);
    values[2] = variance(sums);
    values[1] = sqrt(values[2]);
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

int et_statistics_new(et_statistics **out, et_error *error)
{
    *out = et_alloc_zero(1, sizeof **out);
    return *out ? ET_OK : et_alloc_failed(error, sizeof **out, "statistics");
}

void et_statistics_free(et_statistics *statistics)
{
    et_free(statistics);
}

void et_statistics_reset(et_statistics *statistics)
{
    *statistics = (et_statistics){ 0 };
}

void et_statistics_collect(et_statistics *statistics, double value, double weight)
{
    et_metric_add(&et_metric_statistics, statistics,
                  &(et_sample){ .value = value, .weight = weight });
}

void et_statistics_collect_all(et_statistics *statistics, const double *values,
                               const double *weights, size_t count)
{
    for (size_t i = 0; i < count; i++)
        et_statistics_collect(statistics, values[i], weights ? weights[i] : 1);
}

int64_t et_statistics_counter(const et_statistics *statistics)
{
    return statistics->counter;
}

double et_statistics_mean(const et_statistics *statistics)
{
    return mean(statistics->sums);
}

double et_statistics_var(const et_statistics *statistics)
{
    return variance(statistics->sums);
}

double et_statistics_stddev(const et_statistics *statistics)
{
    return sqrt(et_statistics_var(statistics));
}

double et_statistics_weight_sum(const et_statistics *statistics)
{
    return et_exact_sum_value(&statistics->sums[WEIGHT]);
}
