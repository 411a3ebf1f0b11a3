/* Optimizers for programs: <etude/optimizer.h>. A setup becomes settings like those of the command:
 * the rule and its rate, then the text on top. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/values/yaml.h"
#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/group.h"
#include "engine/tensor/params.h"
#include "train/step/update.h"

static int choose_rule(et_optimization_options *options, const char *name, et_error *error)
{
    options->optimizer.type = et_optimizer_type(name);
    if (options->optimizer.type != ET_OPTIMIZER_NONE)
        return ET_OK;
    return et_fail(error, ET_ECONFIG, "no update rule is called %s; there are: %s", name,
                   et_optimizer_names);
}

static int read_setup(et_optimization_options *options, const et_optimizer_setup *setup,
                      et_arena *arena, et_error *error)
{
    double rate = setup->learning_rate != 0 ? setup->learning_rate : 1e-3;
    if (!(rate > 0 && isfinite(rate)))
        return et_fail(error, ET_ECONFIG,
                       "learning_rate %g: give a positive number, or 0 for 0.001", rate);
    et_fields_defaults(&et_optimization_fields, options);
    options->learning_rate.type = ET_RATE_CONSTANT;
    options->learning_rate.constant.learning_rate = rate;
    int status = choose_rule(options, setup->rule ? setup->rule : "adam", error);
    if (status || !setup->settings)
        return status;
    et_value *tree;
    status =
        et_yaml_parse(&tree, arena, setup->settings, strlen(setup->settings), "settings", error);
    return status ? status
                  : et_fields_read(&et_optimization_fields, options, tree, arena, "settings", "",
                                   error);
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
    int status = read_setup(&options, setup ? setup : &defaults, &arena, error);
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

/* Ranks that share the optimizer out make the update together or not at all. */
static int agree_on_update(const et_optimizer *optimizer, bool *good, et_error *error)
{
    unsigned bad = !*good;
    int status = et_comm_agree(et_optimizer_ranks(optimizer), ET_OK, &bad, error);
    *good = !bad;
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
    bool good = isfinite(et_pass_loss(pass)) && sum.divisor >= 0;
    int status = agree_on_update(optimizer, &good, error);
    if (!status)
        status = good ? et_update_apply(optimizer, &sum, 1, &done, error)
                      : et_optimizer_settled(optimizer, error);
    if (update)
        *update = done;
    if (status)
        return status;
    if (!done.finite)
        return et_update_diverged(pass, error);
    et_update_finish(optimizer, pass, NULL);
    return ET_OK;
}
