/* From words to a run, and from its end to a status. The order is the point:
 *
 *   1. settings          experiment, files, --set; checked as a whole, nothing written
 *   2. directory         made, locked; signals only end the process from here to 5
 *   3. claim             a new run's settings are written, an old run's compared with ours
 *   4. task, run         data, graph, plan, newest checkpoint
 *   5. settings again    now that all of it is known to work, unless nothing is left to do;
 *                        signals save from here on
 *   6. training          et_run_train; then the last save, the profile, one line what to do next
 *
 * Whatever fails before 5 in a directory that was empty leaves it as it was (model_dir.c). What
 * people read goes to standard error through the progress bar, so that lines and bar do not mix. */
#include "command/training.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "command/args.h"
#include "command/batch_fit.h"
#include "command/command.h"
#include "command/dry_run.h"
#include "command/model_dir.h"
#include "command/outputs.h"
#include "command/profile.h"
#include "command/ranks.h"
#include "command/roles.h"
#include "command/session.h"
#include "base/format.h"
#include "data/source.h"
#include "io/sink.h"
#include "train/experiment.h"
#include "train/controller.h"
#include "train/task_trainer.h"

/* An interval that no step is a multiple of. */
#define NEVER ((int64_t)1 << 60)

/* Everything that a training command opens, in order; closed in reverse. */
typedef struct training {
    const et_call *call;
    et_arena arena; /* texts of settings and paths, until the end */
    et_model_dir directory;
    et_inside inside; /* what its run gets of directory and device */
    bool set_up;      /* everything is open: there is a run to keep */
    const et_train_args *args;
    et_comm *comm;              /* the ranks that train together; this process alone, mostly */
    et_experiment experiment;   /* all settings; refers to texts in arena */
    et_initial initial;         /* whose weights it begins with */
    et_privacy_options privacy; /* copied: reserved words of settings are not set */
    et_trainer_options plan;    /* of the trainer, with steps in place of epochs */
    et_identity kept;           /* of the newest checkpoint that is there */
    et_value *identity;         /* of those that this training makes */
    et_progress *progress;      /* on standard error; nowhere where it is to be quiet */
    et_quiet_log log;
    double began;            /* monotonic time */
    char rate[64];           /* its unit */
    const char *best_metric; /* NULL: there is none */
    et_device *device;
    et_params *params; /* of task and run, which borrow it */
    et_task *task;
    et_task_trainer *trainer;
    const et_roles *roles; /* this is the master of a cluster; NULL: a process alone */
    et_cluster_options cluster_options;
    et_trainer *cluster; /* in place of the task trainer's; NULL: alone */
    et_controller *controller;
    et_profiling profiling;
    et_session session; /* train.log and info.json */
} training;

static int write_settings(training *t, const char *directory, et_error *error)
{
    const char *path = et_arena_printf(&t->arena, "%s/%s", directory, ET_EXPERIMENT_FILE);
    return path ? et_experiment_write(&t->experiment, path, error)
                : et_alloc_failed(error, strlen(directory), "a path");
}

/* A run that goes on has the batches that it began with. */
static int check_memory(training *t, const et_experiment *kept, et_error *error)
{
    const char *batch = t->experiment.kind->batch;
    if (!t->args->memory)
        return ET_OK;
    if (!batch)
        return et_fail(error, ET_EUSAGE,
                       "--memory: tasks of %s do not say which setting is the size of a batch",
                       t->experiment.kind->name);
    if (!kept)
        return ET_OK;
    const et_value *echo = et_fields_echo(kept->table, kept, &t->arena);
    const et_value *was = echo ? et_value_path(echo, batch) : NULL;
    return was ? et_experiment_assign(&t->experiment, "--memory", batch, was, &t->arena, error)
               : et_alloc_failed(error, 0, "settings");
}

/* A directory with a run in it must be this run's. Its settings are left alone until all is
 * open; those of a new run are written first, since they say whose the files are that opening
 * makes. */
