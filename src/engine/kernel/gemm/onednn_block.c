/* oneDNN's matmul as a block: one primitive of a fixed shape, run by one thread on pointers. Higher
 * files (gemm.c, run.c) decide the shapes and the threads. This file decides how a primitive
 * is described, the layout of its B, and that it neither allocates nor starts threads when it runs.
 *
 * Invariants:
 *
 *   (1) a primitive is made and run while OpenMP has one thread: oneDNN plans its work by that
 *       number, and a sum's order must not depend on the machine;
 *   (2) the scratch is the caller's (dnnl_scratchpad_mode_user), one block of memory per thread,
 *       as large as the largest primitive needs;
 *   (3) memory objects belong to a (block, thread) and only their data pointers change at a run.
 *
 * Both oneDNN 2 and 3 work; their differences are in engine/kernel/onednn.h and in the first
 * part. */
#include "engine/kernel/gemm/onednn_block.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include <etude/dtype.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/onednn.h"

/* The two calls that versions 2 and 3 describe a product by. */
#if DNNL_VERSION_MAJOR >= 3
/* C = A B + 1 C, in C's own type. */
static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, layout_ref a,
                              layout_ref b, layout_ref bias, layout_ref c,
                              const_dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attributes);
}
#else
static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, layout_ref a,
                              layout_ref b, layout_ref bias, layout_ref c,
                              const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t product;
    dnnl_status_t status = dnnl_matmul_desc_init(&product, a, b, bias, c);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, &product, attributes, engine, NULL);
}
#endif

/* Shared by all blocks of a cache. Index t of the arrays belongs to thread t: one thread at a time
 * uses a stream and a scratch, so runs on different threads share nothing that is written. */
struct et_gemm_engine {
    dnnl_engine_t engine;
    bool panels[ET_DTYPE_COUNT]; /* by type of A and B: whether B is in panels */
    int threads;
    dnnl_stream_t *streams; /* [threads]: a stream is used by one thread at a time */
    void **scratch;         /* [threads], of the largest size that a primitive needs */
    size_t scratch_size;    /* bytes of each */
};

struct et_gemm_block {
    et_gemm_engine *engine; /* borrowed; outlives the block */
    et_gemm_block_shape shape;
    primitive product;
};

/* The engine. */

static int find_panels(et_gemm_engine *engine, et_dtype ab, et_error *error);

/* Memory for oneDNN to generate its kernels without panels, and for the products that run here. */
#define WRITING_ROOM ((size_t)24 << 20)

/* oneDNN generates kernels without panels when their first product runs, and throws if there is no
 * memory. So one product of each kind runs here, where a failure can still be reported. */
static int write_kernels(et_error *error)
{
    enum { SIDE = 640, DEPTH = 16 };
    int status = et_memory_check(WRITING_ROOM, "kernels of matrix products", error);
    float *c = NULL, *ab = NULL;
    if (!status && (ET_ALLOC_ZERO(c, SIDE * SIDE, "a matrix product", error) ||
                    ET_ALLOC_ZERO(ab, SIDE * DEPTH, "a matrix product", error)))
        status = ET_ENOMEM;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t done = dnnl_success;
    for (int side = DEPTH; side <= SIDE && !status && done == dnnl_success; side += SIDE - DEPTH)
        for (int adds = 0; adds <= 1 && done == dnnl_success; adds++)
            done = dnnl_sgemm('N', 'N', side, side, DEPTH, 1, ab, DEPTH, ab, side, (float)adds, c,
                              side);
    omp_set_num_threads(threads);
    et_free(c);
    et_free(ab);
    return status || done == dnnl_success ? status : onednn_failed(error, done, "its kernels");
}

/* oneDNN writes the code that sets and releases AMX's tiles when the first product runs, and calls
 * it even if there was no memory for it. So one product runs here, after memory was checked. */
