/* Optimizers for programs: <etude/optimizer.h>. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "engine/comm/together.h"
#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "train/step/update.h"

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
                         trains ? "and a prefix of names: give only one of them"
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
