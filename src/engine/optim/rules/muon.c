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
 * polynomial are rounded before each product, as in Jordan's program; CPUs with AMX do
 * these iterations by tiles. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "engine/kernel/gemm/onednn_block.h"
#include "engine/kernel/gemm/tile_product.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/sizes.h"
#include "engine/optim/rules/rule.h"

/* Rows of a block of a product, and of a symmetric product, of which only half is computed. Fewest
 * multiplications for which a product uses several threads. */
#define BLOCK           64
#define SYMMETRIC_BLOCK 32
#define MUCH            ((int64_t)1 << 20)

/* ORDER of the enum. */
static const char *const muon_scales[] = { "rms", "shape", NULL };

static const char *const muon_dtypes[] = {
    [ET_F32] = "float32", [ET_BF16] = "bfloat16", [ET_MUON_AUTO] = "auto", NULL
};

static const et_field muon_fields[] = {
    MOMENTUM(et_muon, 0.95),
    NESTEROV(et_muon, true),
    ET_FIELD_INT(et_muon, iterations, 5, 1, 100,
                 "Newton-Schulz iterations of the orthogonalization"),
    ET_FIELD_CHOICE(et_muon, scale, ET_MUON_RMS, muon_scales,
                    "step length: as Adam's, or by the matrix's shape"),
    ET_FIELD_CHOICE(et_muon, orthogonalization_dtype, ET_F32, muon_dtypes,
                    "type of the products (sums are float32); auto: bfloat16 if the CPU multiplies "
                    "it faster (with AMX several times as fast)"),
    BETAS(et_muon, 0.95),
    EPSILON(et_muon, epsilon, 1e-10, "of Adam: added to the root of the second moment"),
    ET_FIELD_FLOAT(et_muon, adam_rate, 1, 0, DECAY_MAX,
                   "factor on the learning rate of the parameters that Adam updates"),
    ET_RULE_CLIPS(et_muon, 0),
    ET_RULE_DECAY(et_muon, weight_decay_rate),
    NO_DECAY(et_muon),
    NAMES(et_muon, exclude_from_orthogonalization,
          "regular expressions of matrices that Adam updates (embeddings, output)"),
    ET_FIELD_END
};
ET_RULE_FIELDS(muon);

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

