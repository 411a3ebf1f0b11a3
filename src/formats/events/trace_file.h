/* A trace as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: the JSON of the
 * Trace Event Format, one complete event ("ph": "X") per span, a track per thread. What a span's
 * label says is in its arguments, with the rates that its work came to. */
#ifndef ETUDE_FORMATS_EVENTS_TRACE_FILE_H
#define ETUDE_FORMATS_EVENTS_TRACE_FILE_H

#include "base/threads/trace.h"

/* Writes a trace that is over, atomically. process: what the whole is called. */
int et_trace_file_write(const et_trace *trace, const char *process, const char *path,
                        et_error *error);

#endif
