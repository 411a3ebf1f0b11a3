/* Profiles. A trace is a list of nested spans; a profile assigns each moment to one kind. A span's
 * own time is its length without the spans of other kinds in it. So each span takes its time from
 * the row of the span around it and adds it to its own:
 *
 *   step [ gemm [..] norm [..] ]  ->  gemm 5 ms, norm 1 ms, "between ops" the rest of the step
 *
 * Time outside all spans stays in the first row, "other", which began with all of the time. So the
 * seconds of all rows add up to the recording's.
 *
 * roof is the time of a row's work at the machine's best rates; roof / seconds is its fraction of
 * them. Only matrix products are added to the last line's roof: a run that did nothing else could
 * not be faster. */
#include "engine/exec/profile.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "engine/kernel/sizes.h"
#include "formats/grid.h"

et_track *et_device_track(const et_device *device)
{
    const et_device_tracing *tracing = device->tracing;
    return tracing->track[tracing->trace && omp_in_parallel() ? omp_get_thread_num() : 0];
}

/* Measures the two rates with the kernels of training: the product by et_gemm with its B packed,
 * memory by `accumulate` (y += x: reads two arrays, writes one). The best of several runs counts,
 * because every disturbance makes a run slower.
 *
 * The product multiplies zeros: its time does not depend on the values, unless they are
 * subnormal. */

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
    size_t b = et_lines(et_gemm_packed_size(p.gemm));
    char *memory = et_alloc_aligned(a + b + c, 64);
    if (!memory)
        return et_alloc_failed(error, "measuring a matrix product");
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
    if (status)
        return status;
    /* Three times the array's bytes move: x and y are read, y is written. */
    float *arrays = et_alloc_aligned(2 * FLOATS * sizeof(float), 64);
    if (!arrays)
        return et_alloc_failed(error, "measuring memory");
    memset(arrays, 0, 2 * FLOATS * sizeof(float));
    stream s = { device->kernels, arrays, arrays + FLOATS };
    peak->bytes = 3 * (double)FLOATS * sizeof(float) / best_time(run_stream, &s);
    et_free(arrays);
    return ET_OK;
}

/* Operations and bytes overlap: a call takes at least the longer of the two times. */
double et_peak_seconds(const et_peak *peak, et_cost cost)
{
    et_assert(peak->flops > 0 && peak->bytes > 0);
    return fmax(cost.flops / peak->flops, cost.bytes / peak->bytes);
}

/* The track of the thread that runs the steps; others (prefetch, saving) overlap it. */
#define LEADING 0

#define KIND_LEAST 32 /* columns of a kind in the table */

/* ---- adding up ---- */

/* In one pass over the spans, with the row around each depth at hand: no tree is built. */

/* The first row is "other": the time outside all spans, and of kinds for which there is no room.
 * There are few kinds, so the search is linear. */
static et_profile_row *row_of(et_profile *profile, const char *kind)
{
    for (int i = 0; i < profile->count; i++)
        if (!strcmp(profile->rows[i].kind, kind))
            return &profile->rows[i];
    if (profile->count == ET_PROFILE_ROWS_MAX)
        return &profile->rows[0];
    et_profile_row *row = &profile->rows[profile->count++];
    *row = (et_profile_row){ .kind = kind };
    return row;
}

/* Moves a span's time from the row of the span around it to its own row. A span without a kind
 * changes nothing. */
static void add_span(et_profile *profile, const et_span *span, et_profile_row *around)
{
    et_assert(span->end >= span->begin);
    double seconds = (double)(span->end - span->begin) * 1e-9;
    et_profile_row *row = row_of(profile, span->activity->kind);
    row->calls++;
    row->seconds += seconds;
    if (around)
        around->seconds -= seconds;
    row->cost.flops += span->cost.flops;
    row->cost.bytes += span->cost.bytes;
    row->peak_seconds += et_peak_seconds(&profile->peak, span->cost);
    if (span->activity->product)
        profile->product_peak_seconds += span->cost.flops / profile->peak.flops;
}

/* Equal times by name, so that tables of the same trace are the same. */
static int longer_first(const void *left, const void *right)
{
    const et_profile_row *a = left, *b = right;
    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return strcmp(a->kind, b->kind);
}