static int claim(training *t, const char *directory, et_error *error)
{
    et_experiment kept;
    /* A new run. Its precision is settled now, since it stands in the settings that are written. */
    if (!et_train_finds_run(t->args)) {
        et_train_resolve_precision(&t->experiment);
        int status = check_memory(t, NULL, error);
        return status || t->args->dry_run ? status : write_settings(t, directory, error);
    }
    int status = et_experiment_open_run(&kept, t->call->program, directory, &t->arena, error);
    if (status)
        return status;
    if (kept.kind != t->experiment.kind)
        return et_fail(error, ET_ECONFIG,
                       "%s: is a run of %s, a task of %s, not of %s; choose another --model-dir",
                       directory, kept.name, kept.kind->name, t->experiment.kind->name);
    et_train_adopt(&t->experiment, &kept);
    status = check_memory(t, &kept, error);
    if (status)
        return status;
    status = et_identity_of_newest(&t->kept, directory, &t->arena, error);
    return status ? status
                  : et_experiment_check_same(&kept, &t->experiment, &t->kept, directory,
                                             t->args->accept_changes, error);
}

/* Rank 0 writes first; then the others find what it has written. */
static int claim_directory(training *t, const char *directory, et_error *error)
{
    bool first = et_comm_rank(t->comm) == 0;
    int status = first ? claim(t, directory, error) : ET_OK;
    status = et_comm_agree(t->comm, status, NULL, error);
    return status || first ? status : claim(t, directory, error);
}

/* What the bar shows of a step. */
static void show(void *self, const et_showing *showing)
{
    training *t = self;
    et_progress_field fields[] = { { "loss", showing->loss, true },
                                   { "lr", showing->learning_rate, false } };
    et_progress_state state = { .step = showing->step,
                                .steps = showing->steps,
                                .fields = fields,
                                .field_count = 2,
                                .rate = showing->rate,
                                .unit = t->rate,
                                .epoch = showing->epoch,
                                .seconds_left = NAN };
    et_progress_update(t->progress, &state);
}

static void tell(void *self, const char *text)
{
    et_progress_message(((training *)self)->progress, text);
}

/* By the settings, or else by the task; of several sets of validation data it is the first's. */
static int choose_best(training *t, et_error *error)
{
    const char *name = et_trainer_best_metric(&t->experiment.trainer);
    const char *set = et_task_trainer_validation_set(t->trainer, 0);
    t->best_metric = name;
    if (!name || strcmp(name, ET_BEST_AUTO) != 0)
        return ET_OK;
    t->best_metric = t->task->class->best_metric;
    if (!t->best_metric || !set)
        return ET_OK;
    t->best_metric = et_arena_printf(&t->arena, "%s/%s", set, t->best_metric);
    return t->best_metric ? ET_OK : et_alloc_failed(error, strlen(set), "a name");
}

/* Of the modes that train one does not validate, and one does so at its end alone. */
static et_evaluator *evaluator_of(training *t)
{
    et_evaluator *evaluator = et_task_trainer_evaluator(t->trainer);
    if (!evaluator || t->args->mode == ET_MODE_TRAIN)
        return NULL;
    return evaluator;
}

static int64_t validation_interval(const training *t)
{
    bool at_end = t->args->mode == ET_MODE_TRAIN_AND_POST_EVAL;
    return at_end ? NEVER : t->plan.validation_interval;
}

/* What the controller drives. */
static et_trainer *trainer_of(const training *t)
{
    return t->cluster ? t->cluster : et_task_trainer_trainer(t->trainer);
}

