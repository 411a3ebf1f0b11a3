/* What <etude/summary.h> leaves to the command: logs above a progress bar, and event files beside
 * those of another process. A new kind of sink: README.md in this folder. */
#ifndef ETUDE_IO_SINK_H
#define ETUDE_IO_SINK_H

#include <etude/summary.h>

typedef struct et_progress et_progress;

/* A line for people above the progress bar for each nested dict, and one for what is not
 * nested. except: a nested dict that the bar shows already, or NULL. progress is borrowed. */
int et_sink_console_open(et_sink **out, et_progress *progress, const char *except, et_error *error);

/* Event files under a name of their own (event.h), static: they may lie where another process has
 * its. They start anew. */
int et_sink_events_open_as(et_sink **out, const char *directory, const char *name, et_error *error);

#endif
