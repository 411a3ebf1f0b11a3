/* settings -> task -> trainer -> weights -> evaluator -> values. Everything is opened once; only
 * the store's weights change from checkpoint to checkpoint. A task reads its files in a directory,
 * so the files of an export in one file are put into a temporary directory while it is opened. */
#include "systems/training/evaluation.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/ranks/compare.h"
#include "train/ranks/eval_shard.h"

/* Uses the default optimizer, which does nothing in an evaluation and keeps no average. */
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
    return status
               ? status
               : et_trainable_open(&e->trainable, e->task, e->device, e->params, &options, error);
}

/* The data are not in an export, and the paths of the run's may be another machine's. */
static int open_unpacked(et_evaluation *e, et_error *error)
{
    char *directory;
    int status = et_scratch_open(&directory, "etude-evaluate", error);
    if (status)
        return status;
    status = et_artifact_unpack(&e->artifact, directory, error);
    /* A task may read the weights, too. */
    char *file = realpath(e->model_dir, NULL);
    if (!status && (!file || symlink(file, et_path_of(directory, ET_ARTIFACT_WEIGHTS).text)))
        status = et_fail_errno(error, "%s", e->model_dir);
    free(file);
    if (!status && (status = open_trainer(e, directory, error)))
        status = et_fail_while(error, status,
                               "%s, with the data of its settings (use --set to name other data)",
                               e->model_dir);
    et_scratch_close(directory);
    return status;
}

static int open_alone(et_evaluation *e, et_error *error)
{
    int status;
    if ((status =
             et_experiment_open_model(&e->artifact, e->experiment->program, e->model_dir, error)) ||
        (status = et_artifact_identity(&e->artifact, &e->newest, &e->arena, error)) ||
        (!e->device && (status = et_device_open(&e->own_device, error))) ||
        (status = et_params_new(&e->params, error)))
        return status;
    e->device = e->device ? e->device : e->own_device;
    return et_artifact_is_file(&e->artifact) ? open_unpacked(e, error)
                                             : open_trainer(e, e->model_dir, error);
}

int et_evaluation_open(et_evaluation *e, et_error *error)
{
    et_assert(e->experiment && !e->task && !e->trainable);
    int status = open_alone(e, error);
    et_value *identity = NULL;
    if (!status)
        status = et_experiment_identify(&identity, e->experiment, NULL, NULL, &e->arena, error);
    return et_ranks_compare(e->comm, status, identity, e->device, error);
}

void et_evaluation_close(et_evaluation *e)
{
    et_trainable_close(e->trainable);
    if (e->task)
        e->experiment->kind->close(e->task);
    et_params_free(e->params);
    if (e->own_device)
        e->device = NULL;
    et_device_close(e->own_device);
    et_artifact_close(&e->artifact);
    et_free(e->path);
    et_arena_release(&e->arena);
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

/* An identity has a few values; its memory is freed at each load. */
int et_evaluation_load(et_evaluation *e, const char *name, et_error *error)
{
    et_assert(e->task && e->params);
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
    return et_ranks_compare_loaded(e->comm, status, e->model_dir, e->path, e->step, error);
}

/* ---- values ---- */

static bool stops(void *payload)
{
    const et_evaluation *e = payload;
    return et_flag_is_set(e->stop);
}

int et_evaluation_run(et_evaluation *e, et_value *logs, et_error *error)
{
    et_assert(e->trainable && logs);
    return et_evaluate_on_ranks(et_trainable_evaluator(e->trainable), e->comm, e->step, e->batches,
                                stops, e, logs, error);
}
