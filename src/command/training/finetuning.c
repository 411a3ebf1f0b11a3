/* settings -> wait for the other run -> for each checkpoint: train, values, files. The line in
 * eval/ is written last and marks a checkpoint as done: after a kill before it, training resumes,
 * or the files are written again with the same content.
 *
 * Ranks train together. Rank 0 chooses the next checkpoint and ends the wait; only rank 0 writes
 * values and files. */

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>
#include <etude/run_files.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "command/command.h"
#include "command/evaluation_log.h"
#include "command/outputs.h"
#include "command/ranks.h"
#include "command/training/evaluate.h"
#include "command/training/training.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"

#define PREFIX "finetune-"

static const char between[] = "stopping     between two runs; the same command resumes";

#define POLL_SECONDS 0.25 /* between two searches of a directory */

typedef struct finetuning {
    const et_call *call;
    const et_train_args *args;
    et_arena *arena;           /* lives as long as the fine-tunings */
    et_experiment *experiment; /* settings of all fine-tunings */
    const char *from;          /* the directory of the run that is fine-tuned */
    et_comm *comm;
    et_evaluation_log log;  /* finished work; other ranks than 0 have only the step */
    double since;           /* monotonic time of the last one */
    int64_t last, asked_at; /* the other run's last step (0: unknown), as read when step asked_at
                               was done */
} finetuning;

/* ---- settings ---- */

static int find_source(finetuning *f, et_error *error)
{
    const et_experiment *e = f->experiment;
    const et_value *all = et_fields_effective(e->table, e, f->arena);
    if (et_value_failed(all))
        return et_alloc_failed(error, "settings");
    const et_value *from = et_value_path(all, "task.init_checkpoint");
    if (from && from->kind == ET_VALUE_STRING && *from->string) {
        f->from = from->string;
        return ET_OK;
    }
    return et_fail(error, ET_ECONFIG,
                   from ? "task.init_checkpoint is not set; --mode %s needs the directory of the "
                          "run to fine-tune from"
                        : "--mode %s: this kind of task has no task.init_checkpoint, so it cannot "
                          "start from another run's weights",
                   f->args->mode_name);
}

static int check(finetuning *f, et_error *error)
{
    const et_train_args *args = f->args;
    et_outputs outputs = { .program = f->call->program, .run = args->model_dir };
    if (args->profiling.path)
        return et_fail(error, ET_EUSAGE,
                       "--profile: cannot be used with --mode %s, which makes several runs",
                       args->mode_name);
    if (!f->experiment->trainer.validation_interval)
        return et_fail(
            error, ET_ECONFIG,
            "trainer.validation_interval is 0, but --mode %s needs validation; set an interval",
            args->mode_name);
    int status = find_source(f, error);
    if (!status && et_file_exists_in(args->model_dir, ET_CHECKPOINT_FOLDER))
        status = et_fail(
            error, ET_EDENIED,
            "%s is a run; choose another --model-dir, in which each fine-tuning gets a directory",
            args->model_dir);
    et_outputs_read_settings(&outputs, f->experiment->kind, f->experiment->task);
    if (!status)
        status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    return status;
}

/* ---- the other run ---- */

/* The last step of the other run; 0: unknown. The other run may change it. */
static int64_t last_step(const finetuning *f)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment other;
    int64_t steps = f->args->pretrain_steps;
    if (!steps && !et_experiment_open_run(&other, f->call->program, f->from, &arena, NULL))
        steps = et_trainer_last_step(&other.trainer);
    et_arena_release(&arena);
    return steps;
}

/* Waits a little. *over: the wait has lasted too long, and the other run may never write another
 * checkpoint. */
static int wait_more(const finetuning *f, bool *over, et_error *error)
{
    double timeout = f->experiment->trainer.continuous_eval_timeout;
    *over = et_clock_monotonic() - f->since >= timeout;
    int status = et_together_decide(f->comm, ET_OK, over, error);
    if (status || !*over) {
        et_clock_sleep(status ? 0 : POLL_SECONDS);
        return status;
    }
    bool known = last_step(f) || f->log.last < 0;
    status = et_together_decide(f->comm, ET_OK, &known, error);
    if (status || !known)
        return status;
    return et_fail(error, ET_ENOTFOUND,
                   "%s: no new checkpoint for %g seconds (trainer.continuous_eval_timeout); the "
                   "last fine-tuning started from step %s",
                   f->from, timeout, et_format_count(f->log.last < 0 ? 0 : f->log.last).text);
}

/* Waits before any file is made. */
static int wait_for_first(const finetuning *f, et_error *error)
{
    char *path = NULL;
    int64_t step = -1;
    int status = ET_OK;
    for (bool over = false; !status && !path && !over;) {
        status = et_checkpoint_wait_next(f->comm, &path, &step, f->from, -1, false, error);
        if (!status && !path)
            status = wait_more(f, &over, error);
    }
    et_free(path);
    return status;
}

