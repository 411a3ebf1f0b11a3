#include "kernel/gemm_onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <string.h>

#include <etude/dtype.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kernel/gemm.h"

/* Version 3 made memory descriptors handles, made one call of two when a primitive is
 * described, and moved arguments of post-ops. The rest of the file speaks of layouts. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_ref;

static layout_ref ref(const layout *from)
{
    return *from;
}

static void layout_free(layout *from)
{
    if (*from)
        dnnl_memory_desc_destroy(*from);
    *from = NULL;
}

static dnnl_status_t layout_strided(layout *out, const dnnl_dims_t dims, const dnnl_dims_t strides,
                                    dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
}

static dnnl_status_t layout_any(layout *out, const dnnl_dims_t dims, dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_tag(out, 2, dims, type, dnnl_format_tag_any);
}

static dnnl_status_t layout_copy(layout *out, layout_ref from)
{
    return dnnl_memory_desc_clone(out, from);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, layout_ref a,
                              layout_ref b, layout_ref bias, layout_ref c,
                              const_dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attributes);
}
#else
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_ref;

static layout_ref ref(const layout *from)
{
    return from;
}

static void layout_free(layout *from)
{
    (void)from;
}

static dnnl_status_t layout_strided(layout *out, const dnnl_dims_t dims, const dnnl_dims_t strides,
                                    dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
}

static dnnl_status_t layout_any(layout *out, const dnnl_dims_t dims, dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_tag(out, 2, dims, type, dnnl_format_tag_any);
}

static dnnl_status_t layout_copy(layout *out, layout_ref from)
{
    *out = *from;
    return dnnl_success;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
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

struct et_gemm_engine {
    dnnl_engine_t engine;
    int threads;
    dnnl_stream_t *streams; /* [threads] */
    void **scratch;         /* [threads], what the hungriest primitive asks for */
    size_t scratch_size;    /* bytes of each */
};

/* A primitive's arguments on one thread; each keeps the pointer of the last run. */
enum { A, B, C, BIAS, SCRATCH, FROM, PACKED, PACK_SCRATCH, MEMORIES };

typedef struct thread_memory {
    dnnl_memory_t of[MEMORIES];
} thread_memory;

struct et_gemm_block {
    et_gemm_engine *engine;
    et_gemm_block_shape shape;
    layout layouts[MEMORIES];
    bool has[MEMORIES];
    dnnl_primitive_desc_t description;
    dnnl_primitive_t product;
    dnnl_primitive_t packing; /* NULL: B is not packed */
    thread_memory *memory;    /* [threads] */
};

/* The engine. */

static int failed(et_error *error, dnnl_status_t status, const char *what)
{
    if (status == dnnl_out_of_memory)
        return et_fail(error, ET_ENOMEM, "out of memory (oneDNN, %s)", what);
    return et_fail(error, ET_EFAIL, "oneDNN %d.%d failed to make %s (its status %d)",
                   DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, what, (int)status);
}

int et_gemm_engine_open(et_gemm_engine **out, int threads, et_error *error)
{
    et_assert(threads >= 1);
    size_t count = (size_t)threads;
    et_gemm_engine *engine = et_alloc_zero(1, sizeof *engine);
    if (!engine)
        return et_alloc_failed(error, sizeof *engine, "a product engine");
    engine->threads = threads;
    engine->streams = et_alloc_zero(count, sizeof(dnnl_stream_t));
    engine->scratch = et_alloc_zero(count, sizeof(void *));
    int status = ET_OK;
    dnnl_status_t done = dnnl_success;
    if (!engine->streams || !engine->scratch)
        status = et_alloc_failed(error, count * sizeof(void *), "a product engine");
    else
        done = dnnl_engine_create(&engine->engine, dnnl_cpu, 0);
    for (size_t i = 0; !status && done == dnnl_success && i < count; i++)
        done = dnnl_stream_create(&engine->streams[i], engine->engine, dnnl_stream_default_flags);
    if (done != dnnl_success)
        status = failed(error, done, "an engine");
    if (status) {
        et_gemm_engine_close(engine);
        return status;
    }
    *out = engine;
    return ET_OK;
}

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

