/* Products, for gemm.c, which makes them, and gemm/run.c, which runs them. A tile is run as
 *
 *   for each chunk of its k:   A's rows and B's columns are staged on the thread's desk, unless
 *                              they are in the block's layout; the block adds their product
 *                              (a direct product is that of float_product.h)
 *   then C is finished         from the desk, or from all pieces once they are done,
 *                              unless the block has written C itself
 */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_GEMM_PRIVATE_H
#define ETUDE_ENGINE_KERNEL_GEMM_GEMM_PRIVATE_H

#include "engine/kernel/float_product.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/gemm/grid.h"
#include "engine/kernel/gemm/onednn_block.h"
#include "engine/kernel/gemm/slab.h"

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

/* All is owned. What runs reads it only; desks and sums are written to, by one thread each part. */
struct et_gemm_cache {
    et_gemm_engine *engine;
    const et_staging *staging;
    void (*float_product)(const et_float_product *product);
    bool own_floats; /* float_product does float32 gradients of weights */
    bool own_pairs;  /* it does bfloat16 gradients of weights */
    et_gemm_preference preference;
    et_dtype bf16; /* type that bfloat16 operands are multiplied in */
    bool pads;     /* tiles of a row_tile are filled up (grid.h) */
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
 * other; the second function is the offset in bytes of the slab that begins at (k, column). */
et_gemm_slab et_gemm_slab_of(const et_gemm *gemm, int64_t k, int64_t column);
size_t et_gemm_slab_offset(const et_gemm *gemm, int64_t k, int64_t column);

#endif
