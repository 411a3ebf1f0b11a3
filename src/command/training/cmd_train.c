/* etude train: chooses the mode. training.c has the modes that train. This file has the modes that
 * follow a run, finetuning.c the mode that follows a run and trains. series.c trains several models
 * as one run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/job_config.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "command/command.h"
#include "command/evaluation_log.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/training/evaluate.h"
#include "command/training/train_args.h"
#include "command/training/training.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/training_table.h"
#include "systems/training/session.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"

/* ---- modes that follow a run ---- */

/* run's settings -> evaluation -> checkpoint by checkpoint. The run may not have begun yet; the
 * command waits for its settings and its checkpoints. The command locks, writes and deletes no file
 * of the run. Values of continuous_eval are stored in the run's directory (evaluation_log.h), so
 * the command resumes where it ended.
 *
 * Ranks evaluate together. Rank 0 chooses the next checkpoint, ends the wait and stores the
 * values. */

typedef struct following {
    const et_train_args *args;
    const et_program *program;
    et_arena *arena;
    et_experiment *experiment;
    et_evaluation evaluation;
    et_evaluation_log log; /* of continuous_eval; rank 0's */
    et_sink *table;        /* table of measured values; NULL: values are printed as a list */
    int64_t last;          /* the last measured step; -1: none */
    double since;          /* monotonic time of the last checkpoint */
} following;

#define POLL_SECONDS 0.25 /* between two searches of a directory */

static et_comm *ranks(const following *w)
{
    return w->evaluation.comm;
}

/* Waits a little. *over: the wait has lasted too long, and the run may never write another
 * checkpoint. */
static int wait_more(const following *w, bool *over, et_error *error)
{
    const et_trainer_options *o = &w->experiment->trainer;
    *over = et_clock_monotonic() - w->since >= o->continuous_eval_timeout;
    int status = et_together_decide(ranks(w), ET_OK, over, error);
    if (status || !*over) {
        et_clock_sleep(status ? 0 : POLL_SECONDS);
        return status;
    }
    if (w->last < 0)
        return et_fail(error, ET_ENOTFOUND,
                       "%s: no checkpoint for %g seconds (trainer.continuous_eval_timeout)",
                       w->args->model_dir, o->continuous_eval_timeout);
    if (et_trainer_last_step(o))
        return et_fail(error, ET_ENOTFOUND,
                       "%s: no new checkpoint for %g seconds (trainer.continuous_eval_timeout); "
                       "the last evaluated checkpoint is of step %s, training ends at step %s",
                       w->args->model_dir, o->continuous_eval_timeout,
                       et_format_count(w->last).text, et_format_count(o->train_steps).text);
    return ET_OK;
}

/* Waits until the run has settings: its checkpoints are read by them. */
static int wait_for_run(const following *w, et_error *error)
{
    int status = ET_OK;
    for (bool over = false, there = false; !status && !there;) {
        there = et_file_exists_in(w->args->model_dir, ET_RUN_SETTINGS);
        status = et_together_decide(ranks(w), ET_OK, &there, error);
        if (!status && !there)
            status = wait_more(w, &over, error);
    }
    return status;
}

static int measure(following *w, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int status =
        logs ? et_evaluation_run(&w->evaluation, logs, error) : et_alloc_failed(error, "values");
    if (!status && w->log.sink)
        status = et_evaluation_log_add(&w->log, w->evaluation.step, logs, error);
    w->last = w->evaluation.step;
    if (!status && w->table) {
        et_value *row = et_value_dict(&arena);
        status = row && et_value_append_copy(row, ET_LOGGED_VALIDATION, logs)
                     ? et_sink_write(w->table, w->evaluation.step, row, error)
                     : et_alloc_failed(error, "a row");
        if (!status && ferror(stdout))
            status = et_fail_errno(error, "standard output");
    } else if (!status) {
        status = et_evaluation_print(&w->evaluation, logs, error);
    }
    et_arena_release(&arena);
    return status;
}

/* Loads the next existing checkpoint. *found false: no checkpoint. If the run has removed the
 * checkpoint meanwhile, a newer one exists. */
static int load_next(following *w, int64_t after, bool *found, et_error *error)
{
    char *path;
    int64_t step = after;
    *found = false;
    int status =
        et_checkpoint_wait_next(ranks(w), &path, &step, w->args->model_dir, after, false, error);
    if (status || !path)
        return status;
    status = et_evaluation_load(&w->evaluation, path, error);
    et_free(path);
    return et_checkpoint_wait_loaded(ranks(w), status, found);
}

/* Opens nothing before the first checkpoint exists, because a task may need files that the run
 * makes until then. */
