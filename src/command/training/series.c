/* settings -> directory -> task -> for each candidate: trainings, score -> weights -> model. The
 * model is written last, so a directory with a model is complete. */
#include "command/training/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/job_config.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/command.h"
#include "command/print.h"
#include "command/series_log.h"
#include "engine/comm/comm.h"
#include "engine/exec/device.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "systems/modelgarden/series.h"
#include "systems/training/evaluation.h"
#include "systems/training/model_dir.h"
#include "systems/training/session.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"
#include "train/run/inner_loop.h"
#include "train/task/task_private.h"

typedef struct series {
    const et_call *call;
    const et_train_args *args;
    const char *run_dir;
    et_arena arena;
    et_experiment experiment;
    const et_series *class;
    et_model_dir directory;
    bool complete; /* the run has its model */
    bool set_up;   /* the directory has a run to keep */
    bool resumed;  /* the run is not new */
    int64_t begun; /* 1: after a stop, the directory stays as it is */
    et_device *device;
    et_params *params;
    et_task *task;
    et_series_run *run;
    et_series_log log;
    et_reported reported;
    et_quiet_log quiet;
    double said;            /* seconds: last printed duration of the trainings of this start */
    double ahead;           /* planned seconds of the trainings that are not done */
    double spent, expected; /* seconds of the trainings that are done: measured, and
                               planned */
    const et_series_candidate *current; /* in training */
    bool measured;                      /* steps of the current training */
    int64_t first_step;                 /* first observed step of the current training, and its
                                           time; 0: none */
    double first_time;
} series;

/* Prints a line, unless --quiet was given. */
#define SAY(s, ...) ((s)->args->quiet ? (void)0 : et_print(stderr, __VA_ARGS__))

static void tell(void *listener, const char *line)
{
    const series *s = listener;
    SAY(s, "%s\n", line);
}

/* ---- settings of the trainings ---- */

/* Settings that the user gives to the run are settings of each training, if its model has them. For
 * example, the width of layers has no effect on a model without layers: it keeps its own settings,
 * and Etude prints this. */

typedef struct giving {
    const et_experiment *run;
    et_experiment *candidate;
    bool whole;        /* the file of a run gave all settings, so usual values are not the user's */
    const char *alone; /* a setting to leave out; NULL: none */
    /* Names of settings that the candidate has no use for. NULL: the values are its own defaults,
     * which it has already. */
    et_strbuf *unused;
} giving;

/* Keeps values that the user gave, and values that differ from those of a new run of the same
 * experiment. */
static void keep_given(const giving *g, et_value *out, const et_value *now, const et_value *usual,
                       const char *path)
{
    for (const et_value *v = now->first; v; v = v->next) {
        /* "task.target" below "task". */
        const char *name = *path ? et_arena_printf(out->arena, "%s.%s", path, v->key)
                                 : et_arena_strdup(out->arena, v->key);
        const et_value *other = et_value_get(usual, v->key);
        if (!name)
            return;
        if (g->alone && !strcmp(name, g->alone))
            continue;
        if (v->kind == ET_VALUE_DICT && v->first) {
            et_value *group = et_value_dict(out->arena);
            if (group)
                keep_given(g, group, v, other, name);
            if (group && group->first)
                et_value_append(out, v->key, group);
        } else if (other && et_json_same(v, other) &&
                   (g->whole || !et_fields_was_given(&g->run->given, name))) {
            continue;
        } else if (et_fields_is_open(g->candidate->table, g->candidate, name)) {
            et_value_append_copy(out, v->key, v);
            /* Later settings may depend on it; a wrong value is refused later. */
            if (g->unused)
                (void)et_experiment_assign(g->candidate, "", name, v, out->arena, NULL);
        } else if (g->unused && et_fields_is_open(g->run->table, g->run, name)) {
            et_strbuf_printf(g->unused, "%s%s", g->unused->length ? ", " : "", name);
        }
    }
}

/* Settings on top of a candidate's own: RUN/members/mlp.yaml. */
static et_path given_path(const series *s, const et_series_candidate *candidate)
{
    return et_path_print("%s/" ET_SERIES_FOLDER "/%s.yaml", s->run_dir, candidate->name);
}

