/* A value that is there already is not written: whoever reads the store for a save is not waited
 * for without need. */
#include "systems/tfsnippet/feed.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/optim/optimizer.h"

double et_dynamic_get(const et_dynamic *dynamic)
{
    return dynamic->get ? dynamic->get(dynamic->payload) : dynamic->constant;
}

static int find_target(et_feeder *feeder, int i, const et_fed_value *feed, et_error *error)
{
    if (!feed->variable == !feed->optimizer)
        return et_fail(error, ET_ECONFIG, "feed %d: goes to a variable or an optimizer", i);
    feeder->index[i] = -1;
    return feed->optimizer
               ? ET_OK
               : et_variable_find(&feeder->index[i], feeder->params, feed->variable, error);
}

int et_feeder_init(et_feeder *feeder, et_params *params, const et_fed_value *feeds, int count,
                   et_error *error)
{
    *feeder = (et_feeder){ .params = params };
    if (count < 0 || (count && !feeds))
        return et_fail(error, ET_ECONFIG, "%d feeds, and no list of them", count);
    if (!count)
        return ET_OK;
    feeder->feeds = et_alloc((size_t)count, sizeof *feeds);
    feeder->index = et_alloc((size_t)count, sizeof *feeder->index);
    feeder->before = et_alloc_zero((size_t)count, sizeof *feeder->before);
    int status = feeder->feeds && feeder->index && feeder->before
                     ? ET_OK
                     : et_alloc_failed(error, (size_t)count * sizeof *feeds, "feeds");
    for (int i = 0; !status && i < count; i++)
        status = find_target(feeder, i, &feeds[i], error);
    if (status) {
        et_feeder_release(feeder);
        return status;
    }
    memcpy(feeder->feeds, feeds, (size_t)count * sizeof *feeds);
    feeder->count = count;
    return ET_OK;
}

void et_feeder_release(et_feeder *feeder)
{
    et_free(feeder->feeds);
    et_free(feeder->index);
    et_free(feeder->before);
    *feeder = (et_feeder){ .params = feeder->params };
}

static int put(const et_feeder *feeder, int i, double value, et_error *error)
{
    if (feeder->index[i] < 0)
        return et_optimizer_set_learning_rate(feeder->feeds[i].optimizer, value, error);
    et_scheduled_variable variable = { feeder->params, feeder->index[i] };
    if ((float)value != (float)et_scheduled_variable_get(&variable))
        et_scheduled_variable_set(&variable, value);
    return ET_OK;
}

/* NaN would be the schedule's rate again, and is what a rate that was computed wrong is. */
static int put_checked(const et_feeder *feeder, int i, double value, et_error *error)
{
    if (feeder->index[i] < 0 && isnan(value))
        return et_fail(error, ET_ECONFIG, "%g is no learning rate", value);
    return put(feeder, i, value, error);
}

int et_feeder_apply(et_feeder *feeder, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < feeder->count; i++)
        status = put_checked(feeder, i, et_dynamic_get(&feeder->feeds[i].value), error);
    return status;
}

void et_feeder_keep(et_feeder *feeder)
{
    for (int i = 0; i < feeder->count; i++) {
        et_scheduled_variable variable = { feeder->params, feeder->index[i] };
        feeder->before[i] = feeder->index[i] < 0
                                ? et_optimizer_rate_override(feeder->feeds[i].optimizer)
                                : et_scheduled_variable_get(&variable);
    }
}

void et_feeder_put_back(et_feeder *feeder)
{
    for (int i = feeder->count - 1; i >= 0; i--)
        put(feeder, i, feeder->before[i], NULL);
}
