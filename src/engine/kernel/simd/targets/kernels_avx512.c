/* The table for CPUs with AVX-512 (without VNNI); CMakeLists.txt gives this file its flags. The
 * table for CPUs with VNNI has the same kernels, except those of kernels_avx512vnni.c. */
#define ET_TABLE      et_kernels_avx512
#define ET_TABLE_NAME "avx512"

#include "engine/kernel/simd/table.inc.c"

const et_kernels et_kernels_avx512vnni = {
    .name = "avx512vnni",
    .panel = PANEL,
#define KERNEL(type, name, ...)       .name = (name),
#define BYTES_KERNEL(type, name, ...) .name = (et_avx512vnni_##name),
#include "engine/kernel/kernels.def"
#undef KERNEL
    .staging = &staging,
    .softmax_parts = &softmax_parts,
};