/* stop and save are flags that signal handlers set; the directory's lock is ours already. */
static et_controller_options controller_options(training *t, const char *directory)
{
    const et_trainer_options *o = &t->plan;
    t->inside = (et_inside){ .lock = &t->directory.lock,
                             .track = et_device_track(t->device),
                             .waits = !t->args->async };
    return (et_controller_options){
        .trainer = trainer_of(t),
        .evaluator = evaluator_of(t),
        .run = { .model_dir = directory,
                 .max_to_keep = o->max_to_keep,
                 .keep_every_n_hours = o->keep_checkpoint_every_n_hours,
                 .on_failed_save = o->on_failed_save,
                 .best_metric = t->best_metric,
                 .best_comparison = o->best_checkpoint_metric_comp,
                 .observer = { .self = t, .show = show, .tell = tell },
                 .verbose = t->args->verbose,
                 .inside = &t->inside,
                 .other_optimizer = t->args->accept_changes,
                 .identity = t->identity,
                 .comm = t->comm,
                 .stop = &et_stop_requested,
                 .save = &et_save_requested },
        .train_steps = o->train_steps,
        .steps_per_loop = o->steps_per_loop,
        .summary_interval = o->summary_interval,
        .validation_interval = validation_interval(t),
        .validation_steps = o->validation_steps < 0 ? 0 : o->validation_steps,
        .checkpoint_interval = o->checkpoint_interval,
        .recovery_max_trials = o->recovery_max_trials,
        .patience = t->best_metric && evaluator_of(t) && validation_interval(t) != NEVER
                        ? o->early_stopping.patience
                        : 0,
    };
}

/* Its sinks show people what the bar does not. */
static int open_controller(training *t, const char *directory, et_error *error)
{
    et_controller_options options = controller_options(t, directory);
    int status = et_sink_console_open(&options.run.console, t->progress,
                                      t->args->verbose ? NULL : "train", error);
    return status ? status : et_controller_open(&t->controller, &options, error);
}

/* From when the command began: what scripts count. */
static void limit_time(const et_train_args *args)
{
    double whole = floor(args->time_limit);
    struct itimerval limit = { .it_value = { (time_t)whole,
                                             (suseconds_t)((args->time_limit - whole) * 1e6) } };
    if (args->time_limit > 0)
        setitimer(ITIMER_REAL, &limit, NULL);
}

static const et_privacy_options *privacy_of(training *t)
{
    const et_privacy_options *o = et_privacy_in(t->experiment.kind->fields, t->experiment.task);
    if (!o)
        return NULL;
    t->privacy = (et_privacy_options){ .clipping_norm = o->clipping_norm,
                                       .noise_multiplier = o->noise_multiplier,
                                       .per_example = o->per_example };
    return &t->privacy;
}

static int open_trainer(training *t, et_error *error)
{
    const et_experiment *e = &t->experiment;
    et_task_trainer_options options = {
        .optimization = &e->trainer.optimizer_config,
        .seed = (uint64_t)e->runtime.seed,
        .bfloat16 = e->runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16,
        .recompute = e->runtime.recompute,
        .batches = (int)(e->trainer.gradient_accumulation * e->runtime.data_shards),
        .comm = e->runtime.data_shards > 1 ? t->comm : NULL,
        .stop = &et_stop_requested,
        .loss_upper_bound = e->trainer.recovery_max_trials < 0 ? 0 : e->trainer.loss_upper_bound,
        .recovery_begin_steps = e->trainer.recovery_begin_steps,
        .dp_config = privacy_of(t),
    };
    int status = et_runtime_loss_scale(&e->runtime, &options.loss_scale, error);
    if (!status)
        status = et_task_trainer_open(&t->trainer, t->task, t->device, t->params, &options, error);
    bool wanted = t->args->mode_name && t->args->mode != ET_MODE_TRAIN;
    if (!status && wanted && !et_task_trainer_evaluator(t->trainer))
        status = et_fail(error, ET_ECONFIG,
                         "--mode %s: the settings name no validation data; set some, or choose "
                         "--mode train",
                         t->args->mode_name);
    return status;
}

/* Epochs become steps now that there are data to count. */
static int plan_steps(training *t, et_error *error)
{
    int64_t batches = 0;
    t->plan = t->experiment.trainer;
    int status = et_trainer_counts_epochs(&t->plan)
                     ? et_task_trainer_batches(t->trainer, &batches, error)
                     : ET_OK;
    return status ? status
                  : et_trainer_options_resolve(&t->plan, batches, t->experiment.runtime.data_shards,
                                               error);
}

static int64_t step_of(const training *t)
{
    return t->trainer ? trainer_of(t)->step : 0;
}

