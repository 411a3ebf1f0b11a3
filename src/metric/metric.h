/* Metrics: what is added up, merged and read. A metric is a const object (its class first, then
 * the options of its kind); what was added to it is bytes that the caller owns, without pointers:
 * exact sums of doubles, then whole numbers. So they are saved, sent to another rank or kept for
 * each thread, and merging them in any grouping gives values with the same bits.
 *
 *     void *state = et_alloc_zero(1, et_metric_size(metric));             zeros: nothing was added
 *     et_metric_add(metric, state, &(et_sample){ .value = 0.25, .weight = 1 });
 *     et_metric_merge(metric, state, other);
 *     et_metric_value(metric, state, values);                        as many as it has names for
 *
 * Kinds: kinds.h. Named metrics of a run: metrics.h. A state is used by one thread at a time. */
#ifndef ETUDE_METRIC_METRIC_H
#define ETUDE_METRIC_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "metric/exact_sum.h"

#define ET_METRIC_VALUES_MAX 8

typedef struct et_metric_class et_metric_class;

typedef struct et_metric {
    const et_metric_class *class;
} et_metric;

/* One thing seen. Weight 0: a row that does not count. */
typedef struct et_sample {
    double value;  /* a number, a prediction, a class that was predicted */
    double target; /* what it should have been; kinds without one do not look at it */
    double weight;
} et_sample;

/* sums and count say how the state is laid out: et_exact_sum [sums], then int64_t [count]. */
struct et_metric_class {
    const char *name;          /* in checkpoints, so it must not change */
    const char *const *values; /* what it gives, ended by NULL; "": the metric's own name */
    const char *const *sums;   /* names in checkpoints, ended by NULL */
    int64_t (*count)(const et_metric *metric); /* of whole numbers; NULL: none */
    /* NULL: states are made elsewhere (scores of texts) and merged. */
    void (*add)(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample);
    /* NaN where nothing that matters was added. */
    void (*value)(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double values[ET_METRIC_VALUES_MAX]);
};

/* Bytes of a state. */
size_t et_metric_size(const et_metric *metric);

void et_metric_clear(const et_metric *metric, void *state);
void et_metric_add(const et_metric *metric, void *state, const et_sample *sample);
void et_metric_merge(const et_metric *metric, void *state, const void *other);

/* Both return how many there are: at most ET_METRIC_VALUES_MAX. */
int et_metric_names(const et_metric *metric, const char *const **names);
int et_metric_value(const et_metric *metric, const void *state,
                    double values[ET_METRIC_VALUES_MAX]);

/* Bit for bit, as class, sums by name and "counts". ET_EFORMAT: another class, another size. */
int et_metric_save(const et_metric *metric, const void *state, et_value *dict, et_error *error);
int et_metric_restore(const et_metric *metric, void *state, const et_value *dict, et_error *error);

#endif
