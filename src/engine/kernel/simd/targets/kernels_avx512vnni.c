/* Kernels with products of bytes, for CPUs with AVX-512 and VNNI; CMakeLists.txt gives this file
 * its flags. kernels_avx512.c has the table. */
#include "engine/kernel/simd/best_tokens.inc.c"
#include "engine/kernel/simd/row_product.inc.c"
#include "engine/kernel/tables.h"

void et_avx512vnni_row_product(void *y, const void *x, const et_row_product *shape)
{
    row_product(y, x, shape);
}

void et_avx512vnni_best_tokens(float *log_p, int32_t *token, const void *h,
                               const et_best_tokens *shape)
{
    best_tokens(log_p, token, h, shape);
}
