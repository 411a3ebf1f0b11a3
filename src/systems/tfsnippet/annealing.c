#include <etude/annealing.h>

#include <math.h>

#include "base/dtype.h"
#include "base/options.h"
#include "engine/tensor/params.h"
#include "systems/tfsnippet/bound_values.h"

/* ---- scalars ---- */

static int check_limits(const et_annealing_scalar *s, et_error *error)
{
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
    return ET_OK;
}

static int check_period(const et_annealing_scalar *s, et_error *error)
{
    if (s->epochs < 0 || s->steps < 0)
        return et_fail(error, ET_ECONFIG, "annealing every %lld %s: give a positive number",
                       (long long)(s->epochs < 0 ? s->epochs : s->steps),
                       s->epochs < 0 ? "epochs" : "steps");
    if (!s->epochs == !s->steps)
        return et_fail(error, ET_ECONFIG, "annealing: give either epochs or steps");
    return ET_OK;
}

int et_annealing_scalar_init(et_annealing_scalar *scalar, const et_loop *loop,
                             const et_annealing_scalar_options *options, et_error *error)
{
    int status = et_options_need(options, "et_annealing_scalar_options", error);
    if (status)
        return status;
    *scalar = (et_annealing_scalar){
        .loop = loop,
        .initial_value = options->initial_value,
        .ratio = options->ratio,
        .minimum = options->minimum ? *options->minimum : -INFINITY,
        .maximum = options->maximum ? *options->maximum : INFINITY,
        .epochs = options->epochs,
        .steps = options->steps,
    };
    status = check_limits(scalar, error);
    return status ? status : check_period(scalar, error);
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

int et_variable_find(int *index, const et_params *params, const char *name, et_error *error)
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
    int status = et_variable_find(&variable->index, params, name, error);
    if (!status && !isfinite((float)initial_value))
        status = et_fail(error, ET_ECONFIG, "variable %s = %g: give a finite number", name,
                         initial_value);
    if (!status)
        et_scheduled_variable_set(variable, initial_value);
    return status;
}

static float *value_of(const et_scheduled_variable *variable)
{
    return et_params_values(variable->params) + et_params_offset(variable->params, variable->index);
}

double et_scheduled_variable_get(const et_scheduled_variable *variable)
{
    return (double)*value_of(variable);
}

/* The shadow's one element is written here: a refresh would write all of it. */
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

/* As a graph of float32 has it. */
void et_annealing_variable_anneal(et_annealing_variable *variable)
{
    float value = (float)et_scheduled_variable_get(&variable->variable) * (float)variable->ratio;
    float minimum = (float)variable->minimum;
    et_scheduled_variable_set(&variable->variable, (double)(value > minimum ? value : minimum));
}
