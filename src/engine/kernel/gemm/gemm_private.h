/* Products, for gemm.c, which makes them, and gemm/run.c, which runs them. A tile is run as
 *
 *   for each chunk of its k:   A's rows and B's columns are staged on the thread's desk, unless
 *                              they are in the block's layout; the block adds their product
 *                              (a direct product is that of arguments.h)
 *   then C is finished         from the desk, or from all pieces once they are done,
 *                              unless the block has written C itself
 */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_GEMM_PRIVATE_H
#define ETUDE_ENGINE_KERNEL_GEMM_GEMM_PRIVATE_H

#include <stddef.h>

#include "engine/kernel/arguments.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/gemm/onednn_block.h"

/* The layout of B for a block: panels if oneDNN has a kernel for them, otherwise dense [k, n].
 *
 *   panels, float32    [n / 64][k][64], oneDNN's BA16a64b: k padded with zeros to a multiple
 *                      of 16, the last panel with zero columns
 *   panels, bfloat16   [n / 64][k / 2][64][2], BA16a64b2a: pairs of rows interleaved, k padded
 *                      to a multiple of 32
 *
 * oneDNN's own reorders give the same bytes, several times slower. */
/* Columns of a panel. */
#define ET_GEMM_PANEL 64

/* k rows of n columns of B: all of it, or the part for a block of a product. */
typedef struct et_gemm_slab {
    /* false: [k, n] dense, without padding. */
    bool panels;
    /* Type of the slab's elements; a stored B may be bfloat16 if this is float32. */
    et_dtype dtype;
    /* Without padding. */
    int64_t k, n;
} et_gemm_slab;

/* Bytes, a multiple of 64. */
size_t et_gemm_slab_size(const et_gemm_slab *slab);

/* How a product is cut into tiles: by its shape and the CPU, never by the number of threads. How k
 * is cut, and thus the order of sums, does not depend on caches.
 *
 *   tile    rows x columns of C, or, if k is cut into pieces, of one piece's part of C
 *   piece   a part of k that is a tile of its own; the parts of C are added in order
 *   chunk   a part of k inside a tile, accumulated by the tile one after another
 */
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

/* Any m, n >= 0 and k >= 1. No tiles if m or n is 0. Declared for tests, which divide products as
 * on CPUs that they do not run on. */
et_gemm_grid et_gemm_grid_of(const et_gemm_shape *shape, const et_gemm_means *means);

/* A thread's copies of a block's operands and result, and the receiver of its tiles. Tiles of one
 * column share their B: if it is one slab, it stays on the desk until the product is done. */
typedef struct et_gemm_desk {
    /* a [tile_m, chunk_k] and b, a slab, of the product's type; NULL if it is not copied. */
    void *a, *b;
    /* [tile_m, tile_n], float32 or the block's result type; rows are a tile's columns apart. */
    float *c;
    int64_t held; /* column of B's slab on the desk; -1: none that may be used again */
    et_track *track;
} et_gemm_desk;

/* All is owned. Runs only read the cache, except desks and sums: one thread writes each part of
 * these. */
struct et_gemm_cache {
    et_gemm_engine *engine;
    const et_staging *staging;
    void (*float_product)(const et_float_product *product);
    bool own_floats; /* float_product does float32 gradients of weights */
    bool own_pairs;  /* it does bfloat16 gradients of weights */
    et_gemm_preference preference;
    et_dtype bf16; /* type that bfloat16 operands are multiplied in */
    bool pads;     /* tiles of a row_tile are filled up (et_gemm_means) */
    size_t l2;     /* bytes of the second-level cache */
    int threads;
    et_gemm_desk *desks; /* [threads] */
    size_t a, b, c;      /* bytes of each desk's parts */
    float *sums;         /* results of pieces, of the one product that is under way */
    size_t sums_size;    /* bytes */
    et_gemm **gemms;     /* [gemm_count] */
    size_t gemm_count, gemm_room;
    et_gemm_block **blocks; /* [block_count] */
    size_t block_count, block_room;
};

/* Sizes of a tile that is full (0) or the last one (1). */
enum { FULL, LAST };

/* A product: its cuts and copies, decided once. blocks[r][c][k][adds] is NULL if no tile needs it,
 * and always for direct products. */
struct et_gemm {
    et_gemm_cache *cache;
    et_gemm_shape shape; /* with lda, ldb and ldc filled in */
    et_gemm_shape asked; /* as given to et_gemm_get */
    et_gemm_grid grid;
    et_dtype type;    /* of the blocks' A and B */
    bool direct;      /* no blocks: Etude's own kernel, with operands in place */
    bool panels;      /* layout of blocks' B */
    bool across;      /* stored transposed, and neither packed nor staged */
    bool raw;         /* blocks give float32 sums; bias, activation and type come after */
    bool stage_a;     /* A is not dense per chunk, transposed, or of another type; of a direct
                         product: transposed */
    bool stage_b;     /* the same of B; false if it comes packed */
    bool stage_c;     /* C is not dense per tile: blocks write to the desk */
    bool pad_rows;    /* the last rows are filled up to a full tile */
    int64_t sum_rows; /* rows of C per sum */
    const et_gemm_block *blocks[2][2][2][2]; /* [rows][columns][chunk][adds to C] */
};

/* The slab of B for a block's chunk. A packed B is all slabs, those of a tile's chunks next to each
 * other. */
et_gemm_slab et_gemm_slab_of(const et_gemm *gemm, int64_t k, int64_t column);

#endif
