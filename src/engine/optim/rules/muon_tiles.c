/* A matrix is padded with zeros to whole tiles, which stay zeros: x [side, length]. A product reads
 * its left operand as it is stored and the right one from panels, so after a product x, A and the
 * polynomial p are rounded and what is multiplied next is put into panels:
 *
 *   A = x x^T      panels of x^T
 *   p of A A       panels of A
 *   x = p x        panels of x
 *
 * A and p are symmetric, and computed on and above the diagonal only, in blocks of rows; the
 * blocks of bfloat16 are mirrored. Threads share blocks of rows and panels. */
#include "engine/optim/rules/muon_tiles.h"

#include <string.h>

#include "base/assert.h"
#include "engine/kernel/gemm/tile_product.h"
#include "engine/kernel/parallel.h"

#define UNIT ET_TILE_UNIT

/* Multiplications below which a matrix stays on one thread. */
#define MUCH ((int64_t)1 << 22)

typedef struct matrix {
    const et_kernels *kernels;
    int64_t side, length; /* whole tiles */
    float *a;             /* [side, side] */
    float *sums;          /* [side, length], or [side, side]: of the last product */
    et_bf16 *x;           /* [side, length] */
    et_bf16 *square;      /* [side, side]: A, then p */
    et_bf16 *panels;      /* of the next product's right operand */
} matrix;

static int64_t padded(int64_t size)
{
    return (size + UNIT - 1) / UNIT * UNIT;
}

size_t et_muon_tiles_scratch(int64_t side, int64_t length)
{
    const int64_t s = padded(side), l = padded(length);
    return (size_t)(s * s + s * l + s * l / 2 + s * s / 2 + s * l / 2);
}

static matrix matrix_in(const et_kernels *kernels, float *scratch, int64_t side, int64_t length)
{
    matrix w = { .kernels = kernels, .side = padded(side), .length = padded(length) };
    const int64_t square = w.side * w.side, all = w.side * w.length;
    w.a = scratch;
    w.sums = w.a + square;
    w.x = (void *)(w.sums + all);
    w.square = w.x + all;
    w.panels = w.square + square;
    return w;
}

/* ---- panels: begin .. end - 1 ---- */

static et_stored part_of(const et_bf16 *data, int64_t rows, int64_t columns, int64_t stride)
{
    return (et_stored){ data, rows, columns, stride, ET_BF16 };
}

static void panels_of_turned_x(const matrix *w, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const et_stored rows = part_of(w->x + i * UNIT * w->length, UNIT, w->length, w->length);
        w->kernels->staging->pairs_across(w->panels + i * UNIT * w->length, w->length, UNIT, &rows);
    }
}

static void panels_of(const matrix *w, const et_bf16 *from, int64_t columns, int64_t begin,
                      int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const et_stored part = part_of(from + i * UNIT, w->side, UNIT, columns);
        w->kernels->staging->row_pairs(w->panels + i * UNIT * w->side, w->side, UNIT, &part);
    }
}

/* ---- products: blocks of rows begin .. end - 1 ---- */

/* Blocks of an even place come from above, those between from below, so that neighbours have as
 * much to do as others. */
static int64_t symmetric_row(const matrix *w, int64_t position)
{
    const int64_t blocks = w->side / UNIT;
    return (position % 2 ? blocks - 1 - position / 2 : position / 2) * UNIT;
}

/* Rows of the square from the diagonal on, float32 at `from`, become bfloat16 and are mirrored. */
static void round_symmetric(const matrix *w, const float *from, int64_t row)
{
    const int64_t side = w->side;
    for (int64_t i = row; i < row + UNIT; i++)
        w->kernels->to_bf16(w->square + i * side + row, from + i * side + row, side - row);
    for (int64_t j = row + UNIT; j < side; j += UNIT) {
        _Alignas(64) et_bf16 tile[UNIT * UNIT];
        const et_stored block = part_of(w->square + row * side + j, UNIT, UNIT, side);
        w->kernels->staging->across(tile, UNIT, UNIT, ET_BF16, &block);
        for (int64_t i = 0; i < UNIT; i++)
            memcpy(w->square + (j + i) * side + row, tile + i * UNIT, UNIT * sizeof *tile);
    }
}

/* A = x x^T */
static void square_part(const matrix *w, int64_t begin, int64_t end)
{
    const int64_t side = w->side, length = w->length;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = symmetric_row(w, i);
        et_tile_product(w->a + row * side + row, side, w->x + row * length, length,
                        w->panels + row * length, side - row, length);
        round_symmetric(w, w->a, row);
    }
}

/* p = 3.4445 - 4.7750 A + 2.0315 A^2 over the sums of A^2; A is still read by others. */
static void polynomial_part(const matrix *w, int64_t begin, int64_t end)
{
    const int64_t side = w->side;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = symmetric_row(w, i), count = side - row;
        et_tile_product(w->sums + row * side + row, side, w->square + row * side, side,
                        w->panels + row * side, count, side);
        for (int64_t k = row; k < row + UNIT; k++) {
            float *sums = w->sums + k * side + row;
            w->kernels->blend(sums, w->a + k * side + row, 2.0315f, -4.7750f, count);
            w->sums[k * side + k] += 3.4445f;
        }
    }
}

static void round_polynomial_part(const matrix *w, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        round_symmetric(w, w->sums, symmetric_row(w, i));
}

/* The sums of p x, rounded: x. */
static void next_part(const matrix *w, int64_t begin, int64_t end)
{
    const int64_t side = w->side, length = w->length;
    for (int64_t row = begin * UNIT; row < end * UNIT; row += UNIT) {
        et_tile_product(w->sums + row * length, length, w->square + row * side, side, w->panels,
                        length, side);
        w->kernels->to_bf16(w->x + row * length, w->sums + row * length, UNIT * length);
    }
}

static void iterate(const matrix *w)
{
    const bool much = w->side * w->side * w->length >= MUCH;
    const int64_t rows = w->side / UNIT, columns = w->length / UNIT;
    ET_PARALLEL(much, rows, 1, panels_of_turned_x, w);
    ET_PARALLEL(much, rows, 1, square_part, w);
    ET_PARALLEL(much, rows, 1, panels_of, w, w->square, w->side);
    ET_PARALLEL(much, rows, 1, polynomial_part, w);
    ET_PARALLEL(much, rows, 1, round_polynomial_part, w);
    ET_PARALLEL(much, columns, 1, panels_of, w, w->x, w->length);
    ET_PARALLEL(much, rows, 1, next_part, w);
}

void et_muon_tiles(const et_kernels *kernels, float *g, float *scratch, int64_t rows,
                   int64_t columns, int64_t iterations)
{
    const bool tall = rows > columns;
    et_assert(et_tile_product_for(kernels) && iterations >= 1);
    matrix w = matrix_in(kernels, scratch, tall ? columns : rows, tall ? rows : columns);
    const et_stored from = { g, rows, columns, columns, ET_F32 };
    void (*in)(void *, int64_t, int64_t, et_dtype, const et_stored *) =
        tall ? kernels->staging->across : kernels->staging->rows;
    in(w.sums, w.side, w.length, ET_F32, &from);
    kernels->to_bf16(w.x, w.sums, w.side * w.length);
    for (int64_t i = 0; i < iterations; i++)
        iterate(&w);
    const et_stored result = { w.sums, tall ? columns : rows, tall ? rows : columns, w.length,
                               ET_F32 };
    in(g, rows, columns, ET_F32, &result);
}
