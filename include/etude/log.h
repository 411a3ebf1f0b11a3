/* Where the library's messages go: to standard error by one call,
 *
 *     et_log_to_stderr();
 *
 * or to a function of the program's, one for the process, set before the first other call:
 *
 *     static void show(void *file, et_log_level level, const char *text)
 *     {
 *         if (level >= ET_LOG_WARNING)
 *             fprintf(file, "%s\n", text);
 *     }
 *
 *     et_log_set(show, stderr);
 *     et_log(ET_LOG_INFO, "%d rows", 150);
 *
 * Without a function, warnings and errors go to the runs that are open: to train.log in the run's
 * directory, and to its observer (<etude/run.h>) or, of a loop, to where its lines are printed.
 * Without a run they are dropped. */
#ifndef ETUDE_LOG_H
#define ETUDE_LOG_H

#include <etude/export.h>

typedef enum et_log_level { ET_LOG_DEBUG, ET_LOG_INFO, ET_LOG_WARNING, ET_LOG_ERROR } et_log_level;

/* Receives one message without a line end. May be called from any thread, one at a
 * time per thread; text is valid during the call only. */
typedef void et_log_fn(void *payload, et_log_level level, const char *text);

/* Sets the callback; NULL: there is none. Not safe while others log. */
ET_API void et_log_set(et_log_fn *fn, void *payload);

/* Sets one that prints warnings and errors to standard error, a line each, without control
 * characters. */
ET_API void et_log_to_stderr(void);

/* Sends one message, printf format. */
ET_API void et_log(et_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
