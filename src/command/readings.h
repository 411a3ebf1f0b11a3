/* Evaluations of checkpoints, by step, in a directory that other processes also write to:
 *
 *   metrics.jsonl   one line each: step, values, time; the reference
 *   events...       for TensorBoard, made again at each start; no trainer writes this name
 *   lock            only one process evaluates there at a time
 *
 *     et_readings readings = ET_READINGS_INIT;
 *     et_readings_open(&readings, "runs/a/validation", &error);     readings.last: the last step
 *     et_readings_add(&readings, 2000, logs, &error);               durable
 *     et_readings_close(&readings, &error);
 *
 * A line that a kill cut short is removed. */
#ifndef ETUDE_COMMAND_READINGS_H
#define ETUDE_COMMAND_READINGS_H

#include <stdint.h>

#include <etude/summary.h>

typedef struct et_readings {
    int64_t last;  /* the step that was measured last, -1: none */
    int64_t count; /* of lines */
    et_sink *sink; /* both files; owned */
    int lock;      /* -1: not held */
} et_readings;

#define ET_READINGS_INIT                                                                           \
    {                                                                                              \
        -1, 0, NULL, -1                                                                            \
    }

/* Makes the directory. ET_EBUSY: another process measures there. ET_EFORMAT: a line has another
 * format. */
int et_readings_open(et_readings *readings, const char *directory, et_error *error);

/* Values of a step that is later than the last. */
int et_readings_add(et_readings *readings, int64_t step, const et_value *values, et_error *error);

/* Readings that were not opened are allowed. */
int et_readings_close(et_readings *readings, et_error *error);

/* A copy in arena of the last line of a run's metrics.jsonl with a dict of this name, without
 * values that depend on the clock and notes. ET_ENOTFOUND: no such line. */
int et_readings_last_of(et_value **values, const char *path, const char *name, et_arena *arena,
                        et_error *error);

#endif
