/* Errors of numbers, d = y - t:
 *
 *   mse = S(w d^2) / S(w),  rmse = sqrt(mse),  mae = S(w |d|) / S(w),
 *   r2 = 1 - S(w d^2) / (S(w t^2) - S(w t)^2 / S(w))
 *
 * where the bracket is et_exact_sum_deviation. */
#include <math.h>

#include "metric/metric.h"

enum { WEIGHT, SQUARED, ABSOLUTE, TARGET, TARGET_SQUARED };

static const char *const sum_names[] = { "weight", "squared",        "absolute",
                                         "target", "target_squared", NULL };
static const char *const value_names[] = { "mse", "rmse", "mae", "r2", NULL };

static void add(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample)
{
    (void)metric, (void)counts;
    double w = sample->weight, t = sample->target, d = sample->value - t;
    if (w == 0) /* 0 times NaN would be NaN */
        return;
    et_exact_sum_add(&sums[WEIGHT], w);
    et_exact_sum_add(&sums[SQUARED], w * (d * d));
    et_exact_sum_add(&sums[ABSOLUTE], w * fabs(d));
    et_exact_sum_add(&sums[TARGET], w * t);
    et_exact_sum_add_square(&sums[TARGET_SQUARED], w, t);
}

static void value(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double *values)
{
    (void)metric, (void)counts;
    double weight = et_exact_sum_value(&sums[WEIGHT]);
    double squared = et_exact_sum_value(&sums[SQUARED]);
    values[0] = squared / weight;
    values[1] = sqrt(values[0]);
    values[2] = et_exact_sum_value(&sums[ABSOLUTE]) / weight;
    values[3] =
        1 - squared / et_exact_sum_deviation(&sums[WEIGHT], &sums[TARGET], &sums[TARGET_SQUARED]);
}

static const et_metric_class class = {
    .name = "regression", .values = value_names, .sums = sum_names, .add = add, .value = value
};

const et_metric et_metric_regression = { &class };