static int write_given(series *s, const et_series_candidate *candidate, const et_value *now,
                       const et_value *usual, et_error *error)
{
    et_experiment own;
    et_strbuf text = ET_STRBUF_INIT, unused = ET_STRBUF_INIT;
    const bool whole =
        s->run->count > 1 && et_fields_was_given(&s->experiment.given, s->class->model);
    const giving g = { &s->experiment, &own, whole, s->class->alone, &unused };
    const giving without = { &s->experiment, &own, false, NULL, NULL };
    const char *defaults = candidate->training->defaults;
    et_value *given = et_value_dict(&s->arena), *all = et_value_dict(&s->arena), *parsed = NULL;
    int status = et_experiment_begin(&own, s->call->program, candidate->training->experiment,
                                     &s->arena, error);
    if (!status && defaults)
        status = et_yaml_parse_value(&parsed, &s->arena, defaults, candidate->name, error);
    if (!status && defaults)
        status = et_experiment_set(&own, defaults, &s->arena, error);
    if (!status && given)
        keep_given(&g, given, now, usual, "");
    /* Defaults that the given settings switch off have no effect. */
    if (!status && all && parsed)
        keep_given(&without, all, parsed, NULL, "");
    if (!status && given && all)
        status = et_value_merge(all, given, error);
    if (!status && all && all->first)
        et_yaml_print(&text, all);
    if (!status)
        status = s->arena.failed || text.failed || unused.failed
                     ? et_alloc_failed(error, "settings")
                     : et_file_write(given_path(s, candidate).text, et_strbuf_text(&text),
                                     text.length, error);
    if (!status && unused.length)
        SAY(s, "%-12s keeps its own values of %s\n", candidate->name, et_strbuf_text(&unused));
    et_strbuf_release(&text);
    et_strbuf_release(&unused);
    return status;
}

/* The settings of a training. */
static int configure(const series *s, et_experiment *experiment,
                     const et_series_candidate *candidate, int which, et_arena *arena,
                     et_error *error)
{
    const et_series_training *training = &candidate->training[which];
    int status;
    if ((status = et_experiment_begin(experiment, s->call->program, training->experiment, arena,
                                      error)) ||
        (status = et_experiment_read_file(experiment, given_path(s, candidate).text, arena, error)))
        return status;
    experiment->source = ET_SETTINGS_SET;
    if (training->settings &&
        (status = et_experiment_set(experiment, training->settings, arena, error)))
        return status;
    return et_train_settle(experiment, error);
}

/* Removes the files that a failed start has written in a new directory. */
static void remove_settings(const series *s)
{
    for (int i = 0; s->run && i < s->run->count; i++)
        unlink(given_path(s, &s->run->candidate[i]).text);
    rmdir(et_path_of(s->run_dir, ET_SERIES_FOLDER).text);
}

/* Writes the files, and checks that each candidate can be configured, before the first training.
 * ET_ECONFIG: one can not. */
static int make_settings(series *s, et_error *error)
{
    et_experiment usual;
    int status =
        et_experiment_begin(&usual, s->call->program, s->experiment.name, &s->arena, error);
    if (status)
        return status;
    et_experiment_resolve_precision(&usual);
    const et_value *now = et_fields_effective(s->experiment.table, &s->experiment, &s->arena);
    const et_value *other = et_fields_effective(usual.table, &usual, &s->arena);
    status = now && other ? et_directory_make(et_path_of(s->run_dir, ET_SERIES_FOLDER).text, error)
                          : et_alloc_failed(error, "settings");
    if (!status && s->run->count > 1 &&
        et_fields_was_given(&s->experiment.given, s->class->model) &&
        (!et_fields_was_given(&s->experiment.given, s->class->alone) ||
         !et_json_same(et_value_path(now, s->class->model), et_value_path(other, s->class->model))))
        status = et_fail(error, ET_ECONFIG,
                         "%s: %s trains several models; to train one, name its experiment with "
                         "--experiment (`%s list` shows all)",
                         s->class->model, s->experiment.name, s->call->program->name);
    for (int i = 0; i < s->run->count && !status; i++) {
        const et_series_candidate *candidate = &s->run->candidate[i];
        et_arena arena = ET_ARENA_INIT;
        et_experiment experiment;
        status = write_given(s, candidate, now, other, error);
        if (status)
            return status;
        status = configure(s, &experiment, candidate, 0, &arena, error);
        et_arena_release(&arena);
        if (status)
            et_fail_while(error, status, "candidate %s", candidate->name);
    }
    return status;
}

