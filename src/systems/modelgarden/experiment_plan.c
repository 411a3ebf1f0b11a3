/* Computes what follows from an experiment's settings: the type of activations, the options of a
 * trainer and of a controller, the series. Used by the command and by programs. */
#include "base/assert.h"
#include "engine/kernel/gemm/gemm.h"
#include "systems/modelgarden/recipe.h"
#include "systems/modelgarden/series.h"

bool et_experiment_resolve_precision(et_experiment *experiment)
{
    et_assert(experiment->runtime.mixed_precision_dtype >= ET_PRECISION_AUTO);
    int *precision = &experiment->runtime.mixed_precision_dtype;
    if (*precision == ET_PRECISION_AUTO)
        *precision = et_gemm_has_bf16() ? ET_PRECISION_BFLOAT16 : ET_PRECISION_FLOAT32;
    return *precision == ET_PRECISION_BFLOAT16;
}

void et_experiment_set_context(et_experiment *experiment, et_task_context *context)
{
    const et_runtime_options *runtime = &experiment->runtime;
    context->bfloat16 = et_experiment_resolve_precision(experiment);
    context->seed = (uint64_t)runtime->seed;
    context->prefetch = (int)runtime->prefetch;
    context->data_shards = (int)runtime->data_shards;
    context->validation_interval = experiment->trainer.validation_interval;
    context->best_metric = et_trainer_own_metric(&experiment->trainer);
}

/* auto means the type that the run began with, also on a CPU that would choose another one. */
int et_experiment_adopt(et_experiment *experiment, const et_experiment *kept, et_arena *arena,
                        et_error *error)
{
    if (experiment->runtime.mixed_precision_dtype == ET_PRECISION_AUTO)
        experiment->runtime.mixed_precision_dtype = kept->runtime.mixed_precision_dtype;
    if (experiment->kind->adopt && kept->kind == experiment->kind)
        experiment->kind->adopt(experiment->task, kept->task);
    et_experiment_resolve_precision(experiment);
    const et_recipe *recipe = et_recipe_of(experiment);
    /* The settings of a run do not record that it fine-tunes. */
    const bool same = recipe && (experiment->finetunes ? experiment->kind == kept->kind
                                                       : recipe == et_recipe_of(kept));
    return same ? et_recipe_adopt(experiment, kept, arena, error) : ET_OK;
}

int et_experiment_trainer_options(const et_experiment *experiment, const et_trainer_options *plan,
                                  et_task_trainer_options *out, et_error *error)
{
    const et_runtime_options *runtime = &experiment->runtime;
    *out = (et_task_trainer_options){
        .optimization = &plan->optimizer_config,
        .seed = (uint64_t)runtime->seed,
        .bfloat16 = runtime->mixed_precision_dtype == ET_PRECISION_BFLOAT16,
        .recompute = runtime->recompute,
        .batches = (int)(plan->gradient_accumulation * runtime->data_shards),
        .loss_upper_bound = plan->recovery_max_trials < 0 ? 0 : plan->loss_upper_bound,
        .recovery_begin_steps = plan->recovery_begin_steps,
        .dp_config = et_privacy_in(experiment->kind->fields, experiment->task),
    };
    return et_runtime_loss_scale(runtime, &out->loss_scale, error);
}

void et_experiment_control(const et_trainer_options *plan, et_controller_options *options)
{
    options->run.max_to_keep = plan->max_to_keep ? plan->max_to_keep : -1;
    options->run.keep_every_n_hours = plan->keep_checkpoint_every_n_hours;
    options->run.on_failed_save = plan->on_failed_save;
    options->run.best_comparison = et_trainer_best_comparison(plan, options->run.best_metric);
    options->run.best_link = et_trainer_best_link(plan);
    options->train_steps = plan->train_steps;
    options->steps_per_loop = plan->steps_per_loop;
    options->summary_interval = plan->summary_interval;
    options->validation_interval = plan->validation_interval;
    options->validation_steps = plan->validation_steps;
    options->checkpoint_interval = plan->checkpoint_interval;
    options->recovery_max_trials = plan->recovery_max_trials;
}

int et_series_check_none(const et_experiment *experiment, const char *what, et_error *error)
{
    const et_series *class = et_series_of(experiment);
    if (!class)
        return ET_OK;
    const char *other = class->candidate(experiment->name, experiment->task, 1);
    return other ? et_fail(error, ET_ECONFIG,
                           "%s works with one model, but %s trains several: name one, for example "
                           "--experiment %s",
                           what, experiment->name, other)
                 : et_fail(error, ET_ECONFIG,
                           "%s works with one model, but these settings of %s train one for each "
                           "fold: leave --folds out",
                           what, experiment->name);
}
