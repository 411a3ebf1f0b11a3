/* C[i, j] = sum over l of A[l, i] B[l, j], or that added to C[i, j]: the definition, with strides,
 * in double and rounded once (column_product.h). The fast kernels sum in float32, so they may be
 * off by about k 2^-24 times the sum of |A B|. `ahead` is about time alone and is not read. */
#include "kernel/reference.h"

void et_reference_column_product(const et_column_product *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->accumulate ? p->c[i * p->ldc + j] : 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += (double)p->a[l * p->lda + i] * p->b[l * p->ldb + j];
            p->c[i * p->ldc + j] = (float)sum;
        }
}
