/* Divides and runs a convolution. All blocks have the same number of samples, so one primitive is
 * enough; the batch divides without a rest.
 *
 * Scratch, in this order, each part rounded up to whole cache lines:
 *
 *     weight in the primitive's layout [copies] | for each thread: oneDNN's own, a, b, out, sum
 *
 * FORWARD and DATA have one copy of the weight, which is first converted to the primitive's layout.
 * WEIGHT has a sum for each piece of the batch; a block writes to `sum`, which is then added to its
 * piece. a, b and out hold a bfloat16 block as float32, if it is multiplied that way. */
#include "engine/kernel/conv.h"

#include <omp.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/kernel/conv_onednn.h"
#include "engine/kernel/parallel.h"

/* Most blocks of a batch that threads share, and most pieces of it with separate sums. Part of a
 * weight gradient's bits. */
#define BLOCKS_MOST 32
#define PIECES_MOST 16

/* Sums of all pieces together, unless two are more: wide layers have few. */
#define PIECES_BYTES ((size_t)64 << 20)

/* Scratch of one thread: the begin of each part, and the total size. */
typedef struct desk {
    size_t a, b, out, sum, size;
} desk;

struct et_conv {
    et_conv_kind kind;
    et_conv_shape shape;
    et_dtype as; /* type of the multiplication */
    int threads;
    const et_kernels *kernels;
    et_conv_block *block;
    int64_t samples, blocks, pieces; /* of a block; pieces: 1 unless WEIGHT */
    int64_t x, y;                    /* elements of a block's images */
    size_t weight;                   /* bytes of a copy, rounded up */
    desk desk;
};

static size_t lines(size_t size)
{
    return (size + 63) / 64 * 64;
}

/* The most samples that divide the batch into `most` blocks or a few more. */
static int64_t samples_of(int64_t batch, int64_t most)
{
    int64_t samples = (batch + most - 1) / most;
    while (batch % samples)
        samples--;
    return samples;
}

/* Whether images pass through float32 on their way. */
static bool is_widened(const et_conv *conv)
{
    return conv->as != conv->shape.dtype;
}

static void lay_desk(et_conv *conv)
{
    const bool weight = conv->kind == ET_CONV_WEIGHT, wide = is_widened(conv);
    const size_t x = wide ? lines((size_t)conv->x * sizeof(float)) : 0;
    const size_t y = wide ? lines((size_t)conv->y * sizeof(float)) : 0;
    desk *d = &conv->desk;
    d->a = lines(et_conv_block_scratch(conv->block));
    d->b = d->a + (conv->kind == ET_CONV_DATA ? y : x);
    d->out = d->b + (weight ? y : 0);
    d->sum = d->out + (weight ? 0 : conv->kind == ET_CONV_DATA ? x : y);
    d->size = d->sum + (weight && conv->blocks > conv->pieces ? conv->weight : 0);
}

static void find_pieces(et_conv *conv)
{
    conv->pieces = 1;
    if (conv->kind != ET_CONV_WEIGHT)
        return;
    int64_t room = (int64_t)(PIECES_BYTES / conv->weight);
    int64_t most = room < 2 ? 2 : room < PIECES_MOST ? room : PIECES_MOST;
    conv->pieces = conv->blocks < most ? conv->blocks : most;
}

/* A type that the library has only plain loops for is passed over. */
static int make_block(et_conv *conv, et_dtype as, et_error *error)
{
    conv->as = conv->shape.dtype == ET_BF16 ? as : ET_F32;
    int status = et_conv_block_new(&conv->block, conv->kind, &conv->shape, conv->samples, conv->as,
                                   conv->threads, conv->as == ET_F32 ? error : NULL);
    if (conv->as == ET_F32 || (!status && et_conv_block_is_fast(conv->block)))
        return status;
    et_conv_block_free(conv->block);
    conv->block = NULL;
    return make_block(conv, ET_F32, error);
}

