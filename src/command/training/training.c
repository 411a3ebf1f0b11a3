/* From options to a run, and from its end to a status. The order matters:
 *
 *   1. settings          experiment, files, --set; checked as a whole, nothing written
 *   2. directory         made, locked; signals only end the process from here to 5
 *   3. claim             a new run's settings are written, or an existing run's compared
 *   4. task, run         data, graph, plan, newest checkpoint
 *   5. settings again    written, as everything now works, unless there is nothing left to do;
 *                        signals save from here on
 *   6. training          et_controller_train; then the last save, the profile, one line: what next
 *
 * A failure before 5 leaves an empty directory as it was (model_dir.c). Lines for people go to
 * standard error through the progress bar, so lines and bar do not mix. */
#include "command/training/training_private.h"

#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "command/outputs.h"
#include "command/session.h"
#include "command/training/dry_run.h"
#include "engine/comm/together.h"
#include "systems/modelgarden/series.h"
#include "systems/orbit/controller.h"
#include "train/checkpoint/run_names.h"

/* A run that goes on has the batches that it began with. */
static int check_memory(et_training *t, const et_experiment *kept, et_error *error)
{
    if (!t->args->memory)
        return ET_OK;
    return et_experiment_set_batch(&t->experiment, kept ? kept : &t->experiment, 0, &t->arena,
                                   error);
}

/* A directory with a run must be of this run. An existing run keeps its settings until everything
 * is open. A new run writes its settings first, because they name the owner of the files that
 * opening makes. Rank 0 writes them; the other ranks read them. */
static int claim(void *self, et_error *error)
{
    et_training *t = self;
    const char *directory = t->args->model_dir;
    et_experiment kept;
    /* A new run. Its precision is settled now, since the written settings contain it. */
    if (!et_train_finds_run(t->args)) {
        et_experiment_resolve_precision(&t->experiment);
        int status = et_training_choose(t, error);
        if (!status)
            status = check_memory(t, NULL, error);
        return status || t->args->dry_run ? status
                                          : et_training_write_settings(t, directory, error);
    }
    int status = et_experiment_open_run(&kept, t->call->program, directory, &t->arena, error);
    if (status)
        return status;
    if (kept.kind != t->experiment.kind)
        return et_fail(error, ET_ECONFIG,
                       "%s is a run of %s, a task of %s, not of %s; choose another --model-dir",
                       directory, kept.name, kept.kind->name, t->experiment.kind->name);
    if (et_series_of(&kept))
        return et_fail(error, ET_ECONFIG,
                       "%s is a run of several models, by %s, not of one; choose another "
                       "--model-dir",
                       directory, kept.name);
    status = et_experiment_adopt(&t->experiment, &kept, &t->arena, error);
    if (!status)
        status = check_memory(t, &kept, error);
    if (status)
        return status;
    status = et_identity_of_newest(&t->kept, directory, &t->arena, error);
    return status ? status
                  : et_experiment_check_same(&kept, &t->experiment, &t->kept, directory,
                                             t->args->accept_changes, error);
}

/* The profile may go into the run's directory, next to the run's files. */
static int check_profile(et_training *t, const et_train_args *args, et_error *error)
{
    et_outputs outputs = { .program = t->call->program, .run = args->model_dir };
    for (size_t i = 0; i < args->config.count; i++)
        et_outputs_read(&outputs, args->config.items[i]);
    et_outputs_read_settings(&outputs, t->experiment.kind, t->experiment.task);
    int status = et_profiling_check(&t->profiling, &outputs, error);
    et_outputs_release(&outputs);
    return status;
}

/* What is open once the run is: one after another, so that what lies below is there. */
static void sane(const et_training *t)
{
    et_assert(t->call && t->args && t->comm && t->progress);
    et_assert(!t->controller || (t->learner && t->task));
    et_assert(!t->learner || (t->task && t->params && t->device));
    et_assert(!t->cluster || t->roles);
    et_assert(t->shown.count >= 0 && t->shown.count <= ET_MAIN_METRICS_MAX);
    et_assert(t->first_step >= 0 && t->warmup >= 0 && t->shown_most >= 0);
    et_assert(!t->best_tie || t->best_metric);
}

/* The step at which values are logged first, from `first` on. */
static int64_t first_values(const et_trainer_options *plan, int64_t first)
{
    const int64_t intervals[] = { plan->summary_interval, plan->validation_interval };
    int64_t step = plan->train_steps;
    for (size_t i = 0; i < sizeof intervals / sizeof intervals[0]; i++)
        if (intervals[i] > 0 && first - first % intervals[i] + intervals[i] < step)
            step = first - first % intervals[i] + intervals[i];
    return step;
}

