/* The learner (learner.h) of several tasks. */
#include <stddef.h>

#include "base/alloc.h"
#include "engine/tensor/params.h"
#include "systems/modelgarden/multitask_private.h"

static et_multitask *of(const et_learner *learner)
{
    return (et_multitask *)(void *)((char *)learner - offsetof(et_multitask, learner));
}

static et_trainer *own_trainer(et_learner *self)
{
    return et_multitask_trainer(of(self));
}

static et_evaluator *own_evaluator(et_learner *self)
{
    return et_multitask_evaluator(of(self));
}

static const et_layout *layout(const et_learner *self)
{
    return et_task_trainer_layout(of(self)->parts[0].trainer);
}

static int batches(et_learner *self, int64_t *count, et_error *error)
{
    return et_multitask_batches(of(self), count, error);
}

/* That of the first task that has one and is evaluated. */
static int best_metric(const et_learner *self, const char **name, et_arena *arena, et_error *error)
{
    const et_multitask *m = of(self);
    *name = NULL;
    for (int i = 0; i < m->count; i++) {
        const et_task_trainer *one = m->parts[i].trainer;
        const char *own = one->task->class->best_metric;
        const char *set = et_task_trainer_validation_set(one, 0);
        if (!own || !one->validation.source)
            continue;
        *name = et_arena_printf(arena, "%s/%s%s%s", et_multitask_name(m, i), set ? set : "",
                                set ? "/" : "", own);
        return *name ? ET_OK : et_alloc_failed(error, 0, "a name");
    }
    return ET_OK;
}

static int main_metrics(const et_learner *self, et_main_metrics *metrics, et_arena *arena,
                        et_error *error)
{
    const et_multitask *m = of(self);
    int status = ET_OK;
    for (int i = 0; !status && i < m->count; i++) {
        const char *prefix = et_arena_printf(arena, "%s/", et_multitask_name(m, i));
        status = prefix ? et_main_metrics_of_task(metrics, m->parts[i].trainer, prefix, true, arena,
                                                  error)
                        : et_alloc_failed(error, 0, "a name");
    }
    return status;
}

static const et_pass *pass(const et_learner *self, int number)
{
    const et_multitask *m = of(self);
    return number < m->count ? et_task_trainer_pass(m->parts[number].trainer) : NULL;
}

/* One store and one optimizer, which are the first one's, and the sum. */
static size_t parameter_bytes(const et_learner *self)
{
    const et_multitask *m = of(self);
    size_t sum = m->gradient ? (size_t)et_params_trained_size(m->params) * sizeof(float) : 0;
    return sum + et_task_trainer_parameter_bytes(m->parts[0].trainer);
}

static int single(et_learner *self, et_task_trainer **out, et_error *error)
{
    *out = NULL;
    return et_fail(error, ET_ECONFIG,
                   "%d tasks: several tasks cannot be trained with workers and parameter servers; "
                   "use ranks (runtime.data_shards, `etude launch -n N`)",
                   of(self)->count);
}

static void close_all(et_learner *self)
{
    et_multitask_close(of(self));
}

static const et_learner_class class = {
    .name = "multitask",
    .trainer = own_trainer,
    .evaluator = own_evaluator,
    .layout = layout,
    .batches = batches,
    .best_metric = best_metric,
    .main_metrics = main_metrics,
    .pass = pass,
    .parameter_bytes = parameter_bytes,
    .single = single,
    .close = close_all,
};

et_learner *et_multitask_learner(et_multitask *multitask)
{
    multitask->learner.class = &class;
    return &multitask->learner;
}
