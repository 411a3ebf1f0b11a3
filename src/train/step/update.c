#include "train/step/update.h"

#include <math.h>

#include "base/arena.h"
#include "engine/comm/together.h"
#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"

int et_update_check(const et_optimizer *optimizer, const et_pass *pass, et_error *error)
{
    if (et_pass_params(pass) != et_optimizer_params(optimizer) || !et_pass_is_training(pass))
        return et_fail(error, ET_EUSAGE,
                       et_pass_is_training(pass)
                           ? "the optimizer and the pass use different stores of parameters: open "
                             "both on one store"
                           : "the pass computes no gradient: set et_pass_options.training");
    /* Other parameters have the gradient of an earlier pass. */
    const bool all = et_pass_trains_all(pass);
    for (int i = 0, param; !all && (param = et_optimizer_param(optimizer, i)) >= 0; i++)
        if (!et_pass_trains(pass, param))
            return et_fail(error, ET_EUSAGE,
                           "the optimizer changes %s, but the pass computes no gradient for it "
                           "(et_pass_options.trains, .group, .frozen): open both with the same "
                           "prefix or group",
                           et_params_name(et_pass_params(pass), param));
    return ET_OK;
}

int et_update_apply(et_optimizer *optimizer, const et_reduced *sum, double scale, et_update *update,
                    et_error *error)
{
    et_params_clear_held(et_optimizer_params(optimizer), sum->gradient);
    *update = et_optimizer_apply(optimizer, sum->gradient, et_mean_of(1, sum->divisor * scale));
    return et_optimizer_settled(optimizer, error);
}

int et_update_diverged(et_pass *pass, et_error *error)
{
    const char *name = pass ? et_pass_find_not_finite(pass) : NULL;
    return et_fail(error, ET_EDIVERGED, "the loss or gradient is not finite, first in %s",
                   name ? name : "the gradient's norm");
}

void et_update_finish(et_optimizer *optimizer, et_pass *pass, const float *means)
{
    et_pass_move_means(pass, means);
    et_optimizer_average_variables(optimizer);
}

int et_optimizer_open(et_optimizer **out, et_device *device, et_params *params, const char *trains,
                      const et_optimizer_setup *setup, et_error *error)
{
    static const et_optimizer_setup defaults = { 0 };
    et_optimization_options options = { 0 };
    et_arena arena = ET_ARENA_INIT;
    *out = NULL;
    if (!et_params_ready(params))
        return et_fail(error, ET_EUSAGE, "call et_params_materialize before you open an optimizer");
    et_group *group = NULL;
    int status = et_optimizer_settle(&options, setup ? setup : &defaults, &arena, error);
    const et_group *given = setup ? setup->group : NULL;
    if (!status && given && (trains || et_group_params(given) != params))
        status = et_fail(error, ET_ECONFIG, "et_optimizer_setup.group: %s",
                         trains ? "a prefix of names is also given: give only one of them"
                                : "it belongs to another store of parameters");
    if (!status && trains)
        status = et_group_new(&group, params, trains, error);
    if (!status)
        status =
            et_optimizer_new(out, params, given ? given : group, device->kernels, &options, error);
    et_group_free(group);
    et_arena_release(&arena);
    return status;
}

int et_optimizer_update(et_optimizer *optimizer, et_pass *pass, et_update *update, et_error *error)
{
    int wrong = et_update_check(optimizer, pass, error);
    if (wrong)
        return wrong;
    if (!et_pass_has_run(pass))
        return et_fail(error, ET_EUSAGE, "there is no gradient yet: run the pass first");
    const et_reduced sum = { .gradient = et_params_gradients(et_pass_params(pass)),
                             .divisor = et_pass_divisor(pass) };
    et_update done = { NAN, 0, false };
    /* Ranks that share the optimizer out make the update together or not at all. */
    bool bad = !isfinite(et_pass_loss(pass)) || !(sum.divisor >= 0);
    int status = et_together_any(et_optimizer_ranks(optimizer), ET_OK, &bad, error);
    if (!status)
        status = bad ? et_optimizer_settled(optimizer, error)
                     : et_update_apply(optimizer, &sum, 1, &done, error);
    if (update)
        *update = done;
    if (status)
        return status;
    if (!done.finite)
        return et_update_diverged(pass, error);
    et_update_finish(optimizer, pass, NULL);
    return ET_OK;
}
