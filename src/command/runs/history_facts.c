/* Facts from a history: the best value, the duration, the progress, and the end of the run. */
#include "base/assert.h"
#include "command/runs/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/series_log.h"
#include "formats/events/log_names.h"
#include "formats/safetensors/manifest.h"
#include "systems/modelgarden/series.h"
#include "systems/training/session.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"

/* ---- names ---- */

/* Separators after the name of a data set or task: a slash or a bar in metrics, a dot in a log. */
static bool is_separator(char c)
{
    return c == '.' || c == '/' || c == '|';
}

static bool same_names(const char *a, const char *b)
{
    while (*a && (*a == *b || (is_separator(*a) && is_separator(*b))))
        a++, b++;
    return !*a && !*b;
}

static const char *leaf_of(const char *name)
{
    const char *leaf = name + strlen(name);
    while (leaf > name && !is_separator(leaf[-1]))
        leaf--;
    return leaf;
}

const char *et_history_label(const et_history_series *series, et_arena *arena)
{
    et_assert(series && series->name);
    et_strbuf out = ET_STRBUF_INIT;
    const char *leaf = leaf_of(series->name);
    for (const char *at = leaf; *at; at++)
        et_strbuf_append_char(&out, *at == '_' ? ' ' : *at);
    /* The parts before the leaf, without "time" and without a part that the leaf's prefix
     * repeats. */
    const char *between = " (";
    for (const char *at = series->name; at < leaf;) {
        size_t length = strcspn(at, "./|");
        bool said = et_logged_prefix(leaf) &&
                    (!strncmp(at, "validation", length) || !strncmp(at, "train", length));
        if (!said && strncmp(at, "time", length) != 0) {
            et_strbuf_append(&out, between);
            et_strbuf_append_bytes(&out, at, length);
            between = ", ";
        }
        at += length + 1;
    }
    if (*between == ',')
        et_strbuf_append_char(&out, ')');
    return et_strbuf_keep(&out, arena);
}

/* Whether name ends in word, after a separator. */
static bool ends_in(const char *name, const char *word)
{
    size_t length = strlen(name), wanted = strlen(word);
    return length > wanted && is_separator(name[length - wanted - 1]) &&
           same_names(name + length - wanted, word);
}

/* 0: exactly, 1: by its end, 2: without a prefix. */
static bool means(const char *name, const char *word, int how)
{
    const char *leaf = leaf_of(name), *dot = strrchr(name, '.');
    const size_t prefix = et_logged_prefix(leaf), best = strlen(ET_LOGGED_OF_BEST);
    /* In "validation.best_news/loss" the metric is not of the loss. */
    if (how && !strncmp(dot ? dot + 1 : name, ET_LOGGED_OF_BEST, best) &&
        strncmp(word, ET_LOGGED_OF_BEST, best) != 0)
        return false;
    return how == 0   ? same_names(name, word)
           : how == 1 ? ends_in(name, word)
                      : prefix && !strcmp(leaf + prefix, word);
}

size_t et_history_match(const et_history *h, const char *word, const et_history_series **out,
                        size_t most)
{
    et_assert(word && (out || !most));
    size_t count = 0;
    for (int how = 0; how < 3 && !count; how++)
        for (size_t i = 0; i < h->count; i++)
            if (means(h->series[i].name, word, how) && count++ < most)
                out[count - 1] = &h->series[i];
    return count;
}

/* ---- settings and the best ---- */

const et_value *et_history_setting(const et_history *h, const char *path)
{
    return et_value_path(h->settings, path);
}

/* The metric for "PLACE.best_NAME": "PLACE.NAME", unchanged or with dots in place of other
 * separators. */
static const et_history_series *metric_beside(const et_history *h, const char *name, size_t lead)
{
    char metric[ET_HISTORY_NAME_MAX + 1];
    static const char best[] = ET_LOGGED_OF_BEST;
    snprintf(metric, sizeof metric, "%.*s%s", (int)lead, name, name + lead + sizeof best - 1);
    const et_history_series *found = et_history_find(h, metric);
    for (char *c = metric + lead; *c; c++)
        *c = is_separator(*c) ? '.' : *c;
    return found ? found : et_history_find(h, metric);
}

/* The point of a series in the same line of the log as another point; NULL: none. */
static const et_history_point *in_line_of(const et_history_series *s, const et_history_point *other)
{
    for (size_t i = s->count; i-- > 0;) {
        const et_history_point *p = &s->points[i];
        if (p->step == other->step && (p->wall == other->wall || isnan(p->wall)))
            return p;
    }
    return NULL;
}

/* PLACE.best_NAME next to PLACE.best_step is a run's log of its best. A run that was resumed with
 * another metric has several names; the last one logged counts. */
