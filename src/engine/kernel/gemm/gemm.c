/* Makes products and keeps them: a cache finds or makes the product of a shape, chooses which
 * operands must be copied, and makes the blocks for its tiles and the memory for copies.
 * The first part divides a product; run.c runs it, and onednn_block.c is a block.
 *
 * Invariants:
 *
 *   (1) grid, blocks and copies follow from the shape, the CPU and ETUDE_BF16, never from the
 *       number of threads;
 *   (2) all memory is allocated when a product is made: a desk's parts are as large as the
 *       largest tile of all products needs, the sums as large as the largest product in pieces;
 *   (3) products and blocks do not move until the cache is closed, so pointers to them may be
 *       kept.
 *
 * Products share blocks: a block knows the sizes of a tile and no strides of the matrices, so
 * products with tiles of equal size run the same primitive. If making a product fails, its finished
 * parts stay in the cache for the next one. */
#include "engine/kernel/gemm/gemm.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/vector.h"
#include "engine/kernel/gemm/gemm_private.h"
#include "engine/kernel/gemm/onednn_block.h"
#include "engine/kernel/kernels.h"
#include "engine/kernel/sizes.h"

/* ---- the grid of tiles ---- */

/* Divides a product into tiles, in one of five ways:
 *
 *   cut_as_told    row_tile is given (decoding): rows as given, columns for the threads
 *   cut_long_sum   a small C and a long k: pieces of k, added up afterwards
 *   cut_both       A transposed, or Etude's own kernel: rows and columns, k in chunks
 *   cut_columns    few rows: columns, so that each of B is read once
 *   cut_rows       otherwise: rows, so that operands that fit the blocks are not copied
 *
 * A tile is small enough that its copies stay in the second-level cache, and large enough that
 * starting it costs little; there are enough tiles for machines with many cores. Sums must have one
 * order for any number of threads, so the number of threads is not used: a machine of two cores
 * runs the same tiles as one of thirty. The size of the cache is used, if it determines the columns
 * of a tile.
 *
 * Example: m = 512, n = 2048, k = 512, B packed. 1.07e9 operations allow more than 32 tiles of 8e6,
 * so there would be 32 tiles of 16 rows; B has 2^20 elements, so rows come in units of 64: 8 tiles
 * of 64 x 2048, one chunk, nothing copied. */

/* Chosen by measuring (bench/bench_gemm.c) on 2 cores of an Intel Xeon with AVX-512 BF16, and
 * looked at again on an AMD EPYC (family 26) with 1 MB of second-level cache. */
enum {
    SMALL_RESULT = 128 * 512, /* elements of C up to which sums of pieces cost little, */
    LONG_SUM = 1024,          /* for a k from here on */
    LONE_TILE = 128,          /* rows and columns that cut_both would leave one tile */
    /* 256 x 128 float32 of A are 128 KiB, 128 x 512 of B are 256 KiB; of bfloat16 twice as deep. */
    SLAB_ROWS = 256,              /* of a tile that copies its slabs of A and B ... */
    SLAB_COLUMNS = 512,           /* at most; */
    SLAB_COLUMNS_LEAST = 192,     /* fewer where these would be too much for the cache: */
                                  /* and whole panels of Etude's own kernel, of 24 or 48 */
    SLAB_DEPTH = 128,             /* ... a chunk at a time, so that copies stay in the L2 cache; */
    SLAB_DEPTH_BF16 = 256,        /* the same bytes */
    WIDE_DEPTH = 256,             /* of a chunk of which only A is copied */
    PANEL_DEPTH = 32,             /* fills up panels of both types (gemm/gemm_private.h) */
    OWN_UNIT = 8,                 /* what our own kernel takes without leaving a pair over */
    ROW_TILES = 32,               /* tiles of rows wanted, for machines of many cores */
    EVEN_TILES = 4,               /* few tiles are a multiple: three are no even work for two */
    ROWS_MAX = 256,               /* rows of such a tile */
    BIG_B = 1 << 20,              /* elements of B that make tiles of less than 64 rows slow */
    TILE_FLOPS = 8 * 1000 * 1000, /* below, starting a tile shows */
    OWN_TILE_FLOPS = 2 * 1000 * 1000, /* the same for Etude's own kernel, which starts faster, and
                                       * for two tiles of few rows, for two threads */
    ROW_TILE_FLOPS = 2 * 1000 * 1000, /* the same of decoding's, that wait for each other; */
    FEW_TILE_FLOPS = 250 * 1000,      /* and of these few rows: one sentence's, which all threads */
    FEW_ROWS = 8,                     /* compute together; more rows they do not */
};

