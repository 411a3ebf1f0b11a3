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
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "formats/events/progress.h"
#include "formats/events/sink.h"

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

static int console_flush(et_sink *self, et_error *error)
{
    (void)self, (void)error; /* every line is written at once */
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
    .flush = console_flush,
    .close = console_close,
};

int et_sink_console_open(et_sink **out, et_progress *progress, const char *const *except,
                         et_error *error)
{
    *out = NULL;
    et_assert(progress);
    console *sink = et_alloc_zero(1, sizeof *sink);
    if (sink == NULL)
        return et_alloc_failed(error, sizeof *sink, "the console");
    sink->sink.class = &console_class;
    sink->progress = progress;
    sink->except = except;
    *out = &sink->sink;
    return ET_OK;
}
