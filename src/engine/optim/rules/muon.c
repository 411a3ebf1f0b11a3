/* Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon). For a matrix [rows, columns] with
 * momentum u,
 *
 *   m = momentum m + (1 - momentum) g,  u = m, nesterov: momentum m + (1 - momentum) g
 *   w -= rate weight_decay_rate w,  w -= rate s orthogonal(u)
 *
 * where orthogonal(u) is near the matrix U V^T of u = U S V^T: starting with x = u / |u|,
 * iterations of
 *
 *   A = x x^T,  x = (3.4445 - 4.7750 A + 2.0315 A^2) x
 *
 * (Newton and Schulz, with Jordan's coefficients: singular values come near 1, not to it); for a
 * tall matrix the same from the other side. s is sqrt(max(1, columns / rows)), as Jordan's for
 * weights [in, out], or 0.2 sqrt(max(rows, columns)), so that elements move as far as Adam's do
 * (Liu et al. 2025, "Muon is scalable for LLM training"). Parameters that are not matrices, or are
 * excluded, use Adam.
 *
 * During the iterations a matrix is along its longer side: x [side, length], a tall one transposed.
 * Products are the kernels' float_product, C = A^T B of operands as stored: x^T twice, A twice, and
 * the polynomial, which is symmetric like A, and x. Symmetric results are computed only on and
 * above the diagonal, in blocks of rows, and mirrored. Threads share blocks: the sums of an element
 * run over k in order in every block. With bfloat16 (orthogonalization_dtype), x, A and the
 * polynomial are rounded before each product, as in Jordan's program; muon_tiles.c has these
 * iterations for CPUs with AMX. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "engine/kernel/gemm/onednn_block.h"
#include "engine/kernel/gemm/tile_product.h"
#include "engine/kernel/parallel.h"
#include "engine/optim/rules/muon_tiles.h"
#include "engine/optim/rules/rule.h"

/* Rows of a block of a product, and of a symmetric one, of which only half is computed;
 * multiplications below which a product stays on one thread. */
#define BLOCK           64
#define SYMMETRIC_BLOCK 32
#define MUCH            ((int64_t)1 << 20)

/* Whether a tensor is orthogonalized. */
static bool is_matrix(et_shape shape, bool adapts)
{
    return adapts && shape.rank == 2 && shape.size[0] > 1 && shape.size[1] > 1;
}

static bool second_shape(et_shape parameter, bool adapts, et_shape *slot)
{
    *slot = parameter;
    return !is_matrix(parameter, adapts);
}

static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slot[0] = (et_rule_slot){ .name = "m" };
    slot[1] = (et_rule_slot){ .name = "v", .shape = second_shape };
    return 2;
}

