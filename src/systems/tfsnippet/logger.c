/* Statistics of metrics, as a short list: a loop has few metrics. */
#include "systems/tfsnippet/logger.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "metric/metric.h"

bool et_logger_is_time(const char *name)
{
    return et_text_ends(name, "time") || et_text_ends(name, "timer");
}

static int add_item(et_logger *logger, const char *name, et_error *error)
{
    size_t wanted = logger->count + 1;
    et_logger_item *items =
        et_vector_grow(logger->items, &logger->capacity, wanted, sizeof *items, 8);
    if (items)
        logger->items = items;
    char *copy = items ? et_strdup(name) : NULL;
    if (!copy)
        return et_alloc_failed(error, strlen(name) + sizeof *items, "a metric");
    et_statistics *statistics;
    int status = et_statistics_new(&statistics, error);
    if (status)
        et_free(copy);
    else
        logger->items[logger->count++] = (et_logger_item){ copy, statistics };
    return status;
}

static int find(et_statistics **out, et_logger *logger, const char *name, et_error *error)
{
    size_t i = 0;
    while (i < logger->count && strcmp(logger->items[i].name, name) != 0)
        i++;
    int status = i < logger->count ? ET_OK : add_item(logger, name, error);
    *out = status ? NULL : logger->items[i].statistics;
    return status;
}

static void sane(const et_logger *logger)
{
    et_assert(logger->count <= logger->capacity);
    et_assert((size_t)logger->spare.count <= logger->spare.capacity);
    for (size_t i = 0; i < logger->count; i++)
        et_assert(logger->items[i].name && logger->items[i].statistics);
}

int et_logger_collect(et_logger *logger, const et_loop_metric *metric, et_error *error)
{
    et_statistics *statistics;
    sane(logger);
    et_assert(metric->name && metric->count >= 0);
    int status = find(&statistics, logger, metric->name, error);
    if (!status && metric->values)
        et_statistics_collect_all(statistics, metric->values, NULL, (size_t)metric->count);
    else if (!status)
        et_statistics_collect(statistics, metric->value, 1);
    return status;
}

void et_logger_clear(et_logger *logger)
{
    for (size_t i = 0; i < logger->count; i++)
        et_statistics_reset(logger->items[i].statistics);
}

void et_logger_release(et_logger *logger)
{
    for (size_t i = 0; i < logger->count; i++) {
        et_free(logger->items[i].name);
        et_statistics_free(logger->items[i].statistics);
    }
    et_free(logger->items);
    et_free(logger->spare.stats);
    *logger = (et_logger){ 0 };
}

/* Inserts each after those that are not greater: stable, and lists are short. */
int et_logger_sort(et_logger_list *out, et_logger *logger, const et_metric_formatter *formatter,
                   et_error *error)
{
    *out = logger->spare;
    logger->spare = (et_logger_list){ 0 };
    et_loop_stats *sorted =
        et_vector_grow(out->stats, &out->capacity, logger->count + 1, sizeof *sorted, 8);
    if (!sorted) {
        et_logger_give_back(logger, out);
        return et_alloc_failed(error, logger->count * sizeof *sorted, "a list of metrics");
    }
    *out = (et_logger_list){ sorted, 0, out->capacity };
    for (size_t i = 0; i < logger->count; i++) {
        const et_logger_item *item = &logger->items[i];
        if (!et_statistics_counter(item->statistics))
            continue;
        int at = out->count++;
        for (;
             at > 0 && formatter->compare(formatter->payload, sorted[at - 1].name, item->name) > 0;
             at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (et_loop_stats){ item->name, item->statistics };
    }
    return ET_OK;
}

void et_logger_give_back(et_logger *logger, et_logger_list *list)
{
    if (logger->spare.stats)
        et_free(list->stats);
    else
        logger->spare = *list;
    *list = (et_logger_list){ 0 };
}

static void print_one(const et_loop_stats *one, const et_metric_formatter *formatter,
                      et_strbuf *out)
{
    char text[128];
    for (const char *c = one->name; *c; c++)
        et_strbuf_append_char(out, *c == '_' ? ' ' : *c);
    formatter->format(formatter->payload, one->name, et_statistics_mean(one->statistics), text,
                      sizeof text);
    et_strbuf_printf(out, ": %s", text);
    if (et_statistics_counter(one->statistics) < 2)
        return;
    formatter->format(formatter->payload, one->name, et_statistics_stddev(one->statistics), text,
                      sizeof text);
    et_strbuf_printf(out, " (\u00b1%s)", text);
}

void et_logger_print(const et_logger_list *list, const et_metric_formatter *formatter,
                     et_strbuf *out)
{
    for (int i = 0; i < list->count; i++) {
        if (i)
            et_strbuf_append(out, "; ");
        print_one(&list->stats[i], formatter, out);
    }
}

/* {"loss": {"class": "statistics", ...}}: names with values only. */
int et_logger_save(const et_logger *logger, et_value *dict, et_error *error)
{
    for (size_t i = 0; i < logger->count; i++) {
        const et_logger_item *item = &logger->items[i];
        if (et_logger_is_time(item->name) || !et_statistics_counter(item->statistics))
            continue;
        et_value *one = et_value_set_dict(dict, item->name);
        if (!one)
            return et_alloc_failed(error, 0, "a state tree");
        int status = et_metric_save(&et_metric_statistics, item->statistics, one, error);
        if (status)
            return status;
    }
    return ET_OK;
}

int et_logger_restore(et_logger *logger, const et_value *dict, et_error *error)
{
    et_logger_clear(logger);
    for (const et_value *one = dict->first; one; one = one->next) {
        et_statistics *statistics;
        int status = find(&statistics, logger, one->key, error);
        if (!status)
            status = et_metric_restore(&et_metric_statistics, statistics, one, error);
        if (status)
            return et_fail_while(error, status, "%s", one->key);
    }
    return ET_OK;
}
