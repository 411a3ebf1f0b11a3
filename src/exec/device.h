/* A device: the kernels that run ops, and the matrix products made so far. One per process is
 * usual; plans share it, so equal products are made once. */
#ifndef ETUDE_EXEC_DEVICE_H
#define ETUDE_EXEC_DEVICE_H

#include <etude/error.h>

#include "base/trace.h"
#include "kernel/gemm.h"
#include "kernel/kernels.h"

/* Who is told what the device does. */
typedef struct et_device_watch {
    et_trace *trace;   /* NULL: nobody */
    et_track *track[]; /* [threads of the device], never NULL */
} et_device_watch;

/* kernels are static; gemms and watch are owned by the device that was opened. */
typedef struct et_device {
    const et_kernels *kernels;
    et_gemm_cache *gemms;
    int threads;            /* the most that a kernel may use */
    et_device_watch *watch; /* copies of the device share it */
} et_device;

/* The CPU with as many threads as OpenMP has (OMP_NUM_THREADS), but for a number that no machine
 * has: then OpenMP is told a smaller one, for the calling thread, with a warning in the log.
 * ET_EUSAGE: this thread or one of OpenMP's has too small a stack (et_thread_check_stack). */
int et_device_open(et_device **out, et_error *error);
void et_device_close(et_device *device);

/* From now on what runs on the device is recorded: a span for each run of a plan and each step of
 * it, and for each tile of a product on the thread that did it. Before the first plan is made; the
 * trace must outlive the device. */
void et_device_record(et_device *device, et_trace *trace);

/* Where the calling thread tells what it does: of a team, OpenMP's thread of that number. */
et_track *et_device_track(const et_device *device);

#endif