/* Divides whole into about count equal parts, multiples of unit, and returns a part's size.
 * cut(512, 32, 64) = 64: 16 wanted, so 8 parts and not 32. A count below 1 counts as 1. */
static int64_t cut(int64_t whole, int64_t count, int64_t unit)
{
    return et_round_up(et_part_count(whole, count > 0 ? count : 1), unit);
}

/* Columns of a tile that copies its slabs. If many chunks go through its C (SLAB_ROWS times these
 * columns in float32), C may fill at most a quarter of the cache, since slabs of A and B and their
 * next data need room too; but not fewer than SLAB_COLUMNS_LEAST. 1 MB: 256 columns. */
static int64_t slab_columns(const et_gemm_shape *shape, const et_gemm_means *means, int64_t depth)
{
    int64_t columns = (int64_t)(means->l2 / 4 / (SLAB_ROWS * sizeof(float))) / 64 * 64;
    if (columns > SLAB_COLUMNS || shape->k < ET_GEMM_MANY_CHUNKS * depth)
        return SLAB_COLUMNS;
    return columns < SLAB_COLUMNS_LEAST ? SLAB_COLUMNS_LEAST : columns;
}

/* Chunks of a piece, about equal and at most depth long, a multiple of the unit. 300 at a depth of
 * 128 in units of 32: 3 chunks, of 128, 128 and 44. */
static void cut_chunks(et_gemm_grid *grid, int64_t depth, int64_t unit)
{
    grid->chunk_k = cut(grid->piece_k, et_part_count(grid->piece_k, depth), unit);
}

/* How many tiles of so many operations, or more, it is worth: at most ROW_TILES, maybe 0. */
static int64_t tiles_worth(const et_gemm_shape *shape, double least)
{
    double count = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k / least;
    return count < ROW_TILES ? (int64_t)count : ROW_TILES;
}

/* oneDNN's float32 products for AVX2 (2.6.3) copy their operands where 1 / m + 1 / n is below
 * 0.0038; bench_gemm gave base's forward products 0.47 to 0.72 of the best way in tiles of fewer
 * rows. Each tile copies all of B, so fewer, of more rows, are faster: 4,096 x 2,048 is 8 tiles by
 * this limit. */
#define COPIED 0.0034

/* The largest number of tiles of rows for a product whose blocks repack a B with rows FAR from each
 * other: with fewer rows, a block multiplies B in place, at half the rate. A multiple of
 * EVEN_TILES, or of two if that is fewer; 0: no limit. */
static int64_t repacking_tiles(const et_gemm_shape *shape)
{
    double most = (double)shape->m * (COPIED - 1 / (double)shape->n);
    if (shape->n * (int64_t)sizeof(float) < ET_GEMM_FAR || most < 2)
        return 0;
    int64_t count = most < ROW_TILES ? (int64_t)most : ROW_TILES;
    int64_t even = count >= EVEN_TILES ? EVEN_TILES : 2;
    return count / even * even;
}

/* Rows of A are independent, so only rows are cut: A, C and a packed B are used in place. If A is
 * widened, neither A nor C is used in place: then a tile's copies should stay in the L2 cache. */
static void cut_rows(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means,
                     int64_t depth)
{
    const bool widened = means->widened;
    int64_t unit = shape->n * shape->k >= BIG_B ? 64 : 32;
    int64_t count = tiles_worth(shape, TILE_FLOPS);
    int64_t rows = cut(shape->m, et_round_up(count, count > 1 ? EVEN_TILES : 1), unit);
    bool plain = means->repacks && !widened && !shape->transpose_a;
    int64_t repacking = plain ? repacking_tiles(shape) : 0;
    grid->tile_m = repacking ? cut(shape->m, repacking, unit) : et_smaller(rows, ROWS_MAX);
    grid->tile_n = widened ? cut(shape->n, et_part_count(shape->n, SLAB_COLUMNS), 64) : shape->n;
    if (shape->transpose_a)
        cut_chunks(grid, depth, PANEL_DEPTH);
    else if (widened)
        cut_chunks(grid, WIDE_DEPTH, PANEL_DEPTH);
}

/* For few rows and a B that each tile reads itself: cuts columns, so that each column of B is read
 * once. The unit is 64, the width of a block's panel, or two of these for Etude's own kernel, whose
 * panels fit them better, and which takes k in chunks. Cuts rows if there are no columns to cut, or
 * if blocks would make two tiles of a B that is smaller than C: a part of C's columns must be
 * staged. */
