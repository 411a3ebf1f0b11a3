/* A short list in order of definition, which is also the order in logs, and one block with all
 * states, one after another. The position of a metric never changes, so code that adds in every
 * step looks up its names once. The block is cleared, merged and sent as a whole. */

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/vector.h"
#include "metric/metric.h"

typedef struct item {
    char *name;              /* owned */
    const et_metric *metric; /* borrowed */
    size_t at;               /* of its state, in the block */
} item;

/* items: [count], owned. bytes: [size], owned; zeros: nothing was added since the last reset. */
struct et_metrics {
    item *items;
    size_t count, capacity;
    unsigned char *bytes;
    size_t size;
};

int et_metrics_new(et_metrics **out, et_error *error)
{
    *out = et_alloc_zero(1, sizeof **out);
    return *out ? ET_OK : et_alloc_failed(error, sizeof **out, "metrics");
}

void et_metrics_free(et_metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t i = 0; i < metrics->count; i++)
        et_free(metrics->items[i].name);
    et_free(metrics->items);
    et_free(metrics->bytes);
    et_free(metrics);
}

/* Sets are small, so a list is fast enough. */
static item *find(const et_metrics *metrics, const char *name)
{
    for (size_t i = 0; name && i < metrics->count; i++)
        if (strcmp(metrics->items[i].name, name) == 0)
            return &metrics->items[i];
    return NULL;
}

static void *state_of(const et_metrics *metrics, const item *one)
{
    return metrics->bytes + one->at;
}

static int grow(et_metrics *metrics, size_t more, et_error *error)
{
    item *items =
        et_vector_grow(metrics->items, &metrics->capacity, metrics->count + 1, sizeof *items, 8);
    if (!items)
        return et_alloc_failed(error, (metrics->count + 1) * sizeof *items, "metrics");
    metrics->items = items;
    unsigned char *bytes = et_realloc(metrics->bytes, metrics->size + more, 1);
    if (!bytes)
        return et_alloc_failed(error, metrics->size + more, "metrics");
    memset(bytes + metrics->size, 0, more);
    metrics->bytes = bytes;
    return ET_OK;
}

static int check_definition(const et_metrics *metrics, const char *name, const et_metric *metric,
                            et_error *error)
{
    if (!name || !*name || !metric || !metric->class)
        return et_fail(error, ET_EUSAGE, "a metric needs a name and a kind");
    if (metric->class->is_sound && !metric->class->is_sound(metric))
        return et_fail(error, ET_EUSAGE, "metric %s, a %s: give 2 to 32,768 classes", name,
                       metric->class->name);
    const item *known = find(metrics, name);
    if (known && known->metric != metric)
        return et_fail(error, ET_EUSAGE, "metric %s: another metric has this name", name);
    return ET_OK;
}

/* A known name takes no second place: a task and the step may define the same metric. */
int et_metrics_define(et_metrics *metrics, const char *name, const et_metric *metric,
                      et_error *error)
{
    int status = check_definition(metrics, name, metric, error);
    if (status || find(metrics, name))
        return status;
    size_t size = et_metric_size(metric);
    if (grow(metrics, size, error))
        return ET_ENOMEM;
    char *copy = et_strdup(name);
    if (!copy)
        return et_alloc_failed(error, strlen(name) + 1, "a metric's name");
    metrics->items[metrics->count++] = (item){ copy, metric, metrics->size };
    metrics->size += size;
    return ET_OK;
}

int et_metrics_index(const et_metrics *metrics, const char *name)
{
    const item *one = find(metrics, name);
    return one ? (int)(one - metrics->items) : -1;
}

size_t et_metrics_count(const et_metrics *metrics)
{
    return metrics->count;
}

/* Also of -1, which is more than any count then. */
static bool is_index(const et_metrics *metrics, int index)
{
    return (size_t)index < metrics->count;
}

const char *et_metrics_common(const et_metrics *metrics, const et_metrics *others)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (find(others, metrics->items[i].name))
            return metrics->items[i].name;
    return NULL;
}

const char *et_metrics_refusing(const et_metrics *metrics, const et_sample *sample)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const et_metric *metric = metrics->items[i].metric;
        if (metric->class->takes && !metric->class->takes(metric, sample))
            return metrics->items[i].name;
    }
    return NULL;
}

static inline void add(et_metrics *metrics, int index, const et_sample *sample)
{
    if (!is_index(metrics, index))
        return;
    const item *one = &metrics->items[index];
    et_metric_add(one->metric, state_of(metrics, one), sample);
}

void et_metrics_add_sample_at(et_metrics *metrics, int index, const et_sample *sample)
{
    add(metrics, index, sample);
}

