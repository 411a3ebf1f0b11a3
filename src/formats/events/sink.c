/* Sinks in general, and `multi`, which joins several sinks.
 *
 * A sink is an object whose first member is its class; the functions here call the class, so code
 * that logs knows no kind of sink. `multi` passes every call on, in order, and calls the other
 * sinks even if one fails: if the disk under metrics.jsonl is full, the console should still show
 * the log.
 *
 * To log to two places:
 *
 *   write(multi) -> write(jsonl), write(events), write(console)     each gets every log
 *   positions    -> {"jsonl": 12, "events": {"train": 5312}}        each under its own name */
#include "formats/events/sink.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "formats/events/progress.h"

int et_sink_write(et_sink *sink, int64_t step, const et_value *values, et_error *error)
{
    if (step < 0)
        return et_fail(error, ET_EUSAGE, "a log of step %lld: steps are counted from 0",
                       (long long)step);
    if (values == NULL || values->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EUSAGE, "a log must be a dict of values by name");
    return sink->class->write(sink, step, values, error);
}

/* The positions in a checkpoint are only valid after this call. */
int et_sink_flush(et_sink *sink, et_error *error)
{
    return sink->class->flush ? sink->class->flush(sink, error) : ET_OK;
}

/* Kinds that keep nothing, as the console, have no such method. */
void et_sink_positions(const et_sink *sink, et_value *out)
{
    et_assert(out != NULL && out->kind == ET_VALUE_DICT);
    if (sink->class->positions != NULL)
        sink->class->positions(sink, out);
}

/* NULL: a run that failed before its sinks were open. */
int et_sink_close(et_sink *sink, et_error *error)
{
    return sink == NULL ? ET_OK : sink->class->close(sink, error);
}

/* ---- many ---- */

/* Methods of the class `multi`, each a loop over the sinks within. */

typedef struct multi {
    et_sink sink;
    size_t count;     /* of sinks */
    et_sink *sinks[]; /* owned */
} multi;

/* Every sink gets its turn; the first failure is reported. */
static int multi_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    multi *many = (multi *)self;
    int status = ET_OK;
    for (size_t i = 0; i < many->count; i++) {
        const int other = et_sink_write(many->sinks[i], step, values, status ? NULL : error);
        status = status ? status : other;
    }
    return status;
}

static int multi_flush(et_sink *self, et_error *error)
{
    multi *many = (multi *)self;
    int status = ET_OK;
    for (size_t i = 0; i < many->count; i++) {
        const int other = et_sink_flush(many->sinks[i], status ? NULL : error);
        status = status ? status : other;
    }
    return status;
}

/* Each puts its own key into the same dict. */
static void multi_positions(const et_sink *self, et_value *out)
{
    const multi *many = (const multi *)self;
    for (size_t i = 0; i < many->count; i++)
        et_sink_positions(many->sinks[i], out);
}

/* Whether sinks[i] occurs before i. */
static bool is_again(et_sink *const *sinks, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (sinks[k] == sinks[i])
            return true;
    return false;
}

/* Closes each sink once, even if others fail. */
static int close_all(et_sink *const *sinks, size_t count, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; i < count; i++) {
        if (is_again(sinks, i))
            continue;
        const int other = et_sink_close(sinks[i], status ? NULL : error);
        status = status ? status : other;
    }
    return status;
}

static int multi_close(et_sink *self, et_error *error)
{
    multi *many = (multi *)self;
    const int status = close_all(many->sinks, many->count, error);
    et_free(many);
    return status;
}

static const et_sink_class multi_class = {
    .name = "multi",
    .write = multi_write,
    .flush = multi_flush,
    .positions = multi_positions,
    .close = multi_close,
};

int et_sink_write_message(et_sink *sink, const et_sink_message *message, bool *any, et_error *error)
{
    if (et_sink_is_events(sink)) {
        *any = true;
        return et_sink_events_write_message(sink, message, error);
    }
    int status = ET_OK;
    multi *many = sink->class == &multi_class ? (multi *)sink : NULL;
    for (size_t i = 0; many && i < many->count; i++) {
        const int other =
            et_sink_write_message(many->sinks[i], message, any, status ? NULL : error);
        status = status ? status : other;
    }
    return status;
}

int et_sink_write_summary(et_sink *sink, int64_t step, const void *bytes, size_t length,
                          et_error *error)
{
    bool any = false;
    if (step < 0 || !bytes)
        return et_fail(error, ET_EUSAGE,
                       "a summary of step %lld: give a step of at least 0, and bytes",
                       (long long)step);
    int status = et_sink_write_message(
        sink, &(et_sink_message){ .step = step, .bytes = bytes, .length = length }, &any, error);
    return status || any ? status
                         : et_fail(error, ET_EUSAGE,
                                   "%s: a serialized summary can only be written to event files",
                                   sink->class->name);
}