/* What checkpoints will belong to: the kind's own first. */
static int make_identity(training *t, et_error *error)
{
    const et_task_kind *kind = t->experiment.kind;
    t->identity = et_value_dict(&t->arena);
    int status = t->identity ? ET_OK : et_alloc_failed(error, 0, "settings");
    if (!status && kind->identify)
        status = kind->identify(t->task, t->identity, error);
    return status ? status : et_experiment_identify(&t->experiment, t->identity, error);
}

static const et_layout *layout_of(const training *t)
{
    return et_task_trainer_layout(t->trainer);
}

static void name_rate(training *t)
{
    const char *rate = t->experiment.kind->rate;
    snprintf(t->rate, sizeof t->rate, "%s%s", rate ? rate : et_layout_unit(layout_of(t)),
             rate ? "" : "/s");
}

/* What rank 0 makes of the data the others only read, once it is there. */
static int open_task(training *t, et_task_context *context, et_error *error)
{
    const et_experiment *e = &t->experiment;
    bool first = et_comm_rank(t->comm) == 0;
    int status = first ? e->kind->open(&t->task, e->task, context, error) : ET_OK;
    status = et_comm_agree(t->comm, status, NULL, error);
    context->reader = !first;
    context->rank = et_comm_rank(t->comm);
    return status || first ? status : e->kind->open(&t->task, e->task, context, error);
}

/* Parameters, task, trainer: each needs those before it. What is open when one fails is closed by
 * close_model. */
static int open_model(training *t, const char *directory, et_error *error)
{
    et_experiment *e = &t->experiment;
    bool bfloat16 = et_train_resolve_precision(e);
    int status = et_params_new(&t->params, error);
    et_task_context context = { .model_dir = directory,
                                .params = t->params,
                                .device = t->device,
                                .seed = (uint64_t)e->runtime.seed,
                                .bfloat16 = bfloat16,
                                .prefetch = (int)e->runtime.prefetch,
                                .data_shards = (int)e->runtime.data_shards,
                                .validation_interval = e->trainer.validation_interval,
                                .identity = &t->kept,
                                .listener = t,
                                .tell = tell,
                                .stop = &et_stop_requested };
    if (!status)
        status = open_task(t, &context, error);
    if (!status)
        status = make_identity(t, error);
    if (!status)
        status = et_ranks_compare(t->comm, t->identity, t->device, error);
    if (!status)
        status = open_trainer(t, error);
    if (!status)
        name_rate(t);
    if (!status)
        status = choose_best(t, error);
    return status ? status : plan_steps(t, error);
}

static void close_model(training *t)
{
    et_task_trainer_close(t->trainer);
    if (t->task)
        t->experiment.kind->close(t->task);
    et_params_free(t->params);
    t->trainer = NULL;
    t->task = NULL;
    t->params = NULL;
}

/* The model again, with batches of another size. */
static int open_batch(training *t, const char *directory, int64_t batch, et_error *error)
{
    et_value *value = et_value_new(&t->arena, ET_VALUE_INT);
    close_model(t);
    if (!value)
        return et_alloc_failed(error, 0, "settings");
    value->integer = batch;
    int status = et_experiment_assign(&t->experiment, "--memory", t->experiment.kind->batch, value,
                                      &t->arena, error);
    return status ? status : open_model(t, directory, error);
}

static uint64_t planned(const training *t)
{
    et_plan_memory memory = et_pass_plan_memory(et_task_trainer_pass(t->trainer));
    return et_task_trainer_parameter_bytes(t->trainer) + memory.activations + memory.packed +
           memory.constants;
}

/* --memory: from the batch that the settings give, each candidate is opened as training would have
 * it; what opening has read of the data is kept beside the run by then. */
