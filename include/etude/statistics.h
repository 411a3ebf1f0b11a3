/* Statistics of a stream of values: weighted mean, variance, count. Nothing is rounded while values
 * are added, so their order and grouping do not change a bit.
 *
 *     et_statistics_new(&statistics, &error);
 *     et_statistics_collect(statistics, 2, 1);
 *     et_statistics_collect(statistics, 3, 3);
 *     double mean = et_statistics_mean(statistics);      2.75
 *     printf("%.2f +- %.2f, variance %.2f\n", mean, et_statistics_stddev(statistics),
 *            et_statistics_var(statistics));
 *     et_statistics_reset(statistics);
 *     et_statistics_collect_all(statistics, values, NULL, 3);
 *     printf("%d of weight %g\n", (int)et_statistics_counter(statistics),
 *            et_statistics_weight_sum(statistics));
 *     et_statistics_free(statistics);
 *
 * As a metric of a set: et_metric_statistics (<etude/metrics.h>). Use from one thread at a time. */
#ifndef ETUDE_STATISTICS_H
#define ETUDE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_statistics et_statistics;

ET_API int et_statistics_new(et_statistics **out, et_error *error);
ET_API void et_statistics_free(et_statistics *statistics); /* NULL allowed */
ET_API void et_statistics_reset(et_statistics *statistics);

ET_API void et_statistics_collect(et_statistics *statistics, double value, double weight);
/* Adds count values; weights NULL: 1 each. count 0: nothing. */
ET_API void et_statistics_collect_all(et_statistics *statistics, const double *values,
                                      const double *weights, size_t count);

ET_API int64_t et_statistics_counter(const et_statistics *statistics); /* values collected */
/* NaN: the sum of weights is 0. */
ET_API double et_statistics_mean(const et_statistics *statistics);
/* sum w (x - mean)^2 / sum w, at least 0; and its square root. */
ET_API double et_statistics_var(const et_statistics *statistics);
ET_API double et_statistics_stddev(const et_statistics *statistics);
ET_API double et_statistics_weight_sum(const et_statistics *statistics);

#endif
