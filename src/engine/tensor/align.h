/* Alignment of parts of flat float32 arrays. */
#ifndef ETUDE_ENGINE_TENSOR_ALIGN_H
#define ETUDE_ENGINE_TENSOR_ALIGN_H

#include <stdint.h>

/* Elements: 64 bytes of float32, a cache line and an AVX-512 register. So parts that begin at
 * multiples are loaded aligned, and no two share a line. */
#define ET_FLAT_ALIGN 16

static inline int64_t et_flat_up(int64_t elements)
{
    return (elements + ET_FLAT_ALIGN - 1) / ET_FLAT_ALIGN * ET_FLAT_ALIGN;
}

#endif
