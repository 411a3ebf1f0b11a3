/* A device: what passes run on. Its kernels are chosen once for the CPU that is found, and matrix
 * products that were made are kept for all plans. One per process is usual; it outlives the passes
 * that use it. Threads are OpenMP's (OMP_NUM_THREADS), read when it is opened; for a number that no
 * machine has OpenMP is told a smaller one, for the calling thread, with a warning in the log.
 *
 *     if (et_device_open(&device, &error)) ...
 *     printf("%s, %d threads\n", et_device_kernels(device), et_device_threads(device));
 *     if (et_device_has_bfloat16(device))
 *         options.bfloat16 = true;
 *     et_device_close(device);
 *
 * fork(): a child may use a device that its parent opened, and the passes on it. The thread that
 * called fork() computes on one thread in the child, with the same bits: OpenMP's other threads are
 * not copied. Data that is read ahead (a source with prefetch) returns ET_EUSAGE in the child. */
#ifndef ETUDE_DEVICE_H
#define ETUDE_DEVICE_H

#include <etude/error.h>

#include <stdbool.h>

typedef struct et_device et_device;

/* ET_EUSAGE: this thread or one of OpenMP's has too small a stack (256 KiB are needed). */
ET_API int et_device_open(et_device **out, et_error *error);
ET_API void et_device_close(et_device *device); /* NULL allowed */

ET_API int et_device_threads(const et_device *device);
/* "avx512"; whether its matrix products of bfloat16 are the CPU's own. */
ET_API const char *et_device_kernels(const et_device *device);
ET_API bool et_device_has_bfloat16(const et_device *device);

#endif