void et_metrics_add_at(et_metrics *metrics, int index, double value, double weight)
{
    add(metrics, index, &(et_sample){ .value = value, .weight = weight });
}

void et_metrics_add(et_metrics *metrics, const char *name, double value, double weight)
{
    et_metrics_add_at(metrics, et_metrics_index(metrics, name), value, weight);
}

/* By name, so that two sets may have been defined in another order. */
void et_metrics_merge(et_metrics *metrics, const et_metrics *other)
{
    for (size_t i = 0; i < other->count; i++) {
        const item *theirs = &other->items[i], *ours = find(metrics, theirs->name);
        if (ours && ours->metric == theirs->metric)
            et_metric_merge(ours->metric, state_of(metrics, ours), state_of(other, theirs));
    }
}

void et_metrics_reset(et_metrics *metrics)
{
    if (metrics->size)
        memset(metrics->bytes, 0, metrics->size);
}

size_t et_metrics_bytes(et_metrics *metrics, void **bytes)
{
    *bytes = metrics->bytes;
    return metrics->size;
}

void et_metrics_merge_bytes(et_metrics *metrics, const void *bytes)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const item *one = &metrics->items[i];
        et_metric_merge(one->metric, state_of(metrics, one),
                        (const unsigned char *)bytes + one->at);
    }
}

void et_metrics_copy_settled(const et_metrics *metrics, void *bytes)
{
    if (metrics->size)
        memcpy(bytes, metrics->bytes, metrics->size);
    for (size_t i = 0; i < metrics->count; i++)
        et_metric_settle(metrics->items[i].metric, (unsigned char *)bytes + metrics->items[i].at);
}

bool et_metrics_is_settled(const et_metrics *metrics, const void *bytes)
{
    bool settled = true;
    for (size_t i = 0; settled && i < metrics->count; i++)
        settled = et_metric_is_settled(metrics->items[i].metric,
                                       (const unsigned char *)bytes + metrics->items[i].at);
    return settled;
}

/* "loss" or "digits/f1". */
static bool set_value(et_value *dict, const char *metric, const char *name, double value)
{
    if (!*name)
        return et_value_set_float(dict, metric, value) != NULL;
    const char *key = dict ? et_arena_printf(dict->arena, "%s/%s", metric, name) : NULL;
    return key && et_value_set_float(dict, key, value);
}

/* Includes metrics to which nothing was added; their value is NaN, or 0 for a sum. */
int et_metrics_results(const et_metrics *metrics, et_value *dict, et_error *error)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const item *one = &metrics->items[i];
        const char *const *names;
        double values[ET_METRIC_VALUES_MAX];
        int count = et_metric_names(one->metric, &names);
        et_metric_value(one->metric, state_of(metrics, one), values);
        for (int k = 0; k < count; k++)
            if (!set_value(dict, one->name, names[k], values[k]))
                return et_alloc_failed(error, 0, "a metric's value");
    }
    return ET_OK;
}

double et_metrics_value(const et_metrics *metrics, const char *name)
{
    const item *one = find(metrics, name);
    double values[ET_METRIC_VALUES_MAX];
    if (!one)
        return NAN;
    et_metric_value(one->metric, state_of(metrics, one), values);
    return values[0];
}

/* {"training_loss": {"class": "mean", "total": ..., "weight": ...}, ...}. If a checkpoint cuts a
 * window in two, the resumed run therefore logs the same values as an uninterrupted one. */
static int save(const void *self, et_value *dict, et_error *error)
{
    const et_metrics *metrics = self;
    for (size_t i = 0; i < metrics->count; i++) {
        const item *one = &metrics->items[i];
        et_value *values = et_value_set_dict(dict, one->name);
        if (!values)
            return et_alloc_failed(error, 0, "a state tree");
        int status = et_metric_save(one->metric, state_of(metrics, one), values, error);
        if (status)
            return status;
    }
    return ET_OK;
}

/* The same names in any order. A different set is refused, not merged: the window would hold
 * values of other steps than it says. */
static int restore(void *self, const et_value *dict, et_error *error)
{
    et_metrics *metrics = self;
    if (dict->count != metrics->count)
        return et_fail(error, ET_EFORMAT, "%zu metrics, but this run has %zu", dict->count,
                       metrics->count);
    for (size_t i = 0; i < metrics->count; i++) {
        const item *one = &metrics->items[i];
        int status = et_metric_restore(one->metric, state_of(metrics, one),
                                       et_value_get(dict, one->name), error);
        if (status)
            return et_fail_while(error, status, "%s", one->name);
    }
    return ET_OK;
}

const et_part_class et_metrics_state = { "metrics", save, restore };
