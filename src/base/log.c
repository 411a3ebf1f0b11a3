/* The log: one function for the process, set by the program once, before threads start. The text is
 * formatted on the stack of the calling thread, and logging never fails; a text above 2 KiB is cut.
 * Without a function, open runs get the messages, under a lock, because runs open and close. */
#include "base/log_tap.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/plain.h"

static et_log_fn *log_fn; /* NULL: messages go only to runs */
static void *log_payload;
static et_log_tap *taps; /* of open runs, under the lock */
static pthread_mutex_t taps_lock = PTHREAD_MUTEX_INITIALIZER;

void et_log_set(et_log_fn *fn, void *payload)
{
    log_fn = fn;
    log_payload = payload;
}

void et_log_tap_add(et_log_tap *tap)
{
    pthread_mutex_lock(&taps_lock);
    tap->next = taps;
    __atomic_store_n(&taps, tap, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&taps_lock);
}

void et_log_tap_remove(et_log_tap *tap)
{
    pthread_mutex_lock(&taps_lock);
    for (et_log_tap **at = &taps; *at; at = &(*at)->next)
        if (*at == tap) {
            __atomic_store_n(at, tap->next, __ATOMIC_RELAXED);
            break;
        }
    pthread_mutex_unlock(&taps_lock);
}

void et_log(et_log_level level, const char *format, ...)
{
    /* Nobody listens: not even formatting is paid for. */
    if (!log_fn && !__atomic_load_n(&taps, __ATOMIC_RELAXED))
        return;
    char text[2048], plain[2048];
    va_list arguments;
    va_start(arguments, format);
    /* Without a line end: whether there are lines is the callback's to know. */
    et_plain_vprint(text, sizeof text, format, arguments);
    va_end(arguments);
    et_plain_copy(plain, sizeof plain, text);
    if (log_fn)
        log_fn(log_payload, level, plain);
    else {
        pthread_mutex_lock(&taps_lock);
        for (et_log_tap *tap = taps; tap; tap = tap->next)
            tap->take(tap->payload, level, plain);
        pthread_mutex_unlock(&taps_lock);
    }
}

/* One call, so that lines of threads do not mix. */
static void show(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    if (level >= ET_LOG_WARNING)
        fprintf(stderr, "%s: %s\n", level == ET_LOG_ERROR ? "error" : "warning", text);
}

void et_log_to_stderr(void)
{
    et_log_set(show, NULL);
}
