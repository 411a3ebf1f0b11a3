/* --profile FILE and --profile-steps A:B: a trace of a command for Perfetto, and a table of times.
 * Without --profile every function here does nothing.
 *
 *     static const et_option options[] = {
 *         ET_OPTION_GROUP(own_options, profiling, et_profiling_options),
 *         ET_OPTION_END,
 *     };
 *
 *     et_profiling_check(&p, &outputs, &error);         before anything is done
 *     et_profiling_open(&p, device, "step", &error);    before a plan is made
 *     et_profiling_begin(&p, steps, &error);            before the first step
 *     ...
 *     et_profiling_close(&p, status, &error);           while the device is open
 *     et_profiling_release(&p);
 */
#ifndef ETUDE_SYSTEMS_TRAINING_PROFILE_H
#define ETUDE_SYSTEMS_TRAINING_PROFILE_H

#include "command/options/options.h"
#include "command/outputs.h"
#include "engine/exec/device.h"
#include "formats/events/progress.h"

/* Filled by the command line, then by the functions below in their order. */
typedef struct et_profiling {
    const char *path;        /* NULL: off */
    const char *steps;       /* A:B as typed; NULL: not given */
    int64_t first, last;     /* what steps says; 0: not given */
    et_progress *progress;   /* shows the table; NULL: standard error */
    et_trace *trace;         /* owned; NULL: off, or not open */
    const et_device *device; /* borrowed; for measuring the peak */
    bool written;            /* file and table, or the attempt */
    int status;              /* of writing; its message is error */
    et_error error;
} et_profiling;

/* Rows of a table of options. */
extern const et_option et_profiling_options[];

/* ET_EUSAGE: steps are not A:B. Other errors: those of et_outputs_check for the file; outputs has
 * the command's inputs. */
int et_profiling_check(et_profiling *profiling, et_outputs *outputs, et_error *error);

/* Plans made on the device from now on can be recorded; unit is the span that is a step. */
int et_profiling_open(et_profiling *profiling, et_device *device, const char *unit,
                      et_error *error);

/* Sets the window. Without --profile-steps, for work of so many steps: the 10th to the 20th step,
 * or the second half of fewer; with steps 0 (unknown): all from now on. ET_EUSAGE: the given window
 * begins after the last step. */
int et_profiling_begin(et_profiling *profiling, int64_t steps, et_error *error);

/* Writes file and table, unless that was done when the window had passed. run: how the work
 * itself ended; if it failed, what fails here is a warning. */
int et_profiling_close(et_profiling *profiling, int run, et_error *error);

/* Frees the record; call last, because threads may still record. */
void et_profiling_release(et_profiling *profiling);

#endif
