/* The layout of B for a block: panels if oneDNN has a kernel for them, otherwise dense [k, n].
 *
 *   panels, float32    [n / 64][k][64], oneDNN's BA16a64b: k padded with zeros to a multiple
 *                      of 16, the last panel with zero columns
 *   panels, bfloat16   [n / 64][k / 2][64][2], BA16a64b2a: pairs of rows interleaved, k padded
 *                      to a multiple of 32
 *
 * oneDNN's own reorders give the same bytes, several times slower. */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_SLAB_H
#define ETUDE_ENGINE_KERNEL_GEMM_SLAB_H

#include <stddef.h>

#include "engine/kernel/staging.h"

/* Columns of a panel. */
#define ET_GEMM_PANEL 64

/* k rows of n columns of B: all of it, or the part for a block of a product. */
typedef struct et_gemm_slab {
    /* false: [k, n] dense, without padding. */
    bool panels;
    /* Of the slab's elements; a stored B may be bfloat16 if this is float32. */
    et_dtype dtype;
    /* Without padding. */
    int64_t k, n;
} et_gemm_slab;

/* Bytes, a multiple of 64. */
size_t et_gemm_slab_size(const et_gemm_slab *slab);

#endif
