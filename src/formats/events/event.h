/* TensorBoard event files: scalars and texts by step, as records of protobuf messages
 * (event.proto). A directory has one file of Etude, with a fixed name. A resumed run cuts the file
 * at the offset in the checkpoint and continues it, so no step occurs twice. Apart from wall times,
 * the bytes depend only on the values; offsets do not depend on wall times either.
 *
 *     if (et_events_open(&events, "run/train", ET_EVENTS_NAME, 0, &error)) ...
 *     const et_events_value loss = { .tag = "loss", .scalar = 3.1 };
 *     et_events_write(events, 200, &loss, 1, &error);
 *     et_events_close(events, &error);
 *
 * Scalars are written as simple_value, which old and new readers accept. One thread. */
#ifndef ETUDE_FORMATS_EVENTS_EVENT_H
#define ETUDE_FORMATS_EVENTS_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/threads/trace.h"
#include "formats/append.h"

/* Readers look for "tfevents" in the name and want the rest sortable. A file has one writer:
 * training writes the first, a separate evaluation the other. */
#define ET_EVENTS_NAME     "events.out.tfevents.0000000000.etude"
#define ET_EVENTS_MEASURED "events.out.tfevents.0000000001.etude"
#define ET_EVENTS_SETTINGS "events.out.tfevents.0000000000.config" /* read before the others */
#define ET_EVENTS_CONTINUE ET_APPEND_CONTINUE

typedef struct et_events et_events;

/* One value of an event: a scalar, or a text if text is not NULL. */
typedef struct et_events_value {
    const char *tag;
    double scalar;
    const char *text; /* UTF-8, shown as Markdown */
} et_events_value;

/* Makes the directory if needed. name: of the file, ET_EVENTS_*. offset: as for et_append_open. */
int et_events_open(et_events **out, const char *directory, const char *name, int64_t offset,
                   et_error *error);

/* Writes all values of a step as one event. */
int et_events_write(et_events *events, int64_t step, const et_events_value *values, size_t count,
                    et_error *error);

/* A node of a graph, as TensorBoard's page of graphs shows it. */
typedef struct et_events_node {
    const char *name, *op;     /* names differ; '/' makes groups */
    const char *const *inputs; /* [input_count]: names of nodes */
    int input_count, rank;
    const int64_t *size; /* [rank]: the shape of its value */
} et_events_node;

/* Settings of a run, for TensorBoard's HParams. The run's directory is the files' directory or a
 * parent. At least one setting for each run, in a new file. */
typedef struct et_events_setting {
    const char *name;
    enum { ET_EVENTS_NUMBER, ET_EVENTS_BOOL, ET_EVENTS_TEXT } kind;
    double number; /* of a bool 0 or 1 */
    const char *text;
} et_events_setting;
int et_events_settings(et_events *events, const et_events_setting *settings, size_t count,
                       et_error *error);

/* Makes the written bytes durable; an offset in a checkpoint needs that. */
int et_events_flush(et_events *events, et_error *error);
int et_events_close(et_events *events, et_error *error); /* frees events in any case */

/* Bytes of the file so far. */
int64_t et_events_offset(const et_events *events);

/* A trace as a file for Perfetto (ui.perfetto.dev) and chrome://tracing: JSON in the Trace Event
 * Format, one complete event ("ph": "X") per span, a track per thread. A span's label and the rates
 * of its work are in its arguments. */

/* Writes a finished trace, atomically. process: the name of the process. */
int et_trace_file_write(const et_trace *trace, const char *process, const char *path,
                        et_error *error);

#endif
