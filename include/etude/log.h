/* The log: messages of the library. One call sends them to standard error,
 *
 *     et_log_to_stderr();
 *
 * or the program sets one function for the process, before its first other call:
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
 * Without a function, warnings and errors go to the open runs: to train.log in the run's directory,
 * and to the run's observer (<etude/run.h>). A loop prints them with its other lines. If no run is
 * open, messages are dropped. */
#ifndef ETUDE_LOG_H
#define ETUDE_LOG_H

#include <etude/export.h>

typedef enum et_log_level { ET_LOG_DEBUG, ET_LOG_INFO, ET_LOG_WARNING, ET_LOG_ERROR } et_log_level;

/* Receives one message without a line end. Any thread may call it, each one message at a time. text
 * is valid only during the call. */
typedef void et_log_fn(void *payload, et_log_level level, const char *text);

/* Sets the function; NULL: none. Not safe while other threads log. */
ET_API void et_log_set(et_log_fn *fn, void *payload);

/* Sets a function that prints warnings and errors to standard error, one line each, without control
 * characters. */
ET_API void et_log_to_stderr(void);

/* Logs one message, printf format. */
ET_API void et_log(et_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
