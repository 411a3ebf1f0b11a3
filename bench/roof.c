#include "roof.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>
#include <omp.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "bench.h"

/* Each way is run this often at least, and for this long. */
#define RUNS_MIN 5
#define SECONDS  0.03

static void *zeros(size_t bytes)
{
    et_error error = ET_ERROR_INIT;
    void *memory = et_alloc_aligned(bytes + 64, 64);
    if (!memory)
        bench_check(et_alloc_failed(&error, bytes, "a matrix"), &error);
    memset(memory, 0, bytes + 64);
    return memory;
}

static double best_time(void (*run)(void *), void *payload)
{
    double best = INFINITY, begin, now;
    run(payload); /* touches the memory, fills the caches */
    begin = now = et_clock_monotonic();
    for (int i = 0; i < RUNS_MIN || now - begin < SECONDS; i++) {
        double since = now;
        run(payload);
        now = et_clock_monotonic();
        best = fmin(best, now - since);
    }
    return best;
}

/* ---- oneDNN ----------------------------------------------------------------------------- */

typedef struct primitive {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t product;
    dnnl_exec_arg_t arguments[3];
    void *memory[3];
} primitive;

static void check(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench: oneDNN failed with status %d\n", (int)status);
    exit(1);
}

static dnnl_data_type_t type_of(et_dtype dtype)
{
    return dtype == ET_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* Versions 2 and 3 differ in what a memory descriptor is. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t layout;

static void describe(primitive *p, const et_gemm_shape *s, dnnl_format_tag_t a_and_c)
{
    dnnl_memory_desc_t a, b, c;
    check(dnnl_memory_desc_create_with_tag(&a, 2, (dnnl_dims_t){ s->m, s->k }, type_of(s->a),
                                           a_and_c));
    check(dnnl_memory_desc_create_with_tag(&b, 2, (dnnl_dims_t){ s->k, s->n }, type_of(s->b),
                                           dnnl_format_tag_any));
    check(dnnl_memory_desc_create_with_tag(&c, 2, (dnnl_dims_t){ s->m, s->n }, type_of(s->c),
                                           a_and_c));
    check(dnnl_matmul_primitive_desc_create(&p->description, p->engine, a, b, NULL, c, NULL));
    dnnl_memory_desc_destroy(a);
    dnnl_memory_desc_destroy(b);
    dnnl_memory_desc_destroy(c);
}
#else
typedef const dnnl_memory_desc_t *layout;

static void describe(primitive *p, const et_gemm_shape *s, dnnl_format_tag_t a_and_c)
{
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t product;
    check(dnnl_memory_desc_init_by_tag(&a, 2, (dnnl_dims_t){ s->m, s->k }, type_of(s->a), a_and_c));
    check(dnnl_memory_desc_init_by_tag(&b, 2, (dnnl_dims_t){ s->k, s->n }, type_of(s->b),
                                       dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&c, 2, (dnnl_dims_t){ s->m, s->n }, type_of(s->c), a_and_c));
    check(dnnl_matmul_desc_init(&product, &a, &b, NULL, &c));
    check(dnnl_primitive_desc_create(&p->description, &product, NULL, p->engine, NULL));
}
#endif

static void open_primitive(primitive *p, const et_gemm_shape *shape, dnnl_format_tag_t a_and_c)
{
    static const struct {
        dnnl_query_t what;
        int name;
    } parts[3] = { { dnnl_query_src_md, DNNL_ARG_SRC },
                   { dnnl_query_weights_md, DNNL_ARG_WEIGHTS },
                   { dnnl_query_dst_md, DNNL_ARG_DST } };
    check(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    describe(p, shape, a_and_c);
    check(dnnl_primitive_create(&p->product, p->description));
    for (int i = 0; i < 3; i++) {
        layout found = dnnl_primitive_desc_query_md(p->description, parts[i].what, 0);
        p->memory[i] = zeros(dnnl_memory_desc_get_size(found));
        p->arguments[i].arg = parts[i].name;
        check(dnnl_memory_create(&p->arguments[i].memory, found, p->engine, p->memory[i]));
    }
}

static void close_primitive(primitive *p)
{
    for (int i = 0; i < 3; i++) {
        dnnl_memory_destroy(p->arguments[i].memory);
        et_free(p->memory[i]);
    }
    dnnl_primitive_destroy(p->product);
    dnnl_primitive_desc_destroy(p->description);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

static void run_primitive(void *payload)
{
    primitive *p = payload;
    check(dnnl_primitive_execute(p->product, p->stream, 3, p->arguments));
    check(dnnl_stream_wait(p->stream));
}

static double time_onednn(const et_gemm_shape *shape, dnnl_format_tag_t a_and_c)
{
    primitive p;
    open_primitive(&p, shape, a_and_c);
    double seconds = best_time(run_primitive, &p);
    close_primitive(&p);
    return seconds;
}

/* ---- ours ------------------------------------------------------------------------------- */

typedef struct own_product {
    et_gemm *gemm;
    void *a, *b, *c;
} own_product;

static void run_own(void *payload)
{
    own_product *p = payload;
    et_gemm_run(p->gemm, p->c, p->a, p->b, NULL);
}

static double time_own(const et_gemm_shape *shape)
{
    et_error error = ET_ERROR_INIT;
    et_gemm_cache *cache;
    own_product p;
    bench_check(et_gemm_cache_open(&cache, omp_get_max_threads(), &error), &error);
    bench_check(et_gemm_get(&p.gemm, cache, shape, &error), &error);
    size_t b_bytes = (size_t)(shape->k * shape->n) * et_dtype_size(shape->b);
    p.a = zeros((size_t)(shape->m * shape->k) * et_dtype_size(shape->a));
    p.b = zeros(shape->pack_b ? et_gemm_packed_size(p.gemm) : b_bytes);
    p.c = zeros((size_t)(shape->m * shape->n) * et_dtype_size(shape->c));
    double seconds = best_time(run_own, &p);
    et_free(p.a);
    et_free(p.b);
    et_free(p.c);
    et_gemm_cache_close(cache);
    return seconds;
}

double bench_roof(const et_gemm_shape *shape)
{
    et_gemm_shape bare = *shape;
    bare.bias = false;
    bare.activation = ET_GEMM_LINEAR;
    double best = time_own(&bare);
    best = fmin(best, time_onednn(&bare, dnnl_format_tag_any));
    return fmin(best, time_onednn(&bare, dnnl_ab));
}