static int write_tiles(et_gemm_engine *engine, et_error *error)
{
    enum { SIDE = 64 };
    const et_gemm_block_shape shape = {
        .m = SIDE, .n = SIDE, .k = SIDE, .panels = true, .ab = ET_BF16, .c = ET_F32
    };
    et_gemm_block *block;
    int status = et_gemm_block_new(&block, engine, &shape, error);
    if (status)
        return status;
    const int threads = omp_get_max_threads();
    float *c;
    uint16_t *ab = NULL;
    status = ET_ALLOC_ZERO(c, SIDE * SIDE, "a matrix product", error) ||
                     ET_ALLOC_ZERO(ab, SIDE * SIDE, "a matrix product", error)
                 ? ET_ENOMEM
                 : et_memory_check(ONEDNN_MAKING_ROOM, "kernels of matrix products", error);
    omp_set_num_threads(1);
    if (!status && !et_gemm_block_run(block, 0, c, ab, ab, NULL))
        status = onednn_failed(error, dnnl_runtime_error, "its kernels");
    omp_set_num_threads(threads);
    et_free(c);
    et_free(ab);
    et_gemm_block_free(block);
    return status;
}

/* Finds out once for which layouts the CPU has kernels. */
int et_gemm_engine_open(et_gemm_engine **out, int threads, et_error *error)
{
    et_assert(threads >= 1);
    size_t count = threads;
    *out = NULL;
    int status = et_memory_check(ONEDNN_MAKING_ROOM, "an engine of matrix products", error);
    if (status)
        return status;
    et_gemm_engine *engine;
    if (ET_ALLOC_ZERO(engine, 1, "an engine of matrix products", error))
        return ET_ENOMEM;
    engine->threads = threads;
    dnnl_status_t done = dnnl_success;
    if (ET_ALLOC_ZERO(engine->streams, count, "an engine of matrix products", error) ||
        ET_ALLOC_ZERO(engine->scratch, count, "an engine of matrix products", error))
        status = ET_ENOMEM;
    else
        done = dnnl_engine_create(&engine->engine, dnnl_cpu, 0);
    for (size_t i = 0; !status && done == dnnl_success && i < count; i++)
        done = dnnl_stream_create(&engine->streams[i], engine->engine, dnnl_stream_default_flags);
    if (done != dnnl_success)
        status = onednn_failed(error, done, "an engine");
    if (!status)
        status = find_panels(engine, ET_F32, error);
    if (!status)
        status = find_panels(engine, ET_BF16, error);
    if (!status && !engine->panels[ET_F32])
        status = write_kernels(error);
    else if (!status && engine->panels[ET_BF16] && et_gemm_has_amx())
        status = write_tiles(engine, error);
    if (status)
        et_gemm_engine_close(engine);
    else
        *out = engine;
    return status;
}

/* In any state of opening. No block of it is left. */
void et_gemm_engine_close(et_gemm_engine *engine)
{
    if (!engine)
        return;
    for (int i = 0; i < engine->threads; i++) {
        if (engine->streams && engine->streams[i])
            dnnl_stream_destroy(engine->streams[i]);
        if (engine->scratch)
            et_free(engine->scratch[i]);
    }
    if (engine->engine)
        dnnl_engine_destroy(engine->engine);
    et_free(engine->streams);
    et_free(engine->scratch);
    et_free(engine);
}

/* Making a block. */

/* No activation among them: oneDNN's relu makes 0 of a NaN. */
static dnnl_status_t attributes_of(dnnl_primitive_attr_t *out, const et_gemm_block_shape *shape)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t done = dnnl_primitive_attr_create(out);
    if (done != dnnl_success)
        return done;
    done = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (done == dnnl_success)
        done = dnnl_post_ops_create(&ops);
    if (done == dnnl_success && shape->accumulate)
        done = append_sum(ops);
    if (done == dnnl_success)
        done = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return done;
}

/* As gemm/gemm_private.h draws it. */
static dnnl_format_tag_t tag_of_b(const et_gemm_block *block)
{
    if (block->shape.across)
        return dnnl_ba;
    if (!block->shape.panels)
        return dnnl_ab;
    return block->shape.ab == ET_BF16 ? dnnl_BA16a64b2a : dnnl_BA16a64b;
}

