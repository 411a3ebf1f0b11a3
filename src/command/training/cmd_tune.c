/* etude tune: successive halving (Jamieson, Talwalkar: "Non-stochastic best arm identification and
 * hyperparameter optimization", AISTATS 2016).
 *
 *   rung 1      all trials, trained for a small part of the steps
 *   rung 2      the best third of them, trained anew for three times as many steps
 *   ...         until the last rung, with all steps
 *
 * Trials are runs, DIR/rung-1/trial-01 and so on, as `train` makes them. Settings are a function of
 * seed, trial and --search, and results are read from the runs. So a stopped or killed search
 * continues: finished trials are read, others resume. tune.json describes the search. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/job_config.h>
#include <etude/log.h>

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
#include "command/command.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/runs/history.h"
#include "command/training/search.h"
#include "command/training/train_args.h"
#include "command/training/training.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "systems/modelgarden/series.h"
#include "train/checkpoint/run_names.h"
#include "train/run/options.h"

#define THIRD      3 /* one of this many trials goes on to the next rung */
#define RUNGS_MAX  4 /* the first one has a 27th of the steps */
#define TRIALS_MAX 10000
#define SPACES_MAX 64
#define EPOCH      1000.0 /* in a number of steps that was given in epochs (fields.h) */
#define FILE_NAME  "tune.json"
#define FILE_BYTES ((size_t)16 << 20)
#define FORMAT     "etude-tune-2"

typedef struct tune_options {
    et_train_args train;
    et_strings search;
    int64_t trials, rungs, seed;
    double time_limit;
    bool json;
} tune_options;