static void cut_columns(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means,
                        int64_t depth)
{
    const bool own = means->direct;
    const int64_t most = tiles_worth(shape, OWN_TILE_FLOPS),
                  blocks = tiles_worth(shape, TILE_FLOPS);
    const int64_t count = own || most < 2 ? most : blocks < 2 ? 2 : blocks;
    const bool by_rows = !own && count == 2 && shape->k < shape->m;
    grid->tile_m = shape->m;
    grid->tile_n = by_rows ? shape->n : cut(shape->n, count, own ? 128 : 64);
    if (count > 1 && grid->tile_n >= shape->n)
        grid->tile_m = cut(shape->m, et_smaller(count, EVEN_TILES), 16);
    if (own)
        cut_chunks(grid, depth, PANEL_DEPTH);
}

/* For a transposed A, mostly with a long k (a sum over tokens), or for many rows by Etude's own
 * kernel. If tiles of 256 rows would be fewer than 6, they are halved across the longer side,
 * because square tiles copy least. But a copy of B that has all of k serves every tile of its
 * columns (gemm/run.c); then columns stay whole, if there are rows to cut. */
static void cut_both(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means,
                     int64_t depth)
{
    int64_t columns = et_part_count(shape->n, slab_columns(shape, means, depth));
    grid->tile_m = SLAB_ROWS;
    if (columns * et_part_count(shape->m, SLAB_ROWS) < 6) {
        bool kept = shape->k <= depth && !means->direct && shape->m > LONE_TILE;
        bool wide = !kept && cut(shape->n, columns, 64) > SLAB_ROWS;
        columns *= wide ? 2 : 1;
        grid->tile_m /= wide ? 1 : 2;
    }
    grid->tile_n = cut(shape->n, columns, 64);
    cut_chunks(grid, depth, PANEL_DEPTH);
}

/* For few tiles but a long k: cuts k into an even number of pieces, for even work on two threads. A
 * tile is all of C. Blocks have one length for a last chunk, so their pieces consist of whole
 * chunks, and the last piece may be much shorter. Etude's own kernel allows a short chunk in each
 * piece. 3,600: pieces of 912, 912, 912 and 864, where whole chunks of 128 would give 1,024, 1,024,
 * 1,024 and 528. */
static void cut_long_sum(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means,
                         int64_t depth)
{
    const int64_t k = shape->k, pieces = k >= 6144 ? 8 : k >= 2048 ? 4 : 2;
    const int64_t unit = means->direct ? OWN_UNIT : PANEL_DEPTH;
    grid->tile_m = shape->m;
    grid->tile_n = shape->n;
    grid->piece_k = cut(k, pieces, unit);
    cut_chunks(grid, depth, unit);
    if (!means->direct)
        grid->piece_k = et_round_up(grid->piece_k, grid->chunk_k);
}

/* For decoding: rows as given, and columns so that few rows still make tiles for several threads:
 * at most about 8 across, of 128 columns or more, if that is worth starting them. If tiles are
 * padded, row_tile is rounded to the nearest multiple, at least 1, of et_gemm_row_unit, so that no
 * remaining rows are summed in another order; then columns do not depend on m either. */
static void cut_as_given(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means)
{
    int64_t unit = means->pads ? et_gemm_row_unit() : 1, rows = shape->row_tile;
    rows = et_round_up(rows - unit / 2 > 0 ? rows - unit / 2 : 1, unit);
    grid->tile_m = means->pads ? rows : et_smaller(rows, shape->m);
    double flops = 2.0 * (double)grid->tile_m * (double)shape->n * (double)shape->k;
    double count = flops / (grid->tile_m <= FEW_ROWS ? FEW_TILE_FLOPS : ROW_TILE_FLOPS);
    int64_t columns = cut(shape->n, count < 8 ? (int64_t)count : 8, 64);
    grid->tile_n = columns < 128 ? 128 : columns;
}

