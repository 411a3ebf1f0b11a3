/* Streaming metrics: add, merge, value. An accumulator is two sums in double, so that ranks
 * and batches merge exactly by addition and a checkpoint holds it. A set names metrics, gives
 * them all as a dict, and is a part of the state tree.
 *
 *     et_metrics_define(metrics, "loss", &et_metric_mean, &error);
 *     et_metrics_add(metrics, "loss", sum_of_losses / tokens, tokens);
 *     et_metrics_results(metrics, dict, &error);                       {"loss": 2.31}
 *
 * Adding allocates nothing. One thread at a time. To add a kind: see README.md. */
#ifndef ETUDE_TRAIN_METRICS_H
#define ETUDE_TRAIN_METRICS_H

#include <stdbool.h>

#include <etude/error.h>

#include "base/value.h"
#include "train/state.h"

typedef struct et_metric_sums {
    double total;  /* sum of values, times their weights where the class says so */
    double weight; /* sum of weights; 0: nothing was added */
} et_metric_sums;

typedef struct et_metric_class {
    const char *name;
    void (*add)(et_metric_sums *sums, double value, double weight);
    void (*merge)(et_metric_sums *sums, const et_metric_sums *other);
    double (*value)(const et_metric_sums *sums); /* NaN when nothing was added */
} et_metric_class;

extern const et_metric_class et_metric_mean;       /* sum of value * weight / sum of weight */
extern const et_metric_class et_metric_sum;        /* sum of value; 0 when empty */
extern const et_metric_class et_metric_ratio;      /* sum of value / sum of weight */
extern const et_metric_class et_metric_perplexity; /* exp(sum of value / sum of weight) */

typedef struct et_metrics et_metrics;

int et_metrics_new(et_metrics **out, et_error *error);
void et_metrics_free(et_metrics *metrics); /* NULL allowed */

/* Adds a metric under a name (copied); the same name and class again is fine. */
int et_metrics_define(et_metrics *metrics, const char *name, const et_metric_class *class,
                      et_error *error);

/* Adds a value to a metric that is defined. weight 1 for a plain mean. */
void et_metrics_add(et_metrics *metrics, const char *name, double value, double weight);

/* The same without a look-up, for every step: the place of a metric never changes. */
int et_metrics_place(const et_metrics *metrics, const char *name);
void et_metrics_add_at(et_metrics *metrics, int place, double value, double weight);

/* Adds what another set with the same definitions has. */
void et_metrics_merge(et_metrics *metrics, const et_metrics *other);

/* Forgets all that was added. */
void et_metrics_reset(et_metrics *metrics);

/* Sets each metric's value in dict, in order of definition. */
int et_metrics_results(const et_metrics *metrics, et_value *dict, et_error *error);

/* One metric's value; NaN when empty. */
double et_metrics_value(const et_metrics *metrics, const char *name);

/* For et_state_add: accumulators, bit for bit. Restoring other definitions is ET_EFORMAT. */
extern const et_state_class et_metrics_state;

#endif
