/* Metrics, for the library, beyond <etude/metrics.h>: making a class, and the size of a set. A
 * state is exact sums of doubles, then whole numbers. */
#ifndef ETUDE_METRIC_METRIC_H
#define ETUDE_METRIC_METRIC_H

#include <stdbool.h>

#include <etude/metrics.h>

#include "metric/exact_sum.h"

#define ET_METRIC_VALUES_MAX 8 /* that one metric gives */

/* sums and count say how the state is laid out: et_exact_sum [sums], then int64_t [count]. */
struct et_metric_class {
    const char *name;          /* in checkpoints, so it must not change */
    const char *const *values; /* names of its values, ended by NULL; "": the metric's own name */
    const char *const *sums;   /* names in checkpoints, ended by NULL */
    int64_t (*count)(const et_metric *metric); /* of whole numbers; NULL: none */
    /* Checks that the metric is possible, and can count a sample; NULL: any. Others are not
     * added. */
    bool (*is_sound)(const et_metric *metric);
    bool (*takes)(const et_metric *metric, const et_sample *sample);
    void (*add)(const et_metric *metric, et_exact_sum *sums, int64_t *counts,
                const et_sample *sample);
    /* NaN without relevant samples. */
    void (*value)(const et_metric *metric, const et_exact_sum *sums, const int64_t *counts,
                  double values[ET_METRIC_VALUES_MAX]);
};

/* How many metrics a set has; places are below it. */
size_t et_metrics_count(const et_metrics *metrics);

/* The first common name; NULL: none. */
const char *et_metrics_common(const et_metrics *metrics, const et_metrics *others);

/* The name of the first metric that cannot count a sample; NULL: all can. */
const char *et_metrics_refusing(const et_metrics *metrics, const et_sample *sample);

/* Adds the values of another set, for metrics that both sets define. */
void et_metrics_merge(et_metrics *metrics, const et_metrics *other);

/* All states, one after another in order of definition: processes exchange these bytes. Borrowed
 * until the next definition. */
size_t et_metrics_bytes(et_metrics *metrics, void **bytes);

/* Merges such bytes of a set with the same definitions in the same order. */
void et_metrics_merge_bytes(et_metrics *metrics, const void *bytes);

/* Bytes for a process that does not trust this one: copies all states, settled. is_settled: whether
 * bytes are such a copy, and can be merged. Both aligned as int64_t. */
void et_metrics_copy_settled(const et_metrics *metrics, void *bytes);
bool et_metrics_is_settled(const et_metrics *metrics, const void *bytes);

/* ---- states, which the caller owns: et_metric_size bytes, zeros: nothing was added ---- */

size_t et_metric_size(const et_metric *metric);
void et_metric_add(const et_metric *metric, void *state, const et_sample *sample);
void et_metric_merge(const et_metric *metric, void *state, const void *other);

/* Both return how many there are: at most ET_METRIC_VALUES_MAX. */
int et_metric_names(const et_metric *metric, const char *const **names);
int et_metric_value(const et_metric *metric, const void *state,
                    double values[ET_METRIC_VALUES_MAX]);

/* Bit for bit, as class, sums by name and "counts"; the arena of dict keeps a lack of memory.
 * ET_EFORMAT: another class, another size. */
void et_metric_save(const et_metric *metric, const void *state, et_value *dict);
int et_metric_restore(const et_metric *metric, void *state, const et_value *dict, et_error *error);

#endif