int et_conv_new(et_conv **out, et_conv_kind kind, const et_conv_shape *shape, et_dtype as,
                int threads, const et_kernels *kernels, et_error *error)
{
    *out = NULL;
    et_assert(shape->batch >= 1 && shape->down.out >= 1 && shape->across.out >= 1);
    et_assert(kind == ET_CONV_FORWARD || !(shape->bias || shape->relu));
    et_conv *conv = et_alloc_zero(1, sizeof *conv);
    if (!conv)
        return et_alloc_failed(error, sizeof *conv, "a convolution");
    conv->kind = kind;
    conv->shape = *shape;
    conv->threads = threads;
    conv->kernels = kernels;
    conv->samples = samples_of(shape->batch, kind == ET_CONV_WEIGHT ? PIECES_MOST : BLOCKS_MOST);
    conv->blocks = shape->batch / conv->samples;
    conv->x = conv->samples * shape->down.in * shape->across.in * shape->channels;
    conv->y = conv->samples * shape->down.out * shape->across.out * shape->filters;
    int status = make_block(conv, as, error);
    if (status) {
        et_conv_free(conv);
        return status;
    }
    conv->weight = lines(et_conv_block_weight_size(conv->block));
    find_pieces(conv);
    lay_desk(conv);
    *out = conv;
    return ET_OK;
}

void et_conv_free(et_conv *conv)
{
    if (!conv)
        return;
    et_conv_block_free(conv->block);
    et_free(conv);
}

et_dtype et_conv_weight_type(const et_conv *conv)
{
    return conv->as;
}

const char *et_conv_implementation(const et_conv *conv)
{
    return et_conv_block_implementation(conv->block);
}

size_t et_conv_scratch(const et_conv *conv)
{
    return (size_t)conv->pieces * conv->weight + (size_t)conv->threads * conv->desk.size;
}

/* ---- running ---- */

/* State of a run. */
typedef struct run {
    const et_conv *conv;
    char *copies; /* the weight in its layout, or the pieces' sums */
    char *desks;
    void *out;
    const void *a, *b;
    const float *bias;
} run;

static char *desk_of(const run *r, int thread)
{
    return r->desks + (size_t)thread * r->conv->desk.size;
}

/* Block number `block` of images that have so many elements each. */
static void *image(const void *images, int64_t block, int64_t elements, et_dtype dtype)
{
    return (char *)(uintptr_t)images + (size_t)(block * elements) * et_dtype_size(dtype);
}

/* A block's image as the multiplication reads it: in place, or widened at `at`. */
static const void *operand(const run *r, const void *images, int64_t block, int64_t elements,
                           char *at)
{
    const void *from = image(images, block, elements, r->conv->shape.dtype);
    if (!is_widened(r->conv))
        return from;
    r->conv->kernels->from_bf16((float *)(void *)at, from, elements);
    return at;
}

/* In the block's own pass over its result, which is in cache. Not by oneDNN: its relu makes 0 of a
 * NaN. */
static void relu(const et_conv *conv, void *y, int64_t count)
{
    et_ew_program program = { .inputs = 1, .steps = 1, .outputs = 1 };
    program.input_dtype[0] = program.output_dtype[0] = conv->as;
    program.step[0] = (et_ew_step){ .op = ET_EW_RELU, .a = 0, .to = 1 };
    program.output[0] = 1;
    void *out[] = { y };
    const void *in[] = { y };
    conv->kernels->elementwise(&program, out, in, 1, count, (et_random){ 0, 0, 0 });
}

/* FORWARD and DATA: samples of the result are nobody else's. */
static void run_images(const run *r, int64_t block, int thread)
{
    const et_conv *conv = r->conv;
    const bool forward = conv->kind == ET_CONV_FORWARD;
    const int64_t from = forward ? conv->x : conv->y, to = forward ? conv->y : conv->x;
    char *own = desk_of(r, thread);
    void *result = image(r->out, block, to, conv->shape.dtype);
    void *out = is_widened(conv) ? own + conv->desk.out : result;
    const void *a = operand(r, r->a, block, from, own + conv->desk.a);
    et_conv_block_run(conv->block, thread, own, out, a, r->copies, r->bias);
    if (conv->shape.relu)
        relu(conv, out, to);
    if (out != result)
        conv->kernels->to_bf16(result, out, to);
}

