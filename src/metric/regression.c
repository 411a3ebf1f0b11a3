/* Errors of numbers, d = y - t:
 *
 *   mse = S(w d^2) / S(w),  rmse = sqrt(mse),  mae = S(w |d|) / S(w),
 *   r2 = 1 - S(w d^2) / (S(w t^2) - S(w t)^2 / S(w))
 *
 * The bracket is a small difference of large numbers where targets are far from 0. So t^2 is added
 * as the two doubles whose sum it is, and the difference is taken of values with their rests: with
 * weights of 1 it loses nothing that a double could show. */
#include <math.h>

#include "metric/kinds.h"

enum { WEIGHT, SQUARED, ABSOLUTE, TARGET, TARGET_SQUARED };

static const char *const sum_names[] = { "weight", "squared",        "absolute",
                                         "target", "target_squared", NULL };
static const char *const value_names[] = { "mse", "rmse", "mae", "r2", NULL };

static void add(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample)
{
    (void)metric, (void)counts;
    double w = sample->weight, t = sample->target, d = sample->value - t, square = t * t;
    et_exact_sum_add(&sums[WEIGHT], w);
    et_exact_sum_add(&sums[SQUARED], w * (d * d));
    et_exact_sum_add(&sums[ABSOLUTE], w * fabs(d));
    et_exact_sum_add(&sums[TARGET], w * t);
    et_exact_sum_add(&sums[TARGET_SQUARED], w * square);
    et_exact_sum_add(&sums[TARGET_SQUARED], w * fma(t, t, -square));
}

/* s2 - s1^2 / weight, with s1 and s2 as pairs: q = s1 / weight rounded, r what it leaves; then
 * s1^2 / weight = q s1 + q r + r^2 / weight, of which the last is below what counts. */
static double spread(const et_exact_sum *sums)
{
    double weight = et_exact_sum_value(&sums[WEIGHT]);
    double s1 = et_exact_sum_value(&sums[TARGET]), s1_rest = et_exact_sum_rest(&sums[TARGET]);
    double s2 = et_exact_sum_value(&sums[TARGET_SQUARED]);
    double s2_rest = et_exact_sum_rest(&sums[TARGET_SQUARED]);
    double q = s1 / weight, r = fma(-q, weight, s1) + 2 * s1_rest;
    double product = q * s1, product_rest = fma(q, s1, -product);
    return (s2 - product) + (s2_rest - product_rest - q * r);
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
    values[3] = 1 - squared / spread(sums);
}

static const et_metric_class class = {
    .name = "regression", .values = value_names, .sums = sum_names, .add = add, .value = value
};

const et_metric et_metric_regression = { &class };
