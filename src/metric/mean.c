/* Kinds that are two sums:
 *
 *   class       add(y, w)                       value()
 *   mean        total += y w,       weight += w   total / weight
 *   sum         total += y,         weight += w   total
 *   ratio       total += y,         weight += w   total / weight
 *   perplexity  total += y,         weight += w   exp(total / weight)
 *   accuracy    total += w [y = t], weight += w   total / weight
 *
 * 0 / 0 is NaN: nothing was added, which differs from a mean of 0. An infinity or a NaN that was
 * added appears in the value: a log shows it, and does not stop. */
#include <math.h>

#include "base/inline.h"
#include "metric/metric.h"

enum { TOTAL, WEIGHT };

static const char *const sum_names[] = { "total", "weight", NULL };
static const char *const own_name[] = { "", NULL };

ET_NOINLINE static void add_digits(et_exact_sum *sums, double total, double weight)
{
    et_exact_sum_add_digits(&sums[WEIGHT], weight);
    et_exact_sum_add(&sums[TOTAL], total);
}

/* Weights are counts most often, and taken by the head. */
static inline void add_two(et_exact_sum *sums, double total, double weight)
{
    if (et_exact_sum_takes(&sums[WEIGHT], weight))
        et_exact_sum_add(&sums[TOTAL], total);
    else
        add_digits(sums, total, weight);
}

static void add_weighted(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                         const et_sample *sample)
{
    (void)metric, (void)counts;
    if (sample->weight != 0) /* 0 times NaN would be NaN */
        add_two(sums, sample->value * sample->weight, sample->weight);
}

static void add_pair(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                     const et_sample *sample)
{
    (void)metric, (void)counts;
    add_two(sums, sample->value, sample->weight);
}

static void add_equal(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                      const et_sample *sample)
{
    (void)metric, (void)counts;
    add_two(sums, sample->value == sample->target ? sample->weight : 0, sample->weight);
}

/* Of a perplexity, exp of the mean of negative log-likelihoods in nats. */
static void value(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double *values)
{
    (void)counts;
    values[0] = et_exact_sum_value(&sums[TOTAL]);
    if (metric->class != et_metric_sum.class)
        values[0] /= et_exact_sum_value(&sums[WEIGHT]);
    if (metric->class == et_metric_perplexity.class)
        values[0] = exp(values[0]);
}

#define KIND(id, adder)                                                                            \
    static const et_metric_class id##_class = {                                                    \
        .name = #id, .values = own_name, .sums = sum_names, .add = (adder), .value = value         \
    };                                                                                             \
    const et_metric et_metric_##id = { &id##_class };

KIND(mean, add_weighted)
KIND(sum, add_pair)
KIND(ratio, add_pair)
KIND(perplexity, add_pair)
KIND(accuracy, add_equal)
