/* settings -> signals, time limit, progress -> training (systems/training/training.h) -> a status.
 * A run's messages go to standard error through the progress bar, so lines and bar do not mix. */
#include "command/training/training.h"

#include <math.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/text/format.h"
#include "command/lost_file.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "train/run/inner_loop.h"

/* ---- --dry-run ---- */

static int print_json(const et_dry_run_results *r, const et_dry_run_share *share, et_error *error)
{
    const et_dry_run_measured *m = &r->all;
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    if (share) {
        et_value_set_string(results, "candidate", share->name);
        et_value_set_int(results, "trainings", share->times);
    }
    et_value_set_int(results, "steps", m->left);
    if (m->done)
        et_value_set_int(results, "steps_done", m->done);
    if (isfinite(m->pace.seconds)) {
        et_value_set_float(results, "seconds", m->pace.seconds * (double)m->left);
        et_value_set_float(results, "step_seconds", m->pace.seconds);
    }
    if (m->memory)
        et_value_set_int(results, "memory", (int64_t)m->memory);
    et_value *list = r->ranks > 1 ? et_value_set_list(results, "ranks") : NULL;
    for (int i = 0; list && i < r->ranks; i++) {
        et_value *one = et_value_add_dict(list);
        if (isfinite(r->each[i].pace.seconds))
            et_value_set_float(one, "step_seconds", r->each[i].pace.seconds);
        et_value_set_int(one, "memory", (int64_t)r->each[i].memory);
    }
    int status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}

/* "mlp          would take 5 times 0:02, " */
static int print(const et_dry_run_results *r, const et_dry_run_share *share, et_error *error)
{
    const et_dry_run_measured *m = &r->all;
    if (share)
        et_print(stdout, "%-12s ", share->name);
    if (!m->left) {
        et_print(stdout, "nothing to do: the run is already at step %s\n",
                 et_format_count(m->done).text);
    } else {
        et_print(stdout, "would take ");
        if (share && share->times > 1)
            et_print(stdout, "%d times ", share->times);
        et_print(stdout, "%s, %s%s: %s of %s s",
                 et_format_duration(m->pace.seconds * (double)m->left).text,
                 et_format_bytes(m->memory).text, r->ranks > 1 ? " a rank" : "",
                 et_format_many(m->left, "step").text, et_format_value(m->pace.seconds).text);
        if (m->pace.unit && isfinite(m->pace.units))
            et_print(stdout, " (%s %ss/s)", et_format_rate(m->pace.units).text, m->pace.unit);
        puts(", without validation and saves");
        for (int i = 0; r->ranks > 1 && i < r->ranks; i++)
            et_print(stdout, "rank %-8d%s, a step in %s s\n", i,
                     et_format_bytes(r->each[i].memory).text,
                     et_format_value(r->each[i].pace.seconds).text);
    }
    return et_print_end(ET_OK, error);
}

int et_dry_run_tell_complete(bool json, et_error *error)
{
    const et_dry_run_results none = { .all.pace.seconds = NAN };
    if (json)
        return print_json(&none, NULL, error);
    puts("nothing to do: the run has its model");
    return et_print_end(ET_OK, error);
}

/* ---- a training ---- */

void et_train_limit_time(double ends)
{
    const double left = fmax(ends - et_clock_monotonic(), 1e-6), whole = floor(left);
    struct itimerval limit = { .it_value = { (time_t)whole, (suseconds_t)((left - whole) * 1e6) } };
    if (ends > 0)
        setitimer(ITIMER_REAL, &limit, NULL);
}

