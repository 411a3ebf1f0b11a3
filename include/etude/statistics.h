/* Statistics of a stream of values: weighted mean, variance, count. A value is a number, or an
 * array whose elements have statistics of their own. Nothing is rounded while values are added, so
 * their order and grouping do not change a bit.
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
 *     et_statistics_new_array(&pixels, et_shape_2(28, 28), &error);
 *     et_statistics_collect_array(pixels, images, et_shape_3(100, 28, 28), NULL, et_shape_scalar(),
 *                                 &error);
 *     double corner = et_statistics_moments(pixels, 0).mean;
 *     bool same = et_shape_equal(et_statistics_shape(pixels), et_shape_2(28, 28));
 *     et_statistics_free(pixels);
 *
 * As a metric of a set: et_metric_statistics (<etude/metrics.h>). Use from one thread at a time. */
#ifndef ETUDE_STATISTICS_H
#define ETUDE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/tensor.h>

typedef struct et_statistics et_statistics;

/* Moments of an element: E[x], E[x^2], var = E[(x - mean)^2] >= 0, stddev = sqrt(var). 0 if nothing
 * was collected; NaN if the sum of weights is 0. */
typedef struct et_moments {
    double mean, square, var, stddev;
} et_moments;

ET_API int et_statistics_new(et_statistics **out, et_error *error); /* of numbers */
/* Statistics of arrays of this shape, with 1,100 bytes per element. ET_ECONFIG: the shape is
 * invalid or empty. */
ET_API int et_statistics_new_array(et_statistics **out, et_shape shape, et_error *error);
ET_API void et_statistics_free(et_statistics *statistics); /* NULL allowed */
ET_API void et_statistics_reset(et_statistics *statistics);

/* Statistics of numbers only. all: adds count values; weights NULL: 1 each. count 0: nothing. */
ET_API void et_statistics_collect(et_statistics *statistics, double value, double weight);
ET_API void et_statistics_collect_all(et_statistics *statistics, const double *values,
                                      const double *weights, size_t count);
/* Adds a batch of values: shape is the batch's shape followed by the shape of a value; a size 0: no
 * values. Weights broadcast to the batch's shape as in NumPy; NULL or none: 1 each. ET_EDATA: shape
 * does not end with the shape of a value, or the weights do not broadcast; nothing is added. */
ET_API int et_statistics_collect_array(et_statistics *statistics, const double *values,
                                       et_shape shape, const double *weights,
                                       et_shape weights_shape, et_error *error);

ET_API et_shape et_statistics_shape(const et_statistics *statistics);  /* of a value */
ET_API int64_t et_statistics_counter(const et_statistics *statistics); /* values collected */
ET_API double et_statistics_weight_sum(const et_statistics *statistics);
/* Moments of an element, row-major from 0; NaN if the element does not exist. */
ET_API et_moments et_statistics_moments(const et_statistics *statistics, int64_t element);
/* The moments of element 0. */
ET_API double et_statistics_mean(const et_statistics *statistics);
ET_API double et_statistics_var(const et_statistics *statistics);
ET_API double et_statistics_stddev(const et_statistics *statistics);

#endif