et_gemm_grid et_gemm_grid_of(const et_gemm_shape *shape, const et_gemm_means *means)
{
    et_assert(shape->m >= 0 && shape->n >= 0 && shape->k >= 1 && shape->row_tile >= 0);
    int64_t m = shape->m, n = shape->n, k = shape->k;
    et_gemm_grid grid = { .piece_k = k, .chunk_k = k };
    int64_t depth = shape->a == ET_BF16 && !means->widened ? SLAB_DEPTH_BF16 : SLAB_DEPTH;
    /* Sums of pieces cost a write and a read of C for each piece. A long k pays for that, and a
     * shorter k if the product would be a single tile. */
    bool lone = shape->transpose_a && m <= LONE_TILE && n <= LONE_TILE;
    bool small = m * n <= SMALL_RESULT && m <= 2 * SLAB_ROWS && n <= 2 * SLAB_COLUMNS &&
                 k >= (lone ? LONG_SUM / 2 : LONG_SUM);
    if (shape->row_tile)
        cut_as_given(&grid, shape, means);
    else if (small && (shape->transpose_a || m <= 128) && !shape->pack_b)
        cut_long_sum(&grid, shape, means, depth);
    else if (!shape->pack_b && (shape->transpose_a || (means->direct && m > ET_GEMM_FEW_ROWS)))
        cut_both(&grid, shape, means, depth);
    else if (m <= ET_GEMM_FEW_ROWS && !shape->pack_b)
        cut_columns(&grid, shape, means, depth);
    else
        cut_rows(&grid, shape, means, depth);
    grid.tile_n = et_smaller(grid.tile_n, n);
    /* A tile that is padded keeps its rows even if there are fewer: they are filled up, and so a
     * row's bits do not depend on m. */
    grid.tile_m = shape->row_tile && means->pads ? grid.tile_m : et_smaller(grid.tile_m, m);
    grid.piece_k = et_smaller(grid.piece_k, k);
    grid.chunk_k = et_smaller(grid.chunk_k, grid.piece_k);
    et_assert(grid.piece_k == k || means->direct || grid.piece_k % grid.chunk_k == 0);
    bool empty = m == 0 || n == 0;
    grid.rows = empty ? 0 : et_part_count(m, grid.tile_m);
    grid.columns = empty ? 0 : et_part_count(n, grid.tile_n);
    grid.pieces = et_part_count(k, grid.piece_k);
    return grid;
}

/* ---- products and their cache ---- */

/* If bfloat16 dot products are no faster than float32 multiply-adds, operands are widened when they
 * are staged. This holds for Intel's cores without AMX (on one Xeon bench_gemm gave about half of
 * float32's rate); AMD's use bfloat16. ETUDE_BF16 may be "native" or "widen". Without panels of
 * bfloat16 the engine has no fast product for it, and "native" is ignored. */
static et_dtype multiply_bf16_as(const et_gemm_engine *engine)
{
    const char *wanted = getenv("ETUDE_BF16");
    if (!et_gemm_engine_panels(engine, ET_BF16) || (wanted && strcmp(wanted, "widen") == 0))
        return ET_F32;
    bool native = et_gemm_fast_bf16() || (wanted && strcmp(wanted, "native") == 0);
    return native ? ET_BF16 : ET_F32;
}

/* The cache. */

int et_gemm_cache_open(et_gemm_cache **out, int max_threads, et_error *error)
{
    et_assert(max_threads >= 1);
    et_gemm_cache *cache;
    if (ET_ALLOC_ZERO(cache, 1, "a cache of matrix products", error))
        return ET_ENOMEM;
    cache->threads = max_threads;
    cache->staging = et_kernels_best()->staging;
    cache->float_product = et_kernels_best()->float_product;
    int status = ET_ALLOC_ZERO(cache->desks, max_threads, "a cache of matrix products", error);
    for (int i = 0; !status && i < max_threads; i++)
        cache->desks[i].track = et_track_off();
    if (!status)
        status = et_gemm_engine_open(&cache->engine, max_threads, error);
    if (status) {
        et_gemm_cache_close(cache);
        return status;
    }
    cache->bf16 = multiply_bf16_as(cache->engine);
    cache->own_floats = !et_gemm_fast_blocks();
    /* If oneDNN multiplies bfloat16 by the same instructions, Etude's kernel wins, because it
     * copies less. AMX is several times as fast. */
    cache->own_pairs = strcmp(et_kernels_best()->name, "avx512bf16") == 0 && !et_gemm_has_amx();
    cache->pads = et_gemm_row_unit() > 1 || et_gemm_has_amx();
    cache->l2 = et_cpu_l2();
    *out = cache;
    return ET_OK;
}

/* Takes a cache in any state of opening. Blocks go before the engine that made them. */
void et_gemm_cache_close(et_gemm_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < cache->gemm_count; i++)
        et_free(cache->gemms[i]);
    for (size_t i = 0; i < cache->block_count; i++)
        et_gemm_block_free(cache->blocks[i]);
    for (int i = 0; cache->desks && i < cache->threads; i++) {
        et_free(cache->desks[i].a);
        et_free(cache->desks[i].b);
        et_free(cache->desks[i].c);
    }
    et_free(cache->gemms);
    et_free(cache->blocks);
    et_free(cache->desks);
    et_free(cache->sums);
    et_gemm_engine_close(cache->engine);
    et_free(cache);
}

void et_gemm_cache_prefer(et_gemm_cache *cache, et_gemm_preference preference)
{
    et_assert_equal(cache->gemm_count, 0);
    cache->preference = preference;
}