static int fit_batch(training *t, const char *directory, et_error *error)
{
    const et_layout *layout = et_task_trainer_layout(t->trainer);
    et_batch_fit fit = et_batch_fit_begin(t->args->memory, layout->capacity[layout->unit]);
    bool more = true;
    int status = ET_OK;
    while (!status && more) {
        int64_t batches = 0;
        status = et_stop_requested ? et_fail(error, ET_EINTERRUPTED, "%s", ET_CONTROLLER_NOT_BEGUN)
                                   : open_batch(t, directory, fit.batch, error);
        if (status == ET_ECONFIG)
            return et_fail_while(error, status, "--memory %s", et_format_bytes(fit.budget).text);
        if (!status)
            status = et_task_trainer_batches(t->trainer, &batches, error);
        more = !status && et_batch_fit_note(&fit, planned(t), batches == 1);
    }
    if (!status && !fit.fits)
        status = et_fail(error, ET_ENOMEM,
                         "--memory %s: not even batches of %lld fit; the model and what is kept "
                         "for it need %s",
                         et_format_bytes(fit.budget).text, (long long)fit.fails,
                         et_format_bytes(et_task_trainer_parameter_bytes(t->trainer)).text);
    return status || fit.batch == fit.fits ? status : open_batch(t, directory, fit.fits, error);
}

/* Device and profiling, then what needs them. */
static int open_parts(training *t, const char *directory, et_error *error)
{
    bool fits = t->args->memory && !et_train_finds_weights(t->args);
    int status = et_device_open(&t->device, error);
    if (!status && fits && t->experiment.runtime.data_shards > 1)
        status =
            et_fail(error, ET_ECONFIG,
                    "--memory chooses batches that are not cut; with runtime.data_shards: %lld "
                    "set the size of a batch",
                    (long long)t->experiment.runtime.data_shards);
    if (!status)
        status = et_profiling_open(&t->profiling, t->device, ET_CONTROLLER_STEP_SPAN, error);
    if (!status)
        status = open_model(t, directory, error);
    return status || !fits ? status : fit_batch(t, directory, error);
}

/* Workers and servers go by the settings in the directory, so those come first. */
static int open_cluster(training *t, const char *directory, et_error *error)
{
    if (!t->roles)
        return ET_OK;
    if (t->plan.recovery_max_trials > 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.recovery_max_trials: %lld: with workers and parameter servers a "
                       "run does not go back by itself; set 0",
                       (long long)t->plan.recovery_max_trials);
    int status = write_settings(t, directory, error);
    if (!status)
        status = et_roles_options(&t->cluster_options, t->roles, &t->experiment, error);
    t->cluster_options.listener = t;
    t->cluster_options.tell = tell;
    return status ? status
                  : et_cluster_trainer_open(&t->cluster, t->trainer, &t->cluster_options,
                                            t->plan.train_steps, error);
}

static int open_training(training *t, const char *directory, et_error *error)
{
    et_assert(t->directory.lock >= 0 || et_comm_rank(t->comm));
    int status = open_parts(t, directory, error);
    if (!status)
        status = open_cluster(t, directory, error);
    if (!status)
        status = open_controller(t, directory, error);
    if (status)
        return status;
    /* A run that is at its end does no step that could be recorded. */
    int64_t left = t->plan.train_steps - step_of(t);
    return left > 0 ? et_profiling_begin(&t->profiling, left, error) : ET_OK;
}

/* In reverse, but for the log, which must not point to a bar that is gone. The directory comes
 * last: its lock covers all that is written. */
static void close_training(training *t)
{
    et_cluster_trainer_close(t->cluster);
    close_model(t);
    et_device_close(t->device);
    et_profiling_release(&t->profiling);
    et_show_log_on(t->call->program, NULL);
    et_progress_close(t->progress);
    et_model_dir_close(&t->directory, !t->set_up);
    et_arena_release(&t->arena);
}