static int wait_for_checkpoint(following *w, et_error *error)
{
    char *path = NULL;
    int64_t step = -1;
    int status = ET_OK;
    bool over = false;
    while (!status && !path) {
        status =
            et_checkpoint_wait_next(ranks(w), &path, &step, w->args->model_dir, -1, false, error);
        if (!status && !path)
            status = wait_more(w, &over, error);
    }
    et_free(path);
    return status;
}

static void print_row(const char *line)
{
    et_print(stdout, "%s\n", line);
    fflush(stdout);
}

/* The loss is one of the metrics, because there is no column of the training's loss. */
static int open_table(following *w, et_error *error)
{
    const et_trainer_options *o = &w->experiment->trainer;
    const int64_t last = et_trainer_last_step(o);
    et_training_table_options options = { .print = print_row, .steps = last ? last : 999999 };
    const char *best;
    int status = et_trainable_best_metric(w->evaluation.trainable, et_trainer_best_metric(o), &best,
                                          w->arena, error);
    if (!status)
        status = et_trainable_shown_metrics(w->evaluation.trainable, best, &options.metrics,
                                            &options.most, w->arena, error);
    if (options.most < ET_MAIN_METRICS_MAX) {
        et_main_metrics_add(&options.metrics, ET_LOGGED_VALIDATION_LOSS);
        options.most++;
    }
    options.log =
        et_arena_printf(w->arena, "%s/" ET_LOGGED_VALIDATION "/" ET_RUN_LOG, w->args->model_dir);
    if (!status && !options.log)
        status = et_alloc_failed(error, "a path");
    return status ? status : et_training_table_open(&w->table, &options, error);
}

static int measure_all(following *w, et_error *error)
{
    int64_t last = et_trainer_last_step(&w->experiment->trainer);
    int status =
        et_comm_rank(ranks(w))
            ? ET_OK
            : et_evaluation_log_open(
                  &w->log, et_path_of(w->args->model_dir, ET_LOGGED_VALIDATION).text, error);
    if (!status && !et_comm_rank(ranks(w)))
        status = open_table(w, error);
    w->last = w->log.last;
    status = et_together_give(ranks(w), status, &w->last, sizeof w->last, error);
    for (bool over = false; !status && !over && (!last || w->last < last);) {
        bool found;
        et_assert(w->last >= -1 && w->args && w->program && w->arena);
        status = load_next(w, w->last, &found, error);
        if (!status && found)
            status = measure(w, error);
        if (!status && found)
            w->since = et_clock_monotonic();
        else if (!status && !last) {
            /* A run that may end early is done, and its last checkpoint measured. */
            const int64_t step = et_session_done_at(w->args->model_dir);
            over = step >= 0 && w->last >= step;
            status = et_together_decide(ranks(w), ET_OK, &over, error);
        }
        if (!status && !found && !over)
            status = wait_more(w, &over, error);
    }
    et_sink_close(w->table, NULL);
    int closed = et_evaluation_log_close(&w->log, status ? NULL : error);
    return status ? status : closed;
}

/* Refuses --profile. Checks that standard output is not a file of the run or a file that the run
 * reads. */
static int check_outputs(const following *w, et_error *error)
{
    et_outputs outputs = { .program = w->program, .run = w->args->model_dir };
    if (w->args->profiling.path)
        return et_fail(error, ET_EUSAGE, "--profile: only for modes that train, not for --mode %s",
                       w->args->mode_name);
    et_outputs_read_settings(&outputs, w->experiment->kind, w->experiment->task);
    int status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    return status;
}

static int follow(following *w, et_train_settings *settings, et_error *error)
{
    bool all = w->args->mode == ET_MODE_CONTINUOUS_EVAL;
    et_experiment kept;
    int status = et_train_assemble(settings, w->args, w->program, error);
    if (status ||
        (status = et_ranks_join(&w->evaluation.comm, w->experiment->runtime.peer_timeout, error)))
        return status;
    const int64_t batches = w->experiment->trainer.validation_steps;
    w->evaluation.batches = batches < 0 ? 0 : batches;
    w->evaluation.tell = w->args->quiet || et_comm_rank(ranks(w)) ? NULL : et_show_line;
    if ((status = check_outputs(w, error)) || (all && (status = wait_for_run(w, error))) ||
        (status = et_experiment_open_run(&kept, w->program, w->args->model_dir, w->arena, error)) ||
        (status = et_experiment_adopt(w->experiment, &kept, w->arena, error)) ||
        (status = et_train_settle(w->experiment, error)) ||
        (all && (status = wait_for_checkpoint(w, error))) ||
        (status = et_evaluation_open(&w->evaluation, error)))
        return status;
    if (all)
        return measure_all(w, error);
    status = et_evaluation_load(&w->evaluation, ET_CHECKPOINT_NEWEST, error);
    return status ? status : measure(w, error);
}