void et_gemm_cache_assume_l2(et_gemm_cache *cache, size_t bytes)
{
    et_assert_equal(cache->gemm_count, 0);
    cache->l2 = bytes;
}

void et_gemm_cache_trace(et_gemm_cache *cache, int thread, et_track *track)
{
    et_assert(thread >= 0 && thread < cache->threads);
    cache->desks[thread].track = track;
}

et_dtype et_gemm_multiplied_as(const et_gemm_cache *cache, et_dtype dtype)
{
    return dtype == ET_BF16 ? cache->bf16 : dtype;
}

bool et_gemm_own_gradients(const et_gemm_cache *cache, et_dtype dtype)
{
    if (dtype == ET_BF16 && cache->bf16 != ET_BF16)
        return false;
    if (cache->preference != ET_GEMM_BEST)
        return cache->preference == ET_GEMM_OWN;
    return dtype == ET_F32 ? cache->own_floats : cache->own_pairs;
}

size_t et_gemm_cache_primitives(const et_gemm_cache *cache)
{
    return cache->block_count;
}

/* Allocates memory of the new size and frees the old, whose contents are lost. NULL: no memory; the
 * old memory stays. */
static void *grow(void *memory, size_t size, et_error *error)
{
    void *grown = et_alloc_aligned(size, 64);
    if (grown)
        et_free(memory);
    else
        et_alloc_failed(error, "a matrix product's tiles");
    return grown;
}

/* One part of every desk, of `has` bytes so far. Desks that have grown when memory ends are larger
 * than they need be, which harms nothing. `part` is the offset of the pointer in a desk. *has grows
 * last: it holds for every desk. */
static int grow_parts(et_gemm_cache *cache, size_t part, size_t *has, size_t size, et_error *error)
{
    if (size <= *has)
        return ET_OK;
    for (int i = 0; i < cache->threads; i++) {
        void **at = (void **)(void *)((char *)&cache->desks[i] + part);
        void *grown = grow(*at, size, error);
        if (!grown)
            return ET_ENOMEM;
        *at = grown;
    }
    *has = size;
    return ET_OK;
}

/* The block of that shape, made at the first call. The search is linear, because nobody calls this
 * while products run. */
static int find_block(const et_gemm_block **out, et_gemm_cache *cache,
                      const et_gemm_block_shape *shape, et_error *error)
{
    for (size_t i = 0; i < cache->block_count; i++)
        if (memcmp(et_gemm_block_shape_of(cache->blocks[i]), shape, sizeof *shape) == 0) {
            *out = cache->blocks[i];
            return ET_OK;
        }
    if (!ET_VECTOR_GROW(cache->blocks, cache->block_room, cache->block_count + 1))
        return et_alloc_failed(error, "a cache of matrix products");
    et_gemm_block *block;
    int status = et_gemm_block_new(&block, cache->engine, shape, error);
    if (!status)
        cache->blocks[cache->block_count++] = block;
    *out = block;
    return status;
}

/* Making a product. */

/* Size of the last part, in 1 .. part: of 10 in parts of 4 it is 2, of 8 it is 4. */
static int64_t last_of(int64_t whole, int64_t part)
{
    return whole - (whole - 1) / part * part;
}

/* The shape of a tile's block. row, column and chunk say whether the tile or chunk is FULL or the
 * LAST one; adds: adds to C's contents. The last chunk of all belongs to the last piece, which may
 * be shorter than the others. Blocks of a raw product leave bias, activation and C's type to
 * staging's finish, which comes after the last of them; the others leave the activation alone. */
static et_gemm_block_shape block_shape(const et_gemm *gemm, int row, int column, int chunk,
                                       bool adds)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_gemm_grid *grid = &gemm->grid;
    int64_t piece = chunk == LAST ? last_of(shape->k, grid->piece_k) : grid->piece_k;
    return (et_gemm_block_shape){
        .m = row == LAST ? last_of(shape->m, grid->tile_m) : grid->tile_m,
        .n = column == LAST ? last_of(shape->n, grid->tile_n) : grid->tile_n,
        .k = chunk == LAST ? last_of(piece, grid->chunk_k) : grid->chunk_k,
        .accumulate = adds,
        .bias = shape->bias && !gemm->raw,
        .panels = gemm->panels && !gemm->across,
        .across = gemm->across,
        .ab = gemm->type,
        .c = gemm->raw ? ET_F32 : shape->c,
    };
}

/* Makes all blocks of a column of tiles, whole (FULL) or last. A tile of one chunk runs one block,
 * which adds if C itself is added to. With several chunks the first sets and the others add, unless
 * C itself is added to; a last chunk only adds, unless the last piece has no other. If rows are
 * padded, each tile has the full number of rows, so no block is made for a last row of tiles. */
