/* settings -> task -> trainer -> weights -> evaluator -> values. Everything is opened once; only
 * the store's weights change from checkpoint to checkpoint. A task reads its files in a directory,
 * so the files of an export in one file are put into a temporary directory while it is opened. */
#include "systems/training/evaluation.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/values/value.h"
#include "command/print.h"
#include "command/ranks.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/metric_name.h"
#include "train/ranks/eval_shard.h"

/* The optimizer is the default one: it does nothing here, and keeps no average. */
static int open_trainer(et_evaluation *e, const char *directory, et_error *error)
{
    const et_task_kind *kind = e->experiment->kind;
    const et_runtime_options *runtime = &e->experiment->runtime;
    bool bfloat16 = runtime->mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    et_task_context context = { .model_dir = directory,
                                .params = e->params,
                                .device = e->device,
                                .seed = (uint64_t)runtime->seed,
                                .bfloat16 = bfloat16,
                                .identity = &e->newest,
                                .listener = e->listener,
                                .tell = e->tell,
                                .stop = e->stop,
                                .reader = true,
                                .evaluates = true,
                                .comm = e->comm };
    et_task_trainer_options options = { .seed = (uint64_t)runtime->seed,
                                        .bfloat16 = bfloat16,
                                        .comm = e->comm,
                                        .use = ET_EVALUATE_ONLY };
    int status = kind->open(&e->task, e->experiment->task, &context, error);
    if (!status)
        status = et_learner_open(&e->learner, e->task, e->device, e->params, &options, error);
    return status;
}

/* The data are not in an export, and the paths of the run's may be another machine's. */
static int open_unpacked(et_evaluation *e, et_error *error)
{
    char *directory;
    int status = et_scratch_open(&directory, "etude-evaluate", error);
    if (status)
        return status;
    status = et_artifact_unpack(&e->artifact, directory, error);
    if (!status && (status = open_trainer(e, directory, error)))
        status = et_fail_while(error, status,
                               "%s, with the data of its settings (use --set to name other data)",
                               e->model_dir);
    et_scratch_close(directory);
    return status;
}

static int open_alone(et_evaluation *e, et_error *error)
{
    int status =
        et_experiment_open_model(&e->artifact, e->experiment->program, e->model_dir, error);
    const bool file = !status && et_artifact_is_file(&e->artifact);
    e->arena = et_arena_new();
    if (!status && !e->arena)
        status = et_alloc_failed(error, 0, "an evaluation");
    if (!status)
        status = et_artifact_identity(&e->artifact, &e->newest, e->arena, error);
    if (!status)
        status = et_device_open(&e->device, error);
    if (!status)
        status = et_params_new(&e->params, error);
    if (status)
        return status;
    return file ? open_unpacked(e, error) : open_trainer(e, e->model_dir, error);
}

int et_evaluation_open_ranks(et_evaluation *e, et_error *error)
{
    et_assert(e->experiment && !e->comm);
    return et_ranks_join(&e->comm, e->experiment->runtime.peer_timeout, error);
}

static void show(void *listener, const char *line)
{
    (void)listener;
    et_print(stderr, "%s\n", line);
}

void et_evaluation_listen(et_evaluation *e)
{
    e->tell = et_comm_rank(e->comm) ? NULL : show;
}

int et_evaluation_open(et_evaluation *e, et_error *error)
{
    et_assert(e->experiment && !e->task && !e->learner);
    int status = open_alone(e, error);
    et_value *identity = status ? NULL : et_value_dict(e->arena);
    if (!status)
        status = identity ? et_experiment_identify(e->experiment, identity, error)
                          : et_alloc_failed(error, 0, "settings");
    return et_ranks_compare(e->comm, status, identity, e->device, error);
}

void et_evaluation_close(et_evaluation *e)
{
    et_learner_close(e->learner);
    if (e->task)
        e->experiment->kind->close(e->task);
    et_params_free(e->params);
    et_device_close(e->device);
    et_artifact_close(&e->artifact);
    et_free(e->path);
    et_arena_free(e->arena);
}

/* ---- weights ---- */

