/* Events, for the library, beyond <etude/events.h>. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_EVENTS_H
#define ETUDE_SYSTEMS_TFSNIPPET_EVENTS_H

#include <etude/events.h>

/* allowed: the only events that there are (copied); NULL: any. ET_EUSAGE: count is negative, one is
 * NULL. */
int et_event_hub_new(et_event_hub **out, const char *const *allowed, int count, et_error *error);
void et_event_hub_free(et_event_hub *hub); /* NULL allowed; not while it fires */

/* Calls the handlers in the order of adding, or in reverse. The first failure is returned, and
 * later handlers are not called. */
int et_event_hub_fire(et_event_hub *hub, const char *name, const void *what, et_error *error);
int et_event_hub_reverse_fire(et_event_hub *hub, const char *name, const void *what,
                              et_error *error);

#endif