static int make_column(et_gemm *gemm, int column, et_error *error)
{
    const et_gemm_grid *grid = &gemm->grid;
    bool one_chunk = grid->chunk_k == grid->piece_k;
    bool direct_sum = gemm->shape.accumulate && !gemm->raw && !gemm->stage_c;
    bool lone_last = last_of(gemm->shape.k, grid->piece_k) <= grid->chunk_k;
    for (int row = FULL; row <= (grid->rows > 1 && !gemm->pad_rows ? LAST : FULL); row++)
        for (int chunk = FULL; chunk <= LAST; chunk++)
            for (int adds = 0; adds <= 1; adds++) {
                bool first = chunk == FULL || lone_last;
                bool comes = one_chunk ? adds == direct_sum : adds || (first && !direct_sum);
                if (!comes)
                    continue;
                et_gemm_block_shape shape = block_shape(gemm, row, column, chunk, adds);
                const et_gemm_block **slot = &gemm->blocks[row][column][chunk][adds];
                int status = find_block(slot, gemm->cache, &shape, error);
                if (status)
                    return status;
            }
    return ET_OK;
}

#define SHORT_ROW 64 /* elements, of a B that blocks copy for themselves */

/* Whether the rows are adjacent in memory; whole: a block takes them from end to end. */
static bool dense(int64_t stride, int64_t width, bool whole)
{
    return whole && stride == width;
}

/* Blocks of C as narrow do little work compared to the copies that they need: bench_gemm gave
 * Etude's own kernel 1.05 to 1.25 of their rate at 64 rows or columns, even on CPUs where blocks
 * are faster otherwise. */
#define NARROW 64

/* Without panels, blocks would multiply B in place, with rows far from each other. bench_gemm gave
 * Etude's own kernel 1.25 of their rate at 768 rows.
 */
bool et_gemm_own_rows(const et_gemm_cache *cache, const et_gemm_shape *shape)
{
    return shape->a == ET_F32 && shape->b == ET_F32 && !shape->transpose_a && !shape->row_tile &&
           shape->m > ET_GEMM_FEW_ROWS && cache->preference == ET_GEMM_BEST &&
           !et_gemm_engine_panels(cache->engine, ET_F32) &&
           shape->n * (int64_t)sizeof(float) >= ET_GEMM_FAR && !repacking_tiles(shape);
}

/* Whether Etude's own kernel computes the product. It does for a gradient of a weight, for which a
 * block would need A transposed and B in panels. It also does for few rows of float32, for which B
 * in panels would be read too seldom. Widened operands are copied anyway, and blocks multiply the
 * copies. */
static bool is_direct(const et_gemm *gemm)
{
    const et_gemm_shape *shape = &gemm->shape;
    bool plain = !shape->bias && shape->activation == ET_GEMM_LINEAR;
    bool gradient = shape->transpose_a && !shape->transpose_b && plain;
    bool few = !shape->transpose_a && shape->m <= ET_GEMM_FEW_ROWS;
    if (shape->pack_b || shape->row_tile || shape->a != shape->b)
        return false;
    if (gradient)
        return et_gemm_own_gradients(gemm->cache, shape->a) ||
               (gemm->cache->preference == ET_GEMM_BEST && shape->a == ET_F32 &&
                (shape->m <= NARROW || shape->n <= NARROW));
    return et_gemm_own_rows(gemm->cache, shape) ||
           (few && shape->a == ET_F32 && gemm->cache->preference != ET_GEMM_BLOCKS);
}

/* Whether B may be read unpacked. On an EPYC of family 25 bench_gemm gave such a B 1.15 of the rate
 * of a packed one at 768 rows on two threads, each of which finds half of the packed B in the
 * other's cache, and 1.00 on one thread. It gave 0.95 if rows are FAR from each other and B exceeds
 * the second-level cache. Without panels Etude's own kernel may read it. */
bool et_gemm_reads_stored(const et_gemm_cache *cache, const et_gemm_shape *shape)
{
    const int64_t row = shape->n * (int64_t)sizeof(float);
    if (et_gemm_own_rows(cache, shape))
        return true;
    return shape->a == ET_F32 && shape->b == ET_F32 && !shape->transpose_a && !shape->transpose_b &&
           !shape->row_tile && (!shape->ldb || shape->ldb == shape->n) &&
           shape->m > ET_GEMM_FEW_ROWS && row < ET_GEMM_FAR &&
           row * shape->k <= (int64_t)cache->l2 / 4;
}

