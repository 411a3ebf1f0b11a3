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
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/kernel/onednn.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/sizes.h"

typedef struct et_conv_block et_conv_block;

/* ---- a block ---- */

/* oneDNN's convolution as a block. Decided here are how a primitive is described, the layout of its
 * weight (the library's choice; images are [N, H, W, C]), and that it neither allocates nor starts
 * threads when it runs. Invariants as in gemm/onednn_block.c.
 *
 * A, B and OUT are in the order of et_conv_run's; `weight` says which of them is the weight. */

struct et_conv_block {
    et_conv_kind kind;
    et_conv_shape shape;
    int64_t samples;
    et_dtype as;
    int weight;                    /* B or OUT */
    primitive convolution;         /* its engine is the block's */
    dnnl_stream_t *streams;        /* [threads] */
    layout stored;                 /* the weight as the store has it */
    dnnl_primitive_desc_t forward; /* what derivatives are described by; owned */
    dnnl_primitive_desc_t reordering;
    dnnl_primitive_t reorder;
    dnnl_memory_t packed, plain, reorder_scratch;
    size_t scratch; /* bytes of each thread, aligned to 64 */
};

/* The parameters of a convolution in addition to its layouts. Dilations count the gaps. */
typedef struct geometry {
    dnnl_dims_t strides, dilations, before, after;
} geometry;

/* The layouts of x, w, bias and y; those of their derivatives are the same. */
typedef struct views {
    layout_ref x, w, bias, y;
} views;

/* Describes the convolution or, from its description `forward`, one of its derivatives. */
static dnnl_status_t describe_as(dnnl_primitive_desc_t *out, et_conv_kind kind,
                                 dnnl_engine_t engine, const views *v, const geometry *g,
                                 const_dnnl_primitive_desc_t forward,
                                 const_dnnl_primitive_attr_t attributes)
{
#if DNNL_VERSION_MAJOR >= 3
    if (kind == ET_CONV_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(
            out, engine, dnnl_forward_training, dnnl_convolution_direct, v->x, v->w, v->bias, v->y,
            g->strides, g->dilations, g->before, g->after, attributes);
    if (kind == ET_CONV_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, dnnl_convolution_direct, v->x, v->w, v->y, g->strides, g->dilations,
            g->before, g->after, forward, attributes);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, dnnl_convolution_direct, v->x, v->w, NULL, v->y, g->strides, g->dilations,
        g->before, g->after, forward, attributes);
#else
    dnnl_convolution_desc_t it;
    dnnl_status_t done = kind == ET_CONV_FORWARD
                             ? dnnl_dilated_convolution_forward_desc_init(
                                   &it, dnnl_forward_training, dnnl_convolution_direct, v->x, v->w,
                                   v->bias, v->y, g->strides, g->dilations, g->before, g->after)
                         : kind == ET_CONV_DATA
                             ? dnnl_dilated_convolution_backward_data_desc_init(
                                   &it, dnnl_convolution_direct, v->x, v->w, v->y, g->strides,
                                   g->dilations, g->before, g->after)
                             : dnnl_dilated_convolution_backward_weights_desc_init(
                                   &it, dnnl_convolution_direct, v->x, v->w, NULL, v->y, g->strides,
                                   g->dilations, g->before, g->after);
    return done == dnnl_success ? dnnl_primitive_desc_create(out, &it, attributes, engine, forward)
                                : done;
#endif
}

/* Scratch is the caller's. */
static dnnl_status_t make_attributes(dnnl_primitive_attr_t *out)
{
    dnnl_status_t done = dnnl_primitive_attr_create(out);
    if (done == dnnl_success)
        done = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return done;
}

/* Describes the forward convolution of these layouts, and from it the block's op. A forward block
 * has only the first. */
static dnnl_status_t describe(et_conv_block *block, const views *v,
                              const_dnnl_primitive_attr_t attributes)
{
    const et_conv_shape *s = &block->shape;
    const geometry g = { .strides = { s->down.stride, s->across.stride },
                         .dilations = { s->down.dilation - 1, s->across.dilation - 1 },
                         .before = { s->down.before, s->across.before },
                         .after = { s->down.after, s->across.after } };
    primitive *p = &block->convolution;
    dnnl_status_t done = dnnl_success;
    if (block->kind != ET_CONV_FORWARD)
        done = describe_as(&block->forward, ET_CONV_FORWARD, p->engine, v, &g, NULL, attributes);
    return done == dnnl_success ? describe_as(&p->description, block->kind, p->engine, v, &g,
                                              block->forward, attributes)
                                : done;
}

