/* Convolutions of images [N, H, W, C] and their derivatives, with oneDNN.
 *
 *   FORWARD  y[n, i, j, f] = sum over k, l, c of x[n, i', j', c] w[k, l, c, f] (+ bias[f]) (relu)
 *   DATA     dx = the sum of dy w over all outputs that use an element of x
 *   WEIGHT   dw[k, l, c, f] = sum over n, i, j of x[n, i', j', c] dy[n, i, j, f], float32
 *
 * with i' = i stride - before + k dilation (window.h) and x = 0 outside the image; w and dw are
 * [KH, KW, C, F].
 *
 * Equal bits for any number of threads: a batch is divided into blocks of samples by the shape
 * alone, and one single-threaded primitive does each. A weight's derivative is summed over pieces
 * of the batch, also fixed, whose sums are added in order.
 *
 * bfloat16 (x, y and their derivatives; the weight as et_conv_weight_type says) is multiplied
 * directly if the CPU is fast at it, else as float32. Sums are float32. Running allocates nothing:
 * scratch is the caller's. */
#ifndef ETUDE_ENGINE_KERNEL_CONV_H
#define ETUDE_ENGINE_KERNEL_CONV_H

#include <stddef.h>

#include <etude/error.h>

#include "engine/kernel/kernels.h"

typedef struct et_conv et_conv;

typedef enum et_conv_kind { ET_CONV_FORWARD, ET_CONV_DATA, ET_CONV_WEIGHT } et_conv_kind;

typedef struct et_conv_shape {
    int64_t batch, channels, filters;
    et_window down, across;
    et_dtype dtype; /* of x and y */
    bool bias;      /* FORWARD: [F] float32 on every result, before the relu */
    bool relu;      /* FORWARD */
} et_conv_shape;

/* For at most `threads` threads, multiplied in type `as` if that is fast. kernels are borrowed.
 * ET_ENOMEM, or ET_EFAIL: oneDNN has no such convolution. */
int et_conv_new(et_conv **out, et_conv_kind kind, const et_conv_shape *shape, et_dtype as,
                int threads, const et_kernels *kernels, et_error *error);
void et_conv_free(et_conv *conv);

/* The type in which the weight is read: float32 or, of bfloat16 convolutions, bfloat16. */
et_dtype et_conv_weight_type(const et_conv *conv);

/* Bytes of scratch, aligned to 64. */
size_t et_conv_scratch(const et_conv *conv);

/* FORWARD: out y, a x, b w. DATA: out dx, a dy, b w. WEIGHT: out dw, a x, b dy. bias is NULL unless
 * the shape says so. One run of a conv at a time; inside a parallel region the calling thread does
 * all. */
void et_conv_run(const et_conv *conv, void *scratch, void *out, const void *a, const void *b,
                 const float *bias);

/* For tests: the implementation, such as "brgconv:avx512_core_bf16". Valid as long as the conv. */
const char *et_conv_implementation(const et_conv *conv);

#endif
