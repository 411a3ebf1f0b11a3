#include "roof.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>
#include <omp.h>

#include "base/alloc.h"
#include "base/assert.h"
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

/* A product for oneDNN: A, B and C in this order, matrices or runs of them. */
typedef struct problem {
    int rank; /* 2, or 3 with the number of products in front */
    dnnl_dims_t size[3];
    dnnl_data_type_t type[3];
    dnnl_format_tag_t layout[3];
} problem;

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

/* batch 0: matrices, without a dimension in front. */
static problem problem_of(const et_gemm_shape *s, int64_t batch, const dnnl_format_tag_t layout[3])
{
    const int64_t size[3][2] = { { s->m, s->k }, { s->k, s->n }, { s->m, s->n } };
    const et_dtype type[3] = { s->a, s->b, s->c };
    problem p = { .rank = batch ? 3 : 2 };
    for (int i = 0; i < 3; i++) {
        p.size[i][0] = batch;
        memcpy(p.size[i] + p.rank - 2, size[i], sizeof size[i]);
        p.type[i] = type_of(type[i]);
        p.layout[i] = layout[i];
    }
    return p;
}

/* Versions 2 and 3 differ in what a memory descriptor is. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t layout;

static dnnl_status_t describe(primitive *p, const problem *of)
{
    dnnl_memory_desc_t part[3];
    for (int i = 0; i < 3; i++)
        check(dnnl_memory_desc_create_with_tag(&part[i], of->rank, of->size[i], of->type[i],
                                               of->layout[i]));
    dnnl_status_t status = dnnl_matmul_primitive_desc_create(&p->description, p->engine, part[0],
                                                             part[1], NULL, part[2], NULL);
    for (int i = 0; i < 3; i++)
        dnnl_memory_desc_destroy(part[i]);
    return status;
}
#else
typedef const dnnl_memory_desc_t *layout;

static dnnl_status_t describe(primitive *p, const problem *of)
{
    dnnl_memory_desc_t part[3];
    dnnl_matmul_desc_t product;
    for (int i = 0; i < 3; i++)
        check(dnnl_memory_desc_init_by_tag(&part[i], of->rank, of->size[i], of->type[i],
                                           of->layout[i]));
    check(dnnl_matmul_desc_init(&product, &part[0], &part[1], NULL, &part[2]));
    return dnnl_primitive_desc_create(&p->description, &product, NULL, p->engine, NULL);
}
#endif

/* Whether this oneDNN has a product in those layouts; if not, nothing is left open. */
static bool open_primitive(primitive *p, const problem *of)
{
    static const struct {
        dnnl_query_t what;
        int name;
    } parts[3] = { { dnnl_query_src_md, DNNL_ARG_SRC },
                   { dnnl_query_weights_md, DNNL_ARG_WEIGHTS },
                   { dnnl_query_dst_md, DNNL_ARG_DST } };
    check(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    dnnl_status_t status = describe(p, of);
    if (status == dnnl_unimplemented) {
        dnnl_stream_destroy(p->stream);
        dnnl_engine_destroy(p->engine);
        return false;
    }
    check(status);
    check(dnnl_primitive_create(&p->product, p->description));
    for (int i = 0; i < 3; i++) {
        layout found = dnnl_primitive_desc_query_md(p->description, parts[i].what, 0);
        p->memory[i] = zeros(dnnl_memory_desc_get_size(found));
        p->arguments[i].arg = parts[i].name;
        check(dnnl_memory_create(&p->arguments[i].memory, found, p->engine, p->memory[i]));
    }
    return true;
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

/* One primitive, all threads working in it. */
static double time_onednn(const problem *of)
{
    primitive p;
    if (!open_primitive(&p, of))
        return INFINITY;
    double seconds = best_time(run_primitive, &p);
    close_primitive(&p);
    return seconds;
}

/* ---- runs of products ------------------------------------------------------------------- */

#define TEAM_MAX 256

/* Single-threaded primitives side by side: oneDNN takes the threads it finds when it makes one. */
typedef struct team {
    primitive member[TEAM_MAX];
    int count;
} team;

static void run_team(void *payload)
{
    team *t = payload;
#pragma omp parallel num_threads(t->count)
    {
        omp_set_num_threads(1);
        run_primitive(&t->member[omp_get_thread_num()]);
    }
}

/* of: what one of `threads` does. */
static double time_team(const problem *of, int threads)
{
    static team t;
    omp_set_num_threads(1);
    for (t.count = 0; t.count < threads && open_primitive(&t.member[t.count], of); t.count++)
        continue;
    omp_set_num_threads(threads);
    double seconds = t.count == threads ? best_time(run_team, &t) : INFINITY;
    while (t.count > 0)
        close_primitive(&t.member[--t.count]);
    return seconds;
}

/* As oneDNN likes it best; as rows; B across; A across. */
double bench_roof_run(const et_gemm_shape *shape, int64_t count)
{
    static const dnnl_format_tag_t ways[][3] = {
        { dnnl_format_tag_any, dnnl_format_tag_any, dnnl_format_tag_any },
        { dnnl_abc, dnnl_abc, dnnl_abc },
        { dnnl_abc, dnnl_acb, dnnl_abc },
        { dnnl_acb, dnnl_abc, dnnl_abc },
    };
    et_assert(count >= 1);
    const int threads = omp_get_max_threads() < TEAM_MAX ? omp_get_max_threads() : TEAM_MAX;
    const int64_t share = (count + threads - 1) / threads;
    double best = INFINITY;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const problem own = problem_of(shape, share, ways[i]);
        const problem whole = problem_of(shape, share * threads, ways[i]);
        best = fmin(best, fmin(time_team(&own, threads), time_onednn(&whole)));
    }
    return best / (double)(share * threads);
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
    static const dnnl_format_tag_t ways[][3] = {
        { dnnl_format_tag_any, dnnl_format_tag_any, dnnl_format_tag_any },
        { dnnl_ab, dnnl_format_tag_any, dnnl_ab },
    };
    et_gemm_shape bare = *shape;
    bare.bias = false;
    bare.activation = ET_GEMM_LINEAR;
    double best = time_own(&bare);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const problem p = problem_of(&bare, 0, ways[i]);
        best = fmin(best, time_onednn(&p));
    }
    return best;
}
