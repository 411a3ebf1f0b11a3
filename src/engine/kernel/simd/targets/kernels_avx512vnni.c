/* The table for CPUs with AVX-512 and its products of bytes; CMakeLists.txt gives this file its
 * flags. */
#define ET_TABLE      et_kernels_avx512vnni
#define ET_TABLE_NAME "avx512vnni"

#include "engine/kernel/simd/table.inc.c"
