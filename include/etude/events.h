/* Events: names with lists of handlers. An object fires its events; a program adds handlers that
 * are then called. A loop (<etude/loop.h>) has the events below.
 *
 *     static int ring(void *payload, const char *event, const void *what, et_error *error) { ... }
 *     et_event_hub_on(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, ring, bell, &error);
 *     et_event_hub_off(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, ring, bell, &error);
 *     et_event_hub_clear(et_loop_events(loop), ET_EVENT_AFTER_EPOCH, &error);     all handlers
 *
 * A program may have events of its own, which it fires itself:
 *
 *     et_event_hub_new(&hub, NULL, 0, &error);
 *     et_event_hub_on(hub, "saved", ring, bell, &error);
 *     et_event_hub_fire(hub, "saved", path, &error);
 *     et_event_hub_reverse_fire(hub, "saved", path, &error);     the last handler first
 *     et_event_hub_free(hub);
 *
 * A handler that is added while its event is fired is called from the next time on. A removed
 * handler is not called any more, even during the same firing. Firing allocates no memory. Use from
 * one thread. */
#ifndef ETUDE_EVENTS_H
#define ETUDE_EVENTS_H

#include <etude/error.h>

/* ---- events of a loop ---- */

#define ET_EVENT_ENTER_LOOP                "enter_loop"
#define ET_EVENT_EXIT_LOOP                 "exit_loop"
#define ET_EVENT_BEFORE_EPOCH              "before_epoch"
#define ET_EVENT_AFTER_EPOCH               "after_epoch" /* calls handlers in reverse order */
#define ET_EVENT_BEFORE_STEP               "before_step"
#define ET_EVENT_AFTER_STEP                "after_step" /* calls handlers in reverse order */
#define ET_EVENT_METRICS_COLLECTED         "metrics_collected"
#define ET_EVENT_TIME_METRICS_COLLECTED    "time_metrics_collected"
#define ET_EVENT_METRIC_STATS_PRINTED      "metric_stats_printed"
#define ET_EVENT_TIME_METRIC_STATS_PRINTED "time_metric_stats_printed"
#define ET_EVENT_SUMMARY_ADDED             "summary_added"

/* ---- handlers ---- */

typedef struct et_event_hub et_event_hub;

/* event: the name of the event. what: a value from the object that fires; for a loop, an
 * et_loop_event. A status other than 0 stops the firing. */
typedef int et_event_fn(void *payload, const char *event, const void *what, et_error *error);

/* allowed: [count], the only events of the hub, copied; NULL: any event. ET_EUSAGE: count is
 * negative, or a name is NULL. */
ET_API int et_event_hub_new(et_event_hub **out, const char *const *allowed, int count,
                            et_error *error);
/* Only for a hub of et_event_hub_new, and not in one of its handlers. NULL allowed. */
ET_API void et_event_hub_free(et_event_hub *hub);

/* All functions below return ET_ECONFIG for an event that is not allowed; the error suggests the
 * nearest name. */

/* Adds a handler after the existing handlers. A handler that is added twice is called twice. */
ET_API int et_event_hub_on(et_event_hub *hub, const char *event, et_event_fn *handler,
                           void *payload, et_error *error);

/* Removes the first entry with this handler and payload. ET_ENOTFOUND: no such entry. */
ET_API int et_event_hub_off(et_event_hub *hub, const char *event, et_event_fn *handler,
                            void *payload, et_error *error);

/* Removes all handlers of an event; event NULL: of all events. */
ET_API int et_event_hub_clear(et_event_hub *hub, const char *event, et_error *error);

/* Calls the handlers in the order of adding, or in reverse. The first failure is returned, and
 * later handlers are not called. Without handlers nothing happens. */
ET_API int et_event_hub_fire(et_event_hub *hub, const char *event, const void *what,
                             et_error *error);
ET_API int et_event_hub_reverse_fire(et_event_hub *hub, const char *event, const void *what,
                                     et_error *error);

#endif
