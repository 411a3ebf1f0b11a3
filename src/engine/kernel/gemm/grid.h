/* How a product is cut into tiles: a function of its shape and of what the CPU is, never of the
 * number of threads. How k is cut, and so the order of sums, does not depend on caches.
 *
 *   tile    rows x columns of C, or, if k is cut into pieces, of one piece's part of C
 *   piece   a part of k that is a tile of its own; the parts of C are added in order
 *   chunk   a part of k inside a tile, accumulated by the tile one after another
 */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_GRID_H
#define ETUDE_ENGINE_KERNEL_GEMM_GRID_H

#include "engine/kernel/gemm/gemm.h"

/* From this number of chunks on, the memory of the C that they are added to matters. */
#define ET_GEMM_MANY_CHUNKS 8

typedef struct et_gemm_grid {
    /* At most m and n, except for a row_tile, which may have more rows than the product. */
    int64_t tile_m, tile_n;   /* of a full tile */
    int64_t piece_k, chunk_k; /* of a full piece and chunk; chunk_k <= piece_k <= k */
    /* Tiles down and across C and along k: rows * columns * pieces tiles in all. rows and columns
     * are 0 if C is empty, pieces is at least 1. */
    int64_t rows, columns, pieces;
} et_gemm_grid;

/* How the product is done, and on what. */
typedef struct et_gemm_means {
    bool widened; /* operands are bfloat16, but multiplied as float32 */
    bool direct;  /* by our own kernel */
    bool repacks; /* by blocks that each convert B to their own layout */
    bool pads;    /* tiles of a row_tile are padded: a row's sum is the same only in these */
    size_t l2;    /* bytes of a core's second-level cache */
} et_gemm_means;

/* Bytes from a row of B to the next from which on its rows share few sets of the first-level cache.
 */
#define ET_GEMM_FAR ((int64_t)2048)

/* The largest number of tiles of rows for a product whose blocks repack a B with rows FAR from each
 * other: with fewer rows, a block multiplies B in place, at half the rate. 0: no limit.
 */
int64_t et_gemm_repacking_tiles(const et_gemm_shape *shape);

/* Any m, n >= 0 and k >= 1. No tiles if m or n is 0. */
et_gemm_grid et_gemm_grid_of(const et_gemm_shape *shape, const et_gemm_means *means);

#endif
