#include "command/runs/run_overview.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "command/print.h"
#include "command/session.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

#define SHOWN 12 /* files of data, checkpoints in a line */

/* Prints one line; its topic has thirteen columns, as in the lines that a start prints. */
static void say(const char *about, const et_strbuf *text)
{
    if (text->length)
        et_print_lines(stdout, "%-12s %s\n", about, text->data);
}

static void append_day(et_strbuf *out, double wall)
{
    char day[32];
    struct tm local;
    time_t seconds = (time_t)wall;
    if (!(wall >= 0 && wall < 1e11) || !localtime_r(&seconds, &local))
        return;
    strftime(day, sizeof day, "%Y-%m-%d %H:%M", &local);
    et_strbuf_append(out, day);
}

static const et_value *last_session(const et_history *h, size_t *count)
{
    const et_value *list = et_value_get(h->info, "sessions");
    bool is = list && list->kind == ET_VALUE_LIST;
    *count = is ? list->count : 0;
    return is ? list->last : NULL;
}

static const char *text_of(const et_value *dict, const char *key)
{
    const char *text;
    return dict && !et_value_read_string(dict, key, &text, NULL) ? text : NULL;
}

/* ---- lines ---- */

static void append_experiment(et_strbuf *out, const et_run_overview *o)
{
    const char *name = text_of(o->history->settings, "experiment");
    if (name)
        et_plain_append(out, name);
}

static void append_progress(et_strbuf *out, const et_run_overview *o)
{
    const et_history *h = o->history;
    const char *state = et_history_state_name(et_history_state_of(h));
    int64_t steps = et_history_steps(h), done = et_history_steps_done(h);
    double epoch = (double)done / et_history_steps_per_epoch(h);
    if (done >= 0)
        et_strbuf_append(out, et_format_count(done).text);
    else
        et_strbuf_append(out, "no step logged yet");
    if (steps > 0)
        et_strbuf_printf(out, " of %s", et_format_count(steps).text);
    if (!isnan(epoch))
        et_strbuf_printf(out, ", %s epochs", et_format_value(epoch).text);
    if (*state)
        et_strbuf_printf(out, "; %s", state);
}

static void append_best(et_strbuf *out, const et_run_overview *o)
{
    et_history_best best = et_history_best_of(o->history);
    if (!best.series)
        return;
    et_plain_append(out, best.metric);
    et_strbuf_printf(out, " %s at step %s%s", et_format_value(best.value).text,
                     et_format_count(best.step).text, best.lower ? " (lower is better)" : "");
}

/* Appends the last losses, as far as they were logged. */
static void append_last(et_strbuf *out, const et_run_overview *o)
{
    const et_history_series *found[8];
    size_t count = et_history_match(o->history, ET_LOGGED_LOSS, found, 8);
    for (size_t i = 0; i < count && i < 8; i++) {
        const et_history_point *p = &found[i]->points[found[i]->count - 1];
        const char *dot = strchr(found[i]->name, '.');
        et_strbuf_printf(out, "%s%s %s", i ? ", " : "", dot ? dot + 1 : found[i]->name,
                         et_format_value(p->value).text);
    }
}

static void append_time(et_strbuf *out, const et_run_overview *o)
{
    const et_history *h = o->history;
    size_t sessions;
    const et_value *last = last_session(h, &sessions);
    double seconds = et_history_seconds_in_all(h), began;
    if (!isnan(seconds))
        et_strbuf_append(out, et_format_duration(seconds).text);
    if (sessions)
        et_strbuf_printf(out, " in %s", et_format_many((int64_t)sessions, "session").text);
    if (last && !et_value_read_float(last, ET_SESSION_BEGAN, &began, NULL)) {
        et_strbuf_append(out, ", the last from ");
        append_day(out, began);
    }
    const char *host = text_of(last, "host"), *version = text_of(last, "version");
    if (host && version) {
        et_strbuf_append(out, " on ");
        et_plain_append(out, host);
        et_strbuf_append(out, ", etude ");
        et_plain_append(out, version);
    }
}

/* Files that the settings name. */
typedef struct files {
    et_strbuf *out; /* for people, or NULL */
    et_value *list; /* for programs, or NULL */
    int count;
} files;

static void take_file(void *payload, const char *path)
{
    files *f = payload;
    if (!path)
        return;
    if (f->list)
        et_value_add_string(f->list, path);
    if (f->out && f->count < SHOWN) {
        et_strbuf_append(f->out, f->count ? ", " : "");
        et_plain_append(f->out, path);
    }
    f->count++;
}

