#include "exec/device.h"

#include <omp.h>
#include <stdio.h>

#include "base/alloc.h"

int et_device_open(et_device **out, et_error *error)
{
    et_device *device = et_alloc_zero(1, sizeof *device);
    *out = device;
    if (!device)
        return et_alloc_failed(error, sizeof *device, "a device");
    device->kernels = et_kernels_best();
    device->threads = omp_get_max_threads();
    device->track = et_track_off();
    int status = et_gemm_cache_open(&device->gemms, device->threads, error);
    if (status) {
        et_free(device);
        *out = NULL;
    }
    return status;
}

void et_device_watch(et_device *device, et_trace *trace)
{
    device->trace = trace;
    device->track = et_trace_main(trace);
    et_gemm_cache_watch(device->gemms, 0, device->track);
    for (int i = 1; i < device->threads; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %d", i);
        et_gemm_cache_watch(device->gemms, i, et_track_beside(device->track, name));
    }
}

void et_device_close(et_device *device)
{
    if (!device)
        return;
    et_gemm_cache_close(device->gemms);
    et_free(device);
}
