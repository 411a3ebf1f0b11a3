#include <etude/annealing.h>

#include <math.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/options.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "systems/tfsnippet/loop_private.h"

/* ---- scalars ---- */

int et_annealing_scalar_init(et_annealing_scalar *s, const et_loop *loop,
                             const et_annealing_scalar_options *options, et_error *error)
{
    int status = et_options_need(options, "et_annealing_scalar_options", error);
    if (status)
        return status;
    *s = (et_annealing_scalar){
        .loop = loop,
        .initial_value = options->initial_value,
        .ratio = options->ratio,
        .minimum = options->minimum ? *options->minimum : -INFINITY,
        .maximum = options->maximum ? *options->maximum : INFINITY,
        .epochs = options->epochs,
        .steps = options->steps,
    };
    if (!isfinite(s->initial_value) || !isfinite(s->ratio))
        return et_fail(error, ET_ECONFIG, "annealing from %g by %g: give finite numbers",
                       s->initial_value, s->ratio);
    if (!(s->minimum <= s->maximum))
        return et_fail(error, ET_ECONFIG, "annealing: minimum %g is above maximum %g", s->minimum,
                       s->maximum);
    if (!(s->initial_value >= s->minimum && s->initial_value <= s->maximum))
        return et_fail(error, ET_ECONFIG,
                       "annealing: initial_value %g is outside the limits, %g to %g",
                       s->initial_value, s->minimum, s->maximum);
    if (s->epochs < 0 || s->steps < 0)
        return et_fail(error, ET_ECONFIG, "annealing every %lld %s: give a positive number",
                       (long long)(s->epochs < 0 ? s->epochs : s->steps),
                       s->epochs < 0 ? "epochs" : "steps");
    if (!s->epochs == !s->steps)
        return et_fail(error, ET_ECONFIG, "annealing: give either epochs or steps");
    return ET_OK;
}

double et_annealing_scalar_get(const et_annealing_scalar *scalar)
{
    int64_t counter = scalar->epochs ? et_loop_epoch(scalar->loop) : et_loop_step(scalar->loop);
    int64_t period = scalar->epochs ? scalar->epochs : scalar->steps;
    int64_t times = counter > 1 ? (counter - 1) / period : 0;
    double value = scalar->initial_value;
    if (value != 0) /* 0 times an infinite power would be NaN */
        value *= pow(scalar->ratio, (double)times);
    value = value > scalar->maximum ? scalar->maximum : value;
    return value < scalar->minimum ? scalar->minimum : value;
}

static double get_scalar(void *payload)
{
    return et_annealing_scalar_get(payload);
}

et_dynamic et_annealing_scalar_dynamic(et_annealing_scalar *scalar)
{
    return (et_dynamic){ .get = get_scalar, .payload = scalar };
}

/* ---- variables ---- */

static int find_variable(int *index, const et_params *params, const char *name, et_error *error)
{
    int i = et_params_find(params, name);
    if (!et_params_ready(params))
        return et_fail(error, ET_ECONFIG,
                       "variable %s: the store has no memory yet; call et_params_materialize first",
                       name ? name : "(without a name)");
    if (i < 0 || et_params_is_trained(params, i))
        return et_fail(error, ET_ECONFIG,
                       "the store has no variable %s%s: declare it before et_params_materialize",
                       name ? name : "(without a name)",
                       i < 0 ? "" : ", only a parameter of this name");
    char shape[ET_SHAPE_TEXT_MAX];
    if (et_shape_count(et_params_shape(params, i)) != 1)
        return et_fail(error, ET_ECONFIG, "variable %s is %s, not a single number", name,
                       et_shape_print(et_params_shape(params, i), shape));
    *index = i;
    return ET_OK;
}

int et_scheduled_variable_init(et_scheduled_variable *variable, et_params *params, const char *name,
                               double initial_value, et_error *error)
{
    *variable = (et_scheduled_variable){ .params = params };
    int status = find_variable(&variable->index, params, name, error);
    if (!status && !isfinite((float)initial_value))
        status = et_fail(error, ET_ECONFIG, "variable %s = %g: give a finite number", name,
                         initial_value);
    if (!status)
        et_scheduled_variable_set(variable, initial_value);
    return status;
}

static float *value_of(const et_scheduled_variable *variable)
{
    return et_params_values_of(variable->params, variable->index);
}

double et_scheduled_variable_get(const et_scheduled_variable *variable)
{
    return (double)*value_of(variable);
}