/* --mode eval: the newest checkpoint, once. --mode continuous_eval: each checkpoint of the run,
 * from the oldest existing one to the checkpoint of train_steps. ET_ENOTFOUND: no checkpoint came
 * within trainer.continuous_eval_timeout. Values go to standard output. continuous_eval also stores
 * them in MODEL_DIR/validation, so it measures each checkpoint once. */
static int follow_run(const et_call *call, const et_train_args *args, et_train_settings *settings,
                      et_error *error)
{
    et_assert(args->mode == ET_MODE_EVAL || args->mode == ET_MODE_CONTINUOUS_EVAL);
    following w = { .args = args,
                    .program = call->program,
                    .arena = settings->arena,
                    .experiment = &settings->experiment,
                    .log = ET_EVALUATION_LOG_INIT,
                    .last = -1,
                    .since = et_clock_monotonic() };
    w.evaluation = (et_evaluation){ .model_dir = args->model_dir, .experiment = w.experiment };
    int status = follow(&w, settings, error);
    et_evaluation_close(&w.evaluation);
    return et_ranks_leave(w.evaluation.comm, call->program, status, error);
}

/* ---- options that the parser does not complete ---- */

/* ORDER et_train_mode. */
static const char *const modes[ET_MODE_COUNT + 1] = {
    [ET_MODE_TRAIN] = "train",
    [ET_MODE_EVAL] = "eval",
    [ET_MODE_TRAIN_AND_EVAL] = "train_and_eval",
    [ET_MODE_TRAIN_AND_POST_EVAL] = "train_and_post_eval",
    [ET_MODE_CONTINUOUS_EVAL] = "continuous_eval",
    [ET_MODE_CONTINUOUS_TRAIN_AND_EVAL] = "continuous_train_and_eval",
};

/* Some options need a new run. */
static int check_mode(const et_train_args *args, et_error *error)
{
    const bool follows = args->mode == ET_MODE_EVAL || args->mode == ET_MODE_CONTINUOUS_EVAL;
    const bool trains = !follows && args->mode != ET_MODE_CONTINUOUS_TRAIN_AND_EVAL;
    const char *option = args->init                        ? "--init"
                         : args->dry_run                   ? "--dry-run"
                         : args->distributed               ? "--distributed"
                         : args->keys                      ? "--keys"
                         : follows && args->ends > 0       ? "--time-limit"
                         : follows && args->memory         ? "--memory"
                         : follows && args->accept_changes ? "--accept-changes"
                                                           : NULL;
    return trains || !option ? ET_OK
                             : et_fail(error, ET_EUSAGE, "%s cannot be used with --mode %s%s",
                                       option, args->mode_name,
                                       args->init && args->mode == ET_MODE_CONTINUOUS_TRAIN_AND_EVAL
                                           ? ", which reads its weights from task.init_checkpoint"
                                           : "");
}

/* A mode that Model Garden documents but never implemented has its own message. Check it before
 * unknown modes. */
static int read_mode(et_train_args *args, et_error *error)
{
    static const et_field row = { .kind = ET_FIELD_KIND_CHOICE, .choices = modes };
    bool finetunes =
        args->mode_name && !strcmp(args->mode_name, modes[ET_MODE_CONTINUOUS_TRAIN_AND_EVAL]);
    if (args->pretrain_steps && !finetunes)
        return et_fail(error, ET_EUSAGE,
                       "--pretrain-steps: only for --mode continuous_train_and_eval, which waits "
                       "for another run's pre-training");
    if (!args->mode_name)
        return ET_OK;
    if (!strcmp(args->mode_name, "train_and_validate"))
        return et_fail(error, ET_EUSAGE,
                       "--mode train_and_validate: Model Garden documents but never implemented "
                       "this mode; use train_and_eval");
    int mode, status = et_field_read_word(&row, &mode, args->mode_name, "--mode", error);
    if (status)
        return status;
    args->mode = (et_train_mode)mode;
    return check_mode(args, error);
}

/* People first type the bare command. Messages are one line. An unknown experiment is reported
 * first. */
static int missing_run(const et_train_args *args, const et_call *call, et_error *error)
{
    const et_task_kind *kind = call->program->kinds[0];
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    int status = args->experiment ? et_experiment_begin(&experiment, call->program,
                                                        args->experiment, &arena, error)
                                  : ET_OK;
    if (!status && args->experiment)
        kind = experiment.kind;
    et_arena_release(&arena);
    if (status)
        return status;
    bool fits = kind->example && !strchr(kind->example, '\n');
    return et_fail(
        error, ET_EUSAGE,
        "train: --model-dir is missing; name the directory of the run, for example `%s train "
        "--experiment %s --model-dir runs/a%s%s` (`%s train --help` shows all options)",
        call->program->name, args->experiment ? args->experiment : kind->experiments->name,
        fits ? " " : "", fits ? kind->example : "", call->program->name);
}