/* A run that is at its end is left as it is. */
static void begin_session(et_training *t, const char *directory)
{
    if (et_controller_finished(t->controller))
        return;
    const et_session_facts facts = { .settings = et_experiment_tree(&t->experiment, &t->arena),
                                     .first_step = et_training_step(t),
                                     .steps = t->plan.train_steps,
                                     .first_values = first_values(&t->plan, et_training_step(t)),
                                     .parameters = (int64_t)et_params_elements(t->params),
                                     .memory = et_training_planned(t),
                                     .threads = t->device->threads };
    et_session_begin(&t->session, t->call, directory, &facts);
}

/* Steps until something is logged, validated or saved for the first time. */
static int64_t first_steps(const et_trainer_options *plan)
{
    const int64_t intervals[] = { plan->summary_interval, plan->validation_interval,
                                  plan->checkpoint_interval, plan->steps_per_loop };
    int64_t first = plan->train_steps;
    for (size_t i = 0; i < sizeof intervals / sizeof intervals[0]; i++)
        if (intervals[i] > 0 && intervals[i] < first)
            first = intervals[i];
    return first;
}

/* Signals: until the run is open there is nothing to save, so they say that and end the process;
 * afterwards they ask the run to save and stop. */
static int set_up(void *self, et_error *error)
{
    et_training *t = self;
    const char *directory = t->args->model_dir;
    bool first = et_comm_rank(t->comm) == 0;
    et_leave_on_signals(first ? ET_RUN_NOT_BEGUN : "");
    int status =
        first ? et_model_dir_open(&t->directory, t->experiment.kind, directory, error) : ET_OK;
    if (!status && first)
        status = check_profile(t, t->args, error);
    if (!status)
        status = et_together_in_turn(t->comm, claim, t, error);
    if (status)
        return et_session_tell_directory(directory, status, error);
    status = et_training_open(t, directory, error);
    /* Settings under which nothing is done are nobody's. */
    if (!status && first && !et_controller_finished(t->controller))
        status = et_training_write_settings(t, directory, error);
    /* From here on there is a run in the directory; see keep_nothing. */
    t->set_up = !status;
    if (!status && first)
        et_model_dir_set_up(&t->directory, et_training_counter(t), first_steps(&t->plan));
    if (!status && first)
        begin_session(t, directory);
    et_signals_catch(et_progress_eraser(t->progress), !first);
    return et_session_tell_directory(directory, status, error);
}

/* What is open, in as many lines. */
static void say_open(et_training *t)
{
    et_training_say_task(t);
    et_training_say_recipe(t);
    et_training_say_initial(t);
    et_training_say_frozen(t);
    et_training_say_memory(t);
    et_training_say_privacy(t, t->plan.train_steps);
    et_training_say_ranks(t);
}

/* --dry-run: what is opened is the same, in a directory that goes again, but for the controller. */
static int try_out(et_training *t, const et_train_args *args, et_error *error)
{
    const char *run = args->share || et_train_finds_run(args) ? args->model_dir : NULL;
    et_dry_run dry = { .kind = t->experiment.kind, .run = run, .comm = t->comm };
    et_signals_catch_stops();
    int status = et_together_in_turn(t->comm, claim, t, error);
    if (!status)
        status = et_dry_run_open(&dry, error);
    if (!status)
        status = et_training_open_parts(t, dry.directory, error);
    if (!status) {
        et_dry_run_facts facts = { t->learner, t->params,   t->plan.train_steps,
                                   args->json, args->share, &et_stop_requested };
        et_training_say(t->progress, "experiment   %s", t->experiment.name);
        say_open(t);
        et_training_say_new(t);
        status = et_dry_run_measure(&dry, &facts, error);
    }
    et_dry_run_close(&dry);
    return status;
}

/* The bar, which chooses by itself between a terminal and a log file, what is logged and recorded:
 * all of it by rank 0. */
static int open_telling(et_training *t, const et_train_args *args, et_error *error)
{
    const bool first = et_comm_rank(t->comm) == 0;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    const bool silent = args->quiet && !args->counted;
    options.fd = silent || !first ? -1 : STDERR_FILENO;
    options.mute = args->quiet && !silent;
    options.rows = !args->dry_run;
    int status = et_progress_open(&t->progress, &options, error);
    if (status)
        return status;
    t->log = (et_quiet_log){ t->call->program, t->progress, args->reported, options.mute };
    if (args->quiet)
        et_show_log_quietly(&t->log);
    else
        et_show_log_on(t->call->program, t->progress);
    if (first && !args->dry_run)
        et_session_open(&t->session, t->progress);
    /* Where the profile goes was parsed; what it records belongs to this training. */
    if (first)
        t->profiling = args->profiling;
    t->profiling.progress = t->progress;
    return ET_OK;
}

/* At a time limit the last step is saved; then it is evaluated, since it may be the best. Ctrl-C
 * ends that at once. */
static int evaluate_at_limit(et_training *t, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    bool limit = et_flag_is_set(&et_limit_reached);
    int status = et_together_decide(t->comm, ET_OK, &limit, &reason);
    if (!status && limit) {
        et_flag_set(&et_stop_requested, false);
        status = et_controller_evaluate_last(t->controller, &reason);
        et_flag_set(&et_stop_requested, true);
    }
    return status ? et_fail(error, status, "%s", reason.text) : ET_EINTERRUPTED;
}

