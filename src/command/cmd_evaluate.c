/* etude evaluate, of tasks that have no command of that name of their own: a trained model on its
 * validation data, as training measures it.
 *
 *   run's settings, --set -> task -> trainer -> best or newest weights -> evaluator -> values
 *
 * Values go to standard output, a line each. Nothing of the run is changed. */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "command/args.h"
#include "command/command.h"
#include "command/outputs.h"
#include "train/checkpoint.h"
#include "train/experiment.h"
#include "train/task_trainer.h"

typedef struct evaluation {
    const char *model_dir, *checkpoint; /* as given; NULL: not given */
    et_arg_list set;
    bool live_weights, help;
    et_arena arena;
    et_experiment experiment;
    et_identity newest; /* for the task */
    char *path;         /* of the checkpoint in use; owned */
    int64_t step;       /* of it */
    et_device *device;
    et_params *params;
    et_task *task;
    et_task_trainer *trainer;
} evaluation;

static int parse(evaluation *e, const et_call *call, et_error *error)
{
    const et_arg table[] = {
        { "model-dir", "DIR", "the run that trained the model", ET_ARG_TEXT, &e->model_dir, NULL },
        { "checkpoint", "FILE", "this checkpoint, not the best or newest", ET_ARG_TEXT,
          &e->checkpoint, NULL },
        { "set", "KEY=VALUE", "one setting, on top of the run's; may be given again", ET_ARG_LIST,
          &e->set, "params-override" },
        { "live-weights", NULL, "not the averaged ones", ET_ARG_FLAG, &e->live_weights, NULL },
        ET_ARG_END
    };
    int status = et_args_parse(table, call, &e->help, error);
    if (!status && e->help)
        et_args_help(stdout, table, call, "Measures a trained model on its validation data.",
                     "--model-dir runs/a");
    if (!status && !e->help && !e->model_dir)
        status = et_fail(error, ET_EUSAGE, "%s: --model-dir is missing: which run", call->command);
    return status;
}

/* Standard output may be a file, but none of the run's or of those that are read. */
static void note_read(void *outputs, const char *path)
{
    et_outputs_read(outputs, path);
}

static int check_outputs(const evaluation *e, const et_call *call, et_error *error)
{
    et_outputs outputs = { .program = call->program };
    et_outputs_read(&outputs, e->checkpoint);
    if (e->experiment.kind->reads)
        e->experiment.kind->reads(e->experiment.task, note_read, &outputs);
    int status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    return status;
}

static int configure(evaluation *e, const et_call *call, et_error *error)
{
    int status =
        et_experiment_open_run(&e->experiment, call->program, e->model_dir, &e->arena, error);
    for (int i = 0; i < e->set.count && !status; i++)
        status = et_experiment_set(&e->experiment, e->set.items[i], &e->arena, error);
    if (!status)
        status = et_experiment_check(&e->experiment, error);
    if (!status)
        status = check_outputs(e, call, error);
    return status ? status : et_identity_of_newest(&e->newest, e->model_dir, &e->arena, error);
}

/* The optimizer is the default one: it does nothing here, and keeps no average. */
static int open_trainer(evaluation *e, et_error *error)
{
    const et_runtime_options *runtime = &e->experiment.runtime;
    bool bfloat16 = runtime->mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    et_task_context context = { .model_dir = e->model_dir,
                                .params = e->params,
                                .device = e->device,
                                .seed = (uint64_t)runtime->seed,
                                .bfloat16 = bfloat16,
                                .identity = &e->newest };
    et_task_trainer_options options = { .seed = (uint64_t)runtime->seed, .bfloat16 = bfloat16 };
    int status = e->experiment.kind->open(&e->task, e->experiment.task, &context, error);
    if (!status)
        status = et_task_trainer_open(&e->trainer, e->task, e->device, e->params, &options, error);
    if (!status && !et_task_trainer_evaluator(e->trainer))
        status = et_fail(error, ET_ECONFIG, "%s: its settings name no validation data; set some",
                         e->model_dir);
    return status;
}

/* ---- weights ----------------------------------------------------------------------------- */

static int check_belongs(evaluation *e, const et_checkpoint_facts *facts, et_error *error)
{
    const et_task_kind *kind = e->experiment.kind;
    et_identity identity = { e->path, facts->identity };
    int status = et_experiment_check_model(&e->experiment, &identity, e->model_dir, error);
    if (!status && kind->belongs && facts->identity)
        status = kind->belongs(e->experiment.task, e->model_dir, &identity, error);
    e->step = facts->step;
    return status;
}

/* Trouble with the best one is a warning, since the newest is there as well. */
static int load_best(evaluation *e)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts facts = { .arena = &e->arena };
    int status = et_checkpoint_load_best(&e->path, e->params, e->model_dir, !e->live_weights,
                                         &facts, &reason);
    if (status == ET_ENOTFOUND && !e->path)
        return status;
    if (!status)
        status = check_belongs(e, &facts, &reason);
    if (status)
        et_log(ET_LOG_WARNING, "%s; taking the newest checkpoint, not the best", reason.text);
    return status;
}

static int load_weights(evaluation *e, et_error *error)
{
    et_checkpoint_facts facts = { .arena = &e->arena };
    int status;
    if (e->checkpoint) {
        e->path = et_strdup(e->checkpoint);
        status = e->path ? et_checkpoint_load_weights(e->params, e->path, !e->live_weights, &facts,
                                                      error)
                         : et_alloc_failed(error, 0, "a path");
        return status ? status : check_belongs(e, &facts, error);
    }
    if (!load_best(e))
        return ET_OK;
    et_free(e->path);
    status = et_checkpoint_load_newest(&e->path, e->params, e->model_dir, !e->live_weights, &facts,
                                       error);
    if (status == ET_ENOTFOUND)
        return et_fail(error, status,
                       "%s: no checkpoint yet; train there first, or wait until the run saves",
                       e->model_dir);
    return status ? status : check_belongs(e, &facts, error);
}

/* ---- values ------------------------------------------------------------------------------ */

static int print_values(const evaluation *e, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int status = logs ? et_evaluate(et_task_trainer_evaluator(e->trainer), e->step, 0, NULL, NULL,
                                    logs, error)
                      : et_alloc_failed(error, 0, "values");
    if (!status)
        printf("checkpoint %s, step %lld\n", e->path, (long long)e->step);
    for (const et_value *value = status ? NULL : logs->first; value; value = value->next)
        if (value->kind == ET_VALUE_FLOAT)
            printf("%-24s %.6g\n", value->key, value->real);
        else if (value->kind == ET_VALUE_INT)
            printf("%-24s %lld\n", value->key, (long long)value->integer);
    et_arena_release(&arena);
    return status;
}

static int evaluate(evaluation *e, const et_call *call, et_error *error)
{
    int status = configure(e, call, error);
    if (!status)
        status = et_device_open(&e->device, error);
    if (!status)
        status = et_params_new(&e->params, error);
    if (!status)
        status = open_trainer(e, error);
    if (!status)
        status = load_weights(e, error);
    return status ? status : print_values(e, error);
}

int et_cmd_evaluate(const et_call *call, et_error *error)
{
    evaluation e = { .arena = ET_ARENA_INIT };
    int status = parse(&e, call, error);
    if (!status && !e.help)
        status = evaluate(&e, call, error);
    et_task_trainer_close(e.trainer);
    if (e.task)
        e.experiment.kind->close(e.task);
    et_params_free(e.params);
    et_device_close(e.device);
    et_free(e.path);
    et_arena_release(&e.arena);
    return status;
}