/* ---- one fine-tuning ---- */

static et_path directory_of(const finetuning *f, int64_t step)
{
    return et_path_print("%s/" PREFIX "%" PRId64, f->args->model_dir, step);
}

static bool is_first(const finetuning *f)
{
    return et_comm_rank(f->comm) == 0;
}

/* Between two runs: rank 0 prints messages of signals and of the library. */
static void wait_quietly(const finetuning *f)
{
    et_leave_on_signals(is_first(f) ? between : "");
    et_train_limit_time(f->args->ends);
    if (!is_first(f))
        et_log_set(NULL, NULL);
}

/* A separate run with the common settings, except for its initial weights. */
typedef struct tuned {
    const finetuning *f;
    const char *directory, *source; /* source: the checkpoint */
    et_arena *arena;
} tuned;

static int train_tuned(void *self, et_error *error)
{
    const tuned *u = self;
    const finetuning *f = u->f;
    et_arena *arena = u->arena;
    et_experiment e;
    const et_path settings = et_path_print("%s/" ET_RUN_SETTINGS, f->args->model_dir);
    et_value *source = et_value_new(arena, ET_VALUE_STRING);
    if (!source)
        return et_alloc_failed(error, "settings");
    source->text = source->string = u->source;
    int status;
    if ((status = et_experiment_begin(&e, f->call->program, f->experiment->name, arena, error)) ||
        (status = et_experiment_read_file(&e, settings.text, arena, error)))
        return status;
    e.source = ET_SETTINGS_SET;
    if ((status = et_experiment_assign(&e, ET_SETTINGS_SET, "task.init_checkpoint", source, arena,
                                       error)) ||
        (status = et_train_settle(&e, error)))
        return status;
    et_train_job job = et_train_job_of(f->call, f->args);
    job.training.experiment = &e;
    job.training.arena = arena;
    job.training.model_dir = u->directory;
    job.training.mode = "train_and_eval";
    job.training.comm = f->comm;
    return et_train_run(&job, error);
}

static int train(const finetuning *f, const char *directory, const char *path, et_arena *arena,
                 et_error *error)
{
    tuned one = { f, directory, path, arena };
    int status = et_together_run(f->comm, train_tuned, &one, error);
    wait_quietly(f);
    bool stops = et_flag_is_set(&et_stop_requested);
    status = et_together_any(f->comm, status, &stops, error);
    return status || !stops ? status
                            : et_fail(error, ET_EINTERRUPTED,
                                      "interrupted between two runs; the same command resumes");
}

/* Nested values under names with a slash. */
static void flatten(et_value *to, const et_value *values, const char *prefix)
{
    for (const et_value *v = values->first; v; v = v->next) {
        const char *name = et_arena_printf(to->arena, "%s/%s", prefix, v->key);
        if (!name)
            return;
        if (v->kind == ET_VALUE_DICT)
            flatten(to, v, name);
        else if (v->kind == ET_VALUE_INT)
            et_value_set_int(to, name, v->integer);
        else if (v->kind == ET_VALUE_FLOAT)
            et_value_set_float(to, name, v->real);
    }
}

/* Durable in this order; the last makes it done. */
static int keep_values(finetuning *f, int64_t step, const et_value *values, et_arena *arena,
                       et_error *error)
{
    /* "/runs/tuned//" -> "tuned". */
    const char *run = f->args->model_dir;
    const char *copy = et_arena_strndup(arena, run, et_path_length(run));
    const char *base = copy ? et_path_base(copy) : NULL;
    const char *prefix =
        base ? et_arena_printf(arena, "%s_%s", base, f->experiment->kind->name) : NULL;
    et_value *flat = et_value_dict(arena);
    if (prefix && flat)
        flatten(flat, values, prefix);
    if (!prefix || et_value_failed(flat))
        return et_alloc_failed(error, "values");
    int status = et_run_files_write_metrics(f->args->model_dir, step, values, error);
    return status ? status : et_evaluation_log_add(&f->log, step, flat, error);
}

static int finish(finetuning *f, int64_t step, char *path, const char *directory, et_arena *arena,
                  et_error *error)
{
    et_value *values;
    et_evaluation shown = { .path = path, .step = step };
    int status =
        et_evaluation_log_find_last(&values, et_path_print("%s/" ET_RUN_LOG, directory).text,
                                    ET_LOGGED_VALIDATION, arena, error);
    if (!status && !(status = keep_values(f, step, values, arena, error)))
        status = et_evaluation_print(&shown, values, error);
    return status ? status : et_run_files_remove_checkpoints(directory, error);
}

