#include "systems/modelgarden/learner.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/exec/pass.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/run/options.h"

static et_task_trainer *of(const et_learner *learner)
{
    return (et_task_trainer *)(void *)((char *)learner - offsetof(et_task_trainer, learner));
}

/* ---- one task ---- */

static et_trainer *trainer(et_learner *self)
{
    return et_task_trainer_trainer(of(self));
}

static et_evaluator *evaluator(et_learner *self)
{
    return et_task_trainer_evaluator(of(self));
}

static const et_layout *layout(const et_learner *self)
{
    return et_task_trainer_layout(of(self));
}

static int batches(et_learner *self, int64_t *count, et_error *error)
{
    return et_task_trainer_batches(of(self), count, error);
}

/* Of several sets of validation data it is the first's. */
static int best_metric(const et_learner *self, const char **name, et_arena *arena, et_error *error)
{
    const char *set = et_task_trainer_validation_set(of(self), 0);
    *name = of(self)->task->class->best_metric;
    if (!*name || !set)
        return ET_OK;
    *name = et_arena_printf(arena, "%s/%s", set, *name);
    return *name ? ET_OK : et_alloc_failed(error, 0, "a name");
}

static int main_metrics(const et_learner *self, et_main_metrics *metrics, et_arena *arena,
                        et_error *error)
{
    return et_main_metrics_of_task(metrics, of(self), "", false, arena, error);
}

static const et_pass *pass(const et_learner *self, int number)
{
    return number ? NULL : et_task_trainer_pass(of(self));
}

static size_t parameter_bytes(const et_learner *self)
{
    return et_task_trainer_parameter_bytes(of(self));
}

static int single(et_learner *self, et_task_trainer **out, et_error *error)
{
    (void)error;
    *out = of(self);
    return ET_OK;
}

static void close_trainer(et_learner *self)
{
    et_task_trainer_close(of(self));
}

static const et_learner_class class = {
    .name = "task",
    .trainer = trainer,
    .evaluator = evaluator,
    .layout = layout,
    .batches = batches,
    .best_metric = best_metric,
    .main_metrics = main_metrics,
    .pass = pass,
    .parameter_bytes = parameter_bytes,
    .single = single,
    .close = close_trainer,
};

/* ---- any ---- */

int et_learner_open(et_learner **out, et_task *task, et_device *device, et_params *params,
                    const et_task_trainer_options *options, et_error *error)
{
    const et_learner_request request = { device, params, options };
    et_task_trainer *one;
    *out = NULL;
    if (task->class->open_learner)
        return task->class->open_learner(task, &request, out, error);
    int status = et_task_trainer_open(&one, task, device, params, options, error);
    if (status)
        return status;
    one->learner.class = &class;
    *out = &one->learner;
    return ET_OK;
}

void et_learner_close(et_learner *learner)
{
    if (learner)
        learner->class->close(learner);
}

int et_learner_best_metric(const et_learner *learner, const char *asked, const char **best,
                           et_arena *arena, et_error *error)
{
    *best = asked;
    if (!asked || strcmp(asked, ET_BEST_AUTO) != 0)
        return ET_OK;
    return learner->class->best_metric(learner, best, arena, error);
}

int et_learner_shown_metrics(const et_learner *learner, const char *best, et_main_metrics *shown,
                             int *most, et_arena *arena, et_error *error)
{
    et_main_metrics own = { .count = 0 };
    *shown = own;
    if (best)
        et_main_metrics_add(shown, best);
    int status = learner->class->main_metrics(learner, &own, arena, error);
    for (int i = 0; i < own.count; i++)
        et_main_metrics_add(shown, own.name[i]);
    const bool several = own.count && strchr(own.name[0], '/');
    *most = several ? ET_MAIN_METRICS_MAX : 2;
    return status;
}

et_trainer *et_learner_trainer(et_learner *learner)
{
    return learner->class->trainer(learner);
}

et_evaluator *et_learner_evaluator(et_learner *learner)
{
    return learner->class->evaluator(learner);
}

et_plan_memory et_learner_plan_memory(const et_learner *learner)
{
    et_plan_memory sum = { 0 };
    const et_pass *one;
    for (int i = 0; (one = learner->class->pass(learner, i)) != NULL; i++) {
        et_plan_memory memory = et_pass_plan_memory(one);
        sum.activations += memory.activations;
        sum.packed += memory.packed;
        sum.constants += memory.constants;
    }
    return sum;
}

bool et_learner_computes_twice(const et_learner *learner)
{
    const et_pass *one;
    for (int i = 0; (one = learner->class->pass(learner, i)) != NULL; i++)
        if (et_pass_recompute(one) == ET_RECOMPUTE_MARKED)
            return true;
    return false;
}

int et_learner_calls(const et_learner *learner)
{
    const et_pass *one;
    int calls = 0;
    for (int i = 0; (one = learner->class->pass(learner, i)) != NULL; i++)
        calls += et_plan_calls(et_pass_plan(one));
    return calls;
}
