/* The readable reference of every kernel, matrix product and convolution: one thread, one obvious
 * loop per formula, sums in double. The reference is slow on purpose; tests compare every table of
 * kernels with it. reference.c binds the functions of this folder into et_kernels_reference. The
 * contract of each function is that of the member of et_kernels with its name. */
#ifndef ETUDE_ENGINE_KERNEL_REFERENCE_REFERENCE_H
#define ETUDE_ENGINE_KERNEL_REFERENCE_REFERENCE_H

#include <math.h>

#include "base/dtype.h"
#include "engine/kernel/conv.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/kernels.h"

/* Element i of an array of act type, and back. Both types are exact in double; storing rounds to
 * float32 first and from there to bfloat16. */
static inline double et_reference_load(const void *x, int64_t i, et_dtype dtype)
{
    return dtype == ET_BF16 ? et_bf16_to_float(((const et_bf16 *)x)[i]) : ((const float *)x)[i];
}

static inline void et_reference_store(void *y, int64_t i, double value, et_dtype dtype)
{
    if (dtype == ET_BF16)
        ((et_bf16 *)y)[i] = et_bf16_from_float((float)value);
    else
        ((float *)y)[i] = (float)value;
}

/* Whether dropout keeps an element: the definition above et_dropout_threshold. */
static inline bool et_reference_keep(et_random random, float rate, uint64_t element)
{
    et_philox_block block = et_random_block(random, element >> 3);
    uint32_t word = block.word[(element >> 1) & 3];
    uint32_t half = (element & 1) ? word >> 16 : word & 0xffffu;
    return half >= et_dropout_threshold(rate);
}

/* max(x, 0), as every relu of this folder has it: a NaN stays. */
static inline double et_reference_relu(double x)
{
    return x > 0 || isnan(x) ? x : 0;
}

#define KERNEL(type, name, ...) type et_reference_##name(__VA_ARGS__);
#include "engine/kernel/kernels.def"
#undef KERNEL

extern const et_staging et_reference_staging;
extern const et_softmax_parts et_reference_softmax_parts;

extern const et_kernels et_kernels_reference;

/* Matrix product, as et_gemm_run; B is not packed. */
void et_gemm_reference(const et_gemm_shape *shape, void *c, const void *a, const void *b,
                       const float *bias);

/* Convolution or one of its derivatives, as et_conv_run; w is float32. */
void et_conv_reference(et_conv_kind kind, const et_conv_shape *shape, void *out, const void *a,
                       const void *b, const float *bias);

#endif