/* A transposed B of few, short rows, which all of a product of few rows reads: oneDNN's block
 * copies it faster than staging does. */
static bool reads_across(const et_gemm *gemm)
{
    const et_gemm_shape *shape = &gemm->shape;
    return shape->transpose_b && !shape->pack_b && gemm->panels && gemm->type == ET_BF16 &&
           shape->b == ET_BF16 && shape->m <= ET_GEMM_FEW_ROWS && shape->k <= SHORT_ROW &&
           dense(shape->ldb, shape->k, gemm->grid.chunk_k == shape->k) && gemm->grid.columns == 1;
}

/* Chooses the operands to copy and the work after the blocks. Blocks compute raw sums if
 *   (a) pieces of k must be added up first,
 *   (b) bias, relu or rounding would be done after each chunk and not after the last,
 *   (c) operands are float32 and C is not, or
 *   (d) a product that is padded to full tiles adds to C, which has no rows to pad.
 * C itself is staged if sums are raw, or if a block's dense C would not be a part of it. */
static void choose_staging(et_gemm *gemm)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_gemm_grid *grid = &gemm->grid;
    bool one_chunk = grid->chunk_k == shape->k;
    bool other_a = gemm->type != shape->a, other_b = gemm->type != shape->b;
    gemm->pad_rows = shape->row_tile > 0 && (gemm->cache->pads || !gemm->panels);
    bool late = shape->bias || shape->activation != ET_GEMM_LINEAR || shape->c != ET_F32;
    gemm->raw = grid->pieces > 1 || (late && grid->chunk_k < grid->piece_k) ||
                (gemm->type == ET_F32 && shape->c != ET_F32) ||
                (gemm->pad_rows && shape->accumulate);
    gemm->stage_a = shape->transpose_a || other_a || !dense(shape->lda, shape->k, one_chunk);
    gemm->stage_b =
        !shape->pack_b && (gemm->panels || shape->transpose_b || other_b || !one_chunk ||
                           !dense(shape->ldb, shape->n, grid->columns <= 1));
    gemm->stage_c = gemm->raw || !dense(shape->ldc, shape->n, grid->columns <= 1);
    gemm->across = reads_across(gemm);
    gemm->stage_b &= !gemm->across;
}

/* Bytes from the first row of a chunk to its last from which on its rows are read once and copied:
 * they are on more pages than the first-level buffer of page addresses holds (64 of 4 KiB), and
 * lines of few sets of the first-level cache. */
#define FAR_APART ((size_t)1 << 18)

/* A direct product's transposed A is copied to panels on the desk if its rows are far apart, or
 * must become pairs. C is staged on the desk if its sums are raw. It is also staged if chunks add
 * to rows that are apart and would evict each other from the caches. */
static void stage_direct(et_gemm *gemm)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_gemm_grid *grid = &gemm->grid;
    bool many = grid->piece_k >= ET_GEMM_MANY_CHUNKS * grid->chunk_k;
    bool apart = many && !dense(shape->ldc, shape->n, grid->columns <= 1);
    bool far_apart = grid->chunk_k * shape->lda * sizeof(float) >= FAR_APART;
    gemm->raw = grid->pieces > 1 || shape->c != ET_F32;
    gemm->stage_a = shape->transpose_a && (far_apart || gemm->type == ET_BF16);
    gemm->stage_c = gemm->raw || apart;
}

/* Allocates copies of one full tile for each thread: A [tile_m, chunk_k], a slab of B, C [tile_m,
 * tile_n] as float32 even if a block rounds it. Sums are [pieces, m, n], once for the cache: at
 * most one product with sums runs at a time. */
static int make_room(const et_gemm *gemm, et_error *error)
{
    const et_gemm_grid *grid = &gemm->grid;
    const et_gemm_shape *shape = &gemm->shape;
    et_gemm_cache *cache = gemm->cache;
    size_t m = (size_t)grid->tile_m, n = (size_t)grid->tile_n, k = (size_t)grid->chunk_k;
    et_gemm_slab slab = et_gemm_slab_of(gemm, 0, 0);
    size_t a = gemm->stage_a || gemm->pad_rows ? m * k * et_dtype_size(gemm->type) : 0;
    if (gemm->direct)
        a = gemm->stage_a ? et_float_product_scratch(grid->tile_m, grid->chunk_k, gemm->type) : 0;
    size_t b = gemm->stage_b ? et_gemm_slab_size(&slab) : 0;
    size_t c = gemm->stage_c || gemm->pad_rows ? m * n * sizeof(float) : 0;
    int status = grow_parts(cache, offsetof(et_gemm_desk, a), &cache->a, a, error);
    if (!status)
        status = grow_parts(cache, offsetof(et_gemm_desk, b), &cache->b, b, error);
    if (!status)
        status = grow_parts(cache, offsetof(et_gemm_desk, c), &cache->c, c, error);
    size_t sums = shape->m * shape->n * grid->pieces * sizeof(float);
    if (status || grid->pieces == 1 || sums <= cache->sums_size)
        return status;
    float *grown = grow(cache->sums, sums, error);
    if (!grown)
        return ET_ENOMEM;
    cache->sums = grown;
    cache->sums_size = sums;
    return ET_OK;
}

