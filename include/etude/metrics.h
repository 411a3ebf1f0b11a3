/* Metrics: what is added up, merged and read. A metric is a const object of some kind; what was
 * added to it, its state, is bytes without pointers: saved, sent to another process, kept for each
 * thread. Merging states in any grouping gives values with the same bits. A set (et_metrics) names
 * metrics and keeps a state of each, for logs:
 *
 *     static const et_confusion digits = ET_CONFUSION(10);
 *     et_metrics_new(&metrics, &error);
 *     et_metrics_define(metrics, "loss", &et_metric_mean, &error);
 *     et_metrics_define(metrics, "digits", &digits.metric, &error);   digits/precision, ...
 *     et_metrics_add(metrics, "loss", 0.25, 1);                       each step
 *     et_metrics_results(metrics, logs, &error);                      name: value
 *     printf("%.3f\n", et_metrics_value(metrics, "loss"));
 *     et_metrics_reset(metrics);
 *
 *     int loss = et_metrics_place(metrics, "loss"), place = et_metrics_place(metrics, "digits");
 *     et_metrics_add_at(metrics, loss, 0.25, 1);                      without a look-up
 *     et_metrics_add_sample_at(metrics, place, &(et_sample){ 3, 8, 1 });     an 8 taken for a 3
 *     et_metrics_free(metrics);
 *
 * A state or a set is used by one thread at a time. */
#ifndef ETUDE_METRICS_H
#define ETUDE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/state.h>
#include <etude/value.h>

typedef struct et_metric_class et_metric_class; /* the library's own */

typedef struct et_metric {
    const et_metric_class *ET_CLASS;
} et_metric;

/* One thing seen. Weight 0: a row that does not count. */
typedef struct et_sample {
    double value;  /* a number, a prediction, a class that was predicted */
    double target; /* what it should have been; kinds without one do not look at it */
    double weight;
} et_sample;

/* ---- kinds: w is a sample's weight, y its value, t its target ---- */

ET_DATA const et_metric et_metric_mean;       /* sum y w / sum w */
ET_DATA const et_metric et_metric_sum;        /* sum y; 0 when empty */
ET_DATA const et_metric et_metric_ratio;      /* sum y / sum w */
ET_DATA const et_metric et_metric_perplexity; /* exp(sum y / sum w), y in nats */
ET_DATA const et_metric et_metric_accuracy;   /* sum w [y = t] / sum w */

/* "mse", "rmse", "mae", "r2" = 1 - sum w (y - t)^2 / sum w (t - mean t)^2. */
ET_DATA const et_metric et_metric_regression;

/* "mean", "stddev", "var", "weight_sum", "counter" of values: <etude/statistics.h>. */
ET_DATA const et_metric et_metric_statistics;

/* How often class t was taken for class y, in units of 2^-24 of a weight (a weight is rounded to
 * them, so up to 2^39 samples are counted exactly). Values and targets are classes from 0; a
 * sample of another one is not counted, nor one whose weight is not from 0 to below 2^39. Of
 * several classes the values are means over those that were ever a target (macro), of two those of
 * class 1; with tp, fp, fn of a class:
 *   accuracy, precision = tp / (tp + fp), recall = tp / (tp + fn), f1 = 2 tp / (2 tp + fp + fn),
 *   balanced_accuracy = mean of recall over classes
 * A class that was never predicted has precision 0. */
typedef struct et_confusion {
    et_metric metric;
    int64_t classes; /* 2 to 32,768 */
} et_confusion;

ET_DATA const et_metric_class et_confusion_class;

#define ET_CONFUSION(classes)                                                                      \
    {                                                                                              \
        { &et_confusion_class }, (classes)                                                         \
    }

/* ---- named sets: memory is taken when metrics are defined, none by adding or merging ---- */

typedef struct et_metrics et_metrics;

ET_API int et_metrics_new(et_metrics **out, et_error *error);
ET_API void et_metrics_free(et_metrics *metrics); /* NULL allowed */

/* Adds a metric under a name (copied); the same name and metric again is fine. metric outlives the
 * set. ET_EUSAGE: another metric has the name; a metric that cannot be. */
ET_API int et_metrics_define(et_metrics *metrics, const char *name, const et_metric *metric,
                             et_error *error);

/* Adds a value to a metric that is defined; a name that is not is left out. weight 1 for a plain
 * mean. */
ET_API void et_metrics_add(et_metrics *metrics, const char *name, double value, double weight);

/* The same without a look-up, for every step: the place of a metric never changes. -1: there is
 * none of this name, and to no place nothing is added. */
ET_API int et_metrics_place(const et_metrics *metrics, const char *name);
ET_API void et_metrics_add_at(et_metrics *metrics, int place, double value, double weight);
ET_API void et_metrics_add_sample_at(et_metrics *metrics, int place, const et_sample *sample);

/* Forgets all that was added. */
ET_API void et_metrics_reset(et_metrics *metrics);

/* Sets each value in dict, in order of definition; of a metric with several as "name/value". */
ET_API int et_metrics_results(const et_metrics *metrics, et_value *dict, et_error *error);

/* A metric's first value; NaN when empty, or not defined. */
ET_API double et_metrics_value(const et_metrics *metrics, const char *name);

/* For et_state_add: states, bit for bit. Restoring other definitions is ET_EFORMAT. */
ET_DATA const et_part_class et_metrics_state;

#endif
