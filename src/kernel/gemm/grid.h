/* How a product is cut into tiles: a function of its shape alone, never of the number of
 * threads, so that sums have one order on every machine.
 *
 *   tile    rows x columns of C, or, if k is cut into pieces, of one piece's part of C
 *   piece   a part of k that is a tile of its own; the parts of C are added in order
 *   chunk   a part of k inside a tile, accumulated by the tile one after another
 */
#ifndef ETUDE_KERNEL_GEMM_GRID_H
#define ETUDE_KERNEL_GEMM_GRID_H

#include "kernel/gemm/gemm.h"

typedef struct et_gemm_grid {
    /* At most m and n, but for a row_tile, which may be more than there are rows. */
    int64_t tile_m, tile_n;   /* of a full tile */
    int64_t piece_k, chunk_k; /* of a full piece and chunk; chunk_k <= piece_k <= k */
    /* Tiles down and across C and along k: rows * columns * pieces tiles in all. rows and columns
     * are 0 where C is empty, pieces is at least 1. */
    int64_t rows, columns, pieces;
} et_gemm_grid;

/* Any m, n >= 0 and k >= 1. No tiles if m or n is 0. widened: operands are bfloat16, but
 * multiplied as float32. */
et_gemm_grid et_gemm_grid_of(const et_gemm_shape *shape, bool widened);

#endif