/* Refuses options that need a single process or a single run. */
static int check_args(const series *s, et_error *error)
{
    const et_train_args *args = s->args;
    const char *option = args->mode != ET_MODE_TRAIN_AND_EVAL ? "--mode"
                         : args->init                         ? "--init"
                         : args->profiling.path               ? "--profile"
                         : args->distributed                  ? "--distributed"
                         : args->keys                         ? "--keys"
                         : getenv(ET_JOB_CONFIG_VARIABLE)     ? ET_JOB_CONFIG_VARIABLE
                         : et_comm_by_launch()                ? "launch"
                         : et_comm_by_mpi()                   ? "mpirun"
                                                              : NULL;
    if ((args->mode == ET_MODE_EVAL || args->mode == ET_MODE_CONTINUOUS_EVAL) &&
        et_model_dir_has_run(args->model_dir))
        return et_fail(error, ET_ECONFIG,
                       "--mode %s works with one model, but %s is a run of several; use `%s "
                       "evaluate %s`",
                       args->mode_name, s->run_dir, s->call->program->name,
                       et_shell_quote(s->run_dir).text);
    return option ? et_series_check_none(&s->experiment, option, error) : ET_OK;
}

/* ---- opening ---- */

static int write_settings(const series *s, et_error *error)
{
    return et_experiment_write(&s->experiment, et_path_of(s->run_dir, ET_RUN_SETTINGS).text, error);
}

/* A directory with a run in it must be this run's. */
static int claim(series *s, et_error *error)
{
    et_experiment kept;
    const et_identity none = { NULL, NULL };
    s->resumed = et_model_dir_has_run(s->args->model_dir);
    if (!s->resumed) {
        et_experiment_resolve_precision(&s->experiment);
        return write_settings(s, error);
    }
    const char *run = s->args->model_dir;
    int status = et_experiment_open_run(&kept, s->call->program, run, &s->arena, error);
    if (status)
        return status;
    if (strcmp(kept.name, s->experiment.name) != 0 || !et_series_of(&kept))
        return et_fail(error, ET_ECONFIG,
                       "%s is a run of %s with other settings; choose another --model-dir", run,
                       kept.name);
    s->class->adopt(s->experiment.task, kept.task);
    status = et_experiment_adopt(&s->experiment, &kept, &s->arena, error);
    return status ? status
                  : et_experiment_check_same(&kept, &s->experiment, &none, run,
                                             s->args->accept_changes && !s->complete, error);
}

static void close_task(series *s)
{
    if (s->run)
        s->class->close(s->run);
    if (s->task)
        s->experiment.kind->close(s->task);
    et_params_free(s->params);
    s->run = NULL;
    s->task = NULL;
    s->params = NULL;
}

/* identity: of the model; NULL: no model yet. */
static int open_task(series *s, const et_identity *identity, et_error *error)
{
    et_assert(!s->task && !s->params && !s->run);
    const et_experiment *e = &s->experiment;
    int status = et_params_new(&s->params, error);
    const et_task_context context = { .model_dir = s->run_dir,
                                      /* not the temporary directory of a dry run */
                                      .shown_dir = !s->args->dry_run    ? NULL
                                                   : s->args->model_dir ? s->args->model_dir
                                                                        : "RUN",
                                      .params = s->params,
                                      .device = s->device,
                                      .seed = (uint64_t)e->runtime.seed,
                                      .identity = identity,
                                      .reader = identity != NULL,
                                      .listener = s,
                                      .tell = tell,
                                      .stop = &et_stop_requested };
    if (!status)
        status = e->kind->open(&s->task, e->task, &context, error);
    if (status || identity)
        return status;
    return s->class->open(&s->run, e, s->task, s->args->time_limit, error);
}

static int open_parts(series *s, et_error *error)
{
    const char *run = et_model_dir_has_run(s->args->model_dir) ? s->args->model_dir : s->run_dir;
    int status;
    if ((status = et_device_open(&s->device, error)) || (status = open_task(s, NULL, error)))
        return status;
    if (s->run->changed) {
        close_task(s);
        if ((status = open_task(s, NULL, error)))
            return status;
    }
    if (s->args->dry_run)
        SAY(s, "experiment   %s\n", s->experiment.name);
    else
        SAY(s, "experiment   %s  (all settings: %s/" ET_RUN_SETTINGS ")\n", s->experiment.name,
            s->run_dir);
    if (s->experiment.kind->describe)
        s->experiment.kind->describe(s->task);
    if ((status = write_settings(s, error)) || (status = make_settings(s, error)))
        return status;
    return et_series_log_open(&s->log, run, s->run, error);
}

