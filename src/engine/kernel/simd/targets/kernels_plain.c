/* The table for any CPU. */
#define ET_SIMD_PLAIN
#define ET_TABLE      et_kernels_plain
#define ET_TABLE_NAME "plain"

#include "engine/kernel/simd/table.inc.c"
