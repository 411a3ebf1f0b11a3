/* The table for CPUs with AVX-512, its products of bytes and of bfloat16; CMakeLists.txt gives this
 * file its flags. */
#define ET_TABLE      et_kernels_avx512bf16
#define ET_TABLE_NAME "avx512bf16"

#include "engine/kernel/simd/table.inc.c"
