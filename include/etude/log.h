/* Where the library's messages go: one callback for the process, set before the first
 * other call. Without one, messages are dropped: a library never prints.
 *
 *     static void show(void *file, et_log_level level, const char *text)
 *     {
 *         if (level >= ET_LOG_WARNING)
 *             fprintf(file, "%s\n", text);
 *     }
 *
 *     et_log_set(show, stderr);
 */
#ifndef ETUDE_LOG_H
#define ETUDE_LOG_H

#include <etude/export.h>

typedef enum et_log_level { ET_LOG_DEBUG, ET_LOG_INFO, ET_LOG_WARNING, ET_LOG_ERROR } et_log_level;

/* Receives one message without a line end. May be called from any thread, one at a
 * time per thread; text is valid during the call only. */
typedef void et_log_fn(void *payload, et_log_level level, const char *text);

/* Sets the callback; NULL drops messages again. Not safe while others log. */
ET_API void et_log_set(et_log_fn *fn, void *payload);

/* Sends one message, printf format. */
ET_API void et_log(et_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