static int set_up(series *s, et_error *error)
{
    et_leave_on_signals(ET_RUN_NOT_BEGUN);
    int status = et_model_dir_open(&s->directory, s->experiment.kind, s->run_dir, error);
    if (!status)
        status = claim(s, error);
    if (!status)
        status = open_parts(s, error);
    s->set_up = !status;
    if (!status)
        et_model_dir_set_up(&s->directory, &s->begun, 0);
    return et_session_tell_directory(s->run_dir, status, error);
}

/* ---- the plan in words ---- */

static void say_plan(series *s)
{
    et_strbuf text = ET_STRBUF_INIT;
    const et_series_run *run = s->run;
    for (int i = 0; i < run->count; i++) {
        et_strbuf_printf(&text, "%s%s", i ? ", " : "", run->candidate[i].name);
        if (run->seconds > 0 && !s->log.item[i].done && !s->log.item[i].left_out)
            s->ahead += run->candidate[i].cost;
    }
    s->said = s->ahead;
    if (run->candidate->count > 1)
        et_strbuf_printf(&text, ", %son %d folds", run->count > 1 ? "each " : "",
                         run->candidate->count);
    SAY(s, "%-12s %s\n", run->count > 1 ? "candidates" : "training", et_strbuf_text(&text));
    if (run->left_out)
        SAY(s, "left out     %s: give a %slonger --time-limit to train more\n", run->left_out,
            s->resumed ? "new run a " : "");
    if (run->count > 1 && s->args->time_limit > 0)
        SAY(s, "time limit   %s for all trainings\n", et_format_duration(s->args->time_limit).text);
    else if (run->count > 1)
        SAY(s, "time         about %s on two cores (--time-limit sets a limit)\n",
            et_format_duration(s->said).text);
    et_strbuf_release(&text);
}

/* ---- how long it takes ---- */

/* The speed of a training is known after these seconds and steps. A new duration is printed if it
 * differs by this factor. */
#define SPEED_SECONDS 3
#define SPEED_STEPS   5
#define SPEED_CHANGE  1.25
/* Seconds as planned that count before the first training: short ones mostly wait for the disk. */
#define PLANNED 5

/* Prints the duration again if it differs much from the last printed one. The estimate compares the
 * time that trainings took (spent) with their planned time (expected). The plan does not change: it
 * is the same on each machine. */
static void say_time(series *s, double spent, double expected, et_progress *progress)
{
    et_assert(spent >= 0 && expected >= 0);
    const double pace = (spent + PLANNED) / (expected + PLANNED);
    const double seconds = s->spent + s->ahead * pace;
    const bool near = seconds < s->said * SPEED_CHANGE && s->said < seconds * SPEED_CHANGE;
    if (s->args->quiet || s->args->ends > 0 || near)
        return;
    s->said = seconds;
    const char *text =
        et_arena_printf(&s->arena, "time         about %s in all, by the steps so far",
                        et_format_duration(seconds).text);
    if (progress && text)
        et_progress_alert(progress, text);
    else if (text)
        SAY(s, "%s\n", text);
}

static double expected_of(const et_series_candidate *candidate)
{
    et_assert(candidate->count > 0);
    return candidate->cost / candidate->count;
}

/* After each step: measures the first seconds of a training. */
static void follow(void *self, const et_showing *showing, et_progress *progress)
{
    series *s = ((et_train_job *)self)->follower;
    const double now = et_clock_monotonic(), seconds = now - s->first_time;
    if (!s->first_time) {
        s->first_time = now;
        s->first_step = showing->step;
        return;
    }
    const double steps = (double)(showing->step - s->first_step);
    if (s->measured || seconds < SPEED_SECONDS || steps < SPEED_STEPS)
        return;
    s->measured = true;
    const double all = seconds / steps * (double)showing->steps * s->current->used;
    say_time(s, s->spent + all, s->expected + expected_of(s->current), progress);
}