/* oneDNN names dimensions N, C, H, W and O, I, H, W in this order, whatever the layout. The forward
 * convolution that describes a weight's derivative has a weight of the multiplied type. */
static dnnl_status_t describe_block(et_conv_block *block, layout *any)
{
    const et_conv_shape *s = &block->shape;
    dnnl_dims_t x = { block->samples, s->channels, s->down.in, s->across.in };
    dnnl_dims_t y = { block->samples, s->filters, s->down.out, s->across.out };
    dnnl_dims_t w = { s->filters, s->channels, s->down.kernel, s->across.kernel };
    dnnl_dims_t bias = { s->filters };
    const dnnl_data_type_t type = type_of(block->as);
    const dnnl_data_type_t weight = block->kind == ET_CONV_WEIGHT ? dnnl_f32 : type;
    layout *of = block->convolution.layouts;
    const int image_x = block->kind == ET_CONV_DATA ? OUT : A;
    const int image_y = block->kind == ET_CONV_FORWARD ? OUT : block->kind == ET_CONV_DATA ? A : B;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t done = layout_tagged(&of[image_x], 4, x, type, dnnl_nhwc);
    if (done == dnnl_success)
        done = layout_tagged(&of[image_y], 4, y, type, dnnl_nhwc);
    if (done == dnnl_success)
        done = layout_tagged(&block->stored, 4, w, weight, dnnl_hwio);
    if (done == dnnl_success && s->bias)
        done = layout_tagged(&of[BIAS], 1, bias, dnnl_f32, dnnl_a);
    if (done == dnnl_success)
        done = layout_tagged(any, 4, w, weight, dnnl_format_tag_any);
    if (done == dnnl_success)
        done = make_attributes(&attributes);
    const views v = { ref(&of[image_x]), ref(any), s->bias ? ref(&of[BIAS]) : NULL,
                      ref(&of[image_y]) };
    if (done == dnnl_success)
        done = describe(block, &v, attributes);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return done;
}

/* The weight's layout is known once the primitive is described. */
static dnnl_status_t make_convolution(et_conv_block *block)
{
    primitive *p = &block->convolution;
    const dnnl_query_t which =
        block->kind == ET_CONV_WEIGHT ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    layout_ref weight = dnnl_primitive_desc_query_md(p->description, which, 0);
    dnnl_status_t done = layout_copy(&p->layouts[block->weight], weight);
    if (done == dnnl_success)
        done = primitive_make(p, block->shape.bias);
    block->scratch = primitive_scratch(p);
    return done;
}

/* Memory objects without memory, filled in at every run. */
static dnnl_status_t make_memory(const et_conv_block *block, dnnl_memory_t *out, layout_ref of)
{
    return dnnl_memory_create(out, of, block->convolution.engine, DNNL_MEMORY_NONE);
}

/* From the store's layout to the primitive's, or back. */
static dnnl_status_t make_reorder(et_conv_block *block)
{
    const primitive *p = &block->convolution;
    layout_ref own = ref(&p->layouts[block->weight]), stored = ref(&block->stored);
    const bool back = block->kind == ET_CONV_WEIGHT;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t done = make_attributes(&attributes);
    if (done == dnnl_success)
        done =
            dnnl_reorder_primitive_desc_create(&block->reordering, back ? own : stored, p->engine,
                                               back ? stored : own, p->engine, attributes);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    if (done == dnnl_success)
        done = dnnl_primitive_create(&block->reorder, block->reordering);
    if (done == dnnl_success)
        done = make_memory(block, &block->packed, own);
    if (done == dnnl_success)
        done = make_memory(block, &block->plain, stored);
    layout_ref scratch =
        done == dnnl_success
            ? dnnl_primitive_desc_query_md(block->reordering, dnnl_query_scratchpad_md, 0)
            : NULL;
    const size_t size = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (size > 0)
        done = make_memory(block, &block->reorder_scratch, scratch);
    if (size > block->scratch)
        block->scratch = size;
    return done;
}

/* oneDNN plans for as many threads as OpenMP would give it: one. */
static dnnl_status_t make(et_conv_block *block)
{
    const int threads = omp_get_max_threads();
    layout any;
    memset(&any, 0, sizeof any);
    omp_set_num_threads(1);
    primitive *p = &block->convolution;
    dnnl_status_t done = dnnl_engine_create(&p->engine, dnnl_cpu, 0);
    for (int i = 0; done == dnnl_success && i < p->threads; i++)
        done = dnnl_stream_create(&block->streams[i], p->engine, dnnl_stream_default_flags);
    if (done == dnnl_success)
        done = describe_block(block, &any);
    if (done == dnnl_success)
        done = make_convolution(block);
    if (done == dnnl_success)
        done = make_reorder(block);
    layout_free(&any);
    omp_set_num_threads(threads);
    return done;
}

