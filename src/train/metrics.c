/* A metric is two sums and a class that says how values are added to them and what they mean:
 *
 *   class       add(value, weight)                    value()
 *   mean        total += value * weight, weight +=    total / weight
 *   sum         total += value, weight +=             total
 *   ratio       total += value, weight +=             total / weight
 *   perplexity  total += value, weight +=             exp(total / weight)
 *
 * Merging is addition for all of them, so that adding to one accumulator or to several and
 * merging gives the same but for rounding. Sums are double: 10^6 steps of 10^4 tokens are 10^10,
 * far from 2^53.
 *
 * A set is a short list in order of definition, which is also the order in logs. Places in it
 * never change, so what adds at every step looks its names up once. */
#include "train/metrics.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Kinds -------------------------------------------------------------------------------
 *
 * Every function is one line of the table above. add and merge are the only ones that change
 * sums. */

static void add_weighted(et_metric_sums *sums, double value, double weight)
{
    sums->total += value * weight;
    sums->weight += weight;
}

static void add_pair(et_metric_sums *sums, double value, double weight)
{
    sums->total += value;
    sums->weight += weight;
}

static void merge_sums(et_metric_sums *sums, const et_metric_sums *other)
{
    sums->total += other->total;
    sums->weight += other->weight;
}

static double total_of(const et_metric_sums *sums)
{
    return sums->total;
}

/* 0 / 0 is NaN: nothing was added, which is not the same as a mean of 0. 0/0, an infinity or a
 * NaN that was added all come through: a log says so and is not stopped. */
static double quotient_of(const et_metric_sums *sums)
{
    return sums->total / sums->weight;
}

/* exp of the mean of negative log-likelihoods in nats. */
static double perplexity_of(const et_metric_sums *sums)
{
    return exp(quotient_of(sums));
}

/* Rows: name (in checkpoints too, so it must not change), add, merge, value. */
const et_metric_class et_metric_mean = { "mean", add_weighted, merge_sums, quotient_of };
const et_metric_class et_metric_sum = { "sum", add_pair, merge_sums, total_of };
const et_metric_class et_metric_ratio = { "ratio", add_pair, merge_sums, quotient_of };
const et_metric_class et_metric_perplexity = { "perplexity", add_pair, merge_sums, perplexity_of };

/* A named set -------------------------------------------------------------------------
 *
 * Names are copied at their definition; looking one up compares texts, which only set-up and
 * logs do. */

typedef struct metric {
    char *name;                   /* owned */
    const et_metric_class *class; /* static */
    et_metric_sums sums;          /* zeros: nothing was added since the last reset */
} metric;

/* items: [count], in order of definition, owned; grown by doubling. */
struct et_metrics {
    metric *items;
    size_t count, capacity;
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
    et_free(metrics);
}

/* Sets are small, so a list is as good as a map. */
static metric *find(const et_metrics *metrics, const char *name)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->items[i].name, name) == 0)
            return &metrics->items[i];
    return NULL;
}

/* Another class under a known name is the caller's bug. A known name takes no second place: a
 * task and the step may define the same metric. */
int et_metrics_define(et_metrics *metrics, const char *name, const et_metric_class *class,
                      et_error *error)
{
    et_assert(class && class->add && class->merge && class->value);
    const metric *known = find(metrics, name);
    et_assert(!known || known->class == class);
    if (known)
        return ET_OK;
    if (metrics->count == metrics->capacity) {
        size_t capacity = metrics->capacity ? 2 * metrics->capacity : 8;
        metric *items = et_realloc(metrics->items, capacity, sizeof *items);
        if (!items)
            return et_alloc_failed(error, capacity * sizeof *items, "metrics");
        metrics->items = items;
        metrics->capacity = capacity;
    }
    char *copy = et_strdup(name);
    if (!copy)
        return et_alloc_failed(error, strlen(name) + 1, "a metric's name");
    metrics->items[metrics->count++] = (metric){ copy, class, { 0, 0 } };
    return ET_OK;
}