static et_dtype dtype_of(const et_muon *o)
{
    if (o->orthogonalization_dtype == ET_MUON_AUTO)
        return et_gemm_fast_bf16() ? ET_BF16 : ET_F32;
    return (et_dtype)o->orthogonalization_dtype;
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

/* Floats of the scratch of a matrix: its members, as `position` places them. */
static size_t products_scratch(et_dtype dtype, int64_t side, int64_t length)
{
    const int64_t count = side * length, square = side * side;
    const size_t sums = lines(count) + 2 * lines(square);
    return dtype == ET_BF16 ? sums + 2 * lines_of_bf16(count) + 2 * lines_of_bf16(square)
                            : sums + lines(count);
}

/* ---- a matrix for AMX's tiles ---- */

/* It is padded with zeros to whole tiles, which stay zeros: x [side, length]. A product reads
 * its left operand as it is stored and the right one from panels, so after a product x, A and the
 * polynomial p are rounded and what is multiplied next is put into panels:
 *
 *   A = x x^T      panels of x^T
 *   p of A A       panels of A
 *   x = p x        panels of x
 *
 * A and p are symmetric, and computed on and above the diagonal only, in blocks of rows; the
 * blocks of bfloat16 are mirrored. Threads share blocks of rows and panels. */
#define UNIT ET_TILE_UNIT

/* Multiplications below which a matrix stays on one thread. */
#define MUCH_OF_TILES ((int64_t)1 << 22)

typedef struct tiles {
    const et_kernels *kernels;
    int64_t side, length; /* whole tiles */
    float *a;             /* [side, side] */
    float *sums;          /* [side, length], or [side, side]: of the last product */
    et_bf16 *x;           /* [side, length] */
    et_bf16 *square;      /* [side, side]: A, then p */
    et_bf16 *panels;      /* of the next product's right operand */
} tiles;

static size_t tiles_scratch(int64_t side, int64_t length)
{
    const int64_t s = et_round_up(side, UNIT), l = et_round_up(length, UNIT);
    return (size_t)(s * s + s * l + s * l / 2 + s * s / 2 + s * l / 2);
}

static tiles tiles_in(const et_kernels *kernels, float *scratch, int64_t side, int64_t length)
{
    tiles w = { .kernels = kernels,
                .side = et_round_up(side, UNIT),
                .length = et_round_up(length, UNIT) };
    const int64_t square = w.side * w.side, all = w.side * w.length;
    w.a = scratch;
    w.sums = w.a + square;
    w.x = (void *)(w.sums + all);
    w.square = w.x + all;
    w.panels = w.square + square;
    return w;
}

static size_t scratch(const void *options, et_shape parameter, bool adapts)
{
    if (!is_matrix(parameter, adapts))
        return 0;
    const int64_t side = et_smaller(parameter.size[0], parameter.size[1]);
    const int64_t length = et_shape_count(parameter) / side;
    const et_dtype dtype = dtype_of(options);
    const size_t usual = products_scratch(dtype, side, length);
    const size_t of_tiles =
        dtype == ET_BF16 && et_tile_product_works() ? tiles_scratch(side, length) : 0;
    return of_tiles > usual ? of_tiles : usual;
}

static matrix position(const et_kernels *kernels, et_dtype dtype, int64_t side, int64_t length,
                       float *x, float *room)
{
    const int64_t count = side * length, square = side * side;
    matrix w = { .kernels = kernels, .dtype = dtype, .side = side, .length = length, .x = x };
    w.next = room;
    w.a = w.next + lines(count);
    w.p = w.a + lines(square);
    float *copies = w.p + lines(square);
    w.turned = copies;
    if (dtype == ET_BF16) {
        w.x_copy = (void *)(copies + lines_of_bf16(count));
        w.a_copy = (void *)(copies + 2 * lines_of_bf16(count));
        w.p_copy = (void *)(copies + 2 * lines_of_bf16(count) + lines_of_bf16(square));
    }
    return w;
}

static void exchange(matrix *w)
{
    float *other = w->x;
    w->x = w->next;
    w->next = other;
}

/* The operand that products read: the sums or their copy. */
static void *operand(float *sums, et_bf16 *copy)
{
    return copy ? (void *)copy : sums;
}

/* Element i of an operand. */
static char *element(const matrix *w, const void *of, int64_t i)
{
    return et_element_at(of, i, w->dtype);
}

/* ---- products ---- */

/* Computes some rows of c = a^T b, a [k, side] and b [k, width], from a column on. */
static void multiply_rows(const matrix *w, float *c, const void *a, const void *b, int64_t k,
                          int64_t width, et_items rows, int64_t column)
{
    _Alignas(64) float room[BLOCK * ET_FLOAT_PRODUCT_DEPTH];
    const int64_t depth = et_float_product_depth(w->dtype);
    for (int64_t l = 0; l < k; l += depth) {
        const et_float_product product = { .m = rows.end - rows.begin,
                                           .n = width - column,
                                           .k = et_smaller(k - l, depth),
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
    return (et_items){ block * size, et_smaller(block * size + size, w->side) };
}

/* Copies columns after a block of rows to their position below the diagonal. */
static void mirror(const matrix *w, void *square, et_items rows)
{
    _Alignas(64) float tile[SYMMETRIC_BLOCK * SYMMETRIC_BLOCK];
    const int64_t count = rows.end - rows.begin;
    for (int64_t column = rows.end; column < w->side; column += SYMMETRIC_BLOCK) {
        const et_stored from = { .data = element(w, square, rows.begin * w->side + column),
                                 .rows = count,
                                 .columns = et_smaller(w->side - column, SYMMETRIC_BLOCK),
                                 .stride = w->side,
                                 .dtype = w->dtype };
        w->kernels->staging->across(tile, from.columns, count, w->dtype, &from);
        for (int64_t i = 0; i < from.columns; i++)
            memcpy(element(w, square, (column + i) * w->side + rows.begin),
                   element(w, tile, i * count), count * et_dtype_size(w->dtype));
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

/* A = x x^T */
static void square_part(const matrix *w, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = symmetric_block(i, et_part_count(w->side, SYMMETRIC_BLOCK));
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
        const int64_t block = symmetric_block(i, et_part_count(w->side, SYMMETRIC_BLOCK));
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

static void iterate(matrix *w)
{
    const bool much = w->side * w->side * w->side >= MUCH;
    if (w->x_copy)
        ET_PARALLEL(much, w->side, 1, round_part, w);
    turn(w->kernels, w->turned, operand(w->x, w->x_copy), w->side, w->length, w->dtype);
    ET_PARALLEL(much, et_part_count(w->side, SYMMETRIC_BLOCK), 1, square_part, w);
    ET_PARALLEL(much, et_part_count(w->side, SYMMETRIC_BLOCK), 1, polynomial_part, w);
    ET_PARALLEL(much, et_part_count(w->side, BLOCK), 1, next_part, w);
    exchange(w);
}

/* x, of norm 1, is used up; the result is in x or in room. */
static float *by_products(const et_kernels *kernels, float *x, float *room, int64_t rows,
                          int64_t columns, const et_muon *o)
{
    const bool tall = rows > columns;
    matrix w =
        position(kernels, dtype_of(o), et_smaller(rows, columns), tall ? rows : columns, x, room);
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

/* ---- the iterations by tiles ---- */

static et_stored part_of(const et_bf16 *data, int64_t rows, int64_t columns, int64_t stride)
{
    return (et_stored){ data, rows, columns, stride, ET_BF16 };
}

/* Panels begin .. end - 1 of x^T, and of another matrix. */
static void panels_of_turned_x(const tiles *w, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const et_stored rows = part_of(w->x + i * UNIT * w->length, UNIT, w->length, w->length);
        w->kernels->staging->pairs_across(w->panels + i * UNIT * w->length, w->length, UNIT, &rows);
    }
}

static void panels_of(const tiles *w, const et_bf16 *from, int64_t columns, int64_t begin,
                      int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const et_stored part = part_of(from + i * UNIT, w->side, UNIT, columns);
        w->kernels->staging->row_pairs(w->panels + i * UNIT * w->side, w->side, UNIT, &part);
    }
}

/* Rows of the square from the diagonal on, float32 at `from`, become bfloat16 and are mirrored. */
static void round_symmetric(const tiles *w, const float *from, int64_t row)
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
static void tiles_square_part(const tiles *w, int64_t begin, int64_t end)
{
    const int64_t side = w->side, length = w->length;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = symmetric_block(i, side / UNIT) * UNIT;
        et_tile_product(w->a + row * side + row, side, w->x + row * length, length,
                        w->panels + row * length, side - row, length);
        round_symmetric(w, w->a, row);
    }
}

/* p = 3.4445 - 4.7750 A + 2.0315 A^2 over the sums of A^2; A is still read by others. */
static void tiles_polynomial_part(const tiles *w, int64_t begin, int64_t end)
{
    const int64_t side = w->side;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = symmetric_block(i, side / UNIT) * UNIT, count = side - row;
        et_tile_product(w->sums + row * side + row, side, w->square + row * side, side,
                        w->panels + row * side, count, side);
        for (int64_t k = row; k < row + UNIT; k++) {
            float *sums = w->sums + k * side + row;
            w->kernels->blend(sums, w->a + k * side + row, 2.0315f, -4.7750f, count);
            w->sums[k * side + k] += 3.4445f;
        }
    }
}

static void round_polynomial_part(const tiles *w, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        round_symmetric(w, w->sums, symmetric_block(i, w->side / UNIT) * UNIT);
}

/* The sums of p x, rounded: x. */
static void tiles_next_part(const tiles *w, int64_t begin, int64_t end)
{
    const int64_t side = w->side, length = w->length;
    for (int64_t row = begin * UNIT; row < end * UNIT; row += UNIT) {
        et_tile_product(w->sums + row * length, length, w->square + row * side, side, w->panels,
                        length, side);
        w->kernels->to_bf16(w->x + row * length, w->sums + row * length, UNIT * length);
    }
}

static void tiles_iterate(const tiles *w)
{
    const bool much = w->side * w->side * w->length >= MUCH_OF_TILES;
    const int64_t rows = w->side / UNIT, columns = w->length / UNIT;
    ET_PARALLEL(much, rows, 1, panels_of_turned_x, w);
    ET_PARALLEL(much, rows, 1, tiles_square_part, w);
    ET_PARALLEL(much, rows, 1, panels_of, w, w->square, w->side);
    ET_PARALLEL(much, rows, 1, tiles_polynomial_part, w);
    ET_PARALLEL(much, rows, 1, round_polynomial_part, w);
    ET_PARALLEL(much, columns, 1, panels_of, w, w->x, w->length);
    ET_PARALLEL(much, rows, 1, tiles_next_part, w);
}

static void by_tiles(const et_kernels *kernels, float *g, float *scratch, int64_t rows,
                     int64_t columns, int64_t iterations)
{
    const bool tall = rows > columns;
    et_assert(et_tile_product_for(kernels) && iterations >= 1);
    tiles w = tiles_in(kernels, scratch, tall ? columns : rows, tall ? rows : columns);
    const et_stored from = { g, rows, columns, columns, ET_F32 };
    void (*in)(void *, int64_t, int64_t, et_dtype, const et_stored *) =
        tall ? kernels->staging->across : kernels->staging->rows;
    in(w.sums, w.side, w.length, ET_F32, &from);
    kernels->to_bf16(w.x, w.sums, w.side * w.length);
    for (int64_t i = 0; i < iterations; i++)
        tiles_iterate(&w);
    const et_stored result = { w.sums, tall ? columns : rows, tall ? rows : columns, w.length,
                               ET_F32 };
    in(g, rows, columns, ET_F32, &result);
}

/* ---- the update ---- */

static float *orthogonalize(const et_kernels *kernels, float *x, float *room, int64_t rows,
                            int64_t columns, const et_muon *o)
{
    const int64_t count = rows * columns;
    const double norm = sqrt(kernels->sum_of_squares(x, count));
    kernels->blend(x, x, (float)(1 / (norm + 1e-7)), 0, count);
    if (dtype_of(o) != ET_BF16 || !et_tile_product_for(kernels))
        return by_products(kernels, x, room, rows, columns, o);
    by_tiles(kernels, x, room, rows, columns, o->iterations);
    return x;
}

static double length_of(const et_muon *o, int64_t rows, int64_t columns)
{
    double a = (double)rows, b = (double)columns;
    return o->scale == ET_MUON_RMS ? 0.2 * sqrt(fmax(a, b)) : sqrt(fmax(1, b / a));
}

static void update_matrix(const et_muon *o, const et_rule_step *step, const et_rule_chunk *chunk)
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
    const et_muon *o = options;
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
