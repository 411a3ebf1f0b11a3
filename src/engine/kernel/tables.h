/* The compiled tables, for dispatch.c to choose from. Calling a table's functions on a CPU without
 * its instruction set is an illegal instruction: use et_kernels_named(). */
#ifndef ETUDE_ENGINE_KERNEL_TABLES_H
#define ETUDE_ENGINE_KERNEL_TABLES_H

#include "engine/kernel/kernels.h"

extern const et_kernels et_kernels_plain;
#ifdef __x86_64__
extern const et_kernels et_kernels_avx2;       /* AVX2, FMA, BMI2 */
extern const et_kernels et_kernels_avx512;     /* AVX-512 F, BW, VL, DQ; FMA, BMI2 */
extern const et_kernels et_kernels_avx512vnni; /* the same and VNNI */
extern const et_kernels et_kernels_avx512bf16; /* the same and BF16 */

/* The kernels in which et_kernels_avx512vnni differs from et_kernels_avx512. */
#define KERNEL(type, name, ...)
#define BYTES_KERNEL(type, name, ...) type et_avx512vnni_##name(__VA_ARGS__);
#include "engine/kernel/kernels.def"
#undef KERNEL
#endif

#endif