/* Settings that this program does not know name no files. */
static void list_files(files *f, const et_run_overview *o)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    if (!et_experiment_open_run(&experiment, o->program, o->history->model_dir, &arena, NULL) &&
        experiment.kind->reads)
        experiment.kind->reads(experiment.task, take_file, f);
    if (f->out && f->count > SHOWN)
        et_strbuf_printf(f->out, " and %d more", f->count - SHOWN);
    et_arena_release(&arena);
}

static void append_data(et_strbuf *out, const et_run_overview *o)
{
    files f = { .out = out };
    list_files(&f, o);
}

static void append_size(et_strbuf *out, const et_run_overview *o)
{
    size_t sessions;
    int64_t memory;
    const et_value *last = last_session(o->history, &sessions);
    const char *precision =
        text_of(et_value_get(o->history->settings, "runtime"), "mixed_precision_dtype");
    if (o->parameters)
        et_strbuf_printf(out, "%s parameters", et_format_count(o->parameters).text);
    if (precision) {
        et_strbuf_append(out, out->length ? ", " : "");
        et_plain_append(out, precision);
    }
    if (last && !et_value_read_int(last, ET_SESSION_MEMORY, &memory, NULL) && memory > 0)
        et_strbuf_printf(out, ", %s planned", et_format_bytes((uint64_t)memory).text);
}

/* The metric that chooses the best checkpoint, as measured at that step; NaN: it was not measured.
 */
static double score_at(const et_run_overview *o, int64_t step)
{
    const et_history_series *s = et_history_best_of(o->history).series;
    for (size_t i = s ? s->count : 0; i-- > 0;)
        if (s->points[i].step == step)
            return s->points[i].value;
    return (double)NAN;
}

/* The step of the file in best/; -1: none. If the run was killed, the log may have a later best
 * step whose file was not written. */
static int64_t best_file_step(const et_run_overview *o)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    int64_t step = -1;
    int status = et_checkpoint_best_info(&info, o->history->model_dir, &arena, NULL);
    if (!status)
        et_value_read_int(info, ET_CHECKPOINT_STEP, &step, NULL);
    et_arena_release(&arena);
    return step;
}

static void append_checkpoints(et_strbuf *out, const et_run_overview *o)
{
    size_t count = o->checkpoints->count, first = count > SHOWN ? count - SHOWN : 0;
    et_strbuf_printf(out, "%s", first ? "..., " : "");
    for (size_t i = first; i < count; i++) {
        const et_manifest_entry *entry = &o->checkpoints->entries[i];
        double score = score_at(o, entry->step);
        et_strbuf_printf(out, "%sstep %s", i > first ? ", " : "",
                         et_format_count(entry->step).text);
        if (!isnan(score))
            et_strbuf_printf(out, " (%s)", et_format_value(score).text);
    }
    const int64_t best = best_file_step(o);
    if (best >= 0)
        et_strbuf_printf(out, "; the best in " ET_CHECKPOINT_BEST "/, step %s",
                         et_format_count(best).text);
}

void et_run_overview_print(const et_run_overview *o)
{
    static const struct {
        const char *about;
        void (*append)(et_strbuf *out, const et_run_overview *o);
    } lines[] = {
        { "experiment", append_experiment },
        { "step", append_progress },
        { "best", append_best },
        { "last", append_last },
        { "time", append_time },
        { "data", append_data },
        { "model", append_size },
        { "checkpoints", append_checkpoints },
    };
    et_strbuf text = ET_STRBUF_INIT;
    et_plain_append(&text, o->history->model_dir);
    say("run", &text);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        et_strbuf_reset(&text);
        lines[i].append(&text, o);
        say(lines[i].about, &text);
    }
    et_strbuf_release(&text);
}

/* ---- for programs ---- */

static void describe_checkpoints(const et_run_overview *o, et_value *list)
{
    for (size_t i = 0; i < o->checkpoints->count; i++) {
        const et_manifest_entry *entry = &o->checkpoints->entries[i];
        et_value *dict = et_value_add_dict(list);
        double score = score_at(o, entry->step);
        et_value_set_int(dict, "step", entry->step);
        et_value_set_string(dict, "file", entry->file);
        if (!isnan(score))
            et_value_set_float(dict, "score", score);
    }
}

void et_run_overview_describe(const et_run_overview *o, et_value *dict)
{
    const et_history *h = o->history;
    size_t sessions;
    const et_history_best best = et_history_best_of(h);
    const char *experiment = text_of(h->settings, "experiment");
    last_session(h, &sessions);
    et_history_describe(h, &best, dict);
    if (experiment)
        et_value_set_string(dict, "experiment", experiment);
    et_value_set_int(dict, "sessions", (int64_t)sessions);
    files f = { .list = et_value_set_list(dict, "data") };
    list_files(&f, o);
    describe_checkpoints(o, et_value_set_list(dict, "checkpoints"));
}
