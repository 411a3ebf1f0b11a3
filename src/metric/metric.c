/* The common part of all kinds: layout, merging and saving of a state follow from the numbers of
 * sums and whole numbers of its class. */
#include "metric/metric.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/vector.h"

static int names_in(const char *const *names)
{
    int count = 0;
    while (names[count])
        count++;
    return count;
}

static int64_t counts_of(const et_metric *metric)
{
    int64_t count = metric->class->count ? metric->class->count(metric) : 0;
    et_assert(count >= 0);
    return count;
}

/* Offset of the whole numbers: after the sums. */
static size_t sums_size(const et_metric *metric)
{
    return names_in(metric->class->sums) * sizeof(et_exact_sum);
}

static int64_t *counts_in(const et_metric *metric, const void *state)
{
    return (int64_t *)(void *)((char *)state + sums_size(metric));
}

size_t et_metric_size(const et_metric *metric)
{
    return sums_size(metric) + counts_of(metric) * sizeof(int64_t);
}

void et_metric_add(const et_metric *metric, void *state, const et_sample *sample)
{
    et_assert(metric->class->add);
    /* Most kinds have none, and this is called at every step. */
    int64_t *counts = metric->class->count ? counts_in(metric, state) : NULL;
    metric->class->add(metric, state, counts, sample);
}

void et_metric_merge(const et_metric *metric, void *state, const void *other)
{
    et_exact_sum *sums = state;
    const et_exact_sum *other_sums = other;
    for (int i = 0; i < names_in(metric->class->sums); i++)
        et_exact_sum_merge(&sums[i], &other_sums[i]);
    int64_t *counts = counts_in(metric, state), count = counts_of(metric);
    const int64_t *others = counts_in(metric, other);
    /* Counts of another process may be any, and their sum wraps. */
    for (int64_t i = 0; i < count; i++)
        counts[i] = (int64_t)((uint64_t)counts[i] + (uint64_t)others[i]);
}

int et_metric_names(const et_metric *metric, const char *const **names)
{
    *names = metric->class->values;
    int count = names_in(*names);
    et_assert(count >= 1 && count <= ET_METRIC_VALUES_MAX);
    return count;
}

int et_metric_value(const et_metric *metric, const void *state, double values[ET_METRIC_VALUES_MAX])
{
    const char *const *names;
    const int64_t *counts = counts_in(metric, state);
    metric->class->value(metric, state, counts, values);
    return et_metric_names(metric, &names);
}

void et_metric_save(const et_metric *metric, const void *state, et_value *dict)
{
    const et_exact_sum *sums = state;
    const char *const *names = metric->class->sums;
    const int64_t *counts = counts_in(metric, state), count = counts_of(metric);
    et_value_set_string(dict, "class", metric->class->name);
    for (int i = 0; names[i]; i++)
        et_exact_sum_save(&sums[i], dict, names[i]);
    et_value *list = count ? et_value_set_list(dict, "counts") : NULL;
    for (int64_t i = 0; i < count; i++)
        et_value_add_int(list, counts[i]);
}

static int restore_counts(int64_t *counts, int64_t count, const et_value *dict, et_error *error)
{
    const et_value *list = et_value_get(dict, "counts");
    if (!list || list->kind != ET_VALUE_LIST || (int64_t)list->count != count)
        return et_fail(error, ET_EFORMAT, "counts: not a list of %lld", (long long)count);
    int64_t at = 0;
    for (const et_value *item = list->first; item; item = item->next) {
        if (item->kind != ET_VALUE_INT)
            return et_fail(error, ET_EFORMAT, "counts: has a value that is not a whole number");
        counts[at++] = item->integer;
    }
    return ET_OK;
}

/* The class is compared because the sums of one kind make no sense to another. */
int et_metric_restore(const et_metric *metric, void *state, const et_value *dict, et_error *error)
{
    const char *class;
    et_exact_sum *sums = state;
    const char *const *names = metric->class->sums;
    int status = et_value_read_string(dict, "class", &class, error);
    if (!status && strcmp(class, metric->class->name) != 0)
        status =
            et_fail(error, ET_EFORMAT, "is a %s here and a %s there", metric->class->name, class);
    for (int i = 0; !status && names[i]; i++)
        status = et_exact_sum_restore(&sums[i], dict, names[i], error);
    if (!status && counts_of(metric))
        status = restore_counts(counts_in(metric, state), counts_of(metric), dict, error);
    return status;
}

/* ---- sets ---- */

/* A short list in order of definition, which is also the order in logs, and one block with all
 * states, one after another. The position of a metric never changes, so code that adds in every
 * step looks up its names once. The block is cleared, merged and sent as a whole. */
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
    return ET_ALLOC_ZERO(*out, 1, "metrics", error);
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
    if (!ET_VECTOR_GROW(metrics->items, metrics->capacity, metrics->count + 1))
        return et_alloc_failed(error, "metrics");
    unsigned char *bytes = et_realloc(metrics->bytes, metrics->size + more, 1);
    if (!bytes)
        return et_alloc_failed(error, "metrics");
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
        return et_alloc_failed(error, "a metric's name");
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

void et_metrics_add_sample_at(et_metrics *metrics, int index, const et_sample *sample)
{
    if (index < 0 || (size_t)index >= metrics->count)
        return;
    const item *one = &metrics->items[index];
    et_metric_add(one->metric, state_of(metrics, one), sample);
}

void et_metrics_add_at(et_metrics *metrics, int index, double value, double weight)
{
    et_metrics_add_sample_at(metrics, index, &(et_sample){ .value = value, .weight = weight });
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
    for (size_t i = 0; i < metrics->count; i++) {
        const item *one = &metrics->items[i];
        et_exact_sum *sums = (et_exact_sum *)(void *)((unsigned char *)bytes + one->at);
        for (int k = 0; one->metric->class->sums[k]; k++)
            et_exact_sum_settle(&sums[k]);
    }
}

bool et_metrics_is_settled(const et_metrics *metrics, const void *bytes)
{
    bool settled = true;
    for (size_t i = 0; settled && i < metrics->count; i++) {
        const et_metric *metric = metrics->items[i].metric;
        const void *state = (const unsigned char *)bytes + metrics->items[i].at;
        const et_exact_sum *sums = state;
        const int64_t *counts = counts_in(metric, state), count = counts_of(metric);
        for (int k = 0; settled && metric->class->sums[k]; k++)
            settled = et_exact_sum_is_settled(&sums[k]);
        for (int64_t k = 0; settled && k < count; k++)
            settled = counts[k] >= 0;
    }
    return settled;
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
        /* "loss" or "digits/f1". */
        for (int k = 0; k < count; k++) {
            const char *key = !*names[k] ? one->name
                              : dict ? et_arena_printf(dict->arena, "%s/%s", one->name, names[k])
                                     : NULL;
            if (!key || !et_value_set_float(dict, key, values[k]))
                return et_alloc_failed(error, "a metric's value");
        }
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
static int save_metrics(const void *self, et_value *dict, et_error *error)
{
    const et_metrics *metrics = self;
    (void)error;
    for (size_t i = 0; i < metrics->count; i++) {
        const item *one = &metrics->items[i];
        et_metric_save(one->metric, state_of(metrics, one), et_value_set_dict(dict, one->name));
    }
    return ET_OK;
}

/* The same names in any order. A different set is refused, not merged: the window would hold
 * values of other steps than it says. */
static int restore_metrics(void *self, const et_value *dict, et_error *error)
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

const et_part_class et_metrics_state = { "metrics", save_metrics, restore_metrics };