static const et_option options[] = {
    ET_OPTION_LIST(tune_options, search, "search", "NAME=VALUES",
                   "an option or a setting to try: lr=1e-4..1e-2:log, layers=1..4, "
                   "task.model.mlp.norm=none,batch; may be given again"),
    ET_OPTION_COUNT(tune_options, trials, "trials", "N", 1, TRIALS_MAX,
                    "most trials (default: 27); fewer if --search has fewer combinations",
                    .field.default_number = 27),
    ET_OPTION_TIME(tune_options, time_limit, "time-limit", "TIME",
                   "stop the search after this time, counted over all starts: 1:30:00, 90m"),
    ET_OPTION_COUNT(tune_options, rungs, "rungs", "N", 0, RUNGS_MAX,
                    "rungs; the first has 1 / 3^(N-1) of the steps (default: by trials and steps)"),
    ET_OPTION_COUNT(tune_options, seed, "search-seed", "N", 0, 9007199254740992.0,
                    "seed of the tried values (default: 0)"),
    ET_OPTION_FLAG(tune_options, json, "json", "print the results as a JSON object"),
    ET_OPTION_KINDS(tune_options, train.settings),
    ET_OPTION_TEXT(tune_options, train.experiment, "experiment", "EXPERIMENT",
                   "experiment: a named set of settings (default: by the data)"),
    ET_OPTION_TEXT(tune_options, train.model_dir, "model-dir", "DIR",
                   "directory of the trials (default: runs/tune-NAME-1, or the next number); an "
                   "existing search continues"),
    ET_OPTION_LIST(tune_options, train.config, "config", "FILE",
                   "YAML or JSON file of settings; may be given again, later ones win"),
    ET_OPTION_TEXT(tune_options, train.init, "init", "RUN|FILE",
                   "start each trial from the weights of a run or of a file"),
    ET_OPTION_SET(tune_options, train.set, "settings of all trials; may be given again"),
    ET_OPTION_QUIET(tune_options, train.quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_WORD(tune_options, train.experiment, "[EXPERIMENT]", "experiment"),
    ET_OPTION_WORD(tune_options, train.model_dir, "[DIR]", "directory"),
    ET_OPTION_END,
};

const et_usage et_usage_tune = {
    options, sizeof(tune_options),
    "Searches for better settings: trains trials for a few steps and\n"
    "the best of them for more. Every trial is a run.",
    "EXPERIMENT runs/tune DATA --search lr=1e-4..1e-2:log --trials 9"
};

/* ---- trials ---- */

/* The result of a finished trial. */
typedef struct attempt {
    const char *model_dir;
    char metric[200]; /* that chooses the best checkpoint */
    bool lower;       /* is better */
    double value;     /* the best one; if the run keeps no best checkpoint, the last one */
    int64_t step;     /* of this value */
    double seconds;   /* of the run's work in all sessions */
} attempt;

typedef struct candidate {
    const char *const *value; /* [spaces] */
    int rung; /* the last rung that the trial has finished, from 1; 0: none; -1: its settings are
                 invalid */
    attempt result; /* of this rung */
} candidate;

typedef struct tuning {
    const tune_options *args;
    const et_call *call;
    et_arena arena;
    const char *dir, *experiment; /* experiment NULL: by the data */
    et_search_space space[SPACES_MAX];
    int spaces;
    candidate *candidate; /* [trials], in arena, as the next */
    candidate **ranked;   /* [trials]: by rung and value, the best first */
    int trials, rungs;
    int64_t length; /* trainer.train_steps, of the last rung */
    double ends;    /* monotonic time of the limit; 0: no limit */
    int lock;       /* of the directory; -1: none */
    bool stopped;   /* a signal or the time limit ended the search */
    et_reported reported;
    const et_task_kind *kind;
} tuning;

/* If a run keeps no best checkpoint, its last validation counts, because its last weights are
 * used. */
static bool take_value(attempt *t, const et_history *h)
{
    const et_history_best best = et_history_best_of(h);
    if (best.series && best.step >= 0 && isfinite(best.value)) {
        snprintf(t->metric, sizeof t->metric, "%s", best.metric);
        t->lower = best.lower;
        t->value = best.value;
        t->step = best.step;
        return true;
    }
    const et_value *asked = et_history_setting(h, "trainer.best_checkpoint_eval_metric");
    const bool own = asked && asked->kind == ET_VALUE_STRING && asked->string[0] &&
                     strcmp(asked->string, ET_BEST_AUTO) != 0;
    const char *name = own ? asked->string : ET_LOGGED_VALIDATION_LOSS;
    const et_history_series *series;
    if (!et_history_match(h, name, &series, 1) || !series->count)
        return false;
    const et_history_point *last = &series->points[series->count - 1];
    snprintf(t->metric, sizeof t->metric, "%s", name);
    t->lower = et_history_is_lower_better(h, series);
    t->value = last->value;
    t->step = last->step;
    return isfinite(last->value);
}

/* Seconds that a run has worked so far; 0: no run. */
static double seconds_of(const char *model_dir)
{
    et_history *h = NULL;
    double seconds = 0;
    if (et_history_is_run(model_dir) && !et_history_open(&h, model_dir, NULL))
        seconds = et_history_seconds_in_all(h);
    et_history_close(h);
    return isnan(seconds) ? 0 : seconds;
}

/* exited: train has reported that the run is done. If the run was killed after its last step, its
 * record does not say so. */
static bool read_run(attempt *t, bool exited)
{
    et_history *h = NULL;
    bool done = et_history_is_run(t->model_dir) && !et_history_open(&h, t->model_dir, NULL) &&
                (exited || et_history_state_of(h) == ET_HISTORY_DONE) && take_value(t, h);
    if (done) {
        const double seconds = et_history_seconds_in_all(h);
        t->seconds = isnan(seconds) ? 0 : seconds;
    }
    et_history_close(h);
    return done;
}

/* ---- words of train ---- */

/* If memory is out, words are missing and the arena has failed. */
typedef struct words {
    et_arena *arena;
    char **items;
    int count, most;
} words;

/* text NULL: no memory. */
static void add_word(words *w, const char *text)
{
    et_assert(w->count < w->most);
    char *copy = text && w->items ? et_arena_strdup(w->arena, text) : NULL;
    if (copy)
        w->items[w->count++] = copy;
}

static void add_pair(words *w, const char *option, const char *value)
{
    add_word(w, option);
    add_word(w, value);
}

/* Of a switch: no words. */
static et_option_given given_at(const et_option_uses *uses, int time)
{
    return uses->given ? uses->given[time] : (et_option_given){ NULL, 0 };
}

/* Words shared by all trials. */
static words begin_words(tuning *t)
{
    const et_train_args *a = &t->args->train;
    const et_option_settings *settings = &a->settings;
    size_t most = 64 + 2 * (a->config.count + a->set.count + (size_t)t->spaces);
    for (int i = 0; i < settings->count; i++)
        for (int n = 0; n < settings->words[i].times; n++)
            most += (size_t)given_at(&settings->words[i], n).count + 1;
    words w = { .arena = &t->arena,
                .items = et_arena_array(&t->arena, most, sizeof *w.items),
                .most = (int)most };
    if (a->experiment)
        add_pair(&w, "--experiment", a->experiment);
    for (size_t i = 0; i < a->config.count; i++)
        add_pair(&w, "--config", a->config.items[i]);
    if (a->init)
        add_pair(&w, "--init", a->init);
    for (int i = 0; i < settings->count; i++)
        for (int n = 0; n < settings->words[i].times; n++) {
            const et_option_given given = given_at(&settings->words[i], n);
            add_word(&w, et_arena_printf(w.arena, "--%s", settings->names[i]));
            for (int k = 0; k < given.count; k++)
                add_word(&w, given.items[k]);
        }
    for (size_t i = 0; i < a->set.count; i++)
        add_pair(&w, ET_SETTINGS_SET, a->set.items[i]);
    return w;
}

static et_path directory_of(const tuning *t, int rung, int trial)
{
    et_assert(rung >= 1 && rung <= t->rungs && trial >= 0 && trial < t->trials);
    int digits = 2;
    for (int most = 100; most <= t->trials; most *= 10)
        digits++;
    return et_path_print("%s/rung-%d/trial-%0*d", t->dir, rung, digits, trial + 1);
}

/* Its number for people. */
static int number_of(const tuning *t, const candidate *c)
{
    return (int)(c - t->candidate) + 1;
}

/* c NULL: without searched values. rung 0: of the whole length, without a directory. */
static words make_words(tuning *t, const candidate *c, int rung)
{
    et_assert(rung >= 0 && rung <= t->rungs && (c || !rung));
    words w = begin_words(t);
    for (int i = 0; c && i < t->spaces; i++) {
        /* A name with a dot is a setting, any other one an option. */
        const char *name = t->space[i].name, *value = c->value[i];
        if (strchr(name, '.'))
            add_pair(&w, ET_SETTINGS_SET, et_arena_printf(w.arena, "%s=%s", name, value));
        else
            add_pair(&w, et_arena_printf(w.arena, "--%s", name), value);
    }
    if (rung) {
        /* Part of the steps, or of the epochs, of a rung. */
        const double part = pow(THIRD, rung - t->rungs);
        add_pair(&w, ET_SETTINGS_SET,
                 t->length > 0
                     ? et_arena_printf(w.arena, "trainer.train_steps=%.0f",
                                       fmax(1, ceil((double)t->length * part)))
                     : et_arena_printf(w.arena, "trainer.train_epochs=%.3f",
                                       fmax(1 / EPOCH, -(double)t->length / EPOCH * part)));
        add_pair(&w, "--model-dir", directory_of(t, rung, number_of(t, c) - 1).text);
    }
    add_word(&w, "--quiet");
    return w;
}

/* ---- settings ---- */

/* The call of `train`, its arguments, and settings from them. The caller closes settings.initial.
 */
static int configure(et_train_settings *settings, et_train_args *args, et_call *call, tuning *t,
                     const candidate *c, int rung, et_error *error)
{
    const words w = make_words(t, c, rung);
    et_command_line line;
    *call = (et_call){
        .program = t->call->program, .command = "train", .argc = w.count, .argv = w.items
    };
    int status = t->arena.failed ? et_alloc_failed(error, "words")
                                 : et_command_line_open(&line, &et_usage_train, args, call,
                                                        settings->arena, error);
    if (!status)
        status = et_command_line_parse(&line, error);
    return status ? status : et_train_configure(settings, args, call->program, error);
}

/* The kind of task and the length of a run, by the settings without searched values. */
static int read_settings(tuning *t, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_call call;
    et_train_args args;
    et_train_settings settings = { .arena = &arena };
    const et_experiment *e = &settings.experiment;
    int status = configure(&settings, &args, &call, t, NULL, 0, error);
    if (!status)
        status = et_series_check_none(e, "tune", error);
    if (!status && !e->trainer.validation_interval)
        status = et_fail(error, ET_ECONFIG,
                         "trainer.validation_interval is 0, but tune compares trials by their "
                         "validations; set an interval");
    if (!status) {
        t->kind = e->kind;
        t->length = e->trainer.train_steps;
        t->experiment = et_arena_strdup(&t->arena, e->name);
    }
    et_initial_close(&settings.initial);
    et_arena_release(&arena);
    return status;
}

/* What --search has changed, but all trials have in common; NULL: nothing. */
static const char *fixed_option(const tuning *t, const et_train_args *args, const et_experiment *e)
{
    return args->model_dir                                 ? "the directory"
           : args->mode_name                               ? "--mode"
           : args->time_limit > 0                          ? "--time-limit"
           : args->workers || args->servers || args->keys  ? "the cluster"
           : args->pretrain_steps                          ? "--pretrain-steps"
           : args->profiling.path || args->profiling.steps ? "--profile"
           : e->trainer.train_steps != t->length           ? "the length (--steps, --epochs)"
                                                           : NULL;
}

/* Leaves out trials whose settings do not fit together. If all are left out, the first message is
 * the error. */
static int check_candidates(tuning *t, et_error *error)
{
    int sound = 0;
    for (int i = 0; i < t->trials; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_call call;
        et_train_args args;
        et_train_settings settings = { .arena = &arena };
        et_error reason = ET_ERROR_INIT;
        const char *fixed;
        int status = configure(&settings, &args, &call, t, &t->candidate[i], 0, &reason);
        if (!status && (fixed = fixed_option(t, &args, &settings.experiment)))
            status = et_fail(&reason, ET_EUSAGE,
                             "%s: tune sets it for all trials, so --search cannot try values of it",
                             fixed);
        et_initial_close(&settings.initial);
        et_arena_release(&arena);
        t->candidate[i].rung = status ? -1 : 0;
        sound += !status;
        if (status == ET_EUSAGE || status == ET_ENOMEM || (status && i + 1 == t->trials && !sound))
            return et_fail(error, status, "trial %d: %s", i + 1, reason.text);
        if (status)
            et_log(ET_LOG_WARNING, "trial %d is left out: %s", i + 1, reason.text);
    }
    return ET_OK;
}

/* Draws fewer trials if there are fewer combinations of values. */
static int draw_candidates(tuning *t, et_error *error)
{
    et_assert(t->trials > 0 && t->spaces > 0 && !t->candidate);
    const size_t trials = (size_t)t->trials, spaces = (size_t)t->spaces;
    const char **values = et_arena_array(&t->arena, trials * spaces, sizeof *values);
    t->candidate = et_arena_array(&t->arena, trials, sizeof *t->candidate);
    t->ranked = et_arena_array(&t->arena, trials, sizeof *t->ranked);
    if (!values || !t->candidate || !t->ranked)
        return et_alloc_failed(error, "trials");
    for (size_t i = 0; i < trials; i++) {
        t->candidate[i] = (candidate){ .value = values + i * spaces };
        t->ranked[i] = &t->candidate[i];
    }
    return et_search_draw(values, &t->trials, t->space, t->spaces, (uint64_t)t->args->seed,
                          &t->arena, error);
}

/* Limits the rungs: trials must suffice for all, and the first rung needs an epoch, or 10 steps. */
static int check_rungs(tuning *t, et_error *error)
{
    const double least = t->length > 0 ? 10 : EPOCH, all = fabs((double)t->length);
    et_assert(t->trials > 0);
    t->rungs = t->args->rungs ? (int)t->args->rungs : 1;
    for (int left = t->trials / THIRD; !t->args->rungs && left >= 1 && t->rungs < RUNGS_MAX;
         left /= THIRD)
        t->rungs += all / pow(THIRD, t->rungs) >= least;
    if (t->length == 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.train_steps: 0; set --steps or --epochs, the length of the last "
                       "rung");
    if (pow(THIRD, t->rungs - 1) > t->trials)
        return et_fail(error, ET_EUSAGE, "--rungs %d needs at least %.0f trials, not %d", t->rungs,
                       pow(THIRD, t->rungs - 1), t->trials);
    return ET_OK;
}

/* ---- the directory ---- */

static int name_directory(tuning *t, et_error *error)
{
    t->dir = t->args->train.model_dir;
    for (int i = 1; !t->dir; i++) {
        t->dir = et_arena_printf(&t->arena, "runs/tune-%s-%d", et_path_base(t->experiment), i);
        if (!t->dir)
            return et_alloc_failed(error, "a path");
        t->dir = et_file_exists(t->dir) ? NULL : t->dir;
    }
    if (et_file_exists_in(t->dir, ET_RUN_SETTINGS))
        return et_fail(error, ET_EUSAGE, "%s is a run; name another directory for the search",
                       t->dir);
    return ET_OK;
}

/* Writes tune.json, which describes the search. */
static int open_directory(tuning *t, et_error *error)
{
    const words w = make_words(t, NULL, 0);
    const et_path path = et_path_of(t->dir, FILE_NAME);
    et_value *was = NULL, *now = et_value_dict(&t->arena);
    et_assert(t->lock < 0 && t->dir);
    et_value_set_string(now, "format", FORMAT);
    et_value *list = et_value_set_list(now, "train");
    for (int i = 0; i < w.count; i++)
        et_value_add_string(list, w.items[i]);
    list = et_value_set_list(now, "search");
    for (size_t i = 0; i < t->args->search.count; i++)
        et_value_add_string(list, t->args->search.items[i]);
    et_value_set_int(now, "trials", t->trials);
    et_value_set_int(now, "rungs", t->rungs);
    et_value_set_int(now, "search-seed", t->args->seed);
    if (t->arena.failed)
        return et_alloc_failed(error, "a search");
    int status = et_directory_make(t->dir, error);
    if (!status)
        status = et_lock_take(&t->lock, et_path_of(t->dir, ET_RUN_LOCK).text, error);
    if (status == ET_EBUSY)
        et_fail(error, status, "%s: another process searches there; wait for its end", t->dir);
    if (!status && !et_file_exists(path.text))
        return et_json_write(path.text, now, 2, "\n", error);
    if (!status)
        status = et_value_read_file(&was, &t->arena, path.text, FILE_BYTES, et_json_parse, error);
    if (!status && was->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s is no file of a search", path.text);
    if (status)
        return status;
    for (const et_value *v = now->first; v; v = v->next) {
        const et_value *before = et_value_get(was, v->key);
        if (!before || !et_json_same(before, v))
            return et_fail(error, ET_EUSAGE,
                           "%s has another search: its %s differ%s (%s/" FILE_NAME
                           "); give the same options to continue, or name another directory",
                           t->dir, v->key, v->kind == ET_VALUE_LIST ? "" : "s", t->dir);
    }
    return ET_OK;
}

/* ---- trials ---- */

static void tell(const tuning *t, const candidate *c)
{
    et_strbuf values = ET_STRBUF_INIT; /* "lr 0.0012, dropout 0.3" */
    if (t->args->train.quiet)
        return;
    for (int i = 0; i < t->spaces; i++)
        et_strbuf_printf(&values, "%s%s %s", i ? ", " : "", t->space[i].name, c->value[i]);
    et_print(stderr, "rung %d/%d  trial %d: %s %s at step %s, %s  (%s)\n", c->rung, t->rungs,
             number_of(t, c), c->result.metric, et_format_value(c->result.value).text,
             et_format_count(c->result.step).text, et_format_duration(c->result.seconds).text,
             et_strbuf_text(&values));
    et_strbuf_release(&values);
}

static bool is_over(const tuning *t)
{
    return t->ends > 0 && et_clock_monotonic() >= t->ends;
}

/* Removes a search without any begun trial, so that the corrected command can use its name. */
static void forget_search(const tuning *t)
{
    static const char *const files[] = { FILE_NAME, ET_RUN_LOCK, "rung-1" };
    for (int i = 0; i < t->trials; i++)
        for (int rung = 1; rung <= t->rungs; rung++)
            if (et_file_exists(directory_of(t, rung, i).text))
                return;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        (void)remove(et_path_of(t->dir, files[i]).text);
    (void)remove(t->dir);
}

/* As `train` with the same words, but quiet. The rest of the time is the trial's. */
static int train(tuning *t, const candidate *c, int rung, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_call call;
    et_train_args args;
    et_train_settings settings = { .arena = &arena };
    int status = configure(&settings, &args, &call, t, c, rung, error);
    if (!status) {
        args.mode = ET_MODE_TRAIN_AND_EVAL;
        et_train_job job = et_train_job_of(&call, &args);
        job.training.experiment = &settings.experiment;
        job.training.arena = &arena;
        job.training.initial = &settings.initial;
        job.training.mode = "train_and_eval"; /* refuses a run without validation at its start */
        job.training.ends = t->ends;
        job.training.judged = true;
        job.among = true;
        job.reported = &t->reported;
        if (!t->args->train.quiet)
            job.training.counted = et_arena_printf(&arena, "rung %d/%d  trial %d  step", rung,
                                                   t->rungs, number_of(t, c));
        status = et_train_run(&job, error);
    }
    et_initial_close(&settings.initial);
    et_arena_release(&arena);
    return status;
}

/* Whether a trial fails by its settings or data, or by the command line. */
static bool is_wrong(int status)
{
    static const int statuses[] = { ET_EUSAGE,    ET_ECONFIG, ET_EDATA,  ET_EFORMAT,
                                    ET_ENOTFOUND, ET_EGRAPH,  ET_EDENIED };
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (status == statuses[i])
            return true;
    return false;
}

/* A finished trial is not trained again; an interrupted or killed one resumes. A failure of the
 * trial is warned of. Errors are those that end the search. */
static int run_trial(tuning *t, candidate *c, int rung, et_error *error)
{
    const int number = number_of(t, c);
    attempt one = { .model_dir =
                        et_arena_strdup(&t->arena, directory_of(t, rung, number - 1).text) };
    et_error reason = ET_ERROR_INIT;
    if (!one.model_dir)
        return et_alloc_failed(error, "a path");
    const bool done = read_run(&one, false);
    const int status = done ? ET_OK : train(t, c, rung, &reason);
    t->stopped |= et_flag_is_set(&et_stop_requested);
    if (status == ET_EINTERRUPTED)
        return ET_OK;
    /* Whether all trials fail for one reason: no trial has succeeded. */
    bool hopeless = is_wrong(status);
    for (int i = 0; i < t->trials; i++)
        hopeless &= t->candidate[i].rung <= 0;
    if (hopeless) {
        forget_search(t);
        if (strstr(reason.text, ET_NO_VALIDATION_DATA))
            return et_fail(error, ET_ECONFIG,
                           "there is no validation to compare trials by: name validation data, "
                           "such as --valid");
        return et_fail(error, status == ET_EUSAGE ? ET_EUSAGE : ET_ECONFIG, "trial %d: %s", number,
                       reason.text);
    }
    if (status == ET_ENOSPACE)
        return et_fail(
            error, status,
            "trial %d of rung %d: %s; the search stops here, and the same command resumes it",
            number, rung, reason.text);
    if (status) {
        et_log(ET_LOG_WARNING, "trial %d of rung %d failed: %s", number, rung, reason.text);
        return ET_OK;
    }
    if (!done && !read_run(&one, true))
        return et_fail(error, ET_EDATA,
                       "%s: the run has no validation to compare trials by; name validation data, "
                       "such as --valid",
                       one.model_dir);
    c->rung = rung;
    c->result = one;
    tell(t, c);
    return ET_OK;
}

/* ---- rungs ---- */

/* The higher rung first, then the better value, then the smaller number. */
static int by_standing(const void *left, const void *right)
{
    const candidate *a = *(candidate *const *)left, *b = *(candidate *const *)right;
    const double value[] = { a->result.lower ? a->result.value : -a->result.value,
                             b->result.lower ? b->result.value : -b->result.value };
    if (a->rung != b->rung)
        return b->rung - a->rung;
    if (value[0] < value[1] || value[0] > value[1])
        return value[0] < value[1] ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Ranks the trials; returns how many have ended a rung. */
static int rank(tuning *t, int rung)
{
    int count = 0;
    qsort(t->ranked, t->trials, sizeof *t->ranked, by_standing);
    while (count < t->trials && t->ranked[count]->rung >= rung)
        count++;
    return count;
}

/* All trials enter the first rung. The best third of the trials that finished a rung enters the
 * next one. */
static int search(tuning *t, et_error *error)
{
    int status = ET_OK;
    for (int rung = 1; rung <= t->rungs && !status && !t->stopped; rung++) {
        const int most = (int)fmax(1, floor((double)t->trials / pow(THIRD, rung - 1)));
        const int ended = rank(t, rung - 1), count = ended < most ? ended : most;
        if (!t->args->train.quiet && count)
            et_print(stderr, "rung %d/%d  %s\n", rung, t->rungs,
                     et_format_many(count, "trial").text);
        for (int i = 0; i < count && !status && !t->stopped; i++) {
            t->stopped = is_over(t);
            if (!t->stopped)
                status = run_trial(t, t->ranked[i], rung, error);
        }
    }
    return status;
}

/* ---- results ---- */

/* count: of the ranked trials. */
static int print_table(tuning *t, int count, const char *use, const char *again, et_error *error)
{
    const candidate *best = t->ranked[0];
    et_grid grid = { .columns = (size_t)t->spaces + 5, .most = ET_GRID_CELL_MAX };
    et_grid_add(&grid, "trial");
    et_grid_add(&grid, "rung");
    et_grid_add(&grid, best->result.metric);
    et_grid_add(&grid, "step");
    et_grid_add(&grid, "time");
    for (int i = 0; i < t->spaces; i++)
        et_grid_add(&grid, t->space[i].name);
    for (int k = 0; k < count; k++) {
        const candidate *c = t->ranked[k];
        et_grid_addf(&grid, "%d", number_of(t, c));
        et_grid_addf(&grid, "%d", c->rung);
        et_grid_addf(&grid, "%.6g", c->result.value);
        et_grid_addf(&grid, "%lld", (long long)c->result.step);
        et_grid_add(&grid, et_format_duration(c->result.seconds).text);
        for (int i = 0; i < t->spaces; i++)
            et_grid_add(&grid, c->value[i]);
    }
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    if (!status)
        et_print(stdout, "best         trial %d: %s\nuse it       %s\ntrain anew   %s\n",
                 number_of(t, best), best->result.model_dir, use, again);
    et_grid_release(&grid);
    return et_print_end(status, error);
}

static int print_object(tuning *t, int count, const char *use, const char *again, et_error *error)
{
    et_value *results = et_value_dict(&t->arena);
    et_value *list = et_value_set_list(results, "trials");
    for (int k = 0; k < count; k++) {
        const candidate *c = t->ranked[k];
        et_value *one = et_value_add_dict(list);
        et_value_set_int(one, "trial", number_of(t, c));
        et_value_set_int(one, "rung", c->rung);
        et_value_set_string(one, "run", c->result.model_dir);
        et_value_set_string(one, "metric", c->result.metric);
        et_value_set_float(one, "value", c->result.value);
        et_value_set_int(one, "step", c->result.step);
        et_value_set_float(one, "seconds", c->result.seconds);
        et_value *settings = et_value_set_dict(one, "settings");
        for (int i = 0; i < t->spaces; i++)
            et_value_set_string(settings, t->space[i].name, c->value[i]);
    }
    et_value_set_string(results, "best", t->ranked[0]->result.model_dir);
    et_value_set_string(results, "use", use);
    et_value_set_string(results, "train", again);
    return et_print_json(results, error);
}

/* Also prints the commands that use the best trial, and that train a run with its settings. */
static int print_results(tuning *t, int count, et_error *error)
{
    const char *name = t->call->program->name, *next = t->kind->next ? t->kind->next : "evaluate";
    const candidate *best = t->ranked[0];
    et_strbuf use = ET_STRBUF_INIT, again = ET_STRBUF_INIT;
    const words w = make_words(t, best, 0);
    et_strbuf_printf(&use, "%s %s ", name, next);
    et_shell_append(&use, best->result.model_dir);
    et_strbuf_printf(&again, "%s train", name);
    for (int i = 0; i + 1 < w.count; i++) {
        et_strbuf_append_char(&again, ' ');
        et_shell_append(&again, w.items[i]);
    }
    int status = t->arena.failed || use.failed || again.failed
                     ? et_alloc_failed(error, "a command")
                     : (t->args->json ? print_object : print_table)(t, count, et_strbuf_text(&use),
                                                                    et_strbuf_text(&again), error);
    et_strbuf_release(&use);
    et_strbuf_release(&again);
    return status;
}

/* ---- the whole ---- */

static int prepare(tuning *t, et_error *error)
{
    const et_strings *search = &t->args->search;
    int status;
    if (!search->count)
        return et_fail(error, ET_EUSAGE,
                       "tune: say what to try, for example --search lr=1e-4..1e-2:log");
    if (search->count > SPACES_MAX)
        return et_fail(error, ET_EUSAGE, "--search: %zu names; give at most %d", search->count,
                       SPACES_MAX);
    for (; t->spaces < (int)search->count; t->spaces++) {
        et_search_space *space = &t->space[t->spaces];
        if ((status = et_search_parse(space, search->items[t->spaces], &t->arena, error)))
            return status;
        for (const et_search_space *other = t->space; other < space; other++)
            if (!strcmp(other->name, space->name))
                return et_fail(error, ET_EUSAGE, "--search: %s is given twice", space->name);
    }
    if ((status = read_settings(t, error)) || (status = draw_candidates(t, error)) ||
        (status = check_rungs(t, error)) || (status = name_directory(t, error)) ||
        (status = check_candidates(t, error)))
        return status;
    return open_directory(t, error);
}

static int tune(tuning *t, et_error *error)
{
    double spent = 0;
    if (!t->args->train.quiet)
        et_print(stderr, "tune         %s: %s in %s, by %s\n", t->dir,
                 et_format_many(t->trials, "trial").text, et_format_many(t->rungs, "rung").text,
                 t->experiment);
    if (!t->args->train.quiet && t->trials < t->args->trials)
        et_print(stderr, "trials       %s, not %s: these are all combinations of --search\n",
                 et_format_count(t->trials).text, et_format_count(t->args->trials).text);
    /* Time that the trials have taken in earlier starts counts. */
    for (int rung = 1; rung <= t->rungs && t->args->time_limit > 0; rung++)
        for (int i = 0; i < t->trials; i++)
            spent += seconds_of(directory_of(t, rung, i).text);
    if (t->args->time_limit > 0)
        t->ends = et_clock_monotonic() + t->args->time_limit - spent;
    int status = search(t, error);
    if (status)
        return status;
    const int count = rank(t, 1);
    if (!count && !t->stopped)
        return et_fail(error, ET_EFAIL, "%s: no trial succeeded", t->dir);
    if ((count && (status = print_results(t, count, error))) || !t->stopped)
        return status;
    return et_fail(error, ET_EINTERRUPTED,
                   "the search in %s has not ended; the same command%s continues it", t->dir,
                   is_over(t) ? " with a larger --time-limit" : "");
}

int et_cmd_tune(const et_call *call, et_error *error)
{
    const tune_options *args = call->options;
    tuning t = { .args = args, .call = call, .trials = (int)args->trials, .lock = -1 };
    et_job_config *cluster = NULL;
    int status = et_ranks_refuse(call, "its trials use all cores of a machine", error);
    if (!status)
        status = et_job_config_environment(&cluster, error);
    if (!status && et_job_config_distributed(cluster))
        status = et_fail(error, ET_EUSAGE,
                         "tune runs in one process, but " ET_JOB_CONFIG_VARIABLE
                         " has a cluster; unset it");
    et_job_config_free(cluster);
    if (!status)
        status = prepare(&t, error);
    if (!status)
        status = tune(&t, error);
    if (t.lock >= 0)
        et_lock_drop(t.lock);
    et_arena_release(&t.arena);
    return status;
}
