/* Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon). Of a matrix [rows, columns] with
 * momentum u,
 *   m = momentum m + (1 - momentum) g,  u = m, nesterov: momentum m + (1 - momentum) g
 *   w -= rate weight_decay_rate w,  w -= rate s orthogonal(u)
 * where orthogonal(u) is near the matrix U V^T of u = U S V^T: from x = u / |u| on, iterations of
 *   A = x x^T,  x = (3.4445 - 4.7750 A + 2.0315 A^2) x
 * (Newton and Schulz, with Jordan's coefficients: singular values come near 1, not to it); of a
 * tall matrix the same from the other side. s is sqrt(max(1, columns / rows)), as Jordan's for
 * weights that lie [in, out], or 0.2 sqrt(max(rows, columns)), so that elements move as far as
 * Adam's do (Liu et al. 2025, "Muon is scalable for LLM training"). What is no matrix, or
 * excluded, is Adam's.
 *
 * Products are the kernels' float_product in blocks of rows, which threads share out: the sums of
 * an element run over k in order, wherever blocks end. */
#include <math.h>

#include "base/assert.h"
#include "kernel/share.h"
#include "optim/adam.h"

/* Rows of a block of a product; and multiplications below which it stays on one thread. */
#define BLOCK 64
#define MUCH  ((int64_t)1 << 20)

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

static int slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slot[0] = (et_rule_slot){ .name = "m" };
    slot[1] = (et_rule_slot){ .name = "v", .shape = second_shape };
    return 2;
}

static void decay(const et_optimizer_options *options, et_strings *include, et_strings *exclude)
{
    *include = (et_strings){ 0 };
    *exclude = options->muon.exclude_from_weight_decay;
}