static void take_best(et_history_best *out, const et_history *h, const et_history_series *steps)
{
    static const char best[] = ET_LOGGED_OF_BEST;
    size_t lead = strlen(steps->name) - strlen(ET_LOGGED_BEST_STEP);
    const et_history_point *last = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const et_history_series *s = &h->series[i];
        if (s == steps || !s->count || strncmp(s->name, steps->name, lead + sizeof best - 1) != 0)
            continue;
        const et_history_point *value = &s->points[s->count - 1], *at = in_line_of(steps, value);
        const et_history_series *metric = metric_beside(h, s->name, lead);
        bool whole = at && metric && at->value >= 0 && at->value < 9e15;
        if (!whole || (last && !(value->step > last->step ||
                                 (value->step == last->step && value->wall > last->wall))))
            continue;
        last = value;
        out->series = metric;
        out->metric = metric->name + lead;
        out->step = (int64_t)at->value;
        out->value = value->value;
    }
}

static bool is_text(const et_value *value, const char *text)
{
    return value && value->kind == ET_VALUE_STRING && !strcmp(value->string, text);
}

et_history_best et_history_best_of(const et_history *h)
{
    et_history_best best = { .step = -1, .value = (double)NAN };
    for (size_t i = 0; i < h->count && !best.series; i++)
        if (ends_in(h->series[i].name, ET_LOGGED_BEST_STEP))
            take_best(&best, h, &h->series[i]);
    /* As et_trainer_best_comparison. For a program without such settings, the name decides. */
    const et_value *comp = et_history_setting(h, "trainer.best_checkpoint_metric_comp");
    best.lower = comp && !is_text(comp, "auto")
                     ? is_text(comp, "lower")
                     : best.metric && et_metric_lower_is_better(best.metric);
    return best;
}

bool et_history_is_lower_better(const et_history *h, const et_history_series *series)
{
    et_assert(series && series->name);
    et_history_best best = et_history_best_of(h);
    if (best.series == series)
        return best.lower;
    return et_metric_lower_is_better(series->name) ||
           strcasestr(series->name, ET_LOGGED_GRADIENT_NORM) != NULL;
}

static bool has_same_points(const et_history_series *a, const et_history_series *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = a->points[i].step == b->points[i].step &&
               et_metric_equals(a->points[i].value, b->points[i].value);
    return same;
}

bool et_history_repeats(const et_history *h, const et_history_series *series)
{
    et_assert(series >= h->series && series < h->series + h->count);
    for (const et_history_series *s = h->series; s < series; s++)
        if (et_metric_is_double(s->name, series->name) && has_same_points(s, series))
            return true;
    return false;
}

const et_history_point *et_history_extreme(const et_history_series *s, bool lower)
{
    et_assert(!s->count || s->points);
    const et_history_point *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        double value = s->points[i].value;
        bool better = best && (lower ? value < best->value : value > best->value);
        if (!isnan(value) && (!best || better))
            best = &s->points[i];
    }
    return best;
}

const et_history_series *et_history_loss(const et_history *h)
{
    static const char *const names[] = { ET_LOGGED_TRAINING_LOSS, ET_LOGGED_TOTAL_LOSS,
                                         ET_LOGGED_LOSS, ET_LOGGED_VALIDATION_LOSS };
    const et_history_series *found;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (et_history_match(h, names[i], &found, 1))
            return found;
    return h->count ? &h->series[0] : NULL;
}

/* ---- how far and how long ---- */

static double real_of(const et_value *dict, const char *key)
{
    double value;
    return dict && !et_value_read_float(dict, key, &value, NULL) ? value : (double)NAN;
}

