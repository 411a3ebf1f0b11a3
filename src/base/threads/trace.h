/* A trace: the work of each thread over time. A track belongs to one thread and has its spans,
 * which nest; a trace owns the tracks. Code with spans always has a track and never asks whether a
 * trace is running: without a trace the track is et_track_off, whose functions do nothing.
 *
 *     static const et_activity update = { .name = "update", .kind = "update" };
 *     et_track_begin(track, &update, -1);
 *     ...
 *     et_track_end(track);
 *
 * Recording uses memory reserved at the start; nothing is allocated between begin and end. A trace
 * is open for a window of units (steps of training, steps of decoding): from the begin of the first
 * unit to the begin of the unit after the last. The trace also ends when the main thread's track is
 * full. Spans are in order of their begin, so the record is complete up to its end: only spans that
 * began later are missing.
 *
 * Threads: each track is used by one thread at a time; recorded spans may be read once the trace is
 * over. */
#ifndef ETUDE_BASE_THREADS_TRACE_H
#define ETUDE_BASE_THREADS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* Work of a span; 0: not counted. */
typedef struct et_cost {
    double flops; /* a multiplication with its addition is two */
    double bytes; /* operands and results, each once */
} et_cost;

/* Constants of all spans of one kind. Texts are borrowed and outlive the trace. */
typedef struct et_activity {
    const char *name;   /* label of the span for people; the span's number is added */
    const char *kind;   /* spans of one kind share a row of a table; NULL: a part of the span
                           around it, counted with that */
    const char *kernel; /* name of the kernel; NULL: unknown, as the next two */
    const char *dtype;
    const char *shape;
    bool product; /* its work is a matrix product, of operands of dtype */
} et_activity;

typedef struct et_track et_track;

typedef struct et_track_class {
    const char *name;
    void (*begin)(et_track *self, const et_activity *activity, int64_t number);
    void (*end)(et_track *self, et_cost cost);
    et_track *(*beside)(et_track *self, const char *thread);
} et_track_class;

struct et_track {
    const et_track_class *class;
};

/* The track of a thread that is not recorded. */
et_track *et_track_off(void);

/* Begins a span; every begin needs an end on the same thread. number: shown after the name;
 * negative: none. */
static inline void et_track_begin(et_track *track, const et_activity *activity, int64_t number)
{
    track->class->begin(track, activity, number);
}

static inline void et_track_end(et_track *track)
{
    track->class->end(track, (et_cost){ 0, 0 });
}

/* The same, with the cost of the span's work. */
static inline void et_track_end_with(et_track *track, et_cost cost)
{
    track->class->end(track, cost);
}

/* A track for another thread, owned by the same trace; et_track_off without a trace, or without
 * room (with a warning). name is copied. Only the leading thread may call it. */
static inline et_track *et_track_beside(et_track *track, const char *name)
{
    return track->class->beside(track, name);
}

/* ---- keeping spans ---- */

typedef struct et_trace et_trace;

/* The most that a trace keeps, and how deep spans nest. */
#define ET_TRACE_TRACKS_MAX 512
#define ET_TRACE_DEPTH_MAX  16

typedef struct et_trace_options {
    const char *unit; /* name of the window's counted activity, whose spans count from 1 */
    size_t spans;     /* room of a track */
    /* Called once on the leading thread when recording has ended, before a unit begins; NULL: no
     * call. Not after et_trace_stop. */
    void (*over)(void *payload);
    void *payload;
} et_trace_options;

#define ET_TRACE_OPTIONS_INIT                                                                      \
    {                                                                                              \
        "step", 500000, NULL, NULL                                                                 \
    }

/* Makes a trace with its leading track, "main". Options are copied. */
int et_trace_new(et_trace **out, const et_trace_options *options, et_error *error);
void et_trace_free(et_trace *trace); /* NULL allowed; all tracks go with it */

/* The leading track. */
et_track *et_trace_main(et_trace *trace);

/* Memory for activities made at run time, zeroed; NULL if none is left. The trace owns it. For the
 * leading thread, when plans are made. */
void *et_trace_alloc(et_trace *trace, size_t bytes);

/* Sets the window of recording: units first to last; first 0: everything from now on. Nothing is
 * recorded before the call. Call it once from the leading thread, before the first unit begins. */
void et_trace_window(et_trace *trace, int64_t first, int64_t last);

/* Ends the recording for good. */
void et_trace_stop(et_trace *trace);

/* ---- reading, once it is over ---- */

/* A span as recorded; times in nanoseconds since the trace's first. */
typedef struct et_span {
    const et_activity *activity;
    int64_t number;     /* negative: none */
    int64_t begin, end; /* a span still open at the trace's end ends there */
    int depth;          /* 0: in no other recorded span of its track */
    et_cost cost;
} et_span;

typedef struct et_trace_facts {
    int tracks;
    int64_t begin, end; /* of the recording; equal: nothing was recorded */
    int64_t units;      /* that began within it */
    int64_t dropped;    /* spans that found no room, on all tracks */
} et_trace_facts;

et_trace_facts et_trace_facts_of(const et_trace *trace);

/* Name of track i and how many spans it has; 0 is the leading one. */
const char *et_trace_track(const et_trace *trace, int i, size_t *spans);

/* Span k of track i, in order of begin. */
et_span et_trace_span(const et_trace *trace, int i, size_t k);

#endif