/* "   mlp          log_loss 0.2812 +- 0.0101   accuracy 0.8712 +- 0.0040   0:12" */
static void say_score(const series *s, const char *name, const et_series_entry *entry)
{
    et_strbuf text = ET_STRBUF_INIT;
    const et_series_score *score = &entry->score;
    for (int i = 0; i < ET_SERIES_METRICS; i++) {
        et_strbuf_printf(&text, "%s%s %.4g", i ? "  " : "", score->metric[i], score->mean[i]);
        if (!isnan(score->deviation[i]))
            et_strbuf_printf(&text, " +- %.2g", score->deviation[i]);
    }
    SAY(s, "%-12s %s  in %s\n", name, et_strbuf_text(&text),
        et_format_duration(entry->seconds).text);
    et_strbuf_release(&text);
}

/* ---- the trainings ---- */

static et_path training_path(const series *s, const et_series_candidate *candidate, int which)
{
    et_assert(which >= 0 && which < candidate->count);
    return et_path_print("%s/" ET_SERIES_FOLDER "/%s", s->run_dir, candidate->training[which].name);
}

static const char between[] = "stopping     between two trainings; the same command resumes";

/* share: of a dry run; NULL: the training is for the model. */
static int train_one(series *s, const et_series_candidate *candidate, int which,
                     et_dry_run_share *share, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    et_train_job job = et_train_job_of(s->call, s->args);
    const et_path directory = training_path(s, candidate, which);
    job.training.experiment = &experiment;
    job.training.arena = &arena;
    job.training.model_dir = directory.text;
    job.training.device = s->device;
    job.training.judged = true;
    job.quiet = !s->args->verbose;
    job.among = true;
    job.reported = &s->reported;
    job.share = share;
    if (!share && !s->args->quiet)
        job.training.counted = candidate->count > 1
                                   ? et_arena_printf(&arena, "%s %d/%d  step", candidate->name,
                                                     which + 1, candidate->count)
                                   : et_arena_printf(&arena, "%s  step", candidate->name);
    if (!share && s->run->seconds > 0)
        job.training.follow = follow;
    job.follower = s;
    int status = et_directory_make(directory.text, error);
    if (!status)
        status = configure(s, &experiment, candidate, which, &arena, error);
    if (!status)
        status = s->class->prepare(s->run, directory.text, experiment.task, error);
    if (!status) {
        status = et_train_run(&job, error);
        et_show_log_quietly(&s->quiet);
    }
    et_arena_release(&arena);
    return status;
}

/* Trains a candidate. The measured time estimates the time of the others. */
static int train(series *s, const et_series_candidate *candidate, int which, et_error *error)
{
    const double began = et_clock_monotonic();
    s->current = candidate;
    s->measured = false;
    s->first_time = 0;
    int status = train_one(s, candidate, which, NULL, error);
    et_leave_on_signals(between);
    if (!status && s->run->seconds > 0) {
        s->spent += et_clock_monotonic() - began;
        s->expected += expected_of(candidate);
        s->ahead -= expected_of(candidate);
        if (s->spent >= SPEED_SECONDS && s->ahead > 0)
            say_time(s, s->spent, s->expected, NULL);
    }
    if (!status && et_flag_is_set(&et_stop_requested))
        status = et_fail(error, ET_EINTERRUPTED,
                         "interrupted between two trainings; the same command resumes");
    return status;
}

/* Evaluates a training that is done, as `evaluate` does, for the class. */
static int evaluate(series *s, int which, int training, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    const et_path directory = training_path(s, &s->run->candidate[which], training);
    et_evaluation e = { .model_dir = directory.text,
                        .experiment = &experiment,
                        .device = s->device };
    et_value *logs = et_value_dict(&arena);
    int status = logs ? et_experiment_open_run(&experiment, s->call->program, directory.text,
                                               &s->arena, error)
                      : et_alloc_failed(error, "scores");
    if (!status && experiment.kind != s->experiment.kind)
        status = et_fail(error, ET_ECONFIG, "%s: a run of %s, which is not a %s task",
                         directory.text, experiment.name, s->experiment.kind->name);
    if (!status && !(status = s->class->prepare(s->run, directory.text, experiment.task, error)) &&
        !(status = et_evaluation_open(&e, error)) &&
        !(status = et_evaluation_load(&e, NULL, error)) &&
        !(status = et_evaluation_run(&e, logs, error))) {
        et_series_trained trained = { e.task, e.params, e.step };
        status = s->class->take(s->run, which, training, &trained, error);
        e.params = trained.params;
    }
    et_evaluation_close(&e);
    et_arena_release(&arena);
    return status;
}

