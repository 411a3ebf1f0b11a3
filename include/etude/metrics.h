/* Metrics: values that are added up, merged and read. A metric is a const object of one of the
 * kinds below. Its state, the sum of everything that was added, is bytes without pointers: it can
 * be saved, sent to another process, or kept for each thread. Merging states in any grouping gives
 * values with the same bits. A set (et_metrics) names metrics and keeps the state of each, for
 * logs:
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
 *     int loss = et_metrics_index(metrics, "loss"), place = et_metrics_index(metrics, "digits");
 *     et_metrics_add_at(metrics, loss, 0.25, 1);                      without a look-up
 *     et_metrics_add_sample_at(metrics, place, &(et_sample){ 3, 8, 1 });   predicted 3, target 8
 *     et_metrics_free(metrics);
 *
 * Use a state or a set from one thread at a time. */
#ifndef ETUDE_METRICS_H
#define ETUDE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/state.h>
#include <etude/value.h>

typedef struct et_metric_class et_metric_class; /* internal */

typedef struct et_metric {
    const et_metric_class *ET_CLASS;
} et_metric;

/* One value to add. Weight 0: the value is ignored, also NaN, except by sum, ratio and perplexity,
 * which add values as they are. */
typedef struct et_sample {
    double value;  /* a number, a prediction, or a predicted class */
    double target; /* the true value; some kinds ignore it */
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

/* Confusion counts: how often class t was predicted as class y, in units of 2^-24 of a weight.
 * Weights are rounded to such units, so up to 2^39 samples are counted exactly. Values and targets
 * are classes from 0. A sample of another class, or with a weight below 0 or from 2^39 on, is
 * ignored. With two classes, the values below are those of class 1. With more, they are means over
 * all classes that were a target (macro). With tp, fp, fn of a class:
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

/* ---- named sets: defining metrics allocates memory, adding and merging do not ---- */

typedef struct et_metrics et_metrics;

ET_API int et_metrics_new(et_metrics **out, et_error *error);
ET_API void et_metrics_free(et_metrics *metrics); /* NULL allowed */

/* Adds a metric under a name (copied). Adding the same name and metric again is allowed. metric
 * outlives the set. ET_EUSAGE: another metric has the name, or the metric is invalid. */
ET_API int et_metrics_define(et_metrics *metrics, const char *name, const et_metric *metric,
                             et_error *error);

/* Adds a value to a defined metric; other names are ignored. For a plain mean, weight is 1. */
ET_API void et_metrics_add(et_metrics *metrics, const char *name, double value, double weight);

/* The same without a look-up, for use in every step. The place of a metric never changes. No such
 * name: -1; adding to place -1 does nothing. */
ET_API int et_metrics_index(const et_metrics *metrics, const char *name);
ET_API void et_metrics_add_at(et_metrics *metrics, int index, double value, double weight);
ET_API void et_metrics_add_sample_at(et_metrics *metrics, int index, const et_sample *sample);

/* Resets all states. */
ET_API void et_metrics_reset(et_metrics *metrics);

/* Sets each value in dict, in the order of definition; values of a metric with several are
 * "name/value". */
ET_API int et_metrics_results(const et_metrics *metrics, et_value *dict, et_error *error);

/* A metric's first value; NaN if nothing was added or the metric is not defined. */
ET_API double et_metrics_value(const et_metrics *metrics, const char *name);

/* For et_state_add: saves states bit for bit. ET_EFORMAT: restored states have other
 * definitions. */
ET_DATA const et_part_class et_metrics_state;

#endif
