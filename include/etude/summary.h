/* Where logs go. A log is a step and a dict of values; a nested dict is a summary
 * sub-directory ("train", "validation"). What depends on the clock (rates, seconds) stands in
 * a dict named "time", at any depth, so that two runs can be compared without it. A run
 * (<etude/run.h>) opens its own sinks; a program that owns its loop writes:
 *
 *     et_sink *sinks[2], *sink;
 *     et_sink_jsonl_open(&sinks[0], "run/metrics.jsonl", NULL, &error);
 *     et_sink_events_open(&sinks[1], "run", NULL, &error);
 *     et_sink_multi_open(&sink, sinks, 2, &error);
 *     et_arena *arena = et_arena_new();
 *     et_value *logs = et_value_dict(arena);
 *     et_value_set_float(et_value_set_dict(logs, "train"), "loss", 0.25);
 *     et_sink_write(sink, 200, logs, &error);
 *     et_sink_flush(sink, &error);
 *     et_sink_positions(sink, positions);             to be kept in a checkpoint
 *     et_arena_free(arena);
 *     et_sink_close(sink, &error);
 *
 * Resuming: flush, keep what et_sink_positions says in the checkpoint, and give it back when
 * opening; files are cut off there, so no step is logged twice. One thread at a time. */
#ifndef ETUDE_SUMMARY_H
#define ETUDE_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/value.h>

#define ET_SINK_TIME "time" /* the dict of what depends on the clock */
#define ET_SINK_NOTE "note" /* a remark for people: the only text that the console shows */

typedef struct et_sink et_sink;

/* Variation: what a kind of sink does. self is its own et_sink. */
typedef struct et_sink_class {
    const char *name; /* "jsonl"; also its key among the positions */
    int (*write)(et_sink *self, int64_t step, const et_value *values, et_error *error);
    int (*flush)(et_sink *self, et_error *error);
    void (*positions)(const et_sink *self, et_value *out); /* optional: none to keep */
    int (*close)(et_sink *self, et_error *error);          /* frees self in any case */
} et_sink_class;

struct et_sink {
    const et_sink_class *ET_CLASS;
};

/* Opening. positions: the dict that et_sink_positions filled, or NULL for a new run, whose files
 * start anew: a file with earlier logs is moved to a folder "earlier-N" beside it, with a warning.
 * Folders are made where they are missing. */

/* One JSON line per log: {"step":200,"train":{...},"time":{"wall":...}}. */
ET_API int et_sink_jsonl_open(et_sink **out, const char *path, const et_value *positions,
                              et_error *error);

/* Event files: nested dicts in directories of their name, "time" as tags "time/...", strings
 * as texts, lists as texts in JSON. In directories "training_" and "validation_" are left out of
 * tags, so that both share a chart. */
ET_API int et_sink_events_open(et_sink **out, const char *directory, const et_value *positions,
                               et_error *error);

/* All of sinks, which it adopts (on failure too) and closes. Every one gets every log,
 * even if another fails; the first error is returned. ET_EUSAGE: one is there twice. */
ET_API int et_sink_multi_open(et_sink **out, et_sink *const *sinks, size_t count, et_error *error);

/* Using, whatever the kind. ET_EUSAGE: a negative step, values that are no dict. */
ET_API int et_sink_write(et_sink *sink, int64_t step, const et_value *values, et_error *error);
/* A serialised tensorflow.Summary (<etude/summary_message.h> makes one), as it is, into the event
 * file of the sink's own directory. ET_EUSAGE: the sink writes no event files. ET_EDATA: the bytes
 * are no such message, or it has no value. */
ET_API int et_sink_write_summary(et_sink *sink, int64_t step, const void *bytes, size_t length,
                                 et_error *error);
/* Makes durable what was written. */
ET_API int et_sink_flush(et_sink *sink, et_error *error);
/* Puts where each file ends into out (a dict), under the class's name: the same for the same logs,
 * whatever the clock says. */
ET_API void et_sink_positions(const et_sink *sink, et_value *out);
ET_API int et_sink_close(et_sink *sink, et_error *error); /* NULL allowed */

#endif