/* ---- all ---- */

/* Adds a line for a candidate to members.jsonl: its score, or the reason `why` it is left out.
 * Writes the whole file again, because it is small, so no line is ever incomplete. */
static int record(series *s, int which, double seconds, const char *why, et_error *error)
{
    et_assert(which >= 0 && which < s->run->count && (!why || !seconds));
    et_series_log *log = &s->log;
    et_series_entry *entry = &log->item[which];
    const et_series_score *score = &entry->score;
    et_arena arena = ET_ARENA_INIT;
    et_value *line = et_value_dict(&arena);
    et_value_set_string(line, "candidate", s->run->candidate[which].name);
    if (why) {
        et_value_set_string(line, "left_out", why);
    } else {
        et_value_set_float(line, "seconds", seconds);
        et_value *values = et_value_set_dict(line, "values");
        et_value *deviation = et_value_set_dict(line, "deviation");
        for (int i = 0; i < ET_SERIES_METRICS; i++) {
            et_value_set_float(values, score->metric[i], score->mean[i]);
            et_value_set_float(deviation, score->metric[i], score->deviation[i]);
        }
    }
    if (!et_value_failed(line))
        et_json_print(&log->text, line, 0);
    et_strbuf_append_char(&log->text, '\n');
    int status =
        et_value_failed(line) || log->text.failed
            ? et_alloc_failed(error, "candidates")
            : et_file_write(log->path.text, et_strbuf_text(&log->text), log->text.length, error);
    entry->done = !status && !why;
    entry->left_out = !status && why;
    entry->seconds = seconds;
    et_arena_release(&arena);
    return status;
}

static int leave_out(series *s, int which, const char *why, et_error *error)
{
    SAY(s, "%-12s left out: %s\n", s->run->candidate[which].name, why);
    return record(s, which, 0, why, error);
}

static bool has_done(const series *s)
{
    bool done = false;
    for (int i = 0; i < s->run->count; i++)
        done |= s->log.item[i].done;
    return done;
}

/* Whether a candidate fits into the time limit, by the times of the candidates before it as a
 * multiple of the plan's. The first one is always trained. */
static bool fits(const series *s, int which, char *why, size_t size)
{
    et_assert(which >= 0 && which < s->run->count);
    const double left = s->args->ends - et_clock_monotonic();
    double seconds = PLANNED, cost = PLANNED;
    for (int i = 0; i < s->run->count; i++)
        if (s->log.item[i].done) {
            seconds += s->log.item[i].seconds;
            cost += s->run->candidate[i].cost;
        }
    const double likely = seconds / cost * s->run->candidate[which].cost;
    if (s->run->count < 2 || !(s->args->ends > 0) || (likely <= left && left > 0))
        return true;
    snprintf(why, size, "it would take about %s, and %s of the time limit is left",
             et_format_duration(likely).text, et_format_duration(fmax(left, 0)).text);
    return !has_done(s);
}

/* A candidate that was trained before is only scored. */
static int try_candidate(series *s, int which, et_error *error)
{
    et_assert(s->set_up && which >= 0 && which < s->run->count);
    const et_series_candidate *candidate = &s->run->candidate[which];
    et_series_entry *entry = &s->log.item[which];
    char why[160];
    int status = ET_OK;
    if (entry->left_out)
        return ET_OK;
    if (!entry->done && !fits(s, which, why, sizeof why))
        return leave_out(s, which, why, error);
    const double began = et_clock_monotonic();
    for (int i = 0; i < candidate->count && !entry->done && !status; i++)
        status = train(s, candidate, i, error);
    if (status == ET_ECONFIG)
        et_fail_while(error, status, "candidate %s", candidate->name);
    if (status == ET_EINTERRUPTED && s->args->ends > 0 &&
        et_clock_monotonic() >= s->args->ends - 1e-3 && s->run->count > 1 && has_done(s))
        return leave_out(s, which, "the time limit ended its training", error);
    const double seconds = et_clock_monotonic() - began;
    for (int i = 0; i < candidate->count && !status; i++)
        status = evaluate(s, which, i, error);
    if (status || (status = s->class->score(s->run, which, &entry->score, error)) ||
        (!entry->done && (status = record(s, which, seconds, NULL, error))))
        return status;
    say_score(s, candidate->name, entry);
    return ET_OK;
}

