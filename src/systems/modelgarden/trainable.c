#include "systems/modelgarden/trainable.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/exec/pass.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/checkpoint/metric_name.h"
#include "train/run/options.h"

/* The name of a set of validation data; NULL: no set has this number. */
static const char *validation_set(const et_task_trainer *t, int number)
{
    return number < t->validation.sets ? t->validation.set[number].name : NULL;
}

static bool is_same(const char *a, const char *b)
{
    static const char marks[] = "|/.";
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr(marks, *a) && strchr(marks, *b)))
            return false;
    return *a == *b;
}

void et_main_metrics_add(et_main_metrics *m, const char *name)
{
    et_assert(name && m->count >= 0 && m->count <= ET_MAIN_METRICS_MAX);
    for (int i = 0; i < m->count; i++)
        if (is_same(m->name[i], name) || et_metric_is_double(m->name[i], name))
            return;
    if (m->count < ET_MAIN_METRICS_MAX)
        m->name[m->count++] = name;
}

int et_main_metrics_best(const char **name, const et_task_trainer *trainer, const char *prefix,
                         et_arena *arena, et_error *error)
{
    const char *own = trainer->task->class->best_metric;
    const char *set = validation_set(trainer, 0);
    *name = NULL;
    if (!own)
        return ET_OK;
    *name = et_arena_printf(arena, "%s%s%s%s", prefix, set ? set : "", set ? "/" : "", own);
    return *name ? ET_OK : et_alloc_failed(error, "a name");
}

int et_main_metrics_of_task(et_main_metrics *m, const et_task_trainer *trainer, const char *prefix,
                            bool only_first, et_arena *arena, et_error *error)
{
    const et_task_class *class = trainer->task->class;
    const char *best = class->best_metric ? class->best_metric : ET_LOGGED_VALIDATION_LOSS;
    const char *const usual[] = { best, ET_LOGGED_VALIDATION_LOSS, NULL };
    const char *const *names = class->main_metrics ? class->main_metrics : usual;
    const char *set = validation_set(trainer, 0);
    if (!trainer->validation.source)
        return ET_OK;
    if (!set && !only_first) {
        for (; *names; names++)
            et_main_metrics_add(m, *names);
        return ET_OK;
    }
    if (!class->best_metric && *names)
        best = *names;
    for (int i = 0; i == 0 || (set && !only_first); set = validation_set(trainer, ++i)) {
        const char *name =
            et_arena_printf(arena, "%s%s%s%s", prefix, set ? set : "", set ? "/" : "", best);
        if (!name)
            return et_alloc_failed(error, "a name");
        et_main_metrics_add(m, name);
    }
    return ET_OK;
}

struct et_trainable {
    et_task_trainer *one;    /* of the first task; owned if there is only one task */
    et_multitask *multitask; /* of several; owned. NULL: there is one */
};

static int task_count(const et_trainable *trainable)
{
    return trainable->multitask ? trainable->multitask->count : 1;
}

static et_task_trainer *task_at(const et_trainable *trainable, int i)
{
    et_assert(trainable->multitask ? i >= 0 && i < trainable->multitask->count : !i);
    return trainable->multitask ? trainable->multitask->parts[i].trainer : trainable->one;
}

/* The prefix of a task's values: "digits/", or "" for a single task. NULL: no memory. */
static const char *prefix_of(const et_trainable *trainable, int i, et_arena *arena)
{
    return trainable->multitask
               ? et_arena_printf(arena, "%s/", et_multitask_name(trainable->multitask, i))
               : "";
}

/* ---- opening ---- */

int et_trainable_open(et_trainable **out, et_task *task, et_device *device, et_params *params,
                      const et_task_trainer_options *options, et_error *error)
{
    const et_multitask_request request = { device, params, options };
    *out = NULL;
    et_trainable *trainable;
    if (ET_ALLOC_ZERO(trainable, 1, "a trainer", error))
        return ET_ENOMEM;
    int status = task->class->open_multitask
                     ? task->class->open_multitask(task, &request, &trainable->multitask, error)
                     : et_task_trainer_open(&trainable->one, task, device, params, options, error);
    if (!status)
        trainable->one = task_at(trainable, 0);
    if (status)
        et_free(trainable);
    else
        *out = trainable;
    return status;
}

void et_trainable_close(et_trainable *trainable)
{
    if (!trainable)
        return;
    if (trainable->multitask)
        et_multitask_close(trainable->multitask);
    else
        et_task_trainer_close(trainable->one);
    et_free(trainable);
}