/* Writes only this element of the shadow; a refresh would write all elements. */
void et_scheduled_variable_set(et_scheduled_variable *variable, double value)
{
    et_params *params = variable->params;
    et_bf16 *shadow = et_params_shadow(params);
    et_params_begin_change(params);
    *value_of(variable) = (float)value;
    if (shadow)
        shadow[et_params_offset(params, variable->index)] = et_bf16_from_float((float)value);
    et_params_changed(params, false);
}

static double get_variable(void *payload)
{
    return et_scheduled_variable_get(payload);
}

et_dynamic et_scheduled_variable_dynamic(et_scheduled_variable *variable)
{
    return (et_dynamic){ .get = get_variable, .payload = variable };
}

int et_annealing_variable_init(et_annealing_variable *variable, et_params *params, const char *name,
                               double initial_value, double ratio, double minimum, et_error *error)
{
    if (!isfinite(initial_value) || !isfinite((float)ratio) || isnan(minimum) ||
        minimum == INFINITY)
        return et_fail(error, ET_ECONFIG, "annealing from %g by %g down to %g: give numbers",
                       initial_value, ratio, minimum);
    variable->ratio = ratio;
    variable->minimum = minimum;
    return et_scheduled_variable_init(&variable->variable, params, name,
                                      initial_value > minimum ? initial_value : minimum, error);
}

/* Computes in float32, as a graph would. */
void et_annealing_variable_anneal(et_annealing_variable *variable)
{
    float value = (float)et_scheduled_variable_get(&variable->variable) * (float)variable->ratio;
    float minimum = (float)variable->minimum;
    et_scheduled_variable_set(&variable->variable, (double)(value > minimum ? value : minimum));
}

/* ---- bound values ---- */

/* If the store already has the value, nothing is written, so the call need not wait for a save that
 * reads the store. */
double et_dynamic_get(const et_dynamic *dynamic)
{
    return dynamic->get ? dynamic->get(dynamic->payload) : dynamic->constant;
}

int et_bound_values_init(et_bound_values *bound, et_params *params, const et_bound_value *values,
                         int count, et_error *error)
{
    *bound = (et_bound_values){ .params = params };
    if (count < 0 || (count && !values))
        return et_fail(error, ET_ECONFIG, "%d bound values, but the list is NULL", count);
    if (!count)
        return ET_OK;
    bound->items = et_alloc(count, sizeof *bound->items);
    int status = bound->items ? ET_OK : et_alloc_failed(error, "bound values");
    for (int i = 0; !status && i < count; i++) {
        bound->items[i] = (et_bound_item){ .value = values[i], .index = -1 };
        if (!values[i].variable == !values[i].optimizer)
            status = et_fail(error, ET_ECONFIG,
                             "bound value %d: give either a variable or an optimizer", i);
        else if (values[i].variable)
            status = find_variable(&bound->items[i].index, params, values[i].variable, error);
    }
    if (status) {
        et_bound_values_release(bound);
        return status;
    }
    bound->count = count;
    return ET_OK;
}

void et_bound_values_release(et_bound_values *bound)
{
    et_free(bound->items);
    *bound = (et_bound_values){ .params = bound->params };
}

static int put(const et_bound_values *bound, const et_bound_item *item, double value,
               et_error *error)
{
    if (item->index < 0)
        return et_optimizer_set_learning_rate(item->value.optimizer, value, error);
    et_scheduled_variable variable = { bound->params, item->index };
    if ((float)value != (float)et_scheduled_variable_get(&variable))
        et_scheduled_variable_set(&variable, value);
    return ET_OK;
}

int et_bound_values_apply(et_bound_values *bound, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < bound->count; i++) {
        const et_bound_item *item = &bound->items[i];
        const double value = et_dynamic_get(&item->value.value);
        /* NaN would mean the schedule's rate again, but a wrong computation of a rate gives NaN. */
        status =
            item->index < 0 && isnan(value)
                ? et_fail(error, ET_ECONFIG,
                          "%g is not a learning rate; give a finite number of at least 0", value)
                : put(bound, item, value, error);
    }
    return status;
}

void et_bound_values_keep(et_bound_values *bound)
{
    for (int i = 0; i < bound->count; i++) {
        et_bound_item *item = &bound->items[i];
        et_scheduled_variable variable = { bound->params, item->index };
        item->before = item->index < 0 ? et_optimizer_rate_override(item->value.optimizer)
                                       : et_scheduled_variable_get(&variable);
    }
}

void et_bound_values_put_back(et_bound_values *bound)
{
    for (int i = bound->count - 1; i >= 0; i--)
        put(bound, &bound->items[i], bound->items[i].before, NULL);
}