static et_dtype dtype_of(const et_muon_options *o)
{
    if (o->orthogonalization_dtype == ET_MUON_AUTO)
        return et_gemm_fast_bf16() ? ET_BF16 : ET_F32;
    return (et_dtype)o->orthogonalization_dtype;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- a matrix on its way ---- */

/* Sums are float32. Operands of products are of `dtype`: the sums themselves, or a copy. */
typedef struct matrix {
    const et_kernels *kernels;
    et_dtype dtype;
    int64_t side, length;              /* the smaller size and the other one */
    float *x, *next;                   /* [side, length] */
    float *a, *p;                      /* [side, side]: A, and the polynomial of it */
    void *turned;                      /* x^T, an operand: [length, side] */
    et_bf16 *x_copy, *a_copy, *p_copy; /* NULL if the sums are the operands */
} matrix;

/* Floats in whole lines of the cache. */
static size_t lines(int64_t floats)
{
    return (size_t)(floats + 15) / 16 * 16;
}

/* Floats in the whole lines that so many bfloat16 take. */
static size_t lines_of_bf16(int64_t count)
{
    return lines((count + 1) / 2);
}

/* Offsets of a matrix's members in the scratch, in floats. */
typedef struct offsets {
    size_t next, a, p, turned, x_copy, a_copy, p_copy, end;
} offsets;

static size_t take(size_t *end, size_t floats)
{
    const size_t at = *end;
    *end += floats;
    return at;
}

static offsets offsets_of(et_dtype dtype, int64_t side, int64_t length)
{
    const int64_t count = side * length, square = side * side;
    offsets at = { 0 };
    at.next = take(&at.end, lines(count));
    at.a = take(&at.end, lines(square));
    at.p = take(&at.end, lines(square));
    at.turned = take(&at.end, dtype == ET_BF16 ? lines_of_bf16(count) : lines(count));
    if (dtype == ET_BF16) {
        at.x_copy = take(&at.end, lines_of_bf16(count));
        at.a_copy = take(&at.end, lines_of_bf16(square));
        at.p_copy = take(&at.end, lines_of_bf16(square));
    }
    return at;
}

static size_t scratch(const void *options, et_shape parameter, bool adapts)
{
    if (!is_matrix(parameter, adapts))
        return 0;
    const int64_t side = smaller(parameter.size[0], parameter.size[1]);
    const int64_t length = et_shape_count(parameter) / side;
    const et_dtype dtype = dtype_of(options);
    const size_t usual = offsets_of(dtype, side, length).end;
    const size_t tiles =
        dtype == ET_BF16 && et_tile_product_works() ? et_muon_tiles_scratch(side, length) : 0;
    return tiles > usual ? tiles : usual;
}

static matrix position(const et_kernels *kernels, et_dtype dtype, int64_t side, int64_t length,
                       float *x, float *room)
{
    const offsets at = offsets_of(dtype, side, length);
    matrix w = { .kernels = kernels, .dtype = dtype, .side = side, .length = length, .x = x };
    w.next = room + at.next;
    w.a = room + at.a;
    w.p = room + at.p;
    w.turned = room + at.turned;
    if (dtype == ET_BF16) {
        w.x_copy = (void *)(room + at.x_copy);
        w.a_copy = (void *)(room + at.a_copy);
        w.p_copy = (void *)(room + at.p_copy);
    }
    return w;
}

static void exchange(matrix *w)
{
    float *other = w->x;
    w->x = w->next;
    w->next = other;
}

/* What products read of sums and their copy. */
static void *operand(float *sums, et_bf16 *copy)
{
    return copy ? (void *)copy : sums;
}

/* Element i of an operand. */
static char *element(const matrix *w, const void *of, int64_t i)
{
    return (char *)of + (size_t)i * et_dtype_size(w->dtype);
}

/* ---- products ---- */

/* Of c = a^T b, a [k, side] and b [k, width], so many rows, from a column on. */
static void multiply_rows(const matrix *w, float *c, const void *a, const void *b, int64_t k,
                          int64_t width, et_items rows, int64_t column)
{
    _Alignas(64) float room[BLOCK * ET_FLOAT_PRODUCT_DEPTH];
    const int64_t depth = et_float_product_depth(w->dtype);
    for (int64_t l = 0; l < k; l += depth) {
        const et_float_product product = { .m = rows.end - rows.begin,
                                           .n = width - column,
                                           .k = smaller(k - l, depth),
                                           .ab = w->dtype,
                                           .a = element(w, a, l * w->side + rows.begin),
                                           .b = element(w, b, l * width + column),
                                           .c = c + rows.begin * width + column,
                                           .a_row = 1,
                                           .a_step = w->side,
                                           .ldb = width,
                                           .ldc = width,
                                           .accumulate = l > 0,
                                           .room = room };
        w->kernels->float_product(&product);
    }
}

static et_items block_of(const matrix *w, int64_t block, int64_t size)
{
    return (et_items){ block * size, smaller(block * size + size, w->side) };
}

/* Copies columns after a block of rows to their position below the diagonal. */
static void mirror(const matrix *w, void *square, et_items rows)
{
    _Alignas(64) float tile[SYMMETRIC_BLOCK * SYMMETRIC_BLOCK];
    const int64_t count = rows.end - rows.begin;
    for (int64_t column = rows.end; column < w->side; column += SYMMETRIC_BLOCK) {
        const et_stored from = { .data = element(w, square, rows.begin * w->side + column),
                                 .rows = count,
                                 .columns = smaller(w->side - column, SYMMETRIC_BLOCK),
                                 .stride = w->side,
                                 .dtype = w->dtype };
        w->kernels->staging->across(tile, from.columns, count, w->dtype, &from);
        for (int64_t i = 0; i < from.columns; i++)
            memcpy(element(w, square, (column + i) * w->side + rows.begin),
                   element(w, tile, i * count), (size_t)count * et_dtype_size(w->dtype));
    }
}

/* Rows of a or p, summed from the diagonal on, become the operand's. */
static void finish_rows(const matrix *w, float *square, et_bf16 *copy, et_items rows)
{
    for (int64_t row = rows.begin; copy && row < rows.end; row++) {
        const int64_t at = row * w->side + rows.begin;
        w->kernels->to_bf16(copy + at, square + at, w->side - rows.begin);
    }
    mirror(w, operand(square, copy), rows);
}

/* Blocks of an even place come from above, those between from below, so that neighbours have as
 * much to do as others. */
static int64_t symmetric_block(int64_t position, int64_t blocks)
{
    return position % 2 ? blocks - 1 - position / 2 : position / 2;
}

static int64_t symmetric_blocks(const matrix *w)
{
    return (w->side + SYMMETRIC_BLOCK - 1) / SYMMETRIC_BLOCK;
}

/* A = x x^T */
static void square_part(const matrix *w, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = symmetric_block(i, symmetric_blocks(w));
        const et_items rows = block_of(w, block, SYMMETRIC_BLOCK);
        multiply_rows(w, w->a, w->turned, w->turned, w->length, w->side, rows, rows.begin);
        finish_rows(w, w->a, w->a_copy, rows);
    }
}