static int64_t count_of(const et_value *dict, const char *key)
{
    int64_t count = -1;
    return dict && !et_value_read_int(dict, key, &count, NULL) ? count : -1;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A series of models has no sessions: its settings have the steps of one model. */
static bool is_series(const et_history *h)
{
    return !et_history_sessions(h) && et_file_exists_in(h->model_dir, ET_SERIES_FOLDER);
}

/* Only the last session counts: an earlier one may have come further, before the run returned to a
 * checkpoint. A session that began at step 0 and recorded nothing more adds no steps. */
int64_t et_history_steps_done(const et_history *h)
{
    const et_value *list = et_history_sessions(h), *last = list ? list->last : NULL;
    int64_t session = larger(count_of(last, ET_SESSION_FIRST), count_of(last, ET_SESSION_LAST));
    int64_t done = h->step;
    /* Uses only the names of files. */
    et_manifest files = { 0 };
    const et_path directory = et_path_of(h->model_dir, ET_CHECKPOINT_FOLDER);
    if (is_series(h))
        return -1;
    if (et_file_exists(directory.text) &&
        !et_manifest_rebuild(&files, directory.text, ET_CHECKPOINT_PREFIX, NULL)) {
        done = larger(done, files.count ? files.entries[files.count - 1].step : -1);
        et_manifest_release(&files);
    }
    return session > 0 ? larger(done, session) : done;
}

int64_t et_history_steps(const et_history *h)
{
    const et_value *list = et_history_sessions(h);
    int64_t steps = 0;
    if (list && list->last)
        et_value_read_int(list->last, ET_SESSION_STEPS, &steps, NULL);
    if (steps > 0 || is_series(h))
        return steps;
    /* A number, or 0. */
    const et_value *value = et_history_setting(h, "trainer.train_steps");
    return value && value->kind == ET_VALUE_INT && value->integer > 0 ? value->integer : 0;
}

int64_t et_history_first_values(const et_history *h)
{
    const et_value *list = et_history_sessions(h);
    return list ? larger(count_of(list->last, ET_SESSION_VALUES), 0) : 0;
}

double et_history_steps_per_epoch(const et_history *h)
{
    const et_history_series *epochs;
    double most = (double)NAN;
    if (!et_history_match(h, "epoch", &epochs, 1))
        return most;
    for (size_t i = 0; i < epochs->count; i++) {
        const et_history_point *p = &epochs->points[i];
        double steps = p->value >= 1 && p->step > 0 ? (double)p->step / p->value : (double)NAN;
        most = isnan(most) || steps > most ? steps : most;
    }
    return most;
}

double et_history_seconds(const et_history *h, double wall)
{
    const et_value *list = et_history_sessions(h);
    double sum = 0;
    if (!list || !list->first)
        return wall - h->first_wall;
    for (const et_value *s = list->first; s; s = s->next) {
        /* A session without a recorded end counts up to the last logged value, at most up to the
         * next session's begin. */
        double began = real_of(s, ET_SESSION_BEGAN), ended = real_of(s, ET_SESSION_ENDED);
        double next = s->next ? real_of(s->next, ET_SESSION_BEGAN) : (double)NAN;
        double end = fmin(wall, isnan(ended) ? next : ended); /* fmin leaves NaN out */
        sum += end > began ? end - began : 0;
    }
    return isnan(wall) ? (double)NAN : sum;
}

double et_history_seconds_in_all(const et_history *h)
{
    const et_value *list = et_history_sessions(h);
    double ended = list && list->last ? real_of(list->last, ET_SESSION_ENDED) : (double)NAN;
    double last = fmax(h->last_wall, ended); /* NaN is skipped */
    return et_history_seconds(h, et_session_works(h->model_dir) ? et_clock_wall() : last);
}

/* ---- the state of a run ---- */

static et_history_state state_named(const char *reason)
{
    for (int i = ET_HISTORY_DONE; i <= ET_HISTORY_KILLED; i++)
        if (!strcmp(reason, et_history_state_name((et_history_state)i)))
            return (et_history_state)i;
    return ET_HISTORY_UNKNOWN;
}

et_history_state et_history_state_of(const et_history *h)
{
    const et_value *list = et_history_sessions(h);
    const char *reason;
    if (et_session_works(h->model_dir))
        return ET_HISTORY_RUNNING;
    if (!list || !list->last) {
        reason = et_series_reason(h->model_dir);
        return reason ? state_named(reason) : ET_HISTORY_UNKNOWN;
    }
    if (isnan(real_of(list->last, ET_SESSION_ENDED)))
        return ET_HISTORY_KILLED;
    if (et_value_read_string(list->last, ET_SESSION_REASON, &reason, NULL))
        return ET_HISTORY_UNKNOWN;
    return state_named(reason);
}

const char *et_history_state_name(et_history_state state)
{
    et_assert(state >= ET_HISTORY_UNKNOWN && state <= ET_HISTORY_KILLED);
    static const char *const names[] = {
        [ET_HISTORY_UNKNOWN] = "",          [ET_HISTORY_RUNNING] = "running",
        [ET_HISTORY_DONE] = "done",         [ET_HISTORY_INTERRUPTED] = "interrupted",
        [ET_HISTORY_DIVERGED] = "diverged", [ET_HISTORY_FAILED] = "failed",
        [ET_HISTORY_KILLED] = "killed",
    };
    return names[state];
}

void et_history_describe(const et_history *h, const et_history_best *best, et_value *dict)
{
    et_assert(best && dict);
    const int64_t steps = et_history_steps(h), done = et_history_steps_done(h);
    const double seconds = et_history_seconds_in_all(h);
    et_value_set_string(dict, "run", h->model_dir);
    et_value_set_string(dict, "state", et_history_state_name(et_history_state_of(h)));
    if (done >= 0)
        et_value_set_int(dict, "step", done);
    if (steps > 0)
        et_value_set_int(dict, "steps", steps);
    if (best->series && best->step >= 0) {
        et_value *value = et_value_set_dict(dict, "best");
        et_value_set_string(value, "metric", best->series->name);
        et_value_set_float(value, "value", best->value);
        et_value_set_int(value, "step", best->step);
    }
    if (!isnan(seconds))
        et_value_set_float(dict, "seconds", seconds);
}
