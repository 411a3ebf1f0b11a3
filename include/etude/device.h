/* A device: the processor that passes run on. It chooses kernels for the CPU once, and keeps
 * finished matrix products for all plans. Usually a process has one device. A device must outlive
 * the passes that use it. Opening reads OpenMP's number of threads (OMP_NUM_THREADS). If the number
 * is too large for any machine, opening sets a smaller one for the calling thread and logs a
 * warning.
 *
 *     if (et_device_open(&device, &error)) ...
 *     if (et_pass_open(&pass, device, params, layout, build, NULL, &options, &error)) ...
 *     et_device_close(device);
 *
 * fork(): a child may use its parent's device and passes. In the child, the thread that called
 * fork() computes with one thread, because OpenMP's other threads are not copied. The bits are the
 * same. Sources that read ahead (et_prefetch_open) return ET_EUSAGE in the child. */
#ifndef ETUDE_DEVICE_H
#define ETUDE_DEVICE_H

#include <etude/error.h>

typedef struct et_device et_device;

/* ET_EUSAGE: the stack of this thread or of an OpenMP thread is smaller than 256 KiB. */
ET_API int et_device_open(et_device **out, et_error *error);
ET_API void et_device_close(et_device *device); /* NULL allowed */

#endif
