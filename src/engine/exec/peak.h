/* The best rates of this machine: the roof of a profile. Two rates, measured in the process with
 * all its threads: of one large matrix product with packed weights, and of memory, reading two
 * arrays and writing one. An op's roof is the longer of the times that its operations and its bytes
 * take at these rates (Williams, Waterman, Patterson 2009, "Roofline"). An op with its operands in
 * cache may be faster than the roof. */
#ifndef ETUDE_ENGINE_EXEC_PEAK_H
#define ETUDE_ENGINE_EXEC_PEAK_H

#include "engine/exec/device.h"

/* Sides of the product that is measured. */
enum { ET_PEAK_M = 2048, ET_PEAK_N = 1024, ET_PEAK_K = 1024 };

typedef struct et_peak {
    et_dtype dtype; /* of the product's operands */
    double flops;   /* a second */
    double bytes;   /* a second */
} et_peak;

/* Takes some tenths of a second and 128 MiB, given back. Not while the device works. */
int et_peak_measure(et_peak *peak, const et_device *device, et_dtype dtype, et_error *error);

/* Seconds that work takes at best. */
double et_peak_seconds(const et_peak *peak, et_cost cost);

#endif
