/* The table for CPUs with AVX2 and FMA; CMakeLists.txt gives this file its flags. */
#define ET_TABLE      et_kernels_avx2
#define ET_TABLE_NAME "avx2"

#include "engine/kernel/simd/table.inc.c"
