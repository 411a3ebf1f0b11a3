#include <etude/log.h>

#include <stdarg.h>
#include <stdio.h>

static et_log_fn *log_fn;
static void *log_payload;

void et_log_set(et_log_fn *fn, void *payload)
{
    log_fn = fn;
    log_payload = payload;
}

void et_log(et_log_level level, const char *format, ...)
{
    if (!log_fn)
        return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_fn(log_payload, level, text);
}
