/* etude evaluate, for kinds of task without their own command of this name. Measures a trained
 * model, from a run or an export, on its validation data, like the validation of a training.
 *
 *   run's settings, --set -> task -> trainer -> best or newest weights -> evaluator -> values
 *
 * Values go to standard output, one per line. The run does not change. */
#include "command/training/evaluate.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "systems/training/session.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/metric_name.h"
#include "train/task/task_private.h"

/* ---- printing ---- */

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
    et_assert(logs); /* without a trainable, another process has measured */
    if (et_comm_rank(e->comm))
        return ET_OK;
    et_grid grid = { .columns = 2, .headless = true, .left = 2, .least = NAME_LEAST };
    et_print(stdout, "checkpoint %s, step %lld\n", e->path, (long long)e->step);
    add_values(&grid, logs, "");
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return et_print_end(status, error);
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
    int status = values ? et_value_merge(values, logs, error) : et_alloc_failed(error, "values");
    if (!status && more)
        status = et_value_merge(results, more, error);
    if (!status)
        status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}

/* ---- the command ---- */

const et_option et_evaluate_options[] = {
    ET_OPTION_MODEL_DIR(et_evaluate_args, model_dir),
    ET_OPTION_TASK(et_evaluate_args, task),
    ET_OPTION_LIST(et_evaluate_args, data, "data", "FILE",
                   "evaluate on these files, not on the run's validation data; may be given again"),
    ET_OPTION_CHECKPOINT(et_evaluate_args, checkpoint),
    ET_OPTION_SET(et_evaluate_args, set,
                  "settings that override the run's settings; may be given again"),
    ET_OPTION_LIVE_WEIGHTS(et_evaluate_args, live_weights),
    ET_OPTION_JSON(et_evaluate_args, json),
    ET_OPTION_QUIET(et_evaluate_args, quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(et_evaluate_args, model_dir),
    ET_OPTION_REST(et_evaluate_args, data, "[FILE]..."),
    ET_OPTION_END,
};

const et_usage et_usage_evaluate = {
    et_evaluate_options, sizeof(et_evaluate_args),
    "Evaluates a trained model on files, or on its validation data.", "runs/a new.csv"
};

/* Standard output may be a file, but not a file of the run or an input. */
static int check_outputs(const et_experiment *experiment, const et_evaluate_args *args,
                         const et_call *call, const et_evaluate_more *more, et_error *error)
{
    et_outputs outputs = { .program = call->program };
    et_outputs_read_model(&outputs, args->model_dir, args->checkpoint);
    et_outputs_read_settings(&outputs, experiment->kind, experiment->task);
    int status = et_outputs_check_standard(&outputs, error);
    if (!status && more && more->check_outputs)
        status = more->check_outputs(more->payload, &outputs, error);
    et_outputs_release(&outputs);
    return status;
}

/* The setting that `train --valid` sets. */
static const char *validation_setting(const et_task_kind *kind)
{
    for (const et_option *row = kind->options; row && row->field.name; row++)
        if (!strcmp(row->field.name, "valid") && !row->sets->settings[1])
            return row->sets->settings[0];
    return NULL;
}

/* Files in place of all that the run says of its validation data. */
static int use_files(et_experiment *experiment, const et_strings *files, et_arena *arena,
                     et_error *error)
{
    const char *path = validation_setting(experiment->kind);
    if (!files->count)
        return ET_OK;
    if (!path)
        return et_fail(error, ET_EUSAGE,
                       "evaluate: %s: a model of %s can only be evaluated on its own data%s",
                       files->items[0], experiment->kind->name,
                       experiment->kind->file ? "; name one of its tasks with --task" : "");
    const char *group = et_arena_strndup(arena, path, strrchr(path, '.') - path);
    et_value *nothing = et_value_new(arena, ET_VALUE_NULL), *list = et_value_list(arena);
    for (size_t i = 0; list && i < files->count; i++)
        et_value_add_string(list, files->items[i]);
    if (!group || !nothing || !list || et_value_failed(list))
        return et_alloc_failed(error, "settings");
    int status = et_experiment_assign(experiment, "--data", group, nothing, arena, error);
    return status ? status : et_experiment_assign(experiment, "--data", path, list, arena, error);
}

static int configure(et_experiment *experiment, const et_evaluate_args *args, const et_call *call,
                     const et_evaluate_more *more, et_arena *arena, et_error *error)
{
    et_artifact artifact;
    int status = et_experiment_open_model(&artifact, call->program, args->model_dir, error);
    if (!status)
        status = et_experiment_open_artifact(experiment, call->program, &artifact, arena, error);
    et_artifact_close(&artifact);
    if (!status)
        status = use_files(experiment, &args->data, arena, error);
    experiment->source = ET_SETTINGS_SET;
    for (size_t i = 0; i < args->set.count && !status; i++)
        status = et_experiment_set(experiment, args->set.items[i], arena, error);
    if (!status)
        status = et_experiment_check(experiment, error);
    experiment->locked = true;
    return status ? status : check_outputs(experiment, args, call, more, error);
}

static int measure(et_evaluation *evaluation, const et_evaluate_more *more, bool json,
                   et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int status = logs ? ET_OK : et_alloc_failed(error, "values");
    if (!status)
        status = more && more->run ? more->run(evaluation, logs, error)
                                   : et_evaluation_run(evaluation, logs, error);
    if (!status && more)
        status = more->print(more->payload, evaluation, logs, json, error);
    else if (!status && json)
        status = et_evaluation_print_json(evaluation, logs, NULL, error);
    else if (!status)
        status = et_evaluation_print(evaluation, logs, error);
    if (!status && !et_comm_rank(evaluation->comm))
        et_task_tell_verdict(evaluation->task, true);
    et_arena_release(&arena);
    return status;
}

int et_evaluate_own_data(const et_call *call, const et_evaluate_args *args,
                         const et_evaluate_more *more, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    int status = configure(&experiment, args, call, more, &arena, error);
    et_evaluation evaluation = { .model_dir = args->model_dir,
                                 .experiment = &experiment,
                                 .live_weights = args->live_weights };
    if (!status)
        status = et_ranks_join(&evaluation.comm, experiment.runtime.peer_timeout, error);
    evaluation.tell = args->quiet || et_comm_rank(evaluation.comm) ? NULL : et_show_line;
    if (!status)
        status = et_session_tell_directory(args->model_dir, et_evaluation_open(&evaluation, error),
                                           error);
    if (!status)
        status = et_evaluation_load(&evaluation, args->checkpoint, error);
    if (!status && more && more->opened)
        status = more->opened(more->payload, &evaluation, error);
    if (!status)
        status = measure(&evaluation, more, args->json, error);
    et_evaluation_close(&evaluation);
    et_arena_release(&arena);
    return et_ranks_leave(evaluation.comm, call->program, status, error);
}

int et_cmd_evaluate(const et_call *call, et_error *error)
{
    return et_evaluate_own_data(call, call->options, NULL, error);
}
