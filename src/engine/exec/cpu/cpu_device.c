/* A device has everything that a plan runs with: a table of ops, a table of kernels, chosen once
 * for the CPU, a cache of matrix products, and a trace track for each thread.
 *
 * Invariants:
 *
 *   1. Every thread always has a track, at least one that records nothing, so code with spans does
 *      not check.
 *   2. Copies of a device share the products and the trace; only the number of threads differs.
 *      A copy is not closed.
 *   3. Opening either succeeds or leaves nothing. */
#include "engine/exec/device.h"

#include <omp.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/team.h"
#include "engine/exec/cpu/op_private.h"

/* One block: the struct, then a track for each thread. */
static int make_tracing(et_device *device, et_error *error)
{
    size_t size = sizeof *device->tracing + device->threads * sizeof(et_track *);
    device->tracing = et_alloc_zero(1, size);
    if (!device->tracing)
        return et_alloc_failed(error, "a device");
    for (int i = 0; i < device->threads; i++)
        device->tracing->track[i] = et_track_off();
    return ET_OK;
}

void et_device_use_threads(int count)
{
    et_assert(count >= 1 && count <= ET_DEVICE_THREADS_MAX);
    omp_set_num_threads(count);
}

/* threads is read once: scratch of plans is made for so many. */
int et_device_open(et_device **out, et_error *error)
{
    *out = NULL;
    const int threads = et_team_threads();
    int status = et_team_start(threads, error);
    if (status)
        return status;
    if (ET_ALLOC_ZERO(*out, 1, "a device", error))
        return ET_ENOMEM;
    et_device *device = *out;
    device->ops = et_cpu_ops;
    device->overlaps = et_cpu_overlaps;
    device->kernels = et_kernels_best();
    device->threads = threads;
    status = make_tracing(device, error);
    if (!status)
        status = et_gemm_cache_open(&device->gemms, device->threads, error);
    if (status) {
        et_device_close(device);
        *out = NULL;
    }
    return status;
}

/* Also closes a device that was only opened in part: missing members are NULL. */
void et_device_close(et_device *device)
{
    if (!device)
        return;
    et_gemm_cache_close(device->gemms);
    et_free(device->tracing);
    et_free(device);
}

/* Track 0, the trace's main one, is for the thread that runs plans outside a team; others have
 * their own tracks. Products report each tile, so their cache knows the tracks too. */
void et_device_record(et_device *device, et_trace *trace)
{
    et_device_tracing *tracing = device->tracing;
    et_assert(!tracing->trace);
    tracing->trace = trace;
    tracing->track[0] = et_trace_main(trace);
    for (int i = 1; i < device->threads; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %d", i);
        tracing->track[i] = et_track_beside(tracing->track[0], name);
    }
    for (int i = 0; i < device->threads; i++)
        et_gemm_cache_trace(device->gemms, i, tracing->track[i]);
}
