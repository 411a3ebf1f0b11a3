/* Ranges of the store that have an average, and copies in and out of them. Exponential averages of
 * weights: Polyak and Juditsky 1992; the decay that grows from the first step is TensorFlow's
 * (ExponentialMovingAverage, num_updates). */
#include "engine/optim/optimizer_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/tensor/params.h"

/* Length of a name without its last part, with the slash. */
static size_t scope_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) + 1 : 0;
}

/* Whether the group has a parameter in the variable's scope. */
static bool beside(const et_optim_layout *layout, const et_params *params, const char *variable)
{
    size_t length = scope_length(variable);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const char *name = et_params_name(params, layout->tensors[i].param);
        if (scope_length(name) == length && !strncmp(name, variable, length))
            return true;
    }
    return false;
}

int et_optim_average_init(et_optim_average *average, const et_ema_options *options,
                          const et_optim_layout *layout, const et_params *params, et_error *error)
{
    size_t count = (size_t)(layout->range_count + et_params_count(params)) + 1;
    *average = (et_optim_average){ .options = *options };
    if (!options->enabled)
        return ET_OK;
    average->ranges = et_alloc(count, sizeof *average->ranges);
    average->variables = et_alloc(count, sizeof *average->variables);
    if (!average->ranges || !average->variables)
        return et_alloc_failed(error, count * sizeof *average->ranges, "an average");
    average->range_count = layout->range_count;
    memcpy(average->ranges, layout->ranges, (size_t)layout->range_count * sizeof(et_range));
    if (!options->trainable_weights_only) {
        /* Variables come after all trained parameters, so ranges stay in order. */
        const bool all = layout->size == et_params_trained_size(params);
        for (int nth = 0; nth < et_params_count(params); nth++) {
            int index = et_params_in_order(params, nth);
            int64_t begin = et_params_offset(params, index);
            int64_t size = et_shape_count(et_params_shape(params, index));
            if (et_params_is_trained(params, index) || size == 0)
                continue;
            if (!all && !beside(layout, params, et_params_name(params, index)))
                continue;
            average->variables[average->variable_count++] = index;
            average->ranges[average->range_count++] = (et_range){ begin, begin + size };
        }
    }
    return ET_OK;
}

void et_optim_average_release(et_optim_average *average)
{
    et_free(average->ranges);
    et_free(average->variables);
}

/* The dynamic decay is 2/11 at the first step and 0.99 after 890. Without it, the initial values
 * would weigh 0.99^s after s steps, and so matter for hundreds of steps. */
float et_optim_average_decay(const et_optim_average *average, int64_t step)
{
    const et_ema_options *ema = &average->options;
    if (!ema->enabled || step < ema->start_step)
        return 0;
    double since = (double)(step - ema->start_step);
    double dynamic = (1 + since) / (10 + since);
    return (float)(ema->dynamic_decay ? fmin(ema->average_decay, dynamic) : ema->average_decay);
}

static void copy(const et_optim_average *average, const float *values, int64_t begin, int64_t end)
{
    et_assert(begin <= end);
    memcpy(average->data + begin, values + begin, (size_t)(end - begin) * sizeof(float));
}

/* Without an average, nothing depends on the initial values. */
void et_optim_average_start(const et_optim_average *average, const float *values)
{
    for (int i = 0; average->data && i < average->range_count; i++)
        copy(average, values, average->ranges[i].begin, average->ranges[i].end);
}

/* A copy with decay 0: the formula rounds. */
void et_optim_average_follow(const et_optim_average *average, const float *values, float decay)
{
    for (int i = average->range_count - average->variable_count; i < average->range_count; i++) {
        const et_range *range = &average->ranges[i];
        if (decay == 0)
            copy(average, values, range->begin, range->end);
        for (int64_t at = range->begin; decay != 0 && at < range->end; at++)
            average->data[at] += (1.0f - decay) * (values[at] - average->data[at]);
    }
}

void et_optim_average_fill(const et_optim_average *average, const float *values, int64_t size)
{
    int64_t at = 0;
    for (int i = 0; i < average->range_count; i++) {
        copy(average, values, at, average->ranges[i].begin);
        at = average->ranges[i].end;
    }
    copy(average, values, at, size);
}
