/* Looks up values of logs by the names that people use. */
#ifndef ETUDE_TRAIN_CHECKPOINT_METRIC_NAME_H
#define ETUDE_TRAIN_CHECKPOINT_METRIC_NAME_H

#include <etude/value.h>

/* The number with this name, which may contain dots and bars; otherwise a number in nested dicts:
 * "a|b", "a/b" and "a.b" are b in the dict a. False: no such number. */
bool et_metric_named(const et_value *logs, const char *name, double *value);

/* The name of another metric of the same set: "b" and "a|c" give "a|b". In arena; NULL: no
 * memory. */
const char *et_metric_beside(const char *metric, const char *name, et_arena *arena);

/* Whether a lower value is better, judged by the name: a loss, an error, a perplexity, a time. The
 * name of a set before the metric's name ("news/") does not count. */
bool et_metric_lower_is_better(const char *metric);

/* Whether two names mean the same measure of the same data: "loss"; "nll", the negative
 * log-likelihood, which differs only with label smoothing, weights and similar options; "log_loss",
 * computed from the probabilities of classes; or its negative "log_likelihood" in older runs. */
bool et_metric_is_double(const char *a, const char *b);

/* Whether both are the same number except for its sign and float32's rounding; two NaNs are. */
bool et_metric_equals(double a, double b);

/* Whether logs, the parent of value, have the same number and measure (et_metric_is_double) under a
 * preferred name. The order is log_loss, loss, nll, log_likelihood. */
bool et_metric_repeats(const et_value *logs, const et_value *value);

#endif