et_trainer *et_trainable_trainer(et_trainable *trainable)
{
    return trainable->multitask ? et_multitask_trainer(trainable->multitask)
                                : et_task_trainer_trainer(trainable->one);
}

et_evaluator *et_trainable_evaluator(et_trainable *trainable)
{
    return trainable->multitask ? et_multitask_evaluator(trainable->multitask)
                                : et_task_trainer_evaluator(trainable->one);
}

int et_trainable_single(et_trainable *trainable, et_task_trainer **out, et_error *error)
{
    *out = trainable->multitask ? NULL : trainable->one;
    return *out ? ET_OK
                : et_fail(error, ET_ECONFIG,
                          "%d tasks: several tasks cannot be trained with workers and parameter "
                          "servers; "
                          "use ranks (runtime.data_shards, `etude launch -n N`)",
                          task_count(trainable));
}

/* ---- values that people see ---- */

/* auto: the metric of the first task that has one (with several tasks: and is evaluated), from the
 * first of several sets of validation data. */
int et_trainable_best_metric(const et_trainable *trainable, const char *asked, const char **best,
                             et_arena *arena, et_error *error)
{
    const bool automatic = asked && !strcmp(asked, ET_BEST_AUTO);
    *best = automatic ? NULL : asked;
    for (int i = 0; automatic && i < task_count(trainable); i++) {
        const et_task_trainer *t = task_at(trainable, i);
        if (!t->task->class->best_metric || (trainable->multitask && !t->validation.source))
            continue;
        const char *prefix = prefix_of(trainable, i, arena);
        return prefix ? et_main_metrics_best(best, t, prefix, arena, error)
                      : et_alloc_failed(error, "a name");
    }
    return ET_OK;
}

/* Several tasks or sets of data show one metric each. */
int et_trainable_shown_metrics(const et_trainable *trainable, const char *best,
                               et_main_metrics *shown, int *most, et_arena *arena, et_error *error)
{
    et_main_metrics own = { .count = 0 };
    *shown = own;
    if (best)
        et_main_metrics_add(shown, best);
    int status = ET_OK;
    for (int i = 0; !status && i < task_count(trainable); i++) {
        const char *prefix = prefix_of(trainable, i, arena);
        status = prefix ? et_main_metrics_of_task(&own, task_at(trainable, i), prefix,
                                                  trainable->multitask, arena, error)
                        : et_alloc_failed(error, "a name");
    }
    for (int i = 0; i < own.count; i++)
        et_main_metrics_add(shown, own.name[i]);
    const bool several = own.count && strchr(own.name[0], '/');
    *most = several ? ET_MAIN_METRICS_MAX : 2;
    return status;
}

/* ---- what training needs ---- */

const et_layout *et_trainable_layout(const et_trainable *trainable)
{
    const et_task_trainer *t = trainable->one;
    return t->source ? &t->source->layout : &t->validation.source->layout;
}

int et_trainable_batches(const et_trainable *trainable, int64_t *count, et_error *error)
{
    return trainable->multitask ? et_multitask_batches(trainable->multitask, count, error)
                                : et_task_trainer_batches(trainable->one, count, error);
}

/* All tasks use the store and the optimizer of the first task; joint training adds their
 * gradients. */
et_trainable_facts et_trainable_facts_of(const et_trainable *trainable)
{
    const et_multitask *m = trainable->multitask;
    et_trainable_facts facts = { .parameter_bytes = et_task_trainer_parameter_bytes(trainable->one),
                                 .recompute = ET_RECOMPUTE_NONE };
    if (m && m->gradient)
        facts.parameter_bytes += et_params_trained_size(m->params) * sizeof(float);
    for (int i = 0; i < task_count(trainable); i++) {
        const et_task_trainer *t = task_at(trainable, i);
        facts.sum_bytes += t->step.reducer ? t->step.reducer->bytes : 0;
        if (!t->pass)
            continue;
        const et_plan_memory memory = et_pass_plan_memory(t->pass);
        const et_recompute recompute = et_pass_recompute(t->pass);
        facts.memory.activations += memory.activations;
        facts.memory.packed += memory.packed;
        facts.memory.constants += memory.constants;
        facts.recompute = recompute > facts.recompute ? recompute : facts.recompute;
        facts.calls += et_plan_calls(et_pass_plan(t->pass));
    }
    return facts;
}