/* 0 means dense: the stride becomes the length of a stored row. */
static void fill_strides(et_gemm_shape *shape)
{
    if (!shape->lda)
        shape->lda = shape->transpose_a ? shape->m : shape->k;
    if (!shape->ldb)
        shape->ldb = shape->transpose_b ? shape->k : shape->n;
    if (!shape->ldc)
        shape->ldc = shape->n;
}

/* An empty C has no tiles, and nothing is made. A sum is about 8,192 elements of C: enough to be
 * worth a thread, few enough that all threads get some. */
static int make(et_gemm *gemm, et_error *error)
{
    gemm->type = et_gemm_multiplied_as(gemm->cache, gemm->shape.a);
    gemm->direct = is_direct(gemm);
    gemm->panels = !gemm->direct && et_gemm_engine_panels(gemm->cache->engine, gemm->type) &&
                   (gemm->asked.pack_b || !et_gemm_reads_stored(gemm->cache, &gemm->asked));
    const et_gemm_means means = { .widened = gemm->type != gemm->shape.a,
                                  .direct = gemm->direct,
                                  .repacks = !gemm->direct && !gemm->panels,
                                  .pads = gemm->cache->pads || !gemm->panels,
                                  .l2 = gemm->cache->l2 };
    gemm->grid = et_gemm_grid_of(&gemm->shape, &means);
    gemm->sum_rows = 1 + 8192 / (gemm->shape.n + 1);
    if (gemm->direct)
        stage_direct(gemm);
    else
        choose_staging(gemm);
    if (gemm->grid.rows == 0 || gemm->grid.columns == 0)
        return ET_OK;
    int status = gemm->direct ? ET_OK : make_column(gemm, FULL, error);
    if (!status && !gemm->direct)
        status = make_column(gemm, LAST, error);
    return status ? status : make_room(gemm, error);
}

/* Compares every member of et_gemm_shape; without one of them, two products would count as equal.
 */
static bool same(const et_gemm_shape *l, const et_gemm_shape *r)
{
    return l->m == r->m && l->n == r->n && l->k == r->k && l->transpose_a == r->transpose_a &&
           l->transpose_b == r->transpose_b && l->lda == r->lda && l->ldb == r->ldb &&
           l->ldc == r->ldc && l->a == r->a && l->b == r->b && l->c == r->c &&
           l->pack_b == r->pack_b && l->accumulate == r->accumulate && l->bias == r->bias &&
           l->activation == r->activation && l->row_tile == r->row_tile;
}

int et_gemm_get(et_gemm **out, et_gemm_cache *cache, const et_gemm_shape *shape, et_error *error)
{
    et_assert(shape->a == ET_F32 || shape->a == ET_BF16);
    et_assert(shape->b == shape->a || shape->b == ET_BF16);
    et_assert(shape->c == ET_F32 || (shape->c == ET_BF16 && !shape->accumulate));
    et_assert(!shape->accumulate || shape->activation == ET_GEMM_LINEAR);
    for (size_t i = 0; i < cache->gemm_count; i++)
        if (same(&cache->gemms[i]->asked, shape)) {
            *out = cache->gemms[i];
            return ET_OK;
        }
    /* The array grows first, so that a new product always has a place. */
    if (!ET_VECTOR_GROW(cache->gemms, cache->gemm_room, cache->gemm_count + 1))
        return et_alloc_failed(error, "a cache of matrix products");
    et_gemm *gemm;
    if (ET_ALLOC_ZERO(gemm, 1, "a matrix product", error))
        return ET_ENOMEM;
    gemm->cache = cache;
    gemm->asked = *shape;
    gemm->shape = *shape;
    fill_strides(&gemm->shape);
    int status = make(gemm, error);
    if (status) {
        et_free(gemm);
        return et_fail_while(error, status, "matrix product of %lld x %lld by %lld x %lld",
                             (long long)shape->m, (long long)shape->k, (long long)shape->k,
                             (long long)shape->n);
    }
    cache->gemms[cache->gemm_count++] = gemm;
    *out = gemm;
    return ET_OK;
}
