/* A matrix product by its definition, with all options of et_gemm_shape: types, transposed
 * operands, strides, bias, activation, adding to the values in C.
 *
 * It takes m * n * k steps in the order of the formula, so it is for small sizes. It does not read
 * a packed B, because the layout of a packed B belongs to the engine. */
#include "engine/kernel/reference/reference.h"

#include "base/assert.h"
#include "base/dtype.h"

/* Element (row, column) of an operand as the product reads it, in any layout. */
static float element(const void *matrix, et_dtype dtype, int64_t row, int64_t column,
                     int64_t stride, bool transposed)
{
    int64_t index = transposed ? column * stride + row : row * stride + column;
    if (dtype == ET_BF16)
        return et_bf16_to_float(((const et_bf16 *)matrix)[index]);
    return ((const float *)matrix)[index];
}

/* Rounded once, from the sum to C's type. */
static void store(void *matrix, et_dtype dtype, int64_t index, float value)
{
    if (dtype == ET_BF16)
        ((et_bf16 *)matrix)[index] = et_bf16_from_float(value);
    else
        ((float *)matrix)[index] = value;
}

/* c[i, j] = act(sum over p of a[i, p] b[p, j] + bias[j]) (+ c[i, j]). The sum is in double, so that
 * comparisons only measure the error of the other side. */
void et_gemm_reference(const et_gemm_shape *shape, void *c, const void *a, const void *b,
                       const float *bias)
{
    et_assert(!shape->pack_b);
    int64_t lda = shape->lda ? shape->lda : shape->transpose_a ? shape->m : shape->k;
    int64_t ldb = shape->ldb ? shape->ldb : shape->transpose_b ? shape->k : shape->n;
    int64_t ldc = shape->ldc ? shape->ldc : shape->n;
    for (int64_t i = 0; i < shape->m; i++) {
        for (int64_t j = 0; j < shape->n; j++) {
            double sum = shape->bias ? bias[j] : 0.0;
            for (int64_t p = 0; p < shape->k; p++)
                sum += (double)element(a, shape->a, i, p, lda, shape->transpose_a) *
                       element(b, shape->b, p, j, ldb, shape->transpose_b);
            if (shape->accumulate)
                sum += ((const float *)c)[i * ldc + j];
            if (shape->activation == ET_GEMM_RELU)
                sum = et_reference_relu(sum);
            store(c, shape->c, i * ldc + j, (float)sum);
        }
    }
}
