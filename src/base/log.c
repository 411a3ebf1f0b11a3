/* One callback for the process: where messages go is the program's to say, once, before
 * threads start. The text is formatted on the stack of the thread that logs, so no lock is
 * needed here, and a message never fails; what is above 2 KiB is cut. */
#include <etude/log.h>

#include <stdarg.h>
#include <stdio.h>

#include "base/plain.h"

static et_log_fn *log_fn; /* NULL: messages are dropped */
static void *log_payload;

void et_log_set(et_log_fn *fn, void *payload)
{
    log_fn = fn;
    log_payload = payload;
}

void et_log(et_log_level level, const char *format, ...)
{
    /* Nobody listens: not even formatting is paid for. */
    if (!log_fn)
        return;
    char text[2048], plain[2048];
    va_list arguments;
    va_start(arguments, format);
    /* Without a line end: whether there are lines is the callback's to know. */
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_plain_copy(plain, sizeof plain, text);
    log_fn(log_payload, level, plain);
}