static void free_memory(dnnl_memory_t memory)
{
    if (memory)
        dnnl_memory_destroy(memory);
}

/* Accepts a partly made block; frees primitives before their descriptions. */
static void block_free(et_conv_block *block)
{
    if (!block)
        return;
    primitive *p = &block->convolution;
    for (int thread = 0; block->streams && thread < p->threads; thread++)
        if (block->streams[thread])
            dnnl_stream_destroy(block->streams[thread]);
    free_memory(block->packed);
    free_memory(block->plain);
    free_memory(block->reorder_scratch);
    primitive_release(p);
    if (block->reorder)
        dnnl_primitive_destroy(block->reorder);
    if (block->reordering)
        dnnl_primitive_desc_destroy(block->reordering);
    if (block->forward)
        dnnl_primitive_desc_destroy(block->forward);
    layout_free(&block->stored);
    if (p->engine)
        dnnl_engine_destroy(p->engine);
    et_free(block->streams);
    et_free(block);
}

/* A block that runs on threads 0 .. threads - 1. x, y and w, or their derivatives, are of type
 * `as`, dw is float32. */
static int block_new(et_conv_block **out, et_conv_kind kind, const et_conv_shape *shape,
                     int64_t samples, et_dtype as, int threads, et_error *error)
{
    *out = NULL;
    et_assert(threads >= 1 && samples >= 1 && shape->batch % samples == 0);
    int status = et_memory_check(ONEDNN_MAKING_ROOM, "making a convolution", error);
    if (status)
        return status;
    et_conv_block *block;
    if (ET_ALLOC_ZERO(block, 1, "a convolution", error))
        return ET_ENOMEM;
    block->kind = kind;
    block->shape = *shape;
    block->samples = samples;
    block->as = as;
    block->convolution.threads = threads;
    block->weight = kind == ET_CONV_WEIGHT ? OUT : B;
    if (ET_ALLOC_ZERO(block->streams, threads, "a convolution", error) ||
        ET_ALLOC_ZERO(block->convolution.memory, threads, "a convolution", error))
        status = ET_ENOMEM;
    dnnl_status_t done = status ? dnnl_success : make(block);
    if (done != dnnl_success)
        status = onednn_failed(error, done, "a convolution");
    if (status)
        block_free(block);
    else
        *out = block;
    return status;
}

/* Bytes of a weight, or of its derivative, in the block's own layout. */
static size_t block_weight_size(const et_conv_block *block)
{
    return dnnl_memory_desc_get_size(ref(&block->convolution.layouts[block->weight]));
}

static void execute(const et_conv_block *block, int thread, dnnl_primitive_t op, int count,
                    const dnnl_exec_arg_t *arguments)
{
    et_assert_equal(omp_get_max_threads(), 1);
    sigset_t before;
    et_onednn_hold_signals(&before); /* a convolution may be a product inside */
    dnnl_status_t done = dnnl_primitive_execute(op, block->streams[thread], count, arguments);
    et_onednn_release_signals(&before);
    et_assert_equal(done, dnnl_success);
    (void)done;
}

/* oneDNN's names of A, B and OUT. */
static const int names[][3] = {
    [ET_CONV_FORWARD] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
    [ET_CONV_DATA] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC },
    [ET_CONV_WEIGHT] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS },
};

/* The weight, as b or out, is in the block's layout. Call with OpenMP set to one thread. */
static void block_run(const et_conv_block *block, int thread, void *scratch, void *out,
                      const void *a, const void *b, const float *bias)
{
    dnnl_exec_arg_t arguments[MEMORIES];
    const int count = primitive_arguments(&block->convolution, thread, names[block->kind],
                                          arguments, a, b, out, bias, scratch);
    execute(block, thread, block->convolution.op, count, arguments);
}

/* ---- a convolution ---- */

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

/* Whether images pass through float32 on their way. */
static bool is_widened(const et_conv *conv)
{
    return conv->as != conv->shape.dtype;
}

static void lay_desk(et_conv *conv)
{
    const bool weight = conv->kind == ET_CONV_WEIGHT, wide = is_widened(conv);
    const size_t x = wide ? et_lines(conv->x * sizeof(float)) : 0;
    const size_t y = wide ? et_lines(conv->y * sizeof(float)) : 0;
    desk *d = &conv->desk;
    d->a = et_lines(conv->block->scratch);
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
    conv->pieces = et_smaller(conv->blocks, most);
}