/* After a failure that all ranks know. */
static bool was_removed(const finetuning *f, const char *path)
{
    bool gone = !et_file_exists(path);
    et_comm_resume(f->comm);
    return !et_together_decide(f->comm, ET_OK, &gone, NULL) && gone;
}

/* Fine-tunes one checkpoint. Skips a checkpoint that the other run has removed before it was
 * read. */
static int finetune(finetuning *f, int64_t step, char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_error reason = ET_ERROR_INIT;
    const et_path directory = directory_of(f, step);
    int status = train(f, directory.text, path, &arena, &reason);
    bool gone = status == ET_ENOTFOUND && was_removed(f, path);
    if (!status && is_first(f))
        status = finish(f, step, path, directory.text, &arena, &reason);
    et_arena_release(&arena);
    f->since = et_clock_monotonic();
    if (!status)
        f->log.last = step;
    return !status || gone ? ET_OK : et_fail(error, status, "%s", reason.text);
}

/* ---- all ---- */

/* The step of an interrupted fine-tuning with its own checkpoint; -1: none. It can resume even if
 * its initial weights are missing. */
static int64_t find_interrupted(const finetuning *f)
{
    int64_t found = -1, at;
    DIR *stream = opendir(f->args->model_dir);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;) {
        char *end;
        if (strncmp(item->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        int64_t step = strtoll(item->d_name + strlen(PREFIX), &end, 10);
        if (*end || step <= f->log.last || (found >= 0 && step > found))
            continue;
        if (!et_run_files_step(directory_of(f, step).text, &at, NULL))
            found = step;
    }
    if (stream)
        closedir(stream);
    return found;
}

static int go_on(finetuning *f, et_error *error)
{
    int64_t step = is_first(f) ? find_interrupted(f) : -1;
    int agreed = et_together_give(f->comm, ET_OK, &step, sizeof step, error);
    if (agreed || step < 0)
        return agreed;
    return finetune(f, step, et_checkpoint_path(f->from, step).text, error);
}

static int finetune_all(finetuning *f, et_error *error)
{
    int64_t step = f->log.last;
    int status = go_on(f, error);
    if (step < f->log.last)
        step = f->log.last;
    for (bool over = false; !status && !over;) {
        char *path = NULL;
        /* Reads the settings again only after a checkpoint was fine-tuned. */
        if (f->asked_at != f->log.last) {
            f->asked_at = f->log.last;
            f->last = last_step(f);
        }
        over = f->last && f->log.last >= f->last;
        status = et_together_decide(f->comm, ET_OK, &over, error);
        if (status || over)
            break;
        status = et_checkpoint_wait_next(f->comm, &path, &step, f->from, step, false, error);
        if (!status)
            status = path ? finetune(f, step, path, error) : wait_more(f, &over, error);
        et_free(path);
    }
    return status;
}

/* Rank 0 owns the directory; the other ranks read its files. */
static int open_directory(finetuning *f, et_error *error)
{
    const char *run = f->args->model_dir;
    int status;
    if ((status = et_evaluation_log_open(&f->log, et_path_print("%s/eval", run).text, error)) ||
        (status = et_experiment_write(f->experiment, et_path_print("%s/" ET_RUN_SETTINGS, run).text,
                                      error)))
        return status;
    /* A finished fine-tuning may have been killed before its checkpoints were removed. */
    return f->log.last < 0
               ? ET_OK
               : et_run_files_remove_checkpoints(directory_of(f, f->log.last).text, error);
}

int et_finetune(const et_call *call, const et_train_args *args, et_train_settings *settings,
                et_error *error)
{
    et_assert(args->mode == ET_MODE_CONTINUOUS_TRAIN_AND_EVAL);
    finetuning f = { .call = call,
                     .args = args,
                     .arena = settings->arena,
                     .experiment = &settings->experiment,
                     .log = ET_EVALUATION_LOG_INIT,
                     .since = et_clock_monotonic(),
                     .asked_at = -2 };
    int status = et_train_configure(settings, args, call->program, error);
    if (!status)
        status = et_ranks_open(&f.comm, &f.experiment->runtime, error);
    if (!status)
        status = check(&f, error);
    wait_quietly(&f);
    if (!status)
        status = wait_for_first(&f, error);
    if (!status) {
        et_experiment_resolve_precision(f.experiment);
        status = is_first(&f) ? open_directory(&f, error) : ET_OK;
        status = et_together_give(f.comm, status, &f.log.last, sizeof f.log.last, error);
    }
    if (!status)
        status = finetune_all(&f, error);
    int closed = et_evaluation_log_close(&f.log, status ? NULL : error);
    return et_ranks_leave(f.comm, call->program, status ? status : closed, error);
}