/* p = 3.4445 - 4.7750 A + 2.0315 A^2 */
static void polynomial_part(const matrix *w, int64_t begin, int64_t end)
{
    const void *a = operand(w->a, w->a_copy);
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = symmetric_block(i, symmetric_blocks(w));
        const et_items rows = block_of(w, block, SYMMETRIC_BLOCK);
        multiply_rows(w, w->p, a, a, w->side, w->side, rows, rows.begin);
        for (int64_t row = rows.begin; row < rows.end; row++) {
            const int64_t at = row * w->side + rows.begin;
            w->kernels->blend(w->p + at, w->a + at, 2.0315f, -4.7750f, w->side - rows.begin);
            w->p[row * w->side + row] += 3.4445f;
        }
        finish_rows(w, w->p, w->p_copy, rows);
    }
}

/* next = p x */
static void next_part(const matrix *w, int64_t begin, int64_t end)
{
    const void *p = operand(w->p, w->p_copy), *x = operand(w->x, w->x_copy);
    for (int64_t i = begin; i < end; i++)
        multiply_rows(w, w->next, p, x, w->side, w->length, block_of(w, i, BLOCK), 0);
}

/* Rows begin .. end - 1 of to [columns, rows], which is from [rows, columns] turned. */
static void turn_part(const et_kernels *kernels, void *to, const et_stored *from, int64_t begin,
                      int64_t end)
{
    const size_t size = et_dtype_size(from->dtype);
    et_stored part = *from;
    part.data = (const char *)from->data + (size_t)begin * size;
    part.columns = end - begin;
    if (begin < end)
        kernels->staging->across((char *)to + (size_t)(begin * from->rows) * size, end - begin,
                                 from->rows, from->dtype, &part);
}

static void turn(const et_kernels *kernels, void *to, const void *from, int64_t rows,
                 int64_t columns, et_dtype dtype)
{
    const et_stored all = { from, rows, columns, columns, dtype };
    ET_PARALLEL(rows * columns >= MUCH, columns, BLOCK, turn_part, kernels, to, &all);
}

