/* Events: names under which handlers wait to be called. Who has a source fires its events; who
 * wants to act then hangs a handler on one. A loop (<etude/loop.h>) has a source with the names
 * below.
 *
 *     static int ring(void *payload, const char *event, const void *what, et_error *error) { ... }
 *     et_event_source_on(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, ring, bell, &error);
 *     et_event_source_off(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, ring, bell, &error);
 *     et_event_source_clear(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, &error);     all handlers
 *
 * A handler that is hung on while its event is fired is called from the next time on; one that is
 * taken off is not called any more. Firing allocates nothing. One thread. */
#ifndef ETUDE_EVENTS_H
#define ETUDE_EVENTS_H

#include <etude/error.h>

/* ---- of a loop ---- */

#define ET_EVENT_ENTER_LOOP                "enter_loop"
#define ET_EVENT_EXIT_LOOP                 "exit_loop"
#define ET_EVENT_BEFORE_EPOCH              "before_epoch"
#define ET_EVENT_AFTER_EPOCH               "after_epoch" /* fired in reverse */
#define ET_EVENT_BEFORE_STEP               "before_step"
#define ET_EVENT_AFTER_STEP                "after_step" /* fired in reverse */
#define ET_EVENT_METRICS_COLLECTED         "metrics_collected"
#define ET_EVENT_TIME_METRICS_COLLECTED    "time_metrics_collected"
#define ET_EVENT_METRIC_STATS_PRINTED      "metric_stats_printed"
#define ET_EVENT_TIME_METRIC_STATS_PRINTED "time_metric_stats_printed"
#define ET_EVENT_SUMMARY_ADDED             "summary_added"

/* ---- a source ---- */

typedef struct et_event_source et_event_source;

/* event: the name that was fired. what: told by who fires; of a loop an et_loop_event. A status
 * other than 0 ends the firing. */
typedef int et_event_fn(void *payload, const char *event, const void *what, et_error *error);

/* All of these give ET_ECONFIG for an event that is not allowed, and name the nearest that is. */

/* Behind the handlers that are there; the same one twice is called twice. */
ET_API int et_event_source_on(et_event_source *source, const char *event, et_event_fn *handler,
                              void *payload, et_error *error);

/* Takes off the first that is this handler with this payload. ET_ENOTFOUND: there is none. */
ET_API int et_event_source_off(et_event_source *source, const char *event, et_event_fn *handler,
                               void *payload, et_error *error);

/* Takes off all handlers of an event; NULL: of all events. */
ET_API int et_event_source_clear(et_event_source *source, const char *event, et_error *error);

#endif