/* Makes all descriptions of a primitive; after a failure the caller frees them. */
static dnnl_status_t describe_product(et_gemm_block *block)
{
    const et_gemm_block_shape *shape = &block->shape;
    /* All layouts are of two dimensions, a bias being one row. */
    dnnl_dims_t a_dims = { shape->m, shape->k }, b_dims = { shape->k, shape->n };
    dnnl_dims_t c_dims = { shape->m, shape->n }, bias_dims = { 1, shape->n };
    dnnl_data_type_t type = type_of(shape->ab);
    layout *layouts = block->product.layouts;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t done = attributes_of(&attributes, shape);
    if (done == dnnl_success)
        done = layout_tagged(&layouts[A], 2, a_dims, type, dnnl_ab);
    if (done == dnnl_success)
        done = layout_tagged(&layouts[B], 2, b_dims, type, tag_of_b(block));
    if (done == dnnl_success)
        done = layout_tagged(&layouts[OUT], 2, c_dims, type_of(shape->c), dnnl_ab);
    if (done == dnnl_success && shape->bias)
        done = layout_tagged(&layouts[BIAS], 2, bias_dims, dnnl_f32, dnnl_ab);
    if (done == dnnl_success)
        done = describe(&block->product.description, block->product.engine, ref(&layouts[A]),
                        ref(&layouts[B]), shape->bias ? ref(&layouts[BIAS]) : NULL,
                        ref(&layouts[OUT]), attributes);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return done;
}

/* Each thread runs blocks alone, but oneDNN would plan for as many threads as OpenMP has. */
static int make(et_gemm_block *block, et_error *error)
{
    /* After a failed allocation, oneDNN's code generator would still write to the memory. */
    int status = et_memory_check(ONEDNN_MAKING_ROOM, "making a matrix product", error);
    if (status)
        return status;
    /* The caller's setting is put back whatever happens in between. */
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t done = describe_product(block);
    if (done == dnnl_success)
        done = primitive_make(&block->product, block->shape.bias);
    omp_set_num_threads(threads);
    if (done != dnnl_success)
        return onednn_failed(error, done, "a matrix product");
    /* Scratch grows here, at planning: running allocates nothing. A failure half way leaves threads
     * with more than scratch_size says, which harms nothing. */
    et_gemm_engine *engine = block->engine;
    const size_t size = primitive_scratch(&block->product);
    if (size <= engine->scratch_size)
        return ET_OK;
    for (int i = 0; i < engine->threads; i++) {
        void *grown = et_alloc_aligned(size, 64);
        if (!grown)
            return et_alloc_failed(error, "the scratch of a matrix product");
        et_free(engine->scratch[i]);
        engine->scratch[i] = grown;
    }
    engine->scratch_size = size;
    return ET_OK;
}

/* free takes a block in any state of making. */
int et_gemm_block_new(et_gemm_block **out, et_gemm_engine *engine, const et_gemm_block_shape *shape,
                      et_error *error)
{
    *out = NULL;
    et_gemm_block *block;
    if (ET_ALLOC_ZERO(block, 1, "a matrix product", error))
        return ET_ENOMEM;
    block->engine = engine;
    block->shape = *shape;
    block->product.engine = engine->engine;
    block->product.threads = engine->threads;
    int status = ET_ALLOC_ZERO(block->product.memory, engine->threads, "a matrix product", error);
    if (!status)
        status = make(block, error);
    if (status) {
        et_gemm_block_free(block);
        return status;
    }
    *out = block;
    return ET_OK;
}

void et_gemm_block_free(et_gemm_block *block)
{
    if (!block)
        return;
    primitive_release(&block->product);
    et_free(block);
}

/* ---- getters ---- */

const et_gemm_block_shape *et_gemm_block_shape_of(const et_gemm_block *block)
{
    return &block->shape;
}

/* Such as "brg:avx512_core"; "" if the library does not say. */
const char *et_gemm_block_implementation(const et_gemm_block *block)
{
    return implementation_of(block->product.description);
}

bool et_gemm_engine_panels(const et_gemm_engine *engine, et_dtype ab)
{
    return engine->panels[ab];
}

/* Tries it on a product that is described, not made. "brg": the kernels that read B in panels
 * (brgemm). Any other would read it slowly or by way of a reorder. 64 in each way is a whole panel
 * and whole units of k for both types. Without memory it fails: another layout adds in another
 * order. */