/* An unknown name is a bug of whoever asks: metrics are defined at set-up. */
int et_metrics_place(const et_metrics *metrics, const char *name)
{
    const metric *item = find(metrics, name);
    et_assert(item);
    return (int)(item - metrics->items);
}

void et_metrics_add_at(et_metrics *metrics, int place, double value, double weight)
{
    et_assert(place >= 0 && (size_t)place < metrics->count);
    metric *item = &metrics->items[place];
    item->class->add(&item->sums, value, weight);
}

void et_metrics_add(et_metrics *metrics, const char *name, double value, double weight)
{
    et_metrics_add_at(metrics, et_metrics_place(metrics, name), value, weight);
}

/* By name, so that two sets may have been defined in another order. */
void et_metrics_merge(et_metrics *metrics, const et_metrics *other)
{
    et_assert_equal(metrics->count, other->count);
    for (size_t i = 0; i < other->count; i++) {
        metric *item = find(metrics, other->items[i].name);
        et_assert(item && item->class == other->items[i].class);
        item->class->merge(&item->sums, &other->items[i].sums);
    }
}

void et_metrics_reset(et_metrics *metrics)
{
    for (size_t i = 0; i < metrics->count; i++)
        metrics->items[i].sums = (et_metric_sums){ 0, 0 };
}

/* Also metrics to which nothing was added: NaN, or 0 for a sum, says so. */
int et_metrics_results(const et_metrics *metrics, et_value *dict, et_error *error)
{
    for (size_t i = 0; i < metrics->count; i++) {
        const metric *item = &metrics->items[i];
        if (!et_value_set_float(dict, item->name, item->class->value(&item->sums)))
            return et_alloc_failed(error, 0, "a metric's value");
    }
    return ET_OK;
}

double et_metrics_value(const et_metrics *metrics, const char *name)
{
    const metric *item = find(metrics, name);
    et_assert(item);
    return item->class->value(&item->sums);
}

/* State -------------------------------------------------------------------------------
 *
 * A window that is cut by a checkpoint goes on after it: sums are part of the state. */

/* {"training_loss": {"class": "mean", "total": ..., "weight": ...}, ...}: sums bit for bit, so
 * that a window that a checkpoint cuts in two logs what an unbroken one would have logged. */
static int save(const void *self, et_value *dict, et_error *error)
{
    const et_metrics *metrics = self;
    for (size_t i = 0; i < metrics->count; i++) {
        const metric *item = &metrics->items[i];
        et_value *values = et_value_set_dict(dict, item->name);
        if (!et_value_set_string(values, "class", item->class->name) ||
            !et_part_set_real(values, "total", item->sums.total) ||
            !et_part_set_real(values, "weight", item->sums.weight))
            return et_alloc_failed(error, 0, "a state tree");
    }
    return ET_OK;
}

/* The class is compared because the sums of one kind make no sense to another. */
static int restore_one(metric *item, const et_value *values, et_error *error)
{
    const char *class;
    int status = et_value_read_string(values, "class", &class, error);
    if (!status && strcmp(class, item->class->name) != 0)
        status =
            et_fail(error, ET_EFORMAT, "is a %s here and a %s there", item->class->name, class);
    if (!status)
        status = et_part_read_real(values, "total", &item->sums.total, error);
    if (!status)
        status = et_part_read_real(values, "weight", &item->sums.weight, error);
    return status;
}

/* The same names in any order. A different set is refused, not merged: the window would hold
 * values of other steps than it says. */
static int restore(void *self, const et_value *dict, et_error *error)
{
    et_metrics *metrics = self;
    if (dict->count != metrics->count)
        return et_fail(error, ET_EFORMAT, "%zu metrics, this run has %zu", dict->count,
                       metrics->count);
    for (size_t i = 0; i < metrics->count; i++) {
        metric *item = &metrics->items[i];
        int status = restore_one(item, et_value_get(dict, item->name), error);
        if (status)
            return et_fail_while(error, status, "%s", item->name);
    }
    return ET_OK;
}

const et_part_class et_metrics_state = { "metrics", save, restore };