static int grow_scratch(et_gemm_engine *engine, size_t size, et_error *error)
{
    if (size <= engine->scratch_size)
        return ET_OK;
    for (int i = 0; i < engine->threads; i++) {
        void *grown = et_alloc_aligned(size, 64);
        if (!grown)
            return et_alloc_failed(error, size, "a product's scratch");
        et_free(engine->scratch[i]);
        engine->scratch[i] = grown;
    }
    engine->scratch_size = size;
    return ET_OK;
}

/* Making a block. */

static dnnl_data_type_t type_of(int64_t dtype)
{
    return dtype == ET_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* A matrix of rows x columns, stored as such or transposed. */
static dnnl_status_t plain(layout *out, int64_t rows, int64_t columns, int64_t stride,
                           bool transposed, dnnl_data_type_t type)
{
    dnnl_dims_t dims = { rows, columns };
    dnnl_dims_t strides = { transposed ? 1 : stride, transposed ? stride : 1 };
    return layout_strided(out, dims, strides, type);
}

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
    if (done == dnnl_success && shape->relu)
        done = append_relu(ops);
    if (done == dnnl_success)
        done = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return done;
}

/* B: as stored, or as packed by `like`, or as the primitive likes best. */
static dnnl_status_t wanted_b(layout *out, const et_gemm_block_shape *shape,
                              const et_gemm_block *like)
{
    dnnl_data_type_t type = type_of(shape->ab);
    dnnl_dims_t dims = { shape->k, shape->n };
    if (!shape->packed_b)
        return plain(out, shape->k, shape->n, shape->ldb, shape->transpose_b, type);
    return like ? layout_copy(out, ref(&like->layouts[B])) : layout_any(out, dims, type);
}

static dnnl_status_t describe_product(et_gemm_block *block, const et_gemm_block *like)
{
    const et_gemm_block_shape *shape = &block->shape;
    dnnl_dims_t bias_dims = { 1, shape->n };
    dnnl_dims_t bias_strides = { shape->n, 1 };
    dnnl_data_type_t type = type_of(shape->ab);
    layout wanted;
    memset(&wanted, 0, sizeof wanted);
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t done = attributes_of(&attributes, shape);
    if (done == dnnl_success)
        done = plain(&block->layouts[A], shape->m, shape->k, shape->lda, shape->transpose_a, type);
    if (done == dnnl_success)
        done = plain(&block->layouts[C], shape->m, shape->n, shape->ldc, false, type_of(shape->c));
    if (done == dnnl_success && shape->bias)
        done = layout_strided(&block->layouts[BIAS], bias_dims, bias_strides, dnnl_f32);
    if (done == dnnl_success)
        done = wanted_b(&wanted, shape, like);
    if (done == dnnl_success)
        done = describe(&block->description, block->engine->engine, ref(&block->layouts[A]),
                        ref(&wanted), shape->bias ? ref(&block->layouts[BIAS]) : NULL,
                        ref(&block->layouts[C]), attributes);
    layout_free(&wanted);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return done;
}

/* Copies what the description says of an argument; an empty scratchpad is left out. */
static dnnl_status_t query(et_gemm_block *block, int which, const_dnnl_primitive_desc_t from,
                           dnnl_query_t what)
{
    layout_ref found = dnnl_primitive_desc_query_md(from, what, 0);
    block->has[which] = found && dnnl_memory_desc_get_size(found) > 0;
    return block->has[which] ? layout_copy(&block->layouts[which], found) : dnnl_success;
}

static dnnl_status_t make_product(et_gemm_block *block)
{
    block->has[A] = block->has[C] = true;
    block->has[BIAS] = block->shape.bias;
    dnnl_status_t done = query(block, B, block->description, dnnl_query_weights_md);
    if (done == dnnl_success)
        done = query(block, SCRATCH, block->description, dnnl_query_scratchpad_md);
    if (done == dnnl_success)
        done = dnnl_primitive_create(&block->product, block->description);
    return done;
}

