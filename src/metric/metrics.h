/* Metrics of a run: a named set, to which steps or batches add, which is merged over ranks and
 * read for logs.
 *
 *     et_metrics_define(metrics, "training_loss", &et_metric_mean, &error);
 *     int loss = et_metrics_place(metrics, "training_loss");
 *     et_metrics_add_at(metrics, loss, loss_sum / tokens, tokens);          each step
 *     et_metrics_results(metrics, logs, &error);                            name: value
 *
 * A metric with several values is logged as "name/value". Memory is taken when metrics are
 * defined; adding, merging and clearing take none. One thread. */
#ifndef ETUDE_METRIC_METRICS_H
#define ETUDE_METRIC_METRICS_H

#include <etude/state.h>
#include "metric/kinds.h"

typedef struct et_metrics et_metrics;

int et_metrics_new(et_metrics **out, et_error *error);
void et_metrics_free(et_metrics *metrics); /* NULL allowed */

/* Adds a metric under a name (copied); the same name and metric again is fine. metric outlives the
 * set. */
int et_metrics_define(et_metrics *metrics, const char *name, const et_metric *metric,
                      et_error *error);

/* Adds a value to a metric that is defined. weight 1 for a plain mean. */
void et_metrics_add(et_metrics *metrics, const char *name, double value, double weight);

/* The same without a look-up, for every step: the place of a metric never changes. */
int et_metrics_place(const et_metrics *metrics, const char *name);
void et_metrics_add_at(et_metrics *metrics, int place, double value, double weight);
void et_metrics_add_sample_at(et_metrics *metrics, int place, const et_sample *sample);

/* Adds a state of that metric which was made elsewhere. */
void et_metrics_merge_at(et_metrics *metrics, int place, const void *state);

/* Adds what another set with the same definitions has. */
void et_metrics_merge(et_metrics *metrics, const et_metrics *other);

/* Forgets all that was added. */
void et_metrics_reset(et_metrics *metrics);

/* All states, one behind another in order of definition: what ranks send each other. Borrowed
 * until the next definition. */
size_t et_metrics_bytes(et_metrics *metrics, void **bytes);
/* Merges such bytes of a set with the same definitions in the same order. */
void et_metrics_merge_bytes(et_metrics *metrics, const void *bytes);

/* Sets each value in dict, in order of definition. */
int et_metrics_results(const et_metrics *metrics, et_value *dict, et_error *error);

/* A metric's first value; NaN when empty. */
double et_metrics_value(const et_metrics *metrics, const char *name);

/* For et_state_add: states, bit for bit. Restoring other definitions is ET_EFORMAT. */
extern const et_part_class et_metrics_state;

#endif