static const char *adapt(const et_optimizer_options *options, et_strings *exclude)
{
    *exclude = options->muon.exclude_from_orthogonalization;
    return "exclude_from_orthogonalization";
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Another x, and two squares of its smaller side. */
static size_t scratch(const et_optimizer_options *options, et_shape parameter, bool adapts)
{
    (void)options;
    if (!is_matrix(parameter, adapts))
        return 0;
    int64_t side = smaller(parameter.size[0], parameter.size[1]);
    return (size_t)(et_shape_count(parameter) + 2 * side * side);
}

/* ---- products ---- */

/* Rows begin .. end - 1 of a product of any depth. */
static void multiply_rows(const et_kernels *kernels, const et_float_product *all, int64_t begin,
                          int64_t end)
{
    const int64_t depth = et_float_product_depth(all->ab);
    const float *a = all->a, *b = all->b;
    for (int64_t row = begin; row < end; row += BLOCK)
        for (int64_t l = 0; l < all->k; l += depth) {
            et_float_product part = *all;
            part.m = smaller(end - row, BLOCK);
            part.k = smaller(all->k - l, depth);
            part.a = a + row * all->a_row + l * all->a_step;
            part.b = b + l * (all->across ? 1 : all->ldb);
            part.c = all->c + row * all->ldc;
            part.accumulate = l > 0;
            kernels->float_product(&part);
        }
}

static void multiply(const et_kernels *kernels, const et_float_product *product)
{
    bool much = product->m * product->n * product->k >= MUCH;
    ET_SHARE(much, product->m, BLOCK, multiply_rows, kernels, product);
}

/* c = x x^T, or of a tall x x^T x. */
static void multiply_self(const et_kernels *kernels, float *c, const float *x, int64_t rows,
                          int64_t columns)
{
    bool tall = rows > columns;
    int64_t side = smaller(rows, columns);
    const et_float_product product = { .m = side,
                                       .n = side,
                                       .k = tall ? rows : columns,
                                       .ab = ET_F32,
                                       .a = x,
                                       .b = x,
                                       .c = c,
                                       .a_row = tall ? 1 : columns,
                                       .a_step = tall ? columns : 1,
                                       .ldb = columns,
                                       .ldc = side,
                                       .across = !tall };
    multiply(kernels, &product);
}

/* c [rows, columns] = a b, all as they lie. */
static void multiply_plain(const et_kernels *kernels, float *c, const float *a, const float *b,
                           int64_t rows, int64_t columns, int64_t k)
{
    const et_float_product product = { .m = rows,
                                       .n = columns,
                                       .k = k,
                                       .ab = ET_F32,
                                       .a = a,
                                       .b = b,
                                       .c = c,
                                       .a_row = k,
                                       .a_step = 1,
                                       .ldb = columns,
                                       .ldc = columns };
    multiply(kernels, &product);
}

/* ---- the update ---- */

/* x is used up; the result is in x or in room. */
static float *orthogonalize(const et_kernels *kernels, float *x, float *room, int64_t rows,
                            int64_t columns, int64_t iterations)
{
    const int64_t count = rows * columns, side = smaller(rows, columns);
    float *square = room + count, *sum = square + side * side;
    double norm = sqrt(kernels->sum_of_squares(x, count));
    kernels->blend(x, x, (float)(1 / (norm + 1e-7)), 0, count);
    for (int64_t i = 0; i < iterations; i++) {
        multiply_self(kernels, square, x, rows, columns);
        multiply_plain(kernels, sum, square, square, side, side, side);
        kernels->blend(sum, square, 2.0315f, -4.7750f, side * side);
        for (int64_t k = 0; k < side; k++)
            sum[k * side + k] += 3.4445f;
        if (rows > columns)
            multiply_plain(kernels, room, x, sum, rows, columns, side);
        else
            multiply_plain(kernels, room, sum, x, rows, columns, side);
        float *other = x;
        x = room;
        room = other;
    }
    return x;
}

static double length_of(const et_muon_options *o, int64_t rows, int64_t columns)
{
    double a = (double)rows, b = (double)columns;
    return o->scale == ET_MUON_RMS ? 0.2 * sqrt(fmax(a, b)) : sqrt(fmax(1, b / a));
}

static void update_matrix(const et_kernels *kernels, const et_muon_options *o,
                          const et_rule_step *step, const et_rule_chunk *chunk)
{
    const int64_t rows = chunk->shape->size[0], columns = chunk->shape->size[1];
    float *g = chunk->gradient, *m = chunk->slot[0], momentum = (float)o->momentum;
    float fresh = (1 - momentum) * chunk->gradient_scale;
    et_assert(m && chunk->scratch && chunk->count == rows * columns);
    kernels->blend(m, g, momentum, fresh, chunk->count);
    kernels->blend(g, m, o->nesterov ? fresh : 0, o->nesterov ? momentum : 1, chunk->count);
    et_rule_chunk moved = *chunk;
    moved.gradient = orthogonalize(kernels, g, chunk->scratch, rows, columns, o->iterations);
    et_rule_move(kernels, step, &moved, chunk->rate * length_of(o, rows, columns),
                 chunk->decays ? chunk->rate * o->weight_decay_rate : 0);
}

static void update(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_muon_options *o = &options->muon;
    if (is_matrix(*chunk->shape, chunk->adapts)) {
        update_matrix(kernels, o, step, chunk);
        return;
    }
    double rate = chunk->rate * o->adam_rate;
    const et_adam_numbers numbers = { o->beta_1, o->beta_2, o->epsilon, rate,
                                      chunk->decays ? rate * o->weight_decay_rate : 0 };
    et_adam_update(kernels, &numbers, step, chunk, chunk->slot[0], chunk->slot[1], NULL);
}

const et_rule_class et_rule_muon = { .name = "muon",
                                     .cut = ET_RULE_WHOLE,
                                     .writes = true,
                                     .slots = slots,
                                     .decay = decay,
                                     .adapt = adapt,
                                     .scratch = scratch,
                                     .update = update };