/* A type that the library has only plain loops for is passed over. */
static int make_block(et_conv *conv, et_dtype as, et_error *error)
{
    conv->as = conv->shape.dtype == ET_BF16 ? as : ET_F32;
    int status = block_new(&conv->block, conv->kind, &conv->shape, conv->samples, conv->as,
                           conv->threads, conv->as == ET_F32 ? error : NULL);
    /* The library's plain loops are for its own tests. */
    if (conv->as == ET_F32 || (!status && strncmp(et_conv_implementation(conv), "ref", 3) != 0))
        return status;
    block_free(conv->block);
    conv->block = NULL;
    return make_block(conv, ET_F32, error);
}

int et_conv_new(et_conv **out, et_conv_kind kind, const et_conv_shape *shape, et_dtype as,
                int threads, const et_kernels *kernels, et_error *error)
{
    *out = NULL;
    et_assert(shape->batch >= 1 && shape->down.out >= 1 && shape->across.out >= 1);
    et_assert(kind == ET_CONV_FORWARD || !(shape->bias || shape->relu));
    et_conv *conv;
    if (ET_ALLOC_ZERO(conv, 1, "a convolution", error))
        return ET_ENOMEM;
    conv->kind = kind;
    conv->shape = *shape;
    conv->threads = threads;
    conv->kernels = kernels;
    /* The most samples that divide the batch into `most` blocks or a few more. */
    const int64_t most = kind == ET_CONV_WEIGHT ? PIECES_MOST : BLOCKS_MOST;
    conv->samples = et_part_count(shape->batch, most);
    while (shape->batch % conv->samples)
        conv->samples--;
    conv->blocks = shape->batch / conv->samples;
    conv->x = conv->samples * shape->down.in * shape->across.in * shape->channels;
    conv->y = conv->samples * shape->down.out * shape->across.out * shape->filters;
    int status = make_block(conv, as, error);
    if (status) {
        et_conv_free(conv);
        return status;
    }
    et_assert(conv->block);
    conv->weight = et_lines(block_weight_size(conv->block));
    find_pieces(conv);
    lay_desk(conv);
    *out = conv;
    return ET_OK;
}

void et_conv_free(et_conv *conv)
{
    if (!conv)
        return;
    block_free(conv->block);
    et_free(conv);
}

et_dtype et_conv_weight_type(const et_conv *conv)
{
    return conv->as;
}

const char *et_conv_implementation(const et_conv *conv)
{
    return implementation_of(conv->block->convolution.description);
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

/* A block's image as the multiplication reads it: in place, or widened at `at`. */
static const void *operand(const run *r, const void *images, int64_t block, int64_t elements,
                           char *at)
{
    const void *from = et_element_at(images, block * elements, r->conv->shape.dtype);
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
    void *result = et_element_at(r->out, block * to, conv->shape.dtype);
    void *out = is_widened(conv) ? own + conv->desk.out : result;
    const void *a = operand(r, r->a, block, from, own + conv->desk.a);
    block_run(conv->block, thread, own, out, a, r->copies, r->bias);
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
        block_run(conv->block, thread, own, out, a, b, NULL);
        if (out != sum)
            conv->kernels->accumulate((float *)(void *)sum, (const float *)(const void *)out,
                                      (int64_t)(block_weight_size(conv->block) / sizeof(float)));
    }
}

static void run_item(const run *r, int64_t item, int thread)
{
    if (r->conv->kind == ET_CONV_WEIGHT)
        run_piece(r, item, thread);
    else
        run_images(r, item, thread);
}

/* Any thread may take an item, because its bits do not depend on the thread. oneDNN asks OpenMP for
 * the number of threads, which is one in each of Etude's threads. */
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
    /* A weight [KH, KW, C, F] into the block's layout; of WEIGHT, its derivative out of it. By the
     * calling thread, as thread 0. */
    const et_conv_block *block = r->conv->block;
    const bool back = block->kind == ET_CONV_WEIGHT;
    dnnl_exec_arg_t arguments[3];
    int count = 0;
    arguments[count++] = argument(back ? block->packed : block->plain, DNNL_ARG_FROM, from);
    arguments[count++] = argument(back ? block->plain : block->packed, DNNL_ARG_TO, to);
    if (block->reorder_scratch)
        arguments[count++] = argument(block->reorder_scratch, DNNL_ARG_SCRATCHPAD, desk_of(r, 0));
    execute(block, 0, block->reorder, count, arguments);
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
    const int64_t count = (int64_t)(block_weight_size(conv->block) / sizeof(float));
    ET_PARALLEL(conv->pieces * count >= ET_GRAIN, count, 16, add_part, &r);
    reorder(&r, out, r.copies);
}
