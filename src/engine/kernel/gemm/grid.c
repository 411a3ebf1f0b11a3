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
#include "engine/kernel/gemm/gemm_private.h"

#include "base/assert.h"
#include "engine/kernel/gemm/onednn_block.h"

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

static int64_t smaller(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

/* The number of parts of that size, including a last partial one. */
static int64_t parts(int64_t whole, int64_t part)
{
    return (whole + part - 1) / part;
}

static int64_t round_up(int64_t value, int64_t multiple)
{
    return parts(value, multiple) * multiple;
}

/* Divides whole into about count equal parts, multiples of unit, and returns a part's size.
 * cut(512, 32, 64) = 64: 16 wanted, so 8 parts and not 32. A count below 1 counts as 1. */
static int64_t cut(int64_t whole, int64_t count, int64_t unit)
{
    return round_up(parts(whole, count > 0 ? count : 1), unit);
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
    grid->chunk_k = cut(grid->piece_k, parts(grid->piece_k, depth), unit);
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

/* A multiple of EVEN_TILES, or of two if that is fewer. */
int64_t et_gemm_repacking_tiles(const et_gemm_shape *shape)
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
    int64_t rows = cut(shape->m, round_up(count, count > 1 ? EVEN_TILES : 1), unit);
    bool plain = means->repacks && !widened && !shape->transpose_a;
    int64_t repacking = plain ? et_gemm_repacking_tiles(shape) : 0;
    grid->tile_m = repacking ? cut(shape->m, repacking, unit) : smaller(rows, ROWS_MAX);
    grid->tile_n = widened ? cut(shape->n, parts(shape->n, SLAB_COLUMNS), 64) : shape->n;
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
        grid->tile_m = cut(shape->m, smaller(count, EVEN_TILES), 16);
    if (own)
        cut_chunks(grid, depth, PANEL_DEPTH);
}

/* A comes transposed, mostly with a long k: a sum over tokens; or our own kernel does many rows.
 * Where tiles of 256 rows would be fewer than 6, they are halved, and across the longer side: a
 * square copies least. But a copy of B that has all of k serves every tile of its columns
 * (gemm/run.c): then columns stay whole, if there are rows to cut. */
static void cut_both(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means,
                     int64_t depth)
{
    int64_t columns = parts(shape->n, slab_columns(shape, means, depth));
    grid->tile_m = SLAB_ROWS;
    if (columns * parts(shape->m, SLAB_ROWS) < 6) {
        bool kept = shape->k <= depth && !means->direct && shape->m > LONE_TILE;
        bool wide = !kept && cut(shape->n, columns, 64) > SLAB_ROWS;
        columns *= wide ? 2 : 1;
        grid->tile_m /= wide ? 1 : 2;
    }
    grid->tile_n = cut(shape->n, columns, 64);
    cut_chunks(grid, depth, PANEL_DEPTH);
}

/* For few tiles but a long k: cuts k into an even number of pieces, for even work on two threads. A
 * tile is all of C. Blocks have one length for a last chunk, so their pieces are whole chunks and
 * the last one may be much shorter; Etude's own kernel takes a short chunk in each. 3,600: pieces
 * of 912, 912, 912 and 864, where whole chunks of 128 would give 1,024, 1,024, 1,024 and 528. */
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
        grid->piece_k = round_up(grid->piece_k, grid->chunk_k);
}

/* For decoding: rows as given, and columns so that few rows still make tiles for several threads:
 * at most about 8 across, of 128 columns or more, if that is worth starting them. If tiles are
 * padded, row_tile is rounded to the nearest multiple, at least 1, of et_gemm_row_unit, so that no
 * remaining rows are summed in another order; then columns do not depend on m either. */
static void cut_as_given(et_gemm_grid *grid, const et_gemm_shape *shape, const et_gemm_means *means)
{
    int64_t unit = means->pads ? et_gemm_row_unit() : 1, rows = shape->row_tile;
    rows = round_up(rows - unit / 2 > 0 ? rows - unit / 2 : 1, unit);
    grid->tile_m = means->pads ? rows : smaller(rows, shape->m);
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
    grid.tile_n = smaller(grid.tile_n, n);
    /* A tile that is padded keeps its rows even if there are fewer: they are filled up, and so a
     * row's bits do not depend on m. */
    grid.tile_m = shape->row_tile && means->pads ? grid.tile_m : smaller(grid.tile_m, m);
    grid.piece_k = smaller(grid.piece_k, k);
    grid.chunk_k = smaller(grid.chunk_k, grid.piece_k);
    et_assert(grid.piece_k == k || means->direct || grid.piece_k % grid.chunk_k == 0);
    bool empty = m == 0 || n == 0;
    grid.rows = empty ? 0 : parts(m, grid.tile_m);
    grid.columns = empty ? 0 : parts(n, grid.tile_n);
    grid.pieces = parts(k, grid.piece_k);
    return grid;
}
