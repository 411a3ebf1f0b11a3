/* A device: how each op is run, with which kernels, and the matrix products made so far. Usually a
 * process has one device. Plans share it, so equal products are made once. Plans know no op: a
 * device of another kind is another table. */
#ifndef ETUDE_ENGINE_EXEC_DEVICE_H
#define ETUDE_ENGINE_EXEC_DEVICE_H

#include <etude/device.h>

#include "base/threads/trace.h"
#include "engine/graph/graph.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/kernels.h"

struct et_plan;
struct et_plan_call;

/* A device's functions for an op; see plan_private.h. prepare, when a plan is made, and scratch,
 * the bytes that a run needs, may be NULL: nothing to prepare, no scratch. */
typedef struct et_op_functions {
    int (*prepare)(struct et_plan *plan, struct et_plan_call *call, et_error *error);
    void (*run)(const struct et_plan *plan, const struct et_plan_call *call);
    size_t (*scratch)(const struct et_plan *plan, const struct et_plan_call *call);
} et_op_functions;

/* How a call may use an input's memory for an output, if no other call needs it. */
typedef enum et_overlap_mode {
    ET_OVERLAP_NONE,
    ET_OVERLAP_OVERWRITES, /* an element is read before its place, and no other, is written */
    ET_OVERLAP_ADDS,       /* the input is a summand: the sum replaces it */
    ET_OVERLAP_VIEWS,      /* the output is the input, of another shape */
} et_overlap_mode;

typedef struct et_overlap {
    et_op op;
    int out, in;
    et_overlap_mode mode;
} et_overlap;

/* The receivers of a device's events. */
typedef struct et_device_tracing {
    et_trace *trace;   /* NULL: none */
    et_track *track[]; /* [threads of the device], never NULL */
} et_device_tracing;

/* ops and kernels are static; gemms and tracing are owned by the device that was opened. */
struct et_device {
    const et_op_functions *const *ops; /* [ET_OP_COUNT], by et_op; a leaf has no functions */
    const et_overlap *overlaps;        /* allowed by kernels in addition to element-wise ones, which
                                        * overwrite any input; static, ended by ET_OVERLAP_NONE */
    const et_kernels *kernels;
    et_gemm_cache *gemms;
    int threads;                /* the most that a kernel may use */
    et_device_tracing *tracing; /* copies of the device share it */
};

/* More are not taken from a command line. */
#define ET_DEVICE_THREADS_MAX 1024

/* Sets the number of threads of devices that are opened later, and of other OpenMP work of the
 * calling thread. It overrides the environment. */
void et_device_use_threads(int count);

/* Records a span for each run of a plan, for each of its calls, and for each tile of a product on
 * the thread that computed it. Call this before the first plan is made. The trace must outlive the
 * device. */
void et_device_record(et_device *device, et_trace *trace);

/* The track of the calling thread: in a team, the track with OpenMP's thread number; outside a
 * team, or without a trace, the first track. */
et_track *et_device_track(const et_device *device);

#endif
