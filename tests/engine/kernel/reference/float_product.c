/* C[i, j] = relu(C[i, j] + sum over l of A[i, l] B[l, j] + bias[j]), where relu, C and bias are
 * optional: computed by the definition, with strides, in double and rounded once (arguments.h).
 * The fast kernels sum in float32, so their error may be about k 2^-24 times the sum of |A B|.
 * `ahead` and `room` only affect time and are not read. */
#include "base/dtype.h"
#include "engine/kernel/reference/reference.h"

static double element(const void *from, int64_t i, et_dtype dtype)
{
    return dtype == ET_BF16 ? (double)et_bf16_to_float(((const et_bf16 *)from)[i])
                            : (double)((const float *)from)[i];
}

void et_reference_float_product(const et_float_product *p)
{
    const int64_t b_row = p->across ? 1 : p->ldb, b_column = p->across ? p->ldb : 1;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->accumulate ? p->c[i * p->ldc + j] : 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += element(p->a, i * p->a_row + l * p->a_step, p->ab) *
                       element(p->b, l * b_row + j * b_column, p->ab);
            if (p->bias)
                sum += p->bias[j];
            p->c[i * p->ldc + j] = (float)(p->relu ? et_reference_relu(sum) : sum);
        }
}
