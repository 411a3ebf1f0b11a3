/* train.log in a run's directory: all lines for people, with the time of day. If the program has no
 * log function, also the library's warnings while a run is open: they are kept until the run's own
 * thread prints them. */
#ifndef ETUDE_TRAIN_RUN_RUN_MESSAGES_H
#define ETUDE_TRAIN_RUN_RUN_MESSAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/log_tap.h"
#include "base/text/strbuf.h"

/* Appends the lines of text as the file has them. */
void et_run_messages_print(et_strbuf *out, const char *text, time_t when);

/* Appends printed lines to the file at path. first: ends a line that a crash has cut short. Returns
 * an errno on failure, else 0. */
int et_run_messages_write(const char *path, const et_strbuf *lines, bool first);

typedef struct et_run_warnings {
    et_log_tap tap;
    pthread_mutex_t mutex;
    et_strbuf texts; /* each with its end, 0 */
    size_t dropped;  /* more than the kept ones, or without memory for them */
    bool waiting;    /* there are some; read without the mutex */
} et_run_warnings;

/* The place of warnings must not change until close. */
void et_run_warnings_open(et_run_warnings *warnings);
void et_run_warnings_close(et_run_warnings *warnings);

static inline bool et_run_warnings_wait(const et_run_warnings *warnings)
{
    return __atomic_load_n(&warnings->waiting, __ATOMIC_RELAXED);
}

/* What came since the last call: texts becomes them, each with its end. */
void et_run_warnings_take(et_run_warnings *warnings, et_strbuf *texts, size_t *dropped);

#endif
