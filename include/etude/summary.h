/* Sinks: destinations of logs. A log is a step and a dict of values; a nested dict is a summary
 * sub-directory ("train", "validation"). Values that depend on the clock (rates, seconds) are in a
 * dict named "time", at any depth, so two runs can be compared without them. A run (<etude/run.h>)
 * opens its own sinks. A program that owns its loop writes:
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
 *     et_sink_positions(sink, positions);             for the checkpoint
 *     et_arena_free(arena);
 *     et_sink_close(sink, &error);
 *
 * To resume: flush, save the result of et_sink_positions in the checkpoint, and pass it to the next
 * open. Opening cuts the files there, so no step is logged twice. Use from one thread at a time. */
#ifndef ETUDE_SUMMARY_H
#define ETUDE_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/value.h>

#define ET_SINK_TIME "time" /* the dict of values that depend on the clock */
#define ET_SINK_NOTE "note" /* a remark for people: the only text that the console shows */

typedef struct et_sink et_sink;

/* The methods of a kind of sink. self is its own et_sink. */
typedef struct et_sink_class {
    const char *name; /* "jsonl"; also its key in the positions */
    int (*write)(et_sink *self, int64_t step, const et_value *values, et_error *error);
    int (*flush)(et_sink *self, et_error *error);          /* optional: nothing waits */
    void (*positions)(const et_sink *self, et_value *out); /* optional: no positions */
    int (*close)(et_sink *self, et_error *error);          /* always frees self */
} et_sink_class;

struct et_sink {
    const et_sink_class *ET_CLASS;
};

/* Opening. positions: the dict from et_sink_positions; NULL: a new run with new files. An existing
 * file with logs is then moved to a folder "earlier-N" next to it, with a warning. Missing folders
 * are made. */

/* One JSON line per log: {"step":200,"train":{...},"time":{"wall":...}}. */
ET_API int et_sink_jsonl_open(et_sink **out, const char *path, const et_value *positions,
                              et_error *error);

/* Event files: nested dicts go to directories of their name, "time" to tags "time/...". Strings are
 * texts, lists are texts in JSON. Directories drop "training_" and "validation_" from tags, so that
 * both share a chart. */
ET_API int et_sink_events_open(et_sink **out, const char *directory, const et_value *positions,
                               et_error *error);

/* Joins several sinks: it owns them (also if the call fails) and closes them. Every sink gets every
 * log, even if another fails; the first error is returned. ET_EUSAGE: a sink is given twice. */
ET_API int et_sink_multi_open(et_sink **out, et_sink *const *sinks, size_t count, et_error *error);

/* Using any kind of sink. ET_EUSAGE: a negative step, or values is not a dict. */
ET_API int et_sink_write(et_sink *sink, int64_t step, const et_value *values, et_error *error);
/* Writes a serialised tensorflow.Summary (<etude/summary_message.h> makes one) unchanged into the
 * event file of the sink's own directory. ET_EUSAGE: the sink writes no event files. ET_EDATA: the
 * bytes are not such a message, or it has no value. */
ET_API int et_sink_write_summary(et_sink *sink, int64_t step, const void *bytes, size_t length,
                                 et_error *error);
/* Makes all written logs durable. */
ET_API int et_sink_flush(et_sink *sink, et_error *error);
/* Stores the end of each file in the dict out, under the class's name. Equal logs give equal
 * positions, whatever the clock. */
ET_API void et_sink_positions(const et_sink *sink, et_value *out);
ET_API int et_sink_close(et_sink *sink, et_error *error); /* NULL allowed */

#endif
