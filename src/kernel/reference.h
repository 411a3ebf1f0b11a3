/* The readable reference of every kernel: one thread, one obvious loop per formula, sums in
 * double. Slow on purpose; tests hold every table against it. The pieces stand in
 * reference_*.c, and reference.c binds them into et_kernels_reference. The contract of each
 * function is that of the member of et_kernels with its name. */
#ifndef ETUDE_KERNEL_REFERENCE_H
#define ETUDE_KERNEL_REFERENCE_H

#include <math.h>

#include "base/dtype.h"
#include "kernel/kernels.h"

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

void et_reference_elementwise(const et_ew_program *program, void *const *out, const void *const *in,
                              int64_t rows, int64_t width, et_random random);

void et_reference_layer_norm(void *y, float *stats, const void *x, const float *gamma,
                             const float *beta, float epsilon, int64_t rows, int64_t width,
                             et_dtype dtype);
void et_reference_layer_norm_grad(void *dx, float *dgamma, float *dbeta, void *y, float *scratch,
                                  const void *dy, const void *x, const float *stats,
                                  const float *gamma, const float *beta, int64_t rows,
                                  int64_t width, et_dtype dtype);
void et_reference_column_sum(float *sum, float *scratch, const void *x, int64_t rows, int64_t width,
                             et_dtype dtype);

double et_reference_sum(const void *x, int64_t count, et_dtype dtype);
void et_reference_fill(void *y, float value, int64_t count, et_dtype dtype);

void et_reference_attention(void *out, float *lse, const void *q, const void *k, const void *v,
                            const et_attention_shape *shape, float *scratch);
void et_reference_attention_grad(void *dq, void *dk, void *dv, const void *dout, const float *lse,
                                 const void *q, const void *k, const void *v,
                                 const et_attention_shape *shape, float *scratch);
void et_reference_cached_attention(void *out, const void *q, const void *keys, const void *values,
                                   const et_cached_attention_shape *shape);

void et_reference_float_product(const et_float_product *p);
void et_reference_row_product(float *y, const float *x, const et_row_product *shape);
void et_reference_best_pieces(float *log_p, int32_t *piece, const void *h,
                              const et_best_pieces *shape);

void et_reference_softmax_cross_entropy(void *logits, float *loss, float *nll, float *correct,
                                        const int32_t *labels, float smoothing, bool gradient,
                                        int64_t rows, int64_t vocabulary, et_dtype dtype);
void et_reference_log_softmax(float *logits, int64_t rows, int64_t vocabulary);
void et_reference_top_k(float *value, int32_t *index, const float *x, int k, int64_t rows,
                        int64_t width);

extern const et_staging et_reference_staging;
extern const et_softmax_parts et_reference_softmax_parts;

extern const et_layer_kernels et_reference_layers;

#endif