/* The run is closed here and not in et_training_close, since closing waits for the last save and
 * may fail, while people still look at the bar. */
static int train(et_training *t, const et_train_args *args, et_error *error)
{
    /* Settings first: a misspelt one is reported before any file is made. */
    int status =
        et_train_configure(&t->experiment, &t->initial, args, t->call->program, &t->arena, error);
    if (!status)
        status = et_series_check_none(&t->experiment, "this training", error);
    if (!status && !t->comm)
        status = et_ranks_open(&t->comm, &t->experiment.runtime, error);
    if (!status)
        status = open_telling(t, args, error);
    if (status)
        return status;
    sane(t);
    if (args->dry_run)
        return try_out(t, args, error);
    status = et_together_run(t->comm, set_up, t, error);
    if (!status) {
        et_training_say(t->progress, "experiment   %s  (all settings: %s/%s)", t->experiment.name,
                        args->model_dir, ET_RUN_SETTINGS);
        say_open(t);
        if (t->args->verbose)
            et_training_say_parts(t, args->model_dir);
        et_training_say_begin(t);
        sane(t);
        et_assert(t->controller && t->set_up);
        status = et_controller_train(t->controller, error);
    }
    if (status == ET_EINTERRUPTED && t->set_up)
        status = evaluate_at_limit(t, error);
    et_training_end e = { .steps = et_training_step(t) };
    if (!status)
        e = et_training_end_of(t);
    /* The first failure is reported; a failure of closing only if no other came before. */
    int closed = et_controller_close(t->controller, status ? NULL : error);
    closed = closed ? closed : et_profiling_close(&t->profiling, status, error);
    if (!status && !closed && e.steps <= t->plan.train_steps)
        et_training_say_end(t, &e, args->model_dir);
    return status ? status : closed;
}

void et_training_limit_time(const et_train_args *args)
{
    const double left = fmax(args->ends - et_clock_monotonic(), 1e-6), whole = floor(left);
    struct itimerval limit = { .it_value = { (time_t)whole, (suseconds_t)((left - whole) * 1e6) } };
    if (args->ends > 0)
        setitimer(ITIMER_REAL, &limit, NULL);
}

/* Everything that training opened is closed here, whatever the status, but for ranks: the lock goes
 * last. */
static int run(void *self, et_error *error)
{
    et_training *t = self;
    signal(SIGPIPE, SIG_IGN); /* progress that nobody reads never stops the work */
    et_training_limit_time(t->args);
    int status = train(t, t->args, error);
    if (status == ET_EDIVERGED) {
        /* What can be done about it depends on what was saved. */
        char what[ET_ERROR_TEXT_MAX], *path = NULL;
        snprintf(what, sizeof what, "%s", error ? error->text : "");
        const bool saved =
            !t->args->dry_run && !et_checkpoint_newest(&path, t->args->model_dir, NULL);
        et_free(path);
        status =
            et_fail(error, ET_EDIVERGED, "%.700s; %s", what,
                    saved ? "with --accept-changes the run resumes from its last checkpoint"
                          : "nothing was saved yet: with --accept-changes the run starts again");
    }
    et_session_end(&t->session, et_training_step(t), t->plan.train_steps, status, error);
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    if (status == ET_ENOMEM && t->set_up &&
        et_model_dir_begins(&t->directory, et_training_step(t))) {
        /* If memory was too short from the start, nothing remains of the run, so the next try with
         * smaller batches finds an empty directory. */
        char what[ET_ERROR_TEXT_MAX];
        snprintf(what, sizeof what, "%s", error ? error->text : "");
        if (et_training_step(t))
            et_fail(error, ET_ENOMEM, "%.700s; nothing was saved yet, so Etude removes %.200s",
                    what, t->args->model_dir);
        t->set_up = false;
    }
    et_training_close(t);
    return status;
}

static et_training begin(const et_call *call, const et_train_args *args, et_comm *comm)
{
    return (et_training){ .call = call,
                          .args = args,
                          .comm = comm,
                          .directory = ET_MODEL_DIR_INIT,
                          .began = et_clock_monotonic(),
                          .session = ET_SESSION_INIT };
}

int et_training_run_on(const et_call *call, const et_train_args *args, et_comm *comm,
                       et_error *error)
{
    et_training t = begin(call, args, comm);
    return et_together_run(comm, run, &t, error);
}

int et_training_run(const et_call *call, const et_train_args *args, et_error *error)
{
    return et_training_run_as(call, args, NULL, error);
}

int et_training_run_as(const et_call *call, const et_train_args *args, const et_roles *master,
                       et_error *error)
{
    et_training t = begin(call, args, NULL);
    t.roles = master;
    int status = run(&t, error);
    return et_ranks_leave(t.comm, call->program, status, error);
}
