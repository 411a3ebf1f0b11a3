#include "systems/tfsnippet/measures.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define LOSSES (-1)

static int find(int *index, const et_pass *pass, const char *measure, et_error *error)
{
    *index = LOSSES;
    if (!measure || !pass)
        return ET_OK;
    int count = et_pass_measures(pass);
    for (int i = 0; i < count; i++)
        if (!strcmp(et_pass_measured(pass, i).name, measure)) {
            *index = i;
            return ET_OK;
        }
    return et_fail(error, ET_ECONFIG, "the pass has no measure %s; it has %s%s", measure,
                   count ? et_pass_measured(pass, 0).name : "nothing",
                   count > 1 ? " and others" : "");
}

static int add(et_measures *measures, const et_loop_measure *one, const char *unnamed,
               et_error *error)
{
    int i = measures->count;
    const char *name = one->name ? one->name : unnamed;
    if (!name || !*name)
        return et_fail(error, ET_ECONFIG,
                       "metric %d has no name, and the loop has no valid_metric_name", i);
    int status = find(&measures->index[i], measures->pass, one->measure, error);
    char *copy = status ? NULL : et_strdup(name);
    if (!copy)
        return status ? status : et_alloc_failed(error, strlen(name), "a metric");
    measures->metrics[measures->count++] = (et_loop_metric){ .name = copy, .value = NAN };
    return ET_OK;
}

int et_measures_init(et_measures *measures, et_pass *pass, const et_loop_measure *list, int count,
                     const char *unnamed, et_error *error)
{
    *measures = (et_measures){ .pass = pass };
    if (count < 0 || (count && !list))
        return et_fail(error, ET_ECONFIG, "%d metrics, but the list is NULL", count);
    if (!count)
        return ET_OK;
    measures->metrics = et_alloc_zero((size_t)count, sizeof *measures->metrics);
    measures->given = et_alloc_zero((size_t)count, sizeof *measures->given);
    measures->index = et_alloc_zero((size_t)count, sizeof *measures->index);
    int status = measures->metrics && measures->given && measures->index
                     ? ET_OK
                     : et_alloc_failed(error, (size_t)count * sizeof *measures->metrics, "metrics");
    for (int i = 0; !status && i < count; i++)
        status = add(measures, &list[i], unnamed, error);
    if (status)
        et_measures_release(measures);
    return status;
}

void et_measures_release(et_measures *measures)
{
    for (int i = 0; measures->metrics && i < measures->count; i++)
        et_free((char *)measures->metrics[i].name);
    et_free(measures->metrics);
    et_free(measures->given);
    et_free(measures->index);
    *measures = (et_measures){ .pass = NULL };
}

bool et_measures_value(const et_measures *measures, int i, double *value)
{
    et_assert(measures->pass && i >= 0 && i < measures->count);
    const et_shards *shards = measures->shards;
    int at = measures->index[i];
    et_assert(at == LOSSES || (at >= 0 && at < et_pass_measures(measures->pass)));
    et_measured one = { NULL, 0, 0 };
    if (at != LOSSES)
        one = shards ? et_shards_measured(shards, at) : et_pass_measured(measures->pass, at);
    else if (shards)
        one = (et_measured){ NULL, et_shards_loss(shards), et_shards_divisor(shards) };
    else
        one = (et_measured){ NULL, et_pass_loss(measures->pass), et_pass_divisor(measures->pass) };
    *value = one.total / one.weight;
    return one.weight > 0;
}

int et_measures_read(et_measures *measures)
{
    int given = 0;
    for (int i = 0; i < measures->count; i++) {
        double value;
        if (!et_measures_value(measures, i, &value))
            continue;
        measures->given[given] = measures->metrics[i];
        measures->given[given++].value = value;
    }
    return given;
}
