/* Sinks, for the command, beyond <etude/summary.h>: logs above a progress bar, and event files in a
 * directory with those of another process. To add a kind of sink, see README.md in this folder. */
#ifndef ETUDE_FORMATS_EVENTS_SINK_H
#define ETUDE_FORMATS_EVENTS_SINK_H

#include <stdbool.h>

#include <etude/summary.h>

/* Messages for event files only: a serialised summary, or nodes of a graph (event.h). */
typedef struct et_sink_message {
    const char *directory; /* below the sink's: "train"; NULL: the sink's own */
    int64_t step;
    const void *bytes; /* [length] of a tensorflow.Summary; NULL: a graph */
    size_t length;
    const struct et_events_node *nodes; /* [count] */
    size_t count;
} et_sink_message;

/* Passes the message to event files, also inside several sinks. *any: there is such a sink. */
int et_sink_write_message(et_sink *sink, const et_sink_message *message, bool *any,
                          et_error *error);
bool et_sink_is_events(const et_sink *sink);
int et_sink_events_write_message(et_sink *sink, const et_sink_message *message, et_error *error);

/* Members of positions that select earlier logs of another run. These are set aside
 * (base/files/aside.h) before a file is cut off or begun anew. KEEPS true: everything after the
 * position. SINCE, a time: the same in files last written before this time. Neither a time nor a
 * position of this kind: everything.
 */
#define ET_SINK_KEEPS "keeps"
#define ET_SINK_SINCE "since"

typedef struct et_sink_resume_policy {
    bool keeps;
    double since;
} et_sink_resume_policy;

/* The policy of positions for the files of a kind. */
et_sink_resume_policy et_sink_resume_policy_of(const et_value *positions, const char *kind);
/* Before a file is opened at offset. */
int et_sink_set_aside(et_sink_resume_policy policy, const char *path, uint64_t offset,
                      et_error *error);

typedef struct et_progress et_progress;

/* Prints above the progress bar a line for each nested dict, and a line for the other values.
 * except: names of nested dicts that are shown elsewhere, ended by NULL; NULL: none. Both are
 * borrowed. */
int et_sink_console_open(et_sink **out, et_progress *progress, const char *const *except,
                         et_error *error);

/* Event files with the given name (event.h), static: the directory may have another process's
 * files. Existing files of that name are replaced. */
int et_sink_events_open_as(et_sink **out, const char *directory, const char *name, et_error *error);

#endif
