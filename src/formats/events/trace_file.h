/* A trace as a file for Perfetto (ui.perfetto.dev) and chrome://tracing: JSON in the Trace Event
 * Format, one complete event ("ph": "X") per span, a track per thread. A span's label and the rates
 * of its work are in its arguments. */
#ifndef ETUDE_FORMATS_EVENTS_TRACE_FILE_H
#define ETUDE_FORMATS_EVENTS_TRACE_FILE_H

#include "base/threads/trace.h"

/* Writes a finished trace, atomically. process: the name of the whole. */
int et_trace_file_write(const et_trace *trace, const char *process, const char *path,
                        et_error *error);

#endif