static void add_score(et_grid *grid, const et_series_score *score)
{
    for (int i = 0; i < ET_SERIES_METRICS; i++)
        if (isnan(score->deviation[i]))
            et_grid_addf(grid, "%.4f", score->mean[i]);
        else
            et_grid_addf(grid, "%.4f +- %.4f", score->mean[i], score->deviation[i]);
}

/* The candidates, then the model. */
static int say_table(const series *s, const double *weights, const et_series_score *model,
                     et_error *error)
{
    et_grid grid = { .columns = 3 + ET_SERIES_METRICS };
    et_grid_add(&grid, "candidate");
    for (int i = 0; i < ET_SERIES_METRICS; i++)
        et_grid_add(&grid, model->metric[i]);
    et_grid_add(&grid, "time");
    et_grid_add(&grid, "weight");
    double seconds = 0;
    for (int c = 0; c < s->run->count; c++) {
        const et_series_entry *entry = &s->log.item[c];
        if (!entry->done)
            continue;
        seconds += entry->seconds;
        et_grid_add(&grid, s->run->candidate[c].name);
        add_score(&grid, &entry->score);
        et_grid_add(&grid, et_format_duration(entry->seconds).text);
        et_grid_addf(&grid, "%.2f", weights[c]);
    }
    et_grid_add(&grid, "all of them");
    add_score(&grid, model);
    et_grid_add(&grid, et_format_duration(seconds).text);
    et_grid_add(&grid, "");
    int status = s->args->quiet ? ET_OK : et_grid_print(&grid, stderr, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

/* Logs the scores of the model as a validation, which `runs` and other commands show. */
static int log_score(series *s, const et_series_score *score, et_error *error)
{
    et_value *line = et_value_dict(&s->arena);
    et_value_set_int(line, "step", s->run->step);
    et_value *values = et_value_set_dict(line, ET_LOGGED_VALIDATION);
    for (int i = 0; i < ET_SERIES_METRICS; i++) {
        const char *name =
            et_arena_printf(&s->arena, ET_LOGGED_OF_VALIDATION "%s", score->metric[i]);
        et_value_set_float(values, name ? name : "", score->mean[i]);
    }
    const char *best = et_arena_printf(&s->arena, ET_LOGGED_OF_BEST ET_LOGGED_OF_VALIDATION "%s",
                                       score->metric[0]);
    et_value_set_float(values, best ? best : "", score->mean[0]);
    et_value_set_int(values, ET_LOGGED_BEST_STEP, s->run->step);
    return best ? et_json_write(et_path_of(s->run_dir, ET_RUN_LOG).text, line, 0, "\n", error)
                : et_alloc_failed(error, "a log");
}

static void say_end(const series *s)
{
    const et_task_kind *kind = s->experiment.kind;
    SAY(s, "done         `%s %s %s` %s\n", s->call->program->name,
        kind->next ? kind->next : "evaluate", et_shell_quote(s->run_dir).text,
        kind->next_help ? kind->next_help : "evaluates it");
}

/* The model comes last: a run that has it counts as complete. */
static int train_all(series *s, et_error *error)
{
    double *weights = et_arena_array(&s->arena, s->run->count, sizeof *weights);
    et_series_score score;
    int status;
    if (!weights)
        return et_alloc_failed(error, "weights");
    say_plan(s);
    for (int i = 0; i < s->run->count; i++)
        if ((status = try_candidate(s, i, error)))
            return status;
    if ((status = s->class->choose(s->run, s->experiment.task, weights, &score, error)) ||
        (status = write_settings(s, error)) || (status = log_score(s, &score, error)) ||
        (status = s->class->write(s->run, &s->experiment, error)) ||
        (s->run->count > 1 && (status = say_table(s, weights, &score, error))))
        return status;
    et_task_tell_verdict(s->task, true);
    say_end(s);
    return ET_OK;
}

/* ---- --dry-run ---- */

/* Measures the first training of each candidate; its others take about as long. */
static int measure_all(series *s, et_error *error)
{
    int status = ET_OK, measured = 0;
    double seconds = 0;
    for (int i = 0; !status && i < s->run->count; i++) {
        const et_series_candidate *candidate = &s->run->candidate[i];
        et_dry_run_share share = { candidate->name, candidate->count, 0 };
        if (s->log.item[i].done || s->log.item[i].left_out)
            continue;
        status = train_one(s, candidate, 0, &share, error);
        seconds += share.seconds;
        measured++;
    }
    if (!status && !measured)
        return et_dry_run_tell_complete(s->args->json, error);
    if (!status && measured > 1 && !s->args->json)
        et_print(stdout, "%-12s would take %s\n", "all of them", et_format_duration(seconds).text);
    return et_print_end(status, error);
}

/* --dry-run: works as in training, but in a temporary directory. */
static int try_out(series *s, et_error *error)
{
    const bool goes_on = et_model_dir_has_run(s->args->model_dir);
    et_dry_run dry = { .kind = s->experiment.kind, .run = goes_on ? s->args->model_dir : NULL };
    et_signals_catch_stops();
    int status = et_dry_run_open(&dry, error);
    s->run_dir = dry.directory;
    if (!status)
        status = claim(s, error);
    if (!status)
        status = open_parts(s, error);
    if (!status) {
        say_plan(s);
        status = measure_all(s, error);
    }
    et_dry_run_close(&dry);
    return status;
}

/* A run with a model does not change. Checks that the command has the same settings. */
static int leave_complete(series *s, et_error *error)
{
    et_artifact artifact;
    et_identity identity = { NULL, NULL };
    const bool given = s->args->config.count || s->args->set.count || s->args->settings.count;
    int status = claim(s, error);
    if (status == ET_ECONFIG && s->args->accept_changes)
        return et_fail(error, status,
                       "--accept-changes: %s has its model, and no training is left; train another "
                       "run for other settings",
                       s->run_dir);
    if (!status)
        status = et_artifact_open(&artifact, s->run_dir, error);
    if (status)
        return status;
    if (given)
        status = et_artifact_identity(&artifact, &identity, &s->arena, error);
    et_artifact_close(&artifact);
    if (status || (given && ((status = et_device_open(&s->device, error)) ||
                             (status = open_task(s, &identity, error)))))
        return status;
    if (s->args->dry_run)
        return et_dry_run_tell_complete(s->args->json, error);
    SAY(s, "complete     %s has its model%s\n", s->run_dir,
        given ? "; train another run for other settings" : "");
    say_end(s);
    return ET_OK;
}

static int begin(series *s, et_error *error)
{
    int status = et_train_settle(&s->experiment, error);
    if (!status)
        status = check_args(s, error);
    s->complete = et_model_dir_has_run(s->args->model_dir) &&
                  et_file_exists_in(s->run_dir, ET_ARTIFACT_WEIGHTS);
    if (status)
        return status;
    if (s->complete)
        return leave_complete(s, error);
    if (s->args->dry_run)
        return try_out(s, error);
    status = set_up(s, error);
    if (status)
        return status;
    et_leave_on_signals(between);
    return train_all(s, error);
}

int et_series_train(const et_call *call, const et_train_args *args, et_train_settings *settings,
                    bool *wanted, et_error *error)
{
    series s = { .call = call,
                 .args = args,
                 .run_dir = args->model_dir,
                 .arena = ET_ARENA_INIT,
                 .directory = ET_MODEL_DIR_INIT,
                 .begun = 1 };
    if (!(args->init && et_experiment_find_foreign(call->program, args->init)) &&
        !et_train_assemble(settings, args, call->program, NULL)) {
        s.experiment = settings->experiment;
        s.class = et_series_of(&s.experiment);
    }
    *wanted = s.class != NULL;
    if (!*wanted) {
        et_arena_release(&s.arena);
        return ET_OK;
    }
    s.quiet = (et_quiet_log){ .program = call->program, .reported = &s.reported };
    et_show_log_quietly(&s.quiet);
    int status = begin(&s, error);
    if (status == ET_ECONFIG)
        et_train_fail_unnamed(settings, status, error);
    et_show_log_on(call->program, NULL);
    const bool take_back = status && !s.set_up;
    if (take_back && s.directory.fresh && s.run)
        remove_settings(&s);
    et_series_log_close(&s.log);
    close_task(&s);
    et_device_close(s.device);
    et_model_dir_close(&s.directory, take_back);
    et_arena_release(&s.arena);
    return status;
}