et_train_job et_train_job_of(const et_call *call, const et_train_args *args)
{
    static const et_initial none;
    const et_validating validating = args->mode == ET_MODE_TRAIN ? ET_VALIDATING_NEVER
                                     : args->mode == ET_MODE_TRAIN_AND_POST_EVAL
                                         ? ET_VALIDATING_AT_END
                                         : ET_VALIDATING;
    return (et_train_job){ .training = { .initial = &none,
                                         .model_dir = args->model_dir,
                                         .call = call,
                                         .validating = validating,
                                         .mode = args->mode_name,
                                         .accept_changes = args->accept_changes,
                                         .verbose = args->verbose,
                                         .async = args->async,
                                         .began = et_clock_monotonic(),
                                         .ends = args->ends,
                                         .memory = args->memory },
                           .args = args,
                           .profiling = args->profiling,
                           .quiet = args->quiet };
}

/* The profile may go into the run's directory, next to the run's files. */
static int check_profile(void *self, et_error *error)
{
    et_train_job *job = self;
    const et_experiment *e = job->training.experiment;
    et_outputs outputs = { .program = e->program, .run = job->training.model_dir };
    for (size_t i = 0; i < job->args->config.count; i++)
        et_outputs_read(&outputs, job->args->config.items[i]);
    et_outputs_read_settings(&outputs, e->kind, e->task);
    int status = et_profiling_check(&job->profiling, &outputs, error);
    et_outputs_release(&outputs);
    return status;
}

static void opened(void *self)
{
    const et_training_options *o = &((const et_train_job *)self)->training;
    et_signals_catch(et_progress_eraser(o->progress), et_comm_rank(o->comm) != 0);
}

/* Opens the progress bar, which detects a terminal or a log file, and the library's log. Before the
 * run is open nothing can be saved, so signals print this text and end the process. Afterwards they
 * ask the run to save and stop. Only rank 0 prints. */
static int run(et_train_job *job, et_error *error)
{
    et_training_options *o = &job->training;
    et_dry_run_results tried = { .each = NULL };
    const et_program *program = o->call->program;
    const bool first = !et_comm_rank(o->comm), silent = job->quiet && !o->counted;
    const bool dry_run = job->args->dry_run;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    options.fd = silent || !first ? -1 : STDERR_FILENO;
    options.mute = job->quiet && !silent;
    options.rows = !dry_run;
    int status = et_progress_open(&o->progress, &options, error);
    if (status)
        return status;
    job->log = (et_quiet_log){ program, o->progress, job->reported, options.mute };
    if (job->quiet)
        et_show_log_quietly(&job->log);
    else
        et_show_log_on(program, o->progress);
    if (!first)
        job->profiling = (et_profiling){ .path = NULL };
    job->profiling.listener = o->progress;
    job->profiling.tell = et_show_line;
    o->profiling = &job->profiling;
    o->stop = &et_stop_requested;
    o->save = &et_save_requested;
    o->limit = &et_limit_reached;
    o->self = job;
    o->check = check_profile;
    o->opened = opened;
    o->lost = et_report_lost_files;
    o->prepared = job->share;
    o->tried = dry_run ? &tried : NULL;
    if (dry_run)
        et_signals_catch_stops();
    else if (job->among)
        opened(job);
    else
        et_leave_on_signals(first ? ET_RUN_NOT_BEGUN : "");
    status = et_training_run(o, error);
    et_show_log_on(program, NULL);
    et_progress_close(o->progress);
    if (!status && dry_run && job->share)
        job->share->seconds = tried.all.pace.seconds * (double)(tried.all.left * job->share->times);
    if (!status && dry_run && first)
        status = (job->args->json ? print_json : print)(&tried, job->share, error);
    et_free(tried.each);
    return status;
}

int et_train_run(et_train_job *job, et_error *error)
{
    et_training_options *o = &job->training;
    const bool own = !o->comm;
    signal(SIGPIPE, SIG_IGN); /* progress that nobody reads never stops the work */
    et_train_limit_time(o->ends);
    int status = own ? et_ranks_open(&o->comm, &o->experiment->runtime, error) : ET_OK;
    if (!status)
        status = run(job, error);
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    return own ? et_ranks_leave(o->comm, o->call->program, status, error) : status;
}
