#include "peak.h"

#include <math.h>
#include <string.h>

#include <omp.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "bench.h"
#include "onednn.h"

/* Each way is run this often at least, and for this long. */
#define RUNS_MIN 5
#define SECONDS  0.03

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

/* ---- oneDNN ---- */

static void run_primitive(void *payload)
{
    bench_primitive_run(payload);
}

/* One primitive, all threads working in it. */
static double time_onednn(const bench_problem *of)
{
    bench_primitive p;
    if (!bench_primitive_open(&p, of))
        return INFINITY;
    double seconds = best_time(run_primitive, &p);
    bench_primitive_close(&p);
    return seconds;
}

/* ---- runs of products ---- */

#define TEAM_MAX 256

/* Single-threaded primitives side by side: oneDNN takes the threads it finds when it makes one. */
typedef struct team {
    bench_primitive member[TEAM_MAX];
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

/* of: the part of each of `threads`. */
static double time_team(const bench_problem *of, int threads)
{
    static team t;
    omp_set_num_threads(1);
    for (t.count = 0; t.count < threads && bench_primitive_open(&t.member[t.count], of); t.count++)
        continue;
    omp_set_num_threads(threads);
    double seconds = t.count == threads ? best_time(run_team, &t) : INFINITY;
    while (t.count > 0)
        bench_primitive_close(&t.member[--t.count]);
    return seconds;
}

/* As oneDNN likes it best; as rows; B across; A across. */
double bench_peak_run(const et_gemm_shape *shape, int64_t count)
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
        const bench_problem own = bench_problem_of(shape, share, ways[i]);
        const bench_problem whole = bench_problem_of(shape, share * threads, ways[i]);
        best = fmin(best, fmin(time_team(&own, threads), time_onednn(&whole)));
    }
    return best / (double)(share * threads);
}

/* ---- ours ---- */

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
    p.a = bench_zeros((size_t)(shape->m * shape->k) * et_dtype_size(shape->a));
    p.b = bench_zeros(shape->pack_b ? et_gemm_packed_size(p.gemm) : b_bytes);
    p.c = bench_zeros((size_t)(shape->m * shape->n) * et_dtype_size(shape->c));
    double seconds = best_time(run_own, &p);
    et_free(p.a);
    et_free(p.b);
    et_free(p.c);
    et_gemm_cache_close(cache);
    return seconds;
}

double bench_peak(const et_gemm_shape *shape)
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
        const bench_problem p = bench_problem_of(&bare, 0, ways[i]);
        best = fmin(best, time_onednn(&p));
    }
    return best;
}
