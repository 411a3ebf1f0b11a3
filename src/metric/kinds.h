/* Kinds of metrics. Those without options are objects here; the others are values of the caller's
 * that begin with an et_metric and live as long as what uses them:
 *
 *     static const et_confusion digits = ET_CONFUSION(10);
 *     et_metrics_define(metrics, "digits", &digits.metric, &error);   digits/precision, ...
 *
 * w: a sample's weight, y: its value, t: its target. */
#ifndef ETUDE_METRIC_KINDS_H
#define ETUDE_METRIC_KINDS_H

#include <etude/score.h>

#include "metric/metric.h"

extern const et_metric et_metric_mean;       /* sum y w / sum w */
extern const et_metric et_metric_sum;        /* sum y; 0 when empty */
extern const et_metric et_metric_ratio;      /* sum y / sum w */
extern const et_metric et_metric_perplexity; /* exp(sum y / sum w), y in nats */
extern const et_metric et_metric_accuracy;   /* sum w [y = t] / sum w */

/* "mse", "rmse", "mae", "r2" = 1 - sum w (y - t)^2 / sum w (t - mean t)^2. */
extern const et_metric et_metric_regression;

/* How often class t was taken for class y, in units of 2^-24 of a weight (a weight is rounded to
 * them, so up to 2^39 samples are counted exactly). Values and targets are classes from 0; one
 * that is none of `classes` is the caller's mistake. Of several classes the values are means over
 * those that were ever a target (macro), of two those of class 1; with tp, fp, fn of a class:
 *   accuracy, precision = tp / (tp + fp), recall = tp / (tp + fn), f1 = 2 tp / (2 tp + fp + fn),
 *   balanced_accuracy = mean of recall over classes
 * A class that was never predicted has precision 0. */
typedef struct et_confusion {
    et_metric metric;
    int64_t classes; /* at least 2 */
} et_confusion;

extern const et_metric_class et_confusion_class;

#define ET_CONFUSION(classes)                                                                      \
    {                                                                                              \
        { &et_confusion_class }, (classes)                                                         \
    }

/* Weight of samples of class target that were taken for class value. */
double et_confusion_at(const et_confusion *confusion, const void *state, int64_t target,
                       int64_t value);

/* Corpus scores: the state is et_bleu_counts or et_chrf_counts, which et_bleu_total and
 * et_chrf_total give, to be merged. BLEU gives its own name, "bp", "hyp_len" and "ref_len"; chrF
 * one value. */
typedef struct et_bleu_metric {
    et_metric metric;
    et_bleu_options options; /* of the formula; who counts has the same */
} et_bleu_metric;

extern const et_metric_class et_bleu_metric_class;

#define ET_BLEU_METRIC(options)                                                                    \
    {                                                                                              \
        { &et_bleu_metric_class }, options                                                         \
    }

extern const et_metric et_metric_chrf;

#endif