/* Spans come in order of begin, so the last one seen at a lower depth is around. */
void et_profile_make(et_profile *profile, const et_trace *trace, const et_peak *peak)
{
    et_trace_facts facts = et_trace_facts_of(trace);
    et_profile_row *at_depth[ET_TRACE_DEPTH_MAX + 1] = { NULL };
    size_t spans;
    *profile = (et_profile){ .peak = *peak, .seconds = (double)(facts.end - facts.begin) * 1e-9 };
    et_trace_track(trace, LEADING, &spans);
    et_profile_row *rest = row_of(profile, "other");
    for (int i = 0; i <= ET_TRACE_DEPTH_MAX; i++)
        at_depth[i] = rest;
    rest->seconds = profile->seconds;
    for (size_t i = 0; i < spans; i++) {
        et_span span = et_trace_span(trace, LEADING, i);
        et_profile_row *around = at_depth[span.depth];
        et_profile_row *own = around;
        if (span.activity->kind) {
            add_span(profile, &span, around);
            own = row_of(profile, span.activity->kind);
        }
        for (int depth = span.depth + 1; depth <= ET_TRACE_DEPTH_MAX; depth++)
            at_depth[depth] = own;
    }
    qsort(profile->rows, profile->count, sizeof profile->rows[0], longer_first);
}

/* By operations and not by number: a small float32 product does not decide about a bfloat16
 * model. */
et_dtype et_profile_dtype(const et_trace *trace)
{
    et_assert(trace);
    double work[ET_DTYPE_COUNT] = { 0 };
    size_t spans;
    et_trace_track(trace, LEADING, &spans);
    for (size_t i = 0; i < spans; i++) {
        et_span span = et_trace_span(trace, LEADING, i);
        if (span.activity->product)
            work[!strcmp(span.activity->dtype, "bfloat16") ? ET_BF16 : ET_F32] += span.cost.flops;
    }
    return work[ET_BF16] > work[ET_F32] ? ET_BF16 : ET_F32;
}

/* ---- the table ---- */

/* A line for each row, longest first; an empty cell is a rate that no cost is known for. */

/* In 10^9 per second, or empty if no work is known. */
static void add_rate(et_grid *grid, double work, double seconds)
{
    if (work > 0 && seconds > 0)
        et_grid_addf(grid, "%.1f", 1e-9 * work / seconds);
    else
        et_grid_add(grid, NULL);
}

static void add_row(et_grid *grid, const et_profile *profile, const et_profile_row *row)
{
    et_grid_add(grid, row->kind);
    et_grid_addf(grid, "%lld", (long long)row->calls);
    et_grid_addf(grid, "%.2f", 1e3 * row->seconds);
    et_grid_addf(grid, "%.1f%%", 100 * row->seconds / profile->seconds);
    add_rate(grid, row->cost.flops, row->seconds);
    add_rate(grid, row->cost.bytes, row->seconds);
    if (row->peak_seconds > 0 && row->seconds > 0)
        et_grid_addf(grid, "%.1f%%", 100 * row->peak_seconds / row->seconds);
    else
        et_grid_add(grid, NULL);
}

void et_profile_print(const et_profile *profile, et_strbuf *out)
{
    static const char *const heads[] = {
        "kind", "calls", "ms", "share", "GFLOP/s", "GB/s", "roof"
    };
    et_profile_row all = { .kind = "all", .seconds = profile->seconds };
    et_grid grid = { .columns = sizeof heads / sizeof *heads, .left = 1, .least = KIND_LEAST };
    et_grid_add_row(&grid, heads);
    for (int i = 0; i < profile->count; i++) {
        const et_profile_row *row = &profile->rows[i];
        add_row(&grid, profile, row);
        all.calls += row->calls;
        all.cost.flops += row->cost.flops;
        all.cost.bytes += row->cost.bytes;
    }
    all.peak_seconds = profile->product_peak_seconds;
    add_row(&grid, profile, &all);
    et_grid_append(&grid, ET_GRID_TEXT, out);
    et_grid_release(&grid);
    et_strbuf_printf(out,
                     "roof: %.0f GFLOP/s (%s, a matrix product of %d x %d x %d) and %.1f GB/s of "
                     "memory, measured now; last line: matrix products only\n",
                     1e-9 * profile->peak.flops, et_dtype_name(profile->peak.dtype), ET_PEAK_M,
                     ET_PEAK_K, ET_PEAK_N, 1e-9 * profile->peak.bytes);
}