/* One piece of the batch, block by block. */
static void run_piece(const run *r, int64_t piece, int thread)
{
    const et_conv *conv = r->conv;
    char *own = desk_of(r, thread), *sum = r->copies + (size_t)piece * conv->weight;
    const int64_t begin = conv->blocks * piece / conv->pieces;
    const int64_t end = conv->blocks * (piece + 1) / conv->pieces;
    for (int64_t block = begin; block < end; block++) {
        char *out = block == begin ? sum : own + conv->desk.sum;
        const void *a = operand(r, r->a, block, conv->x, own + conv->desk.a);
        const void *b = operand(r, r->b, block, conv->y, own + conv->desk.b);
        et_conv_block_run(conv->block, thread, own, out, a, b, NULL);
        if (out != sum)
            conv->kernels->accumulate(
                (float *)(void *)sum, (const float *)(const void *)out,
                (int64_t)(et_conv_block_weight_size(conv->block) / sizeof(float)));
    }
}

static void run_item(const run *r, int64_t item, int thread)
{
    if (r->conv->kind == ET_CONV_WEIGHT)
        run_piece(r, item, thread);
    else
        run_images(r, item, thread);
}

/* Which thread takes an item is left open, as its bits do not depend on it. oneDNN asks OpenMP how
 * many threads it may use: one, in each of ours. */
static void run_items(const run *r)
{
    const et_conv *conv = r->conv;
    const int64_t items = conv->kind == ET_CONV_WEIGHT ? conv->pieces : conv->blocks;
    const int most = omp_get_max_threads();
    const int team = most < conv->threads ? most : conv->threads;
    if (omp_in_parallel() || team == 1 || items == 1) {
        omp_set_num_threads(1);
        for (int64_t item = 0; item < items; item++)
            run_item(r, item, 0);
        omp_set_num_threads(most);
        return;
    }
    et_turns turns;
    et_turns_init(&turns, team, items, 1);
#pragma omp parallel num_threads(team)
    {
        omp_set_num_threads(1);
        et_turn turn = et_turn_own(&turns);
        for (et_items now; et_turns_take(&turns, &turn, &now);)
            run_item(r, now.begin, omp_get_thread_num());
    }
}

/* Adds the sums of pieces to the first piece's, in order, for elements begin .. end - 1. */
static void add_part(const run *r, int64_t begin, int64_t end)
{
    float *sum = (float *)(void *)r->copies;
    const int64_t stride = (int64_t)(r->conv->weight / sizeof(float));
    for (int64_t piece = 1; piece < r->conv->pieces; piece++)
        r->conv->kernels->accumulate(sum + begin, sum + piece * stride + begin, end - begin);
}

static void reorder(const run *r, void *to, const void *from)
{
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    et_conv_block_reorder(r->conv->block, desk_of(r, 0), to, from);
    omp_set_num_threads(threads);
}

void et_conv_run(const et_conv *conv, void *scratch, void *out, const void *a, const void *b,
                 const float *bias)
{
    et_assert(conv->shape.bias == (bias != NULL));
    const run r = { .conv = conv,
                    .copies = scratch,
                    .desks = (char *)scratch + (size_t)conv->pieces * conv->weight,
                    .out = out,
                    .a = a,
                    .b = b,
                    .bias = bias };
    if (conv->kind != ET_CONV_WEIGHT) {
        reorder(&r, r.copies, b);
        run_items(&r);
        return;
    }
    run_items(&r);
    const int64_t count = (int64_t)(et_conv_block_weight_size(conv->block) / sizeof(float));
    ET_PARALLEL(conv->pieces * count >= ET_GRAIN, count, 16, add_part, &r);
    reorder(&r, out, r.copies);
}
