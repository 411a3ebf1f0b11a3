/* Bound values. A value that the store already has is not written, so nothing waits for a save that
 * reads the store. */
#include "systems/tfsnippet/bound_values.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/optim/optimizer.h"

double et_dynamic_get(const et_dynamic *dynamic)
{
    return dynamic->get ? dynamic->get(dynamic->payload) : dynamic->constant;
}

static int find_target(et_bound_values *bound, int i, const et_bound_value *value, et_error *error)
{
    if (!value->variable == !value->optimizer)
        return et_fail(error, ET_ECONFIG, "bound value %d: give either a variable or an optimizer",
                       i);
    bound->index[i] = -1;
    return value->optimizer
               ? ET_OK
               : et_variable_find(&bound->index[i], bound->params, value->variable, error);
}

int et_bound_values_init(et_bound_values *bound, et_params *params, const et_bound_value *values,
                         int count, et_error *error)
{
    *bound = (et_bound_values){ .params = params };
    if (count < 0 || (count && !values))
        return et_fail(error, ET_ECONFIG, "%d bound values, but the list is NULL", count);
    if (!count)
        return ET_OK;
    bound->values = et_alloc((size_t)count, sizeof *values);
    bound->index = et_alloc((size_t)count, sizeof *bound->index);
    bound->before = et_alloc_zero((size_t)count, sizeof *bound->before);
    int status = bound->values && bound->index && bound->before
                     ? ET_OK
                     : et_alloc_failed(error, (size_t)count * sizeof *values, "bound values");
    for (int i = 0; !status && i < count; i++)
        status = find_target(bound, i, &values[i], error);
    if (status) {
        et_bound_values_release(bound);
        return status;
    }
    memcpy(bound->values, values, (size_t)count * sizeof *values);
    bound->count = count;
    return ET_OK;
}

void et_bound_values_release(et_bound_values *bound)
{
    et_free(bound->values);
    et_free(bound->index);
    et_free(bound->before);
    *bound = (et_bound_values){ .params = bound->params };
}

static int put(const et_bound_values *bound, int i, double value, et_error *error)
{
    if (bound->index[i] < 0)
        return et_optimizer_set_learning_rate(bound->values[i].optimizer, value, error);
    et_scheduled_variable variable = { bound->params, bound->index[i] };
    if ((float)value != (float)et_scheduled_variable_get(&variable))
        et_scheduled_variable_set(&variable, value);
    return ET_OK;
}

/* NaN would mean the schedule's rate again, but a wrong computation of a rate gives NaN. */
static int put_checked(const et_bound_values *bound, int i, double value, et_error *error)
{
    if (bound->index[i] < 0 && isnan(value))
        return et_fail(error, ET_ECONFIG,
                       "%g is not a learning rate; give a finite number of at least 0", value);
    return put(bound, i, value, error);
}

int et_bound_values_apply(et_bound_values *bound, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < bound->count; i++)
        status = put_checked(bound, i, et_dynamic_get(&bound->values[i].value), error);
    return status;
}

void et_bound_values_keep(et_bound_values *bound)
{
    for (int i = 0; i < bound->count; i++) {
        et_scheduled_variable variable = { bound->params, bound->index[i] };
        bound->before[i] = bound->index[i] < 0
                               ? et_optimizer_rate_override(bound->values[i].optimizer)
                               : et_scheduled_variable_get(&variable);
    }
}

void et_bound_values_put_back(et_bound_values *bound)
{
    for (int i = bound->count - 1; i >= 0; i--)
        put(bound, i, bound->before[i], NULL);
}
