/* Evaluations of checkpoints, by step, in a directory that other processes also write to:
 *
 *   metrics.jsonl   one line each: step, values, time; the reference
 *   events...       for TensorBoard, made again at each start; no trainer writes this name
 *   lock            only one process evaluates there at a time
 *
 *     et_evaluation_log log = ET_EVALUATION_LOG_INIT;
 *     et_evaluation_log_open(&log, "runs/a/validation", &error);     log.last: the last step
 *     et_evaluation_log_add(&log, 2000, logs, &error);               durable
 *     et_evaluation_log_close(&log, &error);
 *
 * An incomplete line, left by a kill, is removed. */
#ifndef ETUDE_COMMAND_EVALUATION_LOG_H
#define ETUDE_COMMAND_EVALUATION_LOG_H

#include <stdint.h>

#include <etude/summary.h>

typedef struct et_evaluation_log {
    int64_t last;  /* the last measured step; -1: none */
    int64_t count; /* of lines */
    et_sink *sink; /* both files; owned */
    int lock;      /* -1: not held */
} et_evaluation_log;

#define ET_EVALUATION_LOG_INIT                                                                     \
    {                                                                                              \
        -1, 0, NULL, -1                                                                            \
    }

/* Makes the directory. ET_EBUSY: another process measures there. ET_EFORMAT: a line has another
 * format. */
int et_evaluation_log_open(et_evaluation_log *log, const char *directory, et_error *error);

/* Values of a step that is later than the last. */
int et_evaluation_log_add(et_evaluation_log *log, int64_t step, const et_value *values,
                          et_error *error);

/* A log that was not opened is allowed. */
int et_evaluation_log_close(et_evaluation_log *log, et_error *error);

/* Copies the last line with a dict of this name from a run's metrics.jsonl into arena. Leaves out
 * notes and values that depend on the clock. ET_ENOTFOUND: no such line. */
int et_evaluation_log_find_last(et_value **values, const char *path, const char *name,
                                et_arena *arena, et_error *error);

#endif