static int find_panels(et_gemm_engine *engine, et_dtype ab, et_error *error)
{
    et_gemm_block block = {
        .shape = { .m = 64, .n = 64, .k = 64, .panels = true, .ab = ab, .c = ET_F32 },
        .product = { .engine = engine->engine }
    };
    dnnl_status_t done = describe_product(&block);
    engine->panels[ab] =
        done == dnnl_success && strncmp(et_gemm_block_implementation(&block), "brg", 3) == 0;
    primitive_release(&block.product);
    return done == dnnl_out_of_memory ? onednn_failed(error, done, "an engine") : ET_OK;
}

/* Running. */

/* Bytes that kernels without panels allocate by malloc without checking the result: page and
 * array. */
#define ASKED 24576

/* volatile: otherwise clang removes the allocation and returns true. */
static bool has_memory(void)
{
    void *volatile probe = malloc(ASKED);
    bool there = probe != NULL;
    free(probe);
    return there;
}

bool et_gemm_block_run(const et_gemm_block *block, int thread, void *c, const void *a,
                       const void *b, const float *bias)
{
    static const int names[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
    dnnl_exec_arg_t arguments[MEMORIES];
    const int count = primitive_arguments(&block->product, thread, names, arguments, a, b, c, bias,
                                          block->engine->scratch[thread]);
    et_assert_equal(omp_get_max_threads(), 1);
    const bool asks = !block->engine->panels[ET_F32];
    sigset_t before;
    if (asks && !has_memory())
        return false;
    if (asks)
        et_onednn_hold_signals(&before);
    dnnl_status_t done =
        dnnl_primitive_execute(block->product.op, block->engine->streams[thread], count, arguments);
    if (asks)
        et_onednn_release_signals(&before);
    et_assert(done == dnnl_success || asks);
    return done == dnnl_success;
}

/* The CPU. */

/* Compares all bits of an instruction set's constant, since oneDNN's constants include those of the
 * sets they build on. The constants exist only for x86: on other processors oneDNN chooses by
 * itself and does not report the choice. */
static bool isa_has(dnnl_cpu_isa_t wanted)
{
#ifdef __x86_64__
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)wanted) == (unsigned)wanted;
#else
    (void)wanted;
    return false;
#endif
}

/* Kernels for AVX-512 give each row its own accumulators. The older ones take 4 or 6 rows at a time
 * and sum a smaller remainder in another order (seen in oneDNN 2.6.3). */
int64_t et_gemm_row_unit(void)
{
    return isa_has(dnnl_cpu_isa_avx512_core) ? 1 : 24;
}

/* Products of bfloat16 in hardware, not merely possible. */
bool et_gemm_has_bf16(void)
{
    return isa_has(dnnl_cpu_isa_avx512_core_bf16);
}

bool et_gemm_has_amx(void)
{
    return isa_has(dnnl_cpu_isa_avx512_core_amx);
}

/* On a Xeon with 2 MB of L2 a core bench_gemm gave blocks 1.03 to 1.10 of our kernel's rate on 11
 * of 13 gradients of weights, 0.88 and 0.95 on two; on AMD's cores our kernel is the faster one. */
bool et_gemm_fast_blocks(void)
{
#ifdef __x86_64__
    return isa_has(dnnl_cpu_isa_avx512_core) && __builtin_cpu_is("intel");
#else
    return false;
#endif
}

/* Always with AMX; without it, on CPUs with bfloat16 instructions that are not Intel's. */
bool et_gemm_fast_bf16(void)
{
    if (et_gemm_has_amx())
        return true;
#ifdef __x86_64__
    return et_gemm_has_bf16() && !__builtin_cpu_is("intel");
#else
    return et_gemm_has_bf16();
#endif
}

/* The name that the lines of a start print. */
const char *et_gemm_isa(void)
{
    if (et_gemm_has_amx())
        return "AMX";
    if (isa_has(dnnl_cpu_isa_avx512_core_bf16))
        return "AVX-512 BF16";
    if (isa_has(dnnl_cpu_isa_avx512_core))
        return "AVX-512";
#if defined(__x86_64__)
    return isa_has(dnnl_cpu_isa_avx2) ? "AVX2" : "SSE";
#elif defined(__aarch64__)
    return "NEON";
#else
    return "no vector instructions that Etude uses";
#endif
}
