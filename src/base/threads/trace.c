/* Traces. A span is stored when it begins, so parents are before children and a track is sorted by
 * begin. Recording a span reads the clock twice and takes no lock: a track has one writer, and
 * readers wait until the trace is over.
 *
 * A window goes WAITING -> OPEN -> OVER, and never back. The leading track moves it, because the
 * window counts its units; other threads only read it. Example, window 3 to 4: the begin of unit 3
 * opens, that of unit 5 closes, so units 3 and 4 are complete.
 *
 * Invariants:
 *
 *   (1) spans[0 .. count) have a begin; count only grows;
 *   (2) open[0 .. depth) are the indices of the open spans, NOT_KEPT for a span that is not
 *       recorded;
 *   (3) once `state` is OVER no begin is stored. Only ends of open spans are written, so end and
 *       count are atomic;
 *   (4) a span's depth counts the recorded spans around it. Spans that are open when the window
 *       opens are not recorded; spans that begin inside them afterwards are.
 *
 * Memory: a track's memory is reserved when the track is made; pages without spans are never
 * touched. */
#include "base/threads/trace.h"

#include <stdatomic.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"

/* ---- nobody watches ---- */

/* A class whose functions do nothing, so that no caller asks whether there is a trace. */
static void off_begin(et_track *self, const et_activity *activity, int64_t number)
{
    (void)self, (void)activity, (void)number;
}

static void off_end(et_track *self, et_cost cost)
{
    (void)self, (void)cost;
}

static et_track *off_beside(et_track *self, const char *thread)
{
    (void)thread;
    return self;
}

static const et_track_class off_class = { "off", off_begin, off_end, off_beside };
static const et_track off_track = { &off_class };

et_track *et_track_off(void)
{
    return (et_track *)(uintptr_t)&off_track; /* has nothing to write to */
}

/* ---- recording ---- */

#define NOT_KEPT ((size_t)-1)

/* One recorded span; end and cost are set when it ends. */
typedef struct kept_span {
    const et_activity *activity; /* borrowed */
    int64_t number;              /* shown after the name; negative: none */
    int64_t begin;               /* nanoseconds of the clock */
    _Atomic int64_t end;         /* 0: open */
    et_cost cost;
    int depth;
} kept_span;

/* A track that records. Written by its own thread; tracks are made by the leading one. */
typedef struct recorder {
    et_track track;
    et_trace *trace;  /* whose track it is */
    const char *name; /* of the thread, in the trace's arena */
    kept_span *spans; /* [room] */
    size_t room;
    _Atomic size_t count;
    _Atomic int64_t dropped;
    size_t open[ET_TRACE_DEPTH_MAX];
    int depth;      /* spans open */
    int kept_depth; /* number of recorded ones */
} recorder;

/* Before the window, in it, after it. */
enum { WAITING, OPEN, OVER };

struct et_trace {
    et_trace_options options;
    et_arena arena;
    recorder *tracks[ET_TRACE_TRACKS_MAX]; /* the leading one first */
    int count;
    _Atomic int state;
    int64_t first, last;
    int64_t start; /* the clock at the beginning of the recording */
    int64_t stop;  /* at its end */
    int64_t units; /* begun so far, recorded or not */
    int64_t recorded_units;
    bool reported; /* over was called */
};

/* Main's track: it counts units and opens and closes the window. */
static bool leads(const recorder *self)
{
    return self == self->trace->tracks[0];
}

/* Release, here and below: a thread that sees the state also sees the start. */
static void open_trace(et_trace *trace)
{
    trace->start = et_clock_nanoseconds();
    atomic_store_explicit(&trace->state, OPEN, memory_order_release);
}

/* At any time and again: the stop of a trace that was open is the first one. */
static void close_trace(et_trace *trace)
{
    if (atomic_load(&trace->state) == OPEN)
        trace->stop = et_clock_nanoseconds();
    atomic_store_explicit(&trace->state, OVER, memory_order_release);
}

/* A unit begins. If the trace is over, calls `over` once here, because at this point no span of a
 * recorded unit is running on this thread. take() must not call it: there, the outer spans still
 * run. */
static void count_unit(et_trace *trace)
{
    int64_t unit = ++trace->units;
    int state = atomic_load_explicit(&trace->state, memory_order_relaxed);
    if (state == WAITING && unit >= trace->first)
        open_trace(trace);
    else if (state == OPEN && unit > trace->last)
        close_trace(trace);
    state = atomic_load_explicit(&trace->state, memory_order_relaxed);
    trace->recorded_units += state == OPEN;
    /* A window may have closed in take(), in the middle of a unit; the next unit reports it. */
    if (state != OVER || trace->reported)
        return;
    trace->reported = true;
    if (trace->options.over)
        trace->options.over(trace->options.payload);
}

/* A place for one more span. When the leading track is full, the trace ends on all tracks, so that
 * the record is complete up to its end. */
static size_t take(recorder *self)
{
    if (atomic_load_explicit(&self->trace->state, memory_order_acquire) != OPEN)
        return NOT_KEPT;
    size_t index = atomic_load_explicit(&self->count, memory_order_relaxed);
    if (index < self->room)
        return index;
    atomic_fetch_add_explicit(&self->dropped, 1, memory_order_relaxed);
    if (leads(self))
        close_trace(self->trace);
    return NOT_KEPT;
}

/* Reads the clock after the place is reserved, and increases count last: a reader of the count sees
 * a complete begin. */