static dnnl_status_t make_packing(et_gemm_block *block)
{
    const et_gemm_block_shape *shape = &block->shape;
    dnnl_engine_t engine = block->engine->engine;
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t done = plain(&block->layouts[FROM], shape->k, shape->n, shape->ldb,
                               shape->transpose_b, type_of(shape->ab));
    if (done == dnnl_success)
        done = layout_copy(&block->layouts[PACKED], ref(&block->layouts[B]));
    if (done == dnnl_success)
        done = dnnl_primitive_attr_create(&attributes);
    if (done == dnnl_success)
        done = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (done == dnnl_success)
        done = dnnl_reorder_primitive_desc_create(&description, ref(&block->layouts[FROM]), engine,
                                                  ref(&block->layouts[PACKED]), engine, attributes);
    if (done == dnnl_success)
        done = query(block, PACK_SCRATCH, description, dnnl_query_scratchpad_md);
    if (done == dnnl_success)
        done = dnnl_primitive_create(&block->packing, description);
    block->has[FROM] = block->has[PACKED] = true;
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    if (description)
        dnnl_primitive_desc_destroy(description);
    return done;
}

/* Handles without memory behind them, filled in at every run. */
static dnnl_status_t make_memories(et_gemm_block *block)
{
    dnnl_status_t done = dnnl_success;
    for (int thread = 0; thread < block->engine->threads; thread++)
        for (int i = 0; done == dnnl_success && i < MEMORIES; i++)
            if (block->has[i])
                done = dnnl_memory_create(&block->memory[thread].of[i], ref(&block->layouts[i]),
                                          block->engine->engine, DNNL_MEMORY_NONE);
    return done;
}

static size_t layout_size(const et_gemm_block *block, int which)
{
    return block->has[which] ? dnnl_memory_desc_get_size(ref(&block->layouts[which])) : 0;
}

static bool is_reference(const et_gemm_block *block)
{
    return strncmp(et_gemm_block_implementation(block), "ref", 3) == 0;
}

static int no_such_product(et_error *error, const et_gemm_block_shape *shape)
{
    return et_fail(error, ET_ECONFIG,
                   "this CPU (%s, as oneDNN %d.%d sees it) has no %s matrix products: it needs "
                   "AVX-512 BF16 or AMX; train in float32",
                   et_gemm_isa(), DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR,
                   et_dtype_name((et_dtype)shape->ab));
}

/* The steps of et_gemm_block_new that can fail; sets *usable to false if like does not fit. */
static int make(et_gemm_block *block, const et_gemm_block *like, bool *usable, et_error *error)
{
    dnnl_status_t done = describe_product(block, like);
    bool poor = done == dnnl_success && is_reference(block);
    *usable = !(like && (poor || done == dnnl_unimplemented));
    if (!*usable)
        return ET_OK;
    if (block->shape.ab == ET_BF16 && (poor || done == dnnl_unimplemented))
        return no_such_product(error, &block->shape);
    if (done == dnnl_success)
        done = make_product(block);
    if (done == dnnl_success && block->shape.packed_b)
        done = make_packing(block);
    if (done == dnnl_success)
        done = make_memories(block);
    if (done != dnnl_success)
        return failed(error, done, "a matrix product");
    size_t size = layout_size(block, SCRATCH), packing = layout_size(block, PACK_SCRATCH);
    return grow_scratch(block->engine, size > packing ? size : packing, error);
}

