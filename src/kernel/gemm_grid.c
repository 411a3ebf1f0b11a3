#include "kernel/gemm_grid.h"

#include "base/assert.h"
#include "kernel/gemm_onednn.h"

enum {
    SMALL_RESULT = 128 * 512, /* elements of C up to which sums of pieces cost little */
    PIECE_MIN = 512,          /* k of a piece: below, adding costs more than it frees */
    PIECES_MAX = 8,
    CHUNK = 1024,                 /* k of a chunk: its slabs of A and B stay in the L2 cache */
    TILES = 32,                   /* tiles wanted at least, for machines of many cores */
    TILE_FLOPS = 8 * 1000 * 1000, /* below, starting a tile shows */
};

static int64_t smaller(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

static int64_t parts(int64_t whole, int64_t part)
{
    return (whole + part - 1) / part;
}

static int64_t round_up(int64_t value, int64_t multiple)
{
    return parts(value, multiple) * multiple;
}

/* The part, a multiple of unit, that cuts whole into about count equal ones. */
static int64_t cut(int64_t whole, int64_t count, int64_t unit)
{
    return round_up(parts(whole, count > 0 ? count : 1), unit);
}

/* Rows of A are independent: cut them alone, so that A, C and a packed B are used in place. */
static void cut_rows(et_gemm_grid *grid, const et_gemm_shape *shape)
{
    double flops = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
    int64_t count = flops > (double)TILE_FLOPS * TILES ? TILES : (int64_t)(flops / TILE_FLOPS);
    grid->tile_m = smaller(cut(shape->m, count, 32), 256);
    grid->tile_n = shape->n;
}

/* A sum over tokens: A comes transposed and k is long. A tile copies its slabs of A and B. */
static void cut_both(et_gemm_grid *grid, const et_gemm_shape *shape)
{
    grid->tile_m = smaller(cut(shape->m, 4, 64), 256);
    grid->tile_n = smaller(cut(shape->n, 4, 64), 512);
    grid->chunk_k = CHUNK;
}

static void cut_long_sum(et_gemm_grid *grid, const et_gemm_shape *shape)
{
    int64_t count = smaller(shape->k / PIECE_MIN, PIECES_MAX);
    grid->tile_m = shape->m;
    grid->tile_n = shape->n;
    grid->piece_k = cut(shape->k, count, 32);
}

/* Decoding: rows as told, columns so that few rows still make tiles for several threads. */
static void cut_as_told(et_gemm_grid *grid, const et_gemm_shape *shape)
{
    int64_t unit = et_gemm_row_unit();
    grid->tile_m = round_up(shape->row_tile - unit / 2 > 0 ? shape->row_tile - unit / 2 : 1, unit);
    int64_t columns = cut(shape->n, 8, 64);
    grid->tile_n = columns < 128 ? 128 : columns;
}

et_gemm_grid et_gemm_grid_of(const et_gemm_shape *shape)
{
    et_assert(shape->m >= 0 && shape->n >= 0 && shape->k >= 1 && shape->row_tile >= 0);
    int64_t m = shape->m, n = shape->n, k = shape->k;
    et_gemm_grid grid = { .piece_k = k, .chunk_k = k };
    bool small = m * n <= SMALL_RESULT && k >= 2 * PIECE_MIN;
    if (shape->row_tile)
        cut_as_told(&grid, shape);
    else if (small && (shape->transpose_a || m <= 128) && !shape->pack_b)
        cut_long_sum(&grid, shape);
    else if (shape->transpose_a && k >= 2 * CHUNK && !shape->pack_b)
        cut_both(&grid, shape);
    else
        cut_rows(&grid, shape);
    grid.tile_n = smaller(grid.tile_n, n);
    grid.tile_m = shape->row_tile ? grid.tile_m : smaller(grid.tile_m, m);
    grid.piece_k = smaller(grid.piece_k, k);
    grid.chunk_k = smaller(grid.chunk_k, grid.piece_k);
    bool empty = m == 0 || n == 0;
    grid.rows = empty ? 0 : parts(m, grid.tile_m);
    grid.columns = empty ? 0 : parts(n, grid.tile_n);
    grid.pieces = parts(k, grid.piece_k);
    return grid;
}