static void recorder_begin(et_track *track, const et_activity *activity, int64_t number)
{
    recorder *self = (recorder *)(void *)track;
    et_assert(self->depth < ET_TRACE_DEPTH_MAX);
    if (leads(self) && !strcmp(activity->name, self->trace->options.unit))
        count_unit(self->trace);
    size_t index = take(self);
    if (index != NOT_KEPT) {
        kept_span *span = &self->spans[index];
        *span = (kept_span){ .activity = activity, .number = number, .depth = self->kept_depth++ };
        span->begin = et_clock_nanoseconds();
        atomic_store_explicit(&self->count, index + 1, memory_order_release);
    }
    self->open[self->depth++] = index;
}

/* Reads the clock first, so that this function's own time is not part of the span. */
static void recorder_end(et_track *track, et_cost cost)
{
    recorder *self = (recorder *)(void *)track;
    int64_t now = et_clock_nanoseconds();
    et_assert(self->depth > 0);
    size_t index = self->open[--self->depth];
    if (index == NOT_KEPT)
        return;
    self->kept_depth--;
    self->spans[index].cost = cost;
    atomic_store_explicit(&self->spans[index].end, now, memory_order_release);
}

static et_track *add(et_trace *trace, const char *name);

static et_track *recorder_beside(et_track *track, const char *thread)
{
    et_track *made = add(((recorder *)(void *)track)->trace, thread);
    if (!made)
        /* The thread works on, unwatched. */
        et_log(ET_LOG_WARNING, "no memory to record what thread %s does", thread);
    return made ? made : et_track_off();
}

static const et_track_class recorder_class = { "recorder", recorder_begin, recorder_end,
                                               recorder_beside };

/* Pages of `spans` that are never written to take no memory. */
static et_track *add(et_trace *trace, const char *name)
{
    if (trace->count == ET_TRACE_TRACKS_MAX)
        return NULL;
    recorder *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return NULL;
    self->track.class = &recorder_class;
    self->trace = trace;
    self->room = trace->options.spans;
    self->name = et_arena_strdup(&trace->arena, name);
    self->spans = et_alloc(self->room, sizeof *self->spans);
    if (!self->name || !self->spans) {
        et_free(self->spans);
        et_free(self);
        return NULL;
    }
    trace->tracks[trace->count++] = self;
    return &self->track;
}

/* ---- the whole ---- */

int et_trace_new(et_trace **out, const et_trace_options *options, et_error *error)
{
    et_assert(options->spans > 0);
    et_trace *trace = et_alloc_zero(1, sizeof *trace);
    *out = trace;
    if (!trace)
        return et_alloc_failed(error, "a trace");
    trace->options = *options;
    if (!add(trace, "main")) {
        et_trace_free(trace);
        *out = NULL;
        return et_alloc_failed(error, "a trace");
    }
    /* Until a window is set, nothing is recorded. */
    trace->first = INT64_MAX;
    return ET_OK;
}

void et_trace_free(et_trace *trace)
{
    if (!trace)
        return;
    /* Tracks of other threads too: they have ended, or write no more. */
    for (int i = 0; i < trace->count; i++) {
        et_free(trace->tracks[i]->spans);
        et_free(trace->tracks[i]);
    }
    et_arena_release(&trace->arena);
    et_free(trace);
}

et_track *et_trace_main(et_trace *trace)
{
    return &trace->tracks[0]->track;
}

void *et_trace_alloc(et_trace *trace, size_t bytes)
{
    return et_arena_alloc(&trace->arena, bytes);
}

void et_trace_window(et_trace *trace, int64_t first, int64_t last)
{
    /* Units that have passed cannot be recorded. */
    et_assert(trace->units == 0 && first >= 0 && last >= first);
    trace->first = first;
    trace->last = last;
    if (first == 0)
        open_trace(trace);
}

void et_trace_stop(et_trace *trace)
{
    close_trace(trace);
    trace->reported = true;
}

/* ---- reading ---- */

et_trace_facts et_trace_facts_of(const et_trace *trace)
{
    et_assert(atomic_load(&trace->state) == OVER);
    et_trace_facts facts = { .tracks = trace->count, .units = trace->recorded_units };
    facts.end = trace->stop - trace->start;
    for (int i = 0; i < trace->count; i++)
        facts.dropped += atomic_load(&trace->tracks[i]->dropped);
    return facts;
}

const char *et_trace_track(const et_trace *trace, int i, size_t *spans)
{
    et_assert(i >= 0 && i < trace->count);
    *spans = atomic_load_explicit(&trace->tracks[i]->count, memory_order_acquire);
    return trace->tracks[i]->name;
}

et_span et_trace_span(const et_trace *trace, int i, size_t k)
{
    et_assert(i >= 0 && i < trace->count && k < atomic_load(&trace->tracks[i]->count));
    kept_span *kept = &trace->tracks[i]->spans[k];
    int64_t end = atomic_load_explicit(&kept->end, memory_order_acquire);
    bool ended = end && end <= trace->stop;
    int64_t begin = kept->begin < trace->stop ? kept->begin : trace->stop;
    et_span span = { .activity = kept->activity,
                     .number = kept->number,
                     .begin = begin - trace->start,
                     .end = (ended ? end : trace->stop) - trace->start,
                     .depth = kept->depth };
    if (ended)
        span.cost = kept->cost;
    return span;
}