/* The experiment of the run to begin; NULL: unknown. */
static const char *experiment_of(const et_train_args *args, const et_call *call, et_arena *arena)
{
    const char *name = args->experiment;
    for (size_t i = 0; !name && i < args->config.count; i++)
        (void)et_experiment_named_in(&name, call->program, args->config.items[i], arena, NULL);
    if (name)
        return name;
    et_experiment from;
    const et_task_kind *kind =
        args->init ? et_experiment_find_foreign(call->program, args->init) : NULL;
    if (kind)
        return kind->foreign->experiment;
    if (args->init && !et_experiment_open_run(&from, call->program, args->init, arena, NULL))
        return from.name;
    return et_option_settings_experiment(&args->settings, call->program);
}

/* Names the run runs/NAME-1, or with the next free number. Not for several processes: each could
 * find another number. */
static int name_run(et_train_args *args, const et_call *call, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    const bool data = args->config.count || args->set.count || args->init ||
                      et_option_settings_experiment(&args->settings, call->program);
    const bool alone = !et_comm_by_launch() && !et_comm_by_mpi() && !args->distributed &&
                       !args->keys && !getenv(ET_JOB_CONFIG_VARIABLE);
    const char *name = data && alone && !args->mode_name ? experiment_of(args, call, &arena) : NULL;
    int status = ET_OK;
    if (name)
        status = et_experiment_begin(&experiment, call->program, name, &arena, error);
    for (int i = 1; !status && name && !args->model_dir; i++) {
        snprintf(args->new_run, sizeof args->new_run, "runs/%s-%d", et_path_base(name), i);
        if (!et_file_exists(args->new_run))
            args->model_dir = args->new_run;
    }
    et_arena_release(&arena);
    if (!status && args->model_dir && !args->quiet)
        et_print(stderr, "run          %s\n", args->model_dir);
    return status || args->model_dir ? status : missing_run(args, call, error);
}

static int check_together(const et_train_args *args, et_error *error)
{
    if (args->json && !args->dry_run)
        return et_fail(
            error, ET_EUSAGE,
            "--json: only with --dry-run; training writes its values to RUN/" ET_RUN_LOG);
    if (args->dry_run && args->profiling.path)
        return et_fail(error, ET_EUSAGE, "--profile: cannot be used with --dry-run");
    if ((args->workers || args->servers) && !args->distributed)
        return et_fail(error, ET_EUSAGE, "--%s: only with --distributed",
                       args->workers ? "workers" : "servers");
    return ET_OK;
}

/* Completes parsed arguments: reads the mode, names the run, checks that options go together. */
static int settle(et_train_args *args, const et_call *call, et_error *error)
{
    args->mode = ET_MODE_TRAIN_AND_EVAL;
    if (args->time_limit > 0)
        args->ends = et_clock_monotonic() + args->time_limit;
    int status = check_together(args, error);
    if (!status) {
        /* People name the data as the first word. */
        const bool file = args->model_dir && et_file_exists(args->model_dir) &&
                          !et_directory_exists(args->model_dir);
        status =
            !file ? ET_OK
                  : et_fail(error, ET_EUSAGE,
                            "train: %s is a file, not the directory of a run; if it has the data, "
                            "name it with --data: `%s train --data %s ...`",
                            args->model_dir, call->program->name,
                            et_shell_quote(args->model_dir).text);
    }
    if (!status && !args->model_dir && !args->dry_run)
        status = name_run(args, call, error);
    return status ? status : read_mode(args, error);
}

/* ---- the command ---- */

static int train(const et_call *call, const et_train_args *args, et_train_settings *settings,
                 et_error *error)
{
    bool series;
    const int status = et_series_train(call, args, settings, &series, error);
    if (series)
        return status;
    switch (args->mode) {
    case ET_MODE_EVAL:
    case ET_MODE_CONTINUOUS_EVAL:
        return follow_run(call, args, settings, error);
    case ET_MODE_CONTINUOUS_TRAIN_AND_EVAL:
        return et_finetune(call, args, settings, error);
    default:
        return et_roles_train(call, args, settings, error);
    }
}

int et_cmd_train(const et_call *call, et_error *error)
{
    et_train_args *args = call->options;
    et_arena arena = ET_ARENA_INIT;
    et_train_settings settings = { .arena = &arena };
    int status = settle(args, call, error);
    if (!status)
        status = train(call, args, &settings, error);
    et_initial_close(&settings.initial);
    et_arena_release(&arena);
    return status;
}
