/* All runs, a line each, and points. They are printed directly, without a tree of values, because
 * there may be many. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/values/json.h"
#include "command/web/board_private.h"

/* Of one answer: some megabytes of text. */
#define POINTS_MAX 200000
#define RUNS_MAX   1000

static void append_number(et_strbuf *out, double value)
{
    if (isfinite(value))
        et_strbuf_append_double(out, value);
    else
        et_strbuf_append(out, "null");
}

static void append_key(et_strbuf *out, const char *before, const char *key)
{
    et_strbuf_printf(out, "%s\"%s\": ", before, key);
}

static void append_text(et_strbuf *out, const char *before, const char *key, const char *text)
{
    append_key(out, before, key);
    et_json_print_string(out, text);
}

/* ---- all runs ---- */

static int64_t count_points(const et_history *h)
{
    int64_t count = 0;
    for (size_t i = 0; i < h->count; i++)
        count += (int64_t)h->series[i].count;
    return count;
}

static void append_best(et_strbuf *out, const et_history *h)
{
    const et_history_best best = et_history_best_of(h);
    if (!best.series)
        return;
    append_text(out, ", \"best\": {", "series", best.series->name);
    append_text(out, ", ", "metric", best.metric);
    et_strbuf_printf(out, ", \"step\": %" PRId64 ", \"lower\": %s, \"value\": ", best.step,
                     best.lower ? "true" : "false");
    append_number(out, best.value);
    et_strbuf_append_char(out, '}');
}

/* "kind" of "kind/size": runs of one kind have values of the same meaning. */
static void append_kind(et_strbuf *out, const et_history *h)
{
    const et_value *experiment = et_history_setting(h, "experiment");
    char kind[64];
    if (!experiment || experiment->kind != ET_VALUE_STRING)
        return;
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(experiment->string, "/"), experiment->string);
    append_text(out, ", ", "kind", kind);
}

static void append_history(et_strbuf *out, const et_history *h)
{
    append_kind(out, h);
    append_text(out, ", ", "state", et_history_state_name(et_history_state_of(h)));
    et_strbuf_printf(out,
                     ", \"step\": %" PRId64 ", \"steps\": %" PRId64 ", \"points\": %" PRId64
                     ", \"first\": %" PRId64,
                     et_history_steps_done(h), et_history_steps(h), count_points(h),
                     et_history_first_values(h));
    append_key(out, ", ", "seconds");
    append_number(out, et_history_seconds_in_all(h));
    append_key(out, ", ", "last");
    append_number(out, h->last_wall);
    append_best(out, h);
}

void et_board_runs(const et_board *board, et_strbuf *out)
{
    append_text(out, "{", "directory", board->directory);
    append_key(out, ", ", "now");
    append_number(out, et_clock_wall());
    append_key(out, ", ", "runs");
    et_strbuf_append_char(out, '[');
    for (size_t i = 0; i < board->count; i++) {
        const et_board_item *item = &board->items[i];
        et_strbuf_printf(out, "%s{\"id\": %zu, \"generation\": %" PRId64, i ? ",\n" : "", i,
                         item->generation);
        append_text(out, ", ", "name", item->name);
        if (item->history)
            append_history(out, item->history);
        if (item->fault)
            append_text(out, ", ", "fault", item->fault);
        et_strbuf_append_char(out, '}');
    }
    et_strbuf_append(out, "]}\n");
}

/* ---- points ---- */

/* How many points of a series the client already has. */
static size_t have(const et_value *count)
{
    return count && count->kind == ET_VALUE_INT && count->integer > 0 ? (size_t)count->integer : 0;
}

/* room: points that may still be sent. false: the series has more points than were appended. */
static bool append_series(et_strbuf *out, const et_history *h, size_t at, size_t first,
                          int64_t *room, bool *any)
{
    const et_history_series *s = &h->series[at];
    size_t count = first < s->count ? s->count - first : 0;
    bool all = (int64_t)count <= *room;
    if (!all)
        count = (size_t)*room;
    if (!count)
        return all;
    *room -= (int64_t)count;
    et_strbuf_printf(out, "%s{\"at\": %zu, ", *any ? ",\n" : "", at);
    *any = true;
    append_text(out, "", "name", s->name);
    et_strbuf_printf(out, ", \"lower\": %s%s", et_history_is_lower_better(h, s) ? "true" : "false",
                     et_history_repeats(h, s) ? ", \"repeats\": true" : "");
    append_key(out, ", ", "points");
    for (size_t i = first; i < first + count; i++) {
        et_strbuf_printf(out, "%s[%" PRId64 ", ", i == first ? "[" : ", ", s->points[i].step);
        append_number(out, s->points[i].wall);
        et_strbuf_append(out, ", ");
        append_number(out, s->points[i].value);
        et_strbuf_append_char(out, ']');
    }
    et_strbuf_append(out, "]}");
    return all;
}

static bool append_run(et_strbuf *out, const et_board *board, const et_value *asked, int64_t *room,
                       et_error *error)
{
    int64_t id = -1, generation = 0;
    bool any = false, all = true;
    et_value_read_int(asked, "id", &id, NULL);
    et_value_read_int(asked, "generation", &generation, NULL);
    const et_board_item *item = et_board_find(board, id);
    if (!item) {
        et_fail(error, ET_EDATA, "no run has the number %" PRId64, id);
        return true;
    }
    const et_value *counts = generation == item->generation ? et_value_get(asked, "have") : NULL;
    et_strbuf_printf(out, "{\"id\": %" PRId64 ", \"generation\": %" PRId64 ", \"series\": [", id,
                     item->generation);
    const et_value *known = counts ? counts->first : NULL;
    for (size_t i = 0; i < item->history->count; i++) {
        all &= append_series(out, item->history, i, have(known), room, &any);
        known = known ? known->next : NULL;
    }
    et_strbuf_append(out, "]}");
    return all;
}

int et_board_points(const et_board *board, const et_value *asked, et_strbuf *out, et_error *error)
{
    const et_value *runs = et_value_get(asked, "runs");
    et_error reason = ET_ERROR_INIT;
    int64_t room = POINTS_MAX;
    bool all = true;
    if (!runs || runs->kind != ET_VALUE_LIST || runs->count > RUNS_MAX)
        return et_fail(error, ET_EFORMAT, "runs: expected a list of at most %d numbers", RUNS_MAX);
    et_strbuf_append(out, "{\"runs\": [");
    for (const et_value *run = runs->first; run && !reason.status; run = run->next) {
        et_strbuf_append(out, run == runs->first ? "" : ",\n");
        all &= append_run(out, board, run, &room, &reason);
    }
    et_strbuf_printf(out, "], \"more\": %s}\n", all ? "false" : "true");
    return reason.status ? et_fail(error, reason.status, "%s", reason.text) : ET_OK;
}
