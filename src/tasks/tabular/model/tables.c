/* A table: a task without a trainer. Its texts lie in a temporary directory, as they would in a
 * run's, so that one code infers and reads them. */
#include "tasks/tabular/model/tables.h"

#include <string.h>

#include "base/alloc.h"
#include "base/files/scratch.h"
#include "base/values/value.h"
#include "data/batches/source.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"

static int assign(et_experiment *e, const char *path, const char *text, et_arena *arena,
                  et_error *error)
{
    et_value *dict = et_value_dict(arena);
    const et_value *value = et_value_set_string(dict, "value", text);
    return value ? et_experiment_assign(e, "et_table_open", path, value, arena, error)
                 : et_alloc_failed(error, strlen(text), "a table");
}

int et_table_experiment(et_experiment *e, const et_table *table, const char *name,
                        const char *settings, et_arena *arena, et_error *error)
{
    int status = et_experiment_begin(e, &et_tabular_program, name, arena, error);
    if (!status)
        status = assign(e, "task.train_data.input_path", table->path, arena, error);
    if (!status)
        status = assign(e, "task.target", table->target, arena, error);
    if (!status && table->settings)
        status = et_experiment_set(e, table->settings, arena, error);
    if (!status && settings)
        status = et_experiment_set(e, settings, arena, error);
    if (!status)
        status = et_experiment_complete(e, error);
    return status ? status : et_experiment_check(e, error);
}

int et_table_task(et_task **out, const et_table *table, const et_experiment *e, et_device *device,
                  et_params *params, et_error *error)
{
    const et_task_context context = { .model_dir = table->directory,
                                      .params = params,
                                      .device = device,
                                      .seed = (uint64_t)e->runtime.seed,
                                      .validation_interval = 1,
                                      .best_metric = et_trainer_own_metric(&e->trainer) };
    return et_tabular_task_open(out, e->task, &context, error);
}

static int open_task(et_table *t, et_error *error)
{
    int status = et_table_experiment(&t->experiment, t, "tabular/mlp", NULL, &t->arena, error);
    if (!status)
        status = et_scratch_open(&t->directory, "etude-table", error);
    if (!status)
        status = et_device_open(&t->device, error);
    if (!status)
        status = et_params_new(&t->params, error);
    if (!status)
        status = et_table_task(&t->task, t, &t->experiment, t->device, t->params, error);
    if (!status)
        status = et_task_build_inputs(t->task, &(et_data_config){ .training = true }, NULL,
                                      &t->source, error);
    if (!status)
        et_source_position(t->source, &t->begin);
    return status;
}

int et_table_open(et_table **out, const char *path, const char *target, const char *settings,
                  et_error *error)
{
    *out = NULL;
    if (!path || !*path || !target || !*target)
        return et_fail(error, ET_ECONFIG, "et_table_open: give %s",
                       path && *path ? "the column to predict" : "a CSV file");
    et_table *t = et_alloc_zero(1, sizeof *t);
    if (!t)
        return et_alloc_failed(error, sizeof *t, "a table");
    t->arena = (et_arena)ET_ARENA_INIT;
    t->path = et_arena_strdup(&t->arena, path);
    t->target = et_arena_strdup(&t->arena, target);
    t->settings = settings ? et_arena_strdup(&t->arena, settings) : NULL;
    int status = t->path && t->target && (t->settings || !settings)
                     ? open_task(t, error)
                     : et_alloc_failed(error, strlen(path), "a table");
    if (status)
        et_table_close(t);
    else
        *out = t;
    return status;
}

void et_table_close(et_table *t)
{
    if (!t)
        return;
    et_source_close(t->source);
    et_tabular_task_close(t->task);
    et_params_free(t->params);
    et_device_close(t->device);
    et_scratch_close(t->directory);
    et_arena_release(&t->arena);
    et_free(t);
}

et_source *et_table_source(et_table *t)
{
    (void)et_source_seek(t->source, &t->begin, NULL); /* a position of its own fits */
    return t->source;
}
