/* The table for CPUs with AVX-512 (without VNNI); CMakeLists.txt gives this file its flags. */
#define ET_TABLE      et_kernels_avx512
#define ET_TABLE_NAME "avx512"

#include "engine/kernel/simd/table.inc.c"
