/* A trace of a window of steps for Perfetto, and a table of times. Without a path every function
 * here does nothing.
 *
 *     et_profiling p = { .path = "trace.json", .tell = tell };
 *     et_profiling_open(&p, device, "step", &error);    before a plan is made
 *     et_profiling_begin(&p, steps, &error);            before the first step
 *     ...
 *     et_profiling_close(&p, status, &error);           while the device is open
 *     et_profiling_release(&p);
 */
#ifndef ETUDE_SYSTEMS_TRAINING_PROFILE_H
#define ETUDE_SYSTEMS_TRAINING_PROFILE_H

#include "engine/exec/device.h"

/* Filled by the command line, then by the functions below in their order. */
typedef struct et_profiling {
    const char *path;    /* NULL: off */
    const char *steps;   /* A:B as typed; NULL: not given */
    int64_t first, last; /* A and B; 0: not given */
    void *listener;      /* tell(listener, text) gets the table */
    void (*tell)(void *listener, const char *text);
    et_trace *trace;         /* owned; NULL: off, or not open */
    const et_device *device; /* borrowed; for measuring the peak */
    bool written;            /* file and table, or the attempt */
    int status;              /* of writing; its message is error */
    et_error error;
} et_profiling;

/* Plans made on the device from now on can be recorded; unit is the span that is a step. */
int et_profiling_open(et_profiling *profiling, et_device *device, const char *unit,
                      et_error *error);

/* Sets the window. steps: length of the work. Without --profile-steps, the window is the 10th to
 * the 20th step, or the second half of fewer steps; with steps 0 (unknown), everything from now on.
 * ET_EUSAGE: the given window begins after the last step. */
int et_profiling_begin(et_profiling *profiling, int64_t steps, et_error *error);

/* Writes the file and prints the table, unless this was done at the end of the window. run: the
 * status of the work. If the work failed, a failure here is only a warning. */
int et_profiling_close(et_profiling *profiling, int run, et_error *error);

/* Frees the record; call last, because threads may still record. */
void et_profiling_release(et_profiling *profiling);

#endif