int et_gemm_block_new(et_gemm_block **out, et_gemm_engine *engine, const et_gemm_block_shape *shape,
                      const et_gemm_block *like, et_error *error)
{
    *out = NULL;
    et_gemm_block *block = et_alloc_zero(1, sizeof *block);
    if (!block)
        return et_alloc_failed(error, sizeof *block, "a matrix product");
    block->engine = engine;
    block->shape = *shape;
    block->memory = et_alloc_zero((size_t)engine->threads, sizeof *block->memory);
    /* oneDNN plans for as many threads as OpenMP would give this thread. */
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    bool usable = false;
    int status = block->memory ? make(block, like, &usable, error)
                               : et_alloc_failed(error, sizeof *block->memory, "a matrix product");
    omp_set_num_threads(threads);
    if (status || !usable) {
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
    for (int thread = 0; block->memory && thread < block->engine->threads; thread++)
        for (int i = 0; i < MEMORIES; i++)
            if (block->memory[thread].of[i])
                dnnl_memory_destroy(block->memory[thread].of[i]);
    if (block->packing)
        dnnl_primitive_destroy(block->packing);
    if (block->product)
        dnnl_primitive_destroy(block->product);
    if (block->description)
        dnnl_primitive_desc_destroy(block->description);
    for (int i = 0; i < MEMORIES; i++)
        layout_free(&block->layouts[i]);
    et_free(block->memory);
    et_free(block);
}

/* What a block is. */

const et_gemm_block_shape *et_gemm_block_shape_of(const et_gemm_block *block)
{
    return &block->shape;
}

const char *et_gemm_block_implementation(const et_gemm_block *block)
{
    const char *name = "";
    dnnl_primitive_desc_query(block->description, dnnl_query_impl_info_str, 0, &name);
    return name;
}

bool et_gemm_block_same_packing(const et_gemm_block *left, const et_gemm_block *right)
{
    return dnnl_memory_desc_equal(ref(&left->layouts[B]), ref(&right->layouts[B]));
}

size_t et_gemm_block_packed_size(const et_gemm_block *block)
{
    return layout_size(block, PACKED);
}

/* Running. oneDNN takes pointers to memory that it only reads without const. */

typedef union handle {
    const void *given;
    void *taken;
} handle;

static dnnl_exec_arg_t argument(const et_gemm_block *block, int thread, int which, int name,
                                const void *data)
{
    handle from = { data };
    dnnl_memory_t memory = block->memory[thread].of[which];
    et_assert(memory);
    dnnl_memory_set_data_handle(memory, from.taken);
    return (dnnl_exec_arg_t){ name, memory };
}

static void execute(const et_gemm_block *block, int thread, dnnl_primitive_t primitive, int count,
                    const dnnl_exec_arg_t *arguments)
{
    et_assert_equal(omp_get_max_threads(), 1);
    dnnl_stream_t stream = block->engine->streams[thread];
    dnnl_status_t done = dnnl_primitive_execute(primitive, stream, count, arguments);
    et_assert_equal(done, dnnl_success);
    (void)done;
}

void et_gemm_block_pack(const et_gemm_block *block, int thread, void *packed, const void *from)
{
    dnnl_exec_arg_t arguments[3];
    int count = 0;
    arguments[count++] = argument(block, thread, FROM, DNNL_ARG_FROM, from);
    arguments[count++] = argument(block, thread, PACKED, DNNL_ARG_TO, packed);
    if (block->has[PACK_SCRATCH])
        arguments[count++] = argument(block, thread, PACK_SCRATCH, DNNL_ARG_SCRATCHPAD,
                                      block->engine->scratch[thread]);
    execute(block, thread, block->packing, count, arguments);
}

void et_gemm_block_run(const et_gemm_block *block, int thread, void *c, const void *a,
                       const void *b, const float *bias)
{
    et_assert(thread >= 0 && thread < block->engine->threads);
    et_assert(block->has[BIAS] == (bias != NULL));
    dnnl_exec_arg_t arguments[5];
    int count = 0;
    arguments[count++] = argument(block, thread, A, DNNL_ARG_SRC, a);
    arguments[count++] = argument(block, thread, B, DNNL_ARG_WEIGHTS, b);
    arguments[count++] = argument(block, thread, C, DNNL_ARG_DST, c);
    if (bias)
        arguments[count++] = argument(block, thread, BIAS, DNNL_ARG_BIAS, bias);
    if (block->has[SCRATCH])
        arguments[count++] =
            argument(block, thread, SCRATCH, DNNL_ARG_SCRATCHPAD, block->engine->scratch[thread]);
    execute(block, thread, block->product, count, arguments);
}

/* The CPU. */

static bool isa_has(dnnl_cpu_isa_t wanted)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)wanted) == (unsigned)wanted;
}

/* Kernels for AVX-512 give each row accumulators of its own. The older ones take 4 or 6 rows
 * at a time and sum a rest of fewer in another order (seen in oneDNN 2.6.3). */
int64_t et_gemm_row_unit(void)
{
    return isa_has(dnnl_cpu_isa_avx512_core) ? 1 : 24;
}

bool et_gemm_has_bf16(void)
{
    return isa_has(dnnl_cpu_isa_avx512_core_bf16);
}

const char *et_gemm_isa(void)
{
    if (isa_has(dnnl_cpu_isa_avx512_core_amx))
        return "AMX";
    if (isa_has(dnnl_cpu_isa_avx512_core_bf16))
        return "AVX-512 BF16";
    if (isa_has(dnnl_cpu_isa_avx512_core))
        return "AVX-512";
    return isa_has(dnnl_cpu_isa_avx2) ? "AVX2" : "SSE";
}
