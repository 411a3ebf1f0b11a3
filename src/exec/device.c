#include "exec/device.h"

#include <omp.h>

#include "base/alloc.h"

int et_device_open(et_device **out, et_error *error)
{
    et_device *device = et_alloc_zero(1, sizeof *device);
    *out = device;
    if (!device)
        return et_alloc_failed(error, sizeof *device, "a device");
    device->kernels = et_kernels_best();
    device->threads = omp_get_max_threads();
    int status = et_gemm_cache_open(&device->gemms, device->threads, error);
    if (status) {
        et_free(device);
        *out = NULL;
    }
    return status;
}

void et_device_close(et_device *device)
{
    if (!device)
        return;
    et_gemm_cache_close(device->gemms);
    et_free(device);
}