/* Rows begin .. end - 1 of x become the operand's. */
static void round_part(const matrix *w, int64_t begin, int64_t end)
{
    const int64_t at = begin * w->length;
    w->kernels->to_bf16(w->x_copy + at, w->x + at, (end - begin) * w->length);
}

/* ---- the update ---- */

static void iterate(matrix *w)
{
    const bool much = w->side * w->side * w->side >= MUCH;
    if (w->x_copy)
        ET_PARALLEL(much, w->side, 1, round_part, w);
    turn(w->kernels, w->turned, operand(w->x, w->x_copy), w->side, w->length, w->dtype);
    ET_PARALLEL(much, symmetric_blocks(w), 1, square_part, w);
    ET_PARALLEL(much, symmetric_blocks(w), 1, polynomial_part, w);
    ET_PARALLEL(much, (w->side + BLOCK - 1) / BLOCK, 1, next_part, w);
    exchange(w);
}

/* x, of norm 1, is used up; the result is in x or in room. */
static float *by_products(const et_kernels *kernels, float *x, float *room, int64_t rows,
                          int64_t columns, const et_muon_options *o)
{
    const bool tall = rows > columns;
    matrix w =
        position(kernels, dtype_of(o), smaller(rows, columns), tall ? rows : columns, x, room);
    if (tall) {
        turn(kernels, w.next, w.x, rows, columns, ET_F32);
        exchange(&w);
    }
    for (int64_t i = 0; i < o->iterations; i++)
        iterate(&w);
    if (!tall)
        return w.x;
    turn(kernels, w.next, w.x, w.side, w.length, ET_F32);
    return w.next;
}

static float *orthogonalize(const et_kernels *kernels, float *x, float *room, int64_t rows,
                            int64_t columns, const et_muon_options *o)
{
    const int64_t count = rows * columns;
    const double norm = sqrt(kernels->sum_of_squares(x, count));
    kernels->blend(x, x, (float)(1 / (norm + 1e-7)), 0, count);
    if (dtype_of(o) != ET_BF16 || !et_tile_product_for(kernels))
        return by_products(kernels, x, room, rows, columns, o);
    et_muon_tiles(kernels, x, room, rows, columns, o->iterations);
    return x;
}

static double length_of(const et_muon_options *o, int64_t rows, int64_t columns)
{
    double a = (double)rows, b = (double)columns;
    return o->scale == ET_MUON_RMS ? 0.2 * sqrt(fmax(a, b)) : sqrt(fmax(1, b / a));
}

static void update_matrix(const et_muon_options *o, const et_rule_step *step,
                          const et_rule_chunk *chunk)
{
    const int64_t rows = chunk->shape->size[0], columns = chunk->shape->size[1];
    float *g = chunk->gradient, *m = chunk->slot[0], momentum = (float)o->momentum;
    float fresh = (1 - momentum) * chunk->gradient_scale;
    et_assert(m && chunk->scratch && chunk->count == rows * columns);
    step->kernels->blend(m, g, momentum, fresh, chunk->count);
    step->kernels->blend(g, m, o->nesterov ? fresh : 0, o->nesterov ? momentum : 1, chunk->count);
    et_rule_chunk moved = *chunk;
    moved.gradient = orthogonalize(step->kernels, g, chunk->scratch, rows, columns, o);
    et_rule_move(step, &moved, chunk->rate * length_of(o, rows, columns),
                 chunk->rate * chunk->decay);
}

static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_muon_options *o = options;
    if (is_matrix(*chunk->shape, chunk->adapts)) {
        update_matrix(o, step, chunk);
        return;
    }
    double rate = chunk->rate * o->adam_rate;
    const et_adam_numbers numbers = { o->beta_1, o->beta_2, o->epsilon, rate, rate * chunk->decay };
    et_adam_update(&numbers, step, chunk, chunk->slot[0], chunk->slot[1], NULL);
}

const et_optimizer_rule et_rule_muon = {
    ET_RULE(muon),   .cut = ET_RULE_WHOLE, .adapts = "exclude_from_orthogonalization",
    .writes = true,  .slots = slots,       .scratch = scratch,
    .update = update
};
