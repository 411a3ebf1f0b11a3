/* The common part of all kinds: layout, merging and saving of a state follow from the numbers of
 * sums and whole numbers of its class. */
#include "metric/metric.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

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
    return (size_t)names_in(metric->class->sums) * sizeof(et_exact_sum);
}

static const int64_t *const_counts_in(const et_metric *metric, const void *state)
{
    return (const int64_t *)(const void *)((const char *)state + sums_size(metric));
}

static int64_t *counts_in(const et_metric *metric, void *state)
{
    return (int64_t *)(void *)((char *)state + sums_size(metric));
}

size_t et_metric_size(const et_metric *metric)
{
    return sums_size(metric) + (size_t)counts_of(metric) * sizeof(int64_t);
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
    const int64_t *others = const_counts_in(metric, other);
    /* Counts of another process may be any, and their sum wraps. */
    for (int64_t i = 0; i < count; i++)
        counts[i] = (int64_t)((uint64_t)counts[i] + (uint64_t)others[i]);
}

void et_metric_settle(const et_metric *metric, void *state)
{
    et_exact_sum *sums = state;
    for (int i = 0; i < names_in(metric->class->sums); i++)
        et_exact_sum_settle(&sums[i]);
}

bool et_metric_is_settled(const et_metric *metric, const void *state)
{
    const et_exact_sum *sums = state;
    const int64_t *counts = const_counts_in(metric, state);
    bool settled = true;
    for (int i = 0; settled && i < names_in(metric->class->sums); i++)
        settled = et_exact_sum_is_settled(&sums[i]);
    for (int64_t i = 0, count = counts_of(metric); settled && i < count; i++)
        settled = counts[i] >= 0;
    return settled;
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
    const int64_t *counts = const_counts_in(metric, state);
    metric->class->value(metric, state, counts, values);
    return et_metric_names(metric, &names);
}

int et_metric_save(const et_metric *metric, const void *state, et_value *dict, et_error *error)
{
    const et_exact_sum *sums = state;
    const char *const *names = metric->class->sums;
    const int64_t *counts = const_counts_in(metric, state);
    if (!et_value_set_string(dict, "class", metric->class->name))
        return et_alloc_failed(error, 0, "a state tree");
    for (int i = 0; names[i]; i++) {
        int status = et_exact_sum_save(&sums[i], dict, names[i], error);
        if (status)
            return status;
    }
    int64_t count = counts_of(metric);
    et_value *list = count ? et_value_set_list(dict, "counts") : dict;
    for (int64_t i = 0; i < count && list; i++)
        if (!et_value_add_int(list, counts[i]))
            list = NULL;
    return list ? ET_OK : et_alloc_failed(error, 0, "a state tree");
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