/* One line above the bar; longer ones are cut. */
static void say(et_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(et_progress *progress, const char *format, ...)
{
    /* Paths may be long; what does not fit is lost, and only of a message. */
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_progress_message(progress, text);
}

/* Data and model: the kind's lines. Thirteen columns for what a line is about, as every line of a
 * start has them. */
static void say_task(training *t)
{
    if (t->experiment.kind->describe)
        t->experiment.kind->describe(t->task);
    else
        say(t->progress, "model        %s parameters",
            et_format_count(et_params_elements(t->params)).text);
}

/* What will be in memory: what was planned, not what the system has given. */
static void say_memory(training *t)
{
    const et_pass *pass = et_task_trainer_pass(t->trainer);
    et_plan_memory memory = et_pass_plan_memory(pass);
    size_t parameters = et_task_trainer_parameter_bytes(t->trainer);
    /* Resolved by now: never auto. */
    bool bf16 = t->experiment.runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    say(t->progress, "precision    %s (this CPU has %s), %d thread%s",
        bf16 ? "mixed_bfloat16" : "float32", et_gemm_isa(), t->device->threads,
        t->device->threads == 1 ? "" : "s");
    /* Tables made with the plan, and packed weights where a plan keeps them. */
    size_t constants = memory.packed + memory.constants;
    size_t all = parameters + memory.activations + constants;
    bool twice = et_pass_recompute(pass) == ET_RECOMPUTE_MARKED;
    say(t->progress, "memory       %s planned: parameters %s, activations %s, constants %s%s",
        et_format_bytes(all).text, et_format_bytes(parameters).text,
        et_format_bytes(memory.activations).text, et_format_bytes(constants).text,
        twice ? "; feed-forward layers computed twice" : "");
}

/* For --verbose: what a step is made of, and where its logs are. */
static void say_parts(training *t, const char *directory)
{
    int calls = et_plan_steps(et_pass_plan(et_task_trainer_pass(t->trainer)));
    say(t->progress, "kernels      %s; %s calls for loss and gradients", t->device->kernels->name,
        et_format_count(calls).text);
    say(t->progress, "logs         %s/metrics.jsonl, events for TensorBoard in %s/train", directory,
        directory);
}

static void say_new(training *t)
{
    const et_layout *layout = layout_of(t);
    const char *amount = t->experiment.kind->amount;
    int64_t shards = t->experiment.runtime.data_shards;
    char parts[64] = "";
    if (shards > 1)
        snprintf(parts, sizeof parts, ", in %lld shards", (long long)shards);
    say(t->progress, "training     %s, batches of %s %s%s%s",
        et_format_many(t->plan.train_steps, "step").text,
        et_format_count(layout->capacity[layout->unit] * shards).text,
        amount ? amount : et_layout_unit(layout), amount ? "" : "s", parts);
}

/* Where the weights of a new run come from, and what else came with them. */
static void say_initial(training *t)
{
    const et_initial *i = &t->initial;
    bool more = i->settings || i->taken;
    if (i->from && !step_of(t))
        say(t->progress, "initial      weights of %s%s%s%s%s%s%s", i->checkpoint, more ? "; " : "",
            i->settings ? "settings" : "", i->settings && i->taken ? ", " : "",
            i->taken ? i->taken : "", more ? " of " : "", more ? i->run : "");
}

/* Three cases: nothing left to do, going on, a new run. */
static void say_begin(training *t)
{
    int64_t steps = t->plan.train_steps, step = step_of(t);
    /* Nothing to do is said as such: the command ends with success. */
    if (step > steps)
        say(t->progress,
            "nothing done the run is at step %s, past trainer.train_steps: %s, and is left as it "
            "is; to continue, set more than %s",
            et_format_count(step).text, et_format_count(steps).text, et_format_count(step).text);
    else if (et_controller_finished(t->controller) && et_controller_stopped_early(t->controller))
        say(t->progress,
            "finished     at step %s of %s already: stopped early; to continue, raise "
            "trainer.early_stopping.patience",
            et_format_count(step).text, et_format_count(steps).text);
    else if (et_controller_finished(t->controller))
        say(t->progress,
            "finished     at step %s of %s already; to continue, raise trainer.train_steps",
            et_format_count(step).text, et_format_count(steps).text);
    else if (step)
        say(t->progress, "resuming     at step %s of %s", et_format_count(step).text,
            et_format_count(steps).text);
    else
        say_new(t);
}

/* How a training ended. */
typedef struct ending {
    int64_t steps, best_step; /* -1: no best */
    double best, seconds;     /* seconds of this command */
    bool early;
} ending;

static ending end_of(const training *t)
{
    ending e = { .steps = step_of(t),
                 .early = et_controller_stopped_early(t->controller),
                 .seconds = et_clock_monotonic() - t->began };
    e.best_step = et_controller_best(t->controller, &e.best);
    return e;
}

/* How long, how good, and what to type next. */
static void say_end(training *t, const ending *e, const char *directory)
{
    char best[200] = "";
    /* The last bar stays on the screen, above the line. */
    et_progress_finish(t->progress, true);
    const et_task_kind *kind = t->experiment.kind;
    if (e->best_step >= 0 && t->best_metric)
        snprintf(best, sizeof best, "; best %.150s %.4g at step %s", t->best_metric, e->best,
                 et_format_count(e->best_step).text);
    say(t->progress, "done         %s%s in %s%s; `%s %s --model-dir %s` %s",
        et_format_many(e->steps, "step").text, e->early ? ", stopped early," : "",
        et_format_duration(e->seconds).text, best, t->call->program->name,
        kind->next ? kind->next : "evaluate", directory,
        kind->next_help ? kind->next_help : "measures it");
}

/* The profile may go into the run's directory, beside what the run keeps. */
static int check_profile(training *t, const et_train_args *args, et_error *error)
{
    et_outputs outputs = { .program = t->call->program, .run = args->model_dir };
    for (int i = 0; i < args->config.count; i++)
        et_outputs_read(&outputs, args->config.items[i]);
    et_outputs_read_settings(&outputs, t->experiment.kind, t->experiment.task);
    int status = et_profiling_check(&t->profiling, &outputs, error);
    et_outputs_release(&outputs);
    return status;
}

/* A run that is at its end is left as it is. */
static void begin_session(training *t, const char *directory)
{
    et_plan_memory memory = et_pass_plan_memory(et_task_trainer_pass(t->trainer));
    const et_session_facts facts = { .first_step = step_of(t),
                                     .steps = t->plan.train_steps,
                                     .parameters = (int64_t)et_params_elements(t->params),
                                     .memory = et_task_trainer_parameter_bytes(t->trainer) +
                                               memory.activations + memory.packed +
                                               memory.constants,
                                     .threads = t->device->threads };
    if (!et_controller_finished(t->controller))
        et_session_begin(&t->session, t->call, directory, &facts);
}

/* Signals: until the run is open there is nothing to save, so they say that and end the process;
 * afterwards they ask the run to save and stop. */
static int set_up(training *t, const et_train_args *args, et_error *error)
{
    const char *directory = args->model_dir;
    bool first = et_comm_rank(t->comm) == 0;
    signal(SIGPIPE, SIG_IGN); /* progress that nobody reads never stops the work */
    et_leave_on_signals(first ? ET_CONTROLLER_NOT_BEGUN : "");
    int status =
        first ? et_model_dir_open(&t->directory, t->experiment.kind, directory, error) : ET_OK;
    if (!status && first)
        status = check_profile(t, args, error);
    if (!status)
        status = claim_directory(t, directory, error);
    if (status)
        return status;
    status = open_training(t, directory, error);
    /* Settings under which nothing is done are nobody's. */
    if (!status && first && !et_controller_finished(t->controller))
        status = write_settings(t, directory, error);
    status = et_comm_agree(t->comm, status, NULL, error);
    /* From here on there is a run in the directory, which stays whatever comes. */
    t->set_up = !status;
    if (!status && first)
        begin_session(t, directory);
    et_watch_signals(et_progress_eraser(t->progress), !first);
    return status;
}

/* --dry-run: what is opened is the same, in a directory that goes again, but for the controller. */
static int try_out(training *t, const et_train_args *args, et_error *error)
{
    const char *run = et_train_finds_run(args) ? args->model_dir : NULL;
    et_dry_run dry = { .kind = t->experiment.kind, .run = run };
    et_watch_stops();
    int status = claim_directory(t, args->model_dir, error);
    if (!status)
        status = et_dry_run_open(&dry, error);
    if (!status)
        status = open_parts(t, dry.directory, error);
    if (!status) {
        et_dry_run_facts facts = { t->trainer, t->params, t->plan.train_steps, args->json,
                                   &et_stop_requested };
        say(t->progress, "experiment   %s", t->experiment.name);
        say_task(t);
        say_initial(t);
        say_memory(t);
        say_new(t);
        status = et_dry_run_measure(&dry, &facts, error);
    }
    et_dry_run_close(&dry);
    return status;
}

/* The run is closed here and not in close_training, since closing waits for the last save and
 * may fail, while people still look at the bar. */
static int train(training *t, const et_train_args *args, et_error *error)
{
    et_assert(!args->help);
    /* The bar chooses by itself between a terminal and a log file. */
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    /* Settings first: a misspelt one is said before anything is made. */
    int status =
        et_train_configure(&t->experiment, &t->initial, args, t->call->program, &t->arena, error);
    if (!status)
        status = et_ranks_open(&t->comm, &t->experiment.runtime, error);
    if (!status && args->dry_run && et_comm_size(t->comm) > 1)
        status = et_fail(error, ET_EUSAGE, "--dry-run is the work of one process; start it alone");
    options.fd = args->quiet || et_comm_rank(t->comm) ? -1 : STDERR_FILENO;
    if (!status)
        status = et_progress_open(&t->progress, &options, error);
    if (status)
        return status;
    t->log = (et_quiet_log){ t->call->program, t->progress };
    if (args->quiet)
        et_show_log_quietly(&t->log);
    else
        et_show_log_on(t->call->program, t->progress);
    if (!args->dry_run && !et_comm_rank(t->comm))
        et_session_open(&t->session, t->progress);
    /* Where the profile goes was parsed; what it records belongs to this training. */
    if (!et_comm_rank(t->comm))
        t->profiling = args->profiling;
    t->profiling.progress = t->progress;
    if (args->dry_run)
        return try_out(t, args, error);
    status = et_comm_agree(t->comm, set_up(t, args, error), NULL, error);
    if (!status) {
        say(t->progress, "experiment   %s  (all settings: %s/%s)", t->experiment.name,
            args->model_dir, ET_EXPERIMENT_FILE);
        say_task(t);
        say_initial(t);
        say_memory(t);
        if (et_comm_size(t->comm) > 1)
            say(t->progress, "ranks        %d, %s", et_comm_size(t->comm), t->comm->class->name);
        if (t->args->verbose)
            say_parts(t, args->model_dir);
        say_begin(t);
        status = et_controller_train(t->controller, error);
    }
    ending e = { .steps = step_of(t) };
    if (!status)
        e = end_of(t);
    /* The first failure is the one that is told; what fails while closing is told if nothing did
     * before. */
    int closed = et_controller_close(t->controller, status ? NULL : error);
    closed = closed ? closed : et_profiling_close(&t->profiling, status, error);
    if (!status && !closed && e.steps <= t->plan.train_steps)
        say_end(t, &e, args->model_dir);
    return status ? status : closed;
}

/* One rank says what went wrong, before any of them has ended; all end with one status. */
static int leave_ranks(training *t, int status, et_error *error)
{
    status = et_comm_agree(t->comm, status, NULL, error);
    if (status && error && et_comm_told_elsewhere(t->comm))
        error->text[0] = 0;
    else if (status && error && et_comm_size(t->comm) > 1)
        et_tell_failure(t->call->program, status, error);
    et_comm_close(t->comm);
    return status;
}

/* Everything that training opened is closed here, whatever the status: the lock goes last. */
int et_training_run(const et_call *call, const et_train_args *args, et_error *error)
{
    return et_training_run_as(call, args, NULL, error);
}

int et_training_run_as(const et_call *call, const et_train_args *args, const et_roles *master,
                       et_error *error)
{
    signal(SIGPIPE, SIG_IGN); /* progress never stops the work */
    training t = { .call = call,
                   .args = args,
                   .roles = master,
                   .directory = ET_MODEL_DIR_INIT,
                   .began = et_clock_monotonic(),
                   .session = ET_SESSION_INIT };
    limit_time(args);
    int status = train(&t, args, error);
    et_session_end(&t.session, step_of(&t), status, error);
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    close_training(&t);
    return leave_ranks(&t, status, error);
}