static int check_loaded(void *payload, const et_artifact_weights *load, et_error *error)
{
    et_evaluation *e = payload;
    const et_task_kind *kind = e->experiment->kind;
    et_identity identity = { load->checkpoint, load->facts.identity };
    int status =
        et_experiment_check_model(e->experiment, &identity, et_artifact_run(&e->artifact), error);
    if (!status && kind->belongs && identity.values && !e->artifact.content)
        status = kind->belongs(e->experiment->task, e->model_dir, &identity, error);
    e->step = load->facts.step;
    return status;
}

/* name NULL: an export's own, or the best. Identities are a few values each; what is kept of them
 * is freed with each load. */
static int load_trained(et_evaluation *e, const char *name, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_artifact_weights load = { .artifact = &e->artifact,
                                 .params = e->params,
                                 .named = name,
                                 .live_weights = e->live_weights,
                                 .facts = { .arena = &arena },
                                 .check = check_loaded,
                                 .payload = e };
    int status = et_artifact_load(&load, error);
    et_free(e->path);
    e->path = load.checkpoint;
    et_arena_release(&arena);
    return status;
}

static int agree_on_loaded(et_evaluation *e, int status, et_error *error)
{
    return et_ranks_compare_loaded(e->comm, status, e->model_dir, e->path, e->step, error);
}

int et_evaluation_load(et_evaluation *e, const char *name, et_error *error)
{
    et_assert(e->task && e->params);
    return agree_on_loaded(e, load_trained(e, name ? name : ET_CHECKPOINT_NEWEST, error), error);
}

int et_evaluation_load_best(et_evaluation *e, et_error *error)
{
    et_assert(e->task && e->params);
    return agree_on_loaded(e, load_trained(e, NULL, error), error);
}

/* ---- values ---- */

static bool stops(void *payload)
{
    const et_evaluation *e = payload;
    return et_flag_is_set(e->stop);
}

int et_evaluation_run(et_evaluation *e, et_value *logs, et_error *error)
{
    et_assert(e->learner && logs);
    return et_evaluate_on_ranks(et_learner_evaluator(e->learner), e->comm, e->step, e->batches,
                                stops, e, logs, error);
}

#define NAME_LEAST 19 /* columns of names */

const char *et_evaluation_name(const et_value *logs, const et_value *value)
{
    et_assert(value->key);
    const char *key = value->key;
    static const char prefix[] = ET_LOGGED_OF_VALIDATION;
    const bool begins = value->kind != ET_VALUE_DICT && !strncmp(key, prefix, sizeof prefix - 1);
    const char *name = key + (begins ? sizeof prefix - 1 : 0);
    return *name && !et_value_get(logs, name) ? name : key;
}

static void add_values(et_grid *grid, const et_value *logs, const char *path)
{
    for (const et_value *value = logs->first; value; value = value->next) {
        if (et_metric_repeats(logs, value))
            continue;
        char name[200];
        snprintf(name, sizeof name, "%s%s%s", path, *path ? "/" : "",
                 et_evaluation_name(logs, value));
        if (value->kind == ET_VALUE_DICT) {
            add_values(grid, value, name);
        } else if (value->kind == ET_VALUE_FLOAT) {
            et_grid_add(grid, name);
            et_grid_addf(grid, "%.6g", value->real);
        } else if (value->kind == ET_VALUE_INT) {
            et_grid_add(grid, name);
            et_grid_addf(grid, "%lld", (long long)value->integer);
        }
    }
}

int et_evaluation_print(const et_evaluation *e, const et_value *logs, et_error *error)
{
    et_assert(logs); /* of what was measured elsewhere there is no learner */
    if (et_comm_rank(e->comm))
        return ET_OK;
    et_grid grid = { .columns = 2, .headless = true, .left = 2, .least = NAME_LEAST };
    et_print(stdout, "checkpoint %s, step %lld\n", e->path, (long long)e->step);
    add_values(&grid, logs, "");
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    fflush(stdout);
    return status;
}

int et_evaluation_print_json(const et_evaluation *e, const et_value *logs, const et_value *more,
                             et_error *error)
{
    if (et_comm_rank(e->comm))
        return ET_OK;
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    et_value_set_string(results, "checkpoint", e->path);
    et_value_set_int(results, "step", e->step);
    et_value *values = et_value_set_dict(results, "values");
    int status = values ? et_value_merge(values, logs, error) : et_alloc_failed(error, 0, "values");
    if (!status && more)
        status = et_value_merge(results, more, error);
    if (!status)
        status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}
