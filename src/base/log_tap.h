/* Receivers of messages if the program has no log function (<etude/log.h>): open runs. */
#ifndef ETUDE_BASE_LOG_TAP_H
#define ETUDE_BASE_LOG_TAP_H

#include <etude/log.h>

/* A listener's member. take may be called from any thread, one call at a time; it must not log.
 * Texts are plain (base/plain.h). */
typedef struct et_log_tap {
    et_log_fn *take;
    void *payload;
    struct et_log_tap *next;
} et_log_tap;

void et_log_tap_add(et_log_tap *tap);
/* Afterwards no call is running. A tap that was not added is allowed. */
void et_log_tap_remove(et_log_tap *tap);

#endif
