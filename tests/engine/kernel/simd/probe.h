/* simd/math.h as seen from outside: one set of functions per instruction set. */
#ifndef ETUDE_TESTS_KERNEL_SIMD_PROBE_H
#define ETUDE_TESTS_KERNEL_SIMD_PROBE_H

#include <stdint.h>

typedef void probe_fn(float *y, const float *x, int64_t count);

typedef struct simd_probe {
    int lanes;
    probe_fn *exp, *exp2, *exp2_fine, *log, *tanh, *sigmoid, *phi, *sin, *cos;
    void (*transpose)(float *square);              /* [lanes, lanes] in place */
    void (*sums)(float *sum, const float *square); /* of its rows */
    void (*largests)(float *largest, const float *square);
} simd_probe;

extern const simd_probe probe_plain;
#ifdef __x86_64__
extern const simd_probe probe_avx2, probe_avx512;
#endif

#endif