/* The sinks are adopted in any case: if the list cannot be made, they are closed here. */
int et_sink_multi_open(et_sink **out, et_sink *const *sinks, size_t count, et_error *error)
{
    *out = NULL;
    et_assert(count == 0 || sinks != NULL);
    for (size_t i = 0; i < count; i++)
        if (is_again(sinks, i)) {
            close_all(sinks, count, NULL);
            return et_fail(error, ET_EUSAGE, "sink %zu is in the list twice; remove one", i);
        }
    const size_t bytes = sizeof(multi) + count * sizeof(et_sink *);
    multi *many = et_alloc_zero(1, bytes);
    if (many == NULL) {
        close_all(sinks, count, NULL);
        return et_alloc_failed(error, "a list of sinks");
    }
    many->sink.class = &multi_class;
    many->count = count;
    for (size_t i = 0; i < count; i++)
        many->sinks[i] = sinks[i];
    *out = &many->sink;
    return ET_OK;
}

/* ---- the console ---- */

/* Logs for people: a line above the progress bar for each summary directory.
 *
 *   {"validation": {"bleu": 31.2, "best_step": 1800, "time": {...}}}  at step 2000
 *   ->  step  2,000  validation  bleu 31.2  best_step 1,800
 *
 * A dict inside a directory's dict, for a set of validation data, gets its own line:
 * validation/news.
 *
 * base/text/format.c prints the numbers. Values that depend on the clock are left out, and of texts
 * only the one under ET_SINK_NOTE is shown. Nothing is saved for a resume: the screen is gone. */

typedef struct console {
    et_sink sink;
    et_progress *progress;     /* borrowed */
    const char *const *except; /* borrowed; NULL: none */
    et_strbuf line;            /* memory that is used again */
} console;

static void append_part(et_strbuf *line, const char *text)
{
    et_strbuf_append(line, "  ");
    et_plain_append(line, text);
}

/* "  name value" for a number, "  text" for a remark; other texts would flood the screen. */
static bool append_value(et_strbuf *line, const et_value *value)
{
    /* Dicts and lists have no place in a line; a bool is no number. */
    switch (value->kind) {
    case ET_VALUE_INT:
        append_part(line, value->key);
        et_strbuf_printf(line, " %s", et_format_count(value->integer).text);
        return true;
    case ET_VALUE_FLOAT:
        append_part(line, value->key);
        et_strbuf_printf(line, " %s", et_format_value(value->real).text);
        return true;
    case ET_VALUE_STRING:
        if (strcmp(value->key, ET_SINK_NOTE) != 0)
            return false;
        append_part(line, value->string);
        return true;
    default:
        return false;
    }
}

/* name NULL: values outside directories. A dict without anything to show gives no line. */
static void write_line(console *sink, int64_t step, const char *name, const et_value *dict)
{
    et_strbuf *line = &sink->line;
    bool any = false;
    et_strbuf_reset(line);
    et_strbuf_printf(line, "step  %s", et_format_count(step).text);
    if (name != NULL)
        append_part(line, name);
    for (const et_value *v = dict->first; v != NULL; v = v->next)
        any |= append_value(line, v);
    /* Without memory for the line it is not shown; the files have it. */
    if (any && !line->failed)
        et_progress_message(sink->progress, line->data);
}

/* Two levels deep: logs nest no further. */
static int console_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    console *sink = (console *)self;
    (void)error; /* a line that cannot be shown stops nothing */
    write_line(sink, step, NULL, values);
    for (const et_value *v = values->first; v != NULL; v = v->next) {
        /* Rates and seconds are in the bar. */
        if (v->kind != ET_VALUE_DICT || strcmp(v->key, ET_SINK_TIME) == 0 ||
            (sink->except && et_is_one_of(v->key, sink->except)))
            continue;
        /* The dicts inside come before its own line. */
        for (const et_value *below = v->first; below != NULL; below = below->next) {
            char whole[256];
            if (below->kind != ET_VALUE_DICT || strcmp(below->key, ET_SINK_TIME) == 0)
                continue;
            snprintf(whole, sizeof whole, "%s/%s", v->key, below->key);
            write_line(sink, step, whole, below);
        }
        write_line(sink, step, v->key, v);
    }
    return ET_OK;
}

/* The progress is the caller's and stays. */
static int console_close(et_sink *self, et_error *error)
{
    console *sink = (console *)self;
    (void)error;
    et_strbuf_release(&sink->line);
    et_free(sink);
    return ET_OK;
}

static const et_sink_class console_class = {
    .name = "console",
    .write = console_write,
    .close = console_close,
};

int et_sink_console_open(et_sink **out, et_progress *progress, const char *const *except,
                         et_error *error)
{
    *out = NULL;
    et_assert(progress);
    console *sink = et_alloc_zero(1, sizeof *sink);
    if (sink == NULL)
        return et_alloc_failed(error, "the console");
    sink->sink.class = &console_class;
    sink->progress = progress;
    sink->except = except;
    *out = &sink->sink;
    return ET_OK;
}
