#include "train/step/update.h"

#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"

/* What the pass does not derive by has the gradient of some other pass. */
static int check_trains(const et_optimizer *optimizer, const et_pass *pass, et_error *error)
{
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

int et_update_check(const et_optimizer *optimizer, const et_pass *pass, et_error *error)
{
    if (et_pass_params(pass) == et_optimizer_params(optimizer) && et_pass_is_training(pass))
        return check_trains(optimizer, pass, error);
    return et_fail(error, ET_EUSAGE,
                   et_pass_is_training(pass)
                       ? "the optimizer and the pass use different stores of parameters: open both "
                         "on one store"
                       : "the pass computes no gradient: set et_pass_options.training");
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
