/* Trace Event Format (Google, "Trace Event Format", 2016): {"traceEvents": [...]}, times in
 * microseconds. Spans of a track come in order of their begin, parents before children; all
 * digits of the nanoseconds are printed, so that rounding never makes two spans overlap.
 * The file is one object; an event a line:
 *   {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"saving"}}
 *   {"ph":"X","pid":1,"tid":1,"ts":12.345,"dur":0.678,"cat":"gemm","name":"...","args":{...}}
 * Viewers show tracks as threads (tid: track + 1) of one process. "otherData" says how many units
 * of work were seen and how many spans had no room. Memory: one piece of text, however long the
 * trace. */
#include "formats/events/event.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"

/* Text is handed to the file in pieces of about this size. */
#define PIECE 65536

typedef struct printer {
    et_strbuf text;        /* not yet written, PIECE and an event at most */
    et_file_writer writer; /* under a temporary name until all is written */
    bool more;             /* an event comes before */
} printer;

/* Writes the text if it has more than `least` bytes. The writer keeps the first failure, also that
 * of the text's memory. */
static void flush(printer *p, size_t least)
{
    et_error *failure = &p->writer.failure;
    if (p->text.failed && !failure->status)
        et_fail(failure, ET_ENOMEM, "out of memory for the text of a trace");
    if (p->text.length <= least && !p->text.failed)
        return;
    et_file_writer_put(&p->writer, et_strbuf_text(&p->text), p->text.length);
    et_strbuf_reset(&p->text);
}

/* JSON has commas between items, not after them. */
static void begin_event(printer *p)
{
    et_strbuf_append(&p->text, p->more ? ",\n" : "\n");
    p->more = true;
}

/* Events of their own name processes and threads and give the order of tracks. */
static void print_name(printer *p, const char *what, int thread, const char *name)
{
    begin_event(p);
    et_strbuf_printf(&p->text, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"%s\",\"args\":{",
                     thread, what);
    et_strbuf_append(&p->text, "\"name\":");
    et_json_print_string(&p->text, name);
    et_strbuf_append(&p->text, "}}");
}

/* 12345 ns -> 12.345, in whole numbers: a double would round after 2^53 of them. */
static void print_microseconds(et_strbuf *out, const char *key, int64_t nanoseconds)
{
    et_assert(nanoseconds >= 0);
    et_strbuf_printf(out, ",\"%s\":%" PRId64 ".%03d", key, nanoseconds / 1000,
                     (int)(nanoseconds % 1000));
}

/* NULL: the activity does not say, and neither does the event. */
static void print_text(et_strbuf *out, const char *key, const char *text)
{
    if (!text)
        return;
    et_strbuf_printf(out, ",\"%s\":", key);
    et_json_print_string(out, text);
}

/* Prints one digit after the point. 0 and numbers that are not finite (a span of no length) are
 * skipped. */
static void print_rate(et_strbuf *out, const char *key, double rate)
{
    if (rate <= 0 || !isfinite(rate))
        return;
    et_strbuf_printf(out, ",\"%s\":", key);
    et_strbuf_append_double(out, round(10 * rate) / 10);
}

/* An activity with a number is called "step 12"; number -1: no number. */
static void print_span(printer *p, int thread, const et_span *span)
{
    const et_activity *activity = span->activity;
    et_strbuf *out = &p->text;
    begin_event(p);
    et_strbuf_printf(out, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d", thread);
    print_microseconds(out, "ts", span->begin);
    print_microseconds(out, "dur", span->end - span->begin);
    print_text(out, "cat", activity->kind);
    et_strbuf_append(out, ",\"name\":");
    /* The name includes the number, so that steps can be distinguished and searched for. */
    if (span->number >= 0) {
        et_strbuf name = ET_STRBUF_INIT;
        et_strbuf_printf(&name, "%s %" PRId64, activity->name, span->number);
        et_json_print_string(out, et_strbuf_text(&name));
        out->failed |= name.failed;
        et_strbuf_release(&name);
    } else {
        et_json_print_string(out, activity->name);
    }
    /* Shown by a click on the span: the activity's details, the work, and the rates. */
    et_strbuf_append(out, ",\"args\":{\"depth\":");
    et_strbuf_printf(out, "%d", span->depth);
    print_text(out, "kind", activity->kind);
    print_text(out, "kernel", activity->kernel);
    print_text(out, "type", activity->dtype);
    print_text(out, "shape", activity->shape);
    /* Rates are per nanosecond, which is in units of 10^9 per second. */
    double nanoseconds = (double)(span->end - span->begin);
    if (span->cost.flops > 0)
        et_strbuf_printf(out, ",\"flops\":%.0f", span->cost.flops);
    if (span->cost.bytes > 0)
        et_strbuf_printf(out, ",\"bytes\":%.0f", span->cost.bytes);
    print_rate(out, "GFLOP/s", span->cost.flops / nanoseconds);
    print_rate(out, "GB/s", span->cost.bytes / nanoseconds);
    et_strbuf_append(out, "}}");
}

/* Flushed as it goes, so a trace of any length needs one piece of memory. */
static void print_track(printer *p, const et_trace *trace, int track)
{
    size_t spans;
    const int thread = track + 1;
    print_name(p, "thread_name", thread, et_trace_track(trace, track, &spans));
    /* Otherwise each viewer sorts tracks differently, by name or by thread number. */
    begin_event(p);
    et_strbuf_printf(&p->text,
                     "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\","
                     "\"args\":{\"sort_index\":%d}}",
                     thread, thread);
    for (size_t i = 0; i < spans && !p->writer.failure.status; i++) {
        et_span span = et_trace_span(trace, track, i);
        print_span(p, thread, &span);
        flush(p, PIECE);
    }
}

/* A failure leaves no file and does not touch an old one. */
int et_trace_file_write(const et_trace *trace, const char *process, const char *path,
                        et_error *error)
{
    printer p = { .text = ET_STRBUF_INIT };
    int status = et_file_writer_open(&p.writer, path, error);
    if (status)
        return status;
    /* The trace is over, so nothing is recorded while it is written. */
    et_trace_facts facts = et_trace_facts_of(trace);
    /* The object form of the format, which has room for a word on the whole ("otherData"). The
     * process is named once, on its first track. */
    et_strbuf_append(&p.text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    print_name(&p, "process_name", 1, process);
    for (int i = 0; i < facts.tracks; i++)
        print_track(&p, trace, i);
    et_strbuf_printf(&p.text,
                     "\n],\"otherData\":{\"units\":%" PRId64 ",\"dropped\":%" PRId64 "}}\n",
                     facts.units, facts.dropped);
    flush(&p, 0);
    et_strbuf_release(&p.text);
    return et_file_writer_commit(&p.writer, error);
}
