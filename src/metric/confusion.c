/* Confusion counts: [target, value], whole numbers, so merging is exact, and a matrix of a thousand
 * classes is 8 MB. */
#include <math.h>
#include <stdbool.h>

#include "metric/metric.h"

/* A unit of weight: float32 has no smaller part of 1. */
#define UNITS 16777216.0

#define WEIGHT_END 549755813888.0 /* 2^39, which units overflow at */

/* A matrix of 8 GiB. */
#define CLASSES_MAX 32768

static const char *const no_sums[] = { NULL };
static const char *const value_names[] = { "accuracy", "precision",         "recall",
                                           "f1",       "balanced_accuracy", NULL };

static int64_t classes_of(const et_metric *metric)
{
    return ((const et_confusion *)(const void *)metric)->classes;
}

static int64_t count(const et_metric *metric)
{
    return classes_of(metric) * classes_of(metric);
}

static bool is_sound(const et_metric *metric)
{
    return classes_of(metric) >= 2 && classes_of(metric) <= CLASSES_MAX;
}

static bool takes(const et_metric *metric, const et_sample *sample)
{
    const double classes = (double)classes_of(metric);
    return sample->target >= 0 && sample->target < classes && sample->value >= 0 &&
           sample->value < classes;
}

static void add(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample)
{
    (void)sums;
    int64_t classes = classes_of(metric);
    bool weighs = sample->weight > 0 && sample->weight < WEIGHT_END;
    if (!takes(metric, sample) || !weighs)
        return;
    int64_t target = (int64_t)sample->target, value = (int64_t)sample->value;
    counts[target * classes + value] += llrint(sample->weight * UNITS);
}

/* Counts for one class. */
typedef struct outcome {
    double hit;       /* rows of the class that were predicted as the class */
    double targets;   /* it was it */
    double predicted; /* rows that were predicted as the class */
} outcome;

static outcome outcome_of(const int64_t *counts, int64_t classes, int64_t class)
{
    int64_t targets = 0, predicted = 0;
    for (int64_t i = 0; i < classes; i++) {
        targets += counts[class * classes + i];
        predicted += counts[i * classes + class];
    }
    return (outcome){ (double)counts[class * classes + class], (double)targets, (double)predicted };
}

static double precision_of(outcome o)
{
    return o.predicted > 0 ? o.hit / o.predicted : 0;
}

static void value(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double *values)
{
    (void)sums;
    int64_t classes = classes_of(metric);
    double hits = 0, all = 0, seen = 0, precision = 0, recall = 0, f1 = 0;
    for (int64_t i = 0; i < classes; i++) {
        outcome o = outcome_of(counts, classes, i);
        hits += o.hit;
        all += o.targets;
        if (o.targets <= 0)
            continue;
        seen++;
        precision += precision_of(o);
        recall += o.hit / o.targets;
        f1 += 2 * o.hit / (o.targets + o.predicted);
    }
    values[0] = hits / all;
    values[4] = recall / seen;
    if (classes == 2) {
        outcome o = outcome_of(counts, classes, 1);
        precision = o.predicted > 0 || o.targets > 0 ? precision_of(o) : NAN;
        recall = o.hit / o.targets;
        f1 = 2 * o.hit / (o.targets + o.predicted);
        seen = 1;
    }
    values[1] = precision / seen;
    values[2] = recall / seen;
    values[3] = f1 / seen;
}

const et_metric_class et_confusion_class = { .name = "confusion",
                                             .values = value_names,
                                             .sums = no_sums,
                                             .count = count,
                                             .is_sound = is_sound,
                                             .takes = takes,
                                             .add = add,
                                             .value = value };
