/* Measures the two rates with the kernels of training: the product by et_gemm with its B packed,
 * memory by `accumulate` (y += x: reads two arrays, writes one). The best of several runs counts,
 * because every disturbance makes a run slower.
 *
 * The product multiplies zeros: its time does not depend on the values, unless they are
 * subnormal. */
#include "engine/exec/peak.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

/* The best of so many runs, or of as many as take so long. */
#define RUNS    8
#define SECONDS 0.3

/* Floats of each array that memory is measured with: more than caches hold. */
#define FLOATS ((size_t)16 << 20)

typedef void work_fn(void *payload);

/* Runs once for pages and primitives, then at least twice, at most RUNS times or for about
 * SECONDS. */
static double best_time(work_fn *work, void *payload)
{
    et_assert(work);
    double best = INFINITY, start = et_clock_monotonic(), begin = start;
    work(payload); /* pages and primitives are touched for the first time */
    for (int run = 0; run < RUNS && (run < 2 || begin - start < SECONDS); run++) {
        begin = et_clock_monotonic();
        work(payload);
        best = fmin(best, et_clock_monotonic() - begin);
    }
    return best;
}

/* ---- the product ---- */

/* Large enough that each thread has many tiles and B's panels are read from cache, small enough
 * to be run several times. */

typedef struct product {
    et_gemm *gemm;
    void *a, *b, *c; /* parts of one block */
} product;

/* No bias: peak->flops counts only the product. */
static void run_product(void *payload)
{
    product *p = payload;
    et_gemm_run(p->gemm, p->c, p->a, p->b, NULL);
}

/* 2 m n k operations: a multiplication and an addition each. */
static int measure_product(et_peak *peak, et_gemm_cache *cache, et_error *error)
{
    product p;
    et_gemm_shape shape = { .m = ET_PEAK_M, .n = ET_PEAK_N, .k = ET_PEAK_K, .pack_b = true };
    shape.a = shape.b = shape.c = peak->dtype;
    int status = et_gemm_get(&p.gemm, cache, &shape, error);
    if (status)
        return status;
    size_t element = et_dtype_size(peak->dtype);
    size_t a = (size_t)(shape.m * shape.k) * element, c = (size_t)(shape.m * shape.n) * element;
    size_t b = (et_gemm_packed_size(p.gemm) + 63) / 64 * 64;
    char *memory = et_alloc_aligned(a + b + c, 64);
    if (!memory)
        return et_alloc_failed(error, a + b + c, "measuring a matrix product");
    memset(memory, 0, a + b + c);
    p.a = memory;
    p.b = memory + a;
    p.c = memory + a + b;
    double work = 2.0 * (double)shape.m * (double)shape.n * (double)shape.k;
    peak->flops = work / best_time(run_product, &p);
    et_free(memory);
    return ET_OK;
}

/* ---- memory ---- */

/* Arrays that no cache holds, so that every run reads and writes memory. */

typedef struct stream {
    const et_kernels *kernels;
    float *x, *y;
} stream;

static void run_stream(void *payload)
{
    stream *s = payload;
    s->kernels->accumulate(s->y, s->x, (int64_t)FLOATS);
}

/* Three times the array's bytes move: x and y are read, y is written. */
static int measure_memory(et_peak *peak, const et_kernels *kernels, et_error *error)
{
    float *arrays = et_alloc_aligned(2 * FLOATS * sizeof(float), 64);
    if (!arrays)
        return et_alloc_failed(error, 2 * FLOATS * sizeof(float), "measuring memory");
    memset(arrays, 0, 2 * FLOATS * sizeof(float));
    stream s = { kernels, arrays, arrays + FLOATS };
    peak->bytes = 3 * (double)FLOATS * sizeof(float) / best_time(run_stream, &s);
    et_free(arrays);
    return ET_OK;
}

/* Uses its own cache of products: the device's may have a track that records, and a plan's products
 * must not change. */
int et_peak_measure(et_peak *peak, const et_device *device, et_dtype dtype, et_error *error)
{
    et_gemm_cache *cache;
    *peak = (et_peak){ .dtype = dtype };
    int status = et_gemm_cache_open(&cache, device->threads, error);
    if (status)
        return status;
    status = measure_product(peak, cache, error);
    et_gemm_cache_close(cache);
    return status ? status : measure_memory(peak, device->kernels, error);
}

/* Operations and bytes overlap: a call takes at least the longer of the two times. */
double et_peak_seconds(const et_peak *peak, et_cost cost)
{
    et_assert(peak->flops > 0 && peak->bytes > 0);
    return fmax(cost.flops / peak->flops, cost.bytes / peak->bytes);
}
