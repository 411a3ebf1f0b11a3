/* Rates of the matrix products of the translation models, in GFLOP/s.
 *
 *     bench_gemm [FILTER] [SECONDS]
 *
 * One line per product: ours with one thread and with all; one oneDNN primitive that uses all
 * threads, with operands as they lie in memory (plain) and in the layouts that it likes best,
 * prepared outside the clock (any). share = ours / best of all. dX and dW are the gradients of a
 * layer's input and of its weight. FILTER is part of a name, such as "base" or "dW"; SECONDS (0.2)
 * is the time given to each number. */
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "bench.h"
#include "kernel/gemm/gemm.h"

typedef struct bench_case {
    const char *name;
    et_gemm_shape shape;
} bench_case;

#define FORWARD(text, M, N, K)                                                                     \
    {                                                                                              \
        text " forward",                                                                           \
        {                                                                                          \
            .m = M, .n = N, .k = K, .pack_b = true, .bias = true                                   \
        }                                                                                          \
    }
#define DX(text, M, N, K)                                                                          \
    {                                                                                              \
        text " dX",                                                                                \
        {                                                                                          \
            .m = M, .n = K, .k = N, .pack_b = true, .transpose_b = true                            \
        }                                                                                          \
    }
#define DW(text, M, N, K)                                                                          \
    {                                                                                              \
        text " dW",                                                                                \
        {                                                                                          \
            .m = K, .n = N, .k = M, .transpose_a = true, .accumulate = true                        \
        }                                                                                          \
    }
#define ALL(text, M, N, K) FORWARD(text, M, N, K), DX(text, M, N, K), DW(text, M, N, K)

static const bench_case cases[] = {
    ALL("tiny qkv", 4096, 384, 128),
    ALL("tiny out", 4096, 128, 128),
    ALL("tiny ffn in", 4096, 256, 128),
    ALL("tiny ffn out", 4096, 128, 256),
    ALL("tiny vocabulary", 256, 10000, 128),
    ALL("tiny out 3600", 3600, 128, 128),
    ALL("tiny out odd", 4097, 128, 128),
    ALL("base qkv", 4096, 1536, 512),
    ALL("base out", 4096, 512, 512),
    ALL("base ffn in", 4096, 2048, 512),
    ALL("base ffn out", 4096, 512, 2048),
    ALL("base vocabulary", 512, 10000, 512),
    DW("tiny tied vocabulary", 256, 128, 10000),
    DW("base tied vocabulary", 512, 512, 10000),
    ALL("base out 3600", 3600, 512, 512),
    { "decode 1", { .m = 1, .n = 512, .k = 512, .pack_b = true, .row_tile = 32 } },
    { "decode 64", { .m = 64, .n = 512, .k = 512, .pack_b = true, .row_tile = 32 } },
    { "decode 320", { .m = 320, .n = 512, .k = 512, .pack_b = true, .row_tile = 32 } },
    { "decode vocabulary 64", { .m = 64, .n = 10000, .k = 512, .pack_b = true, .row_tile = 32 } },
    { "long sum", { .m = 16, .n = 16, .k = 20000 } },
};

typedef struct work {
    void *a, *b, *packed, *c, *c2;
    float *bias;
    size_t c_bytes;
} work;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_gemm: %s\n", what);
    exit(1);
}

static void *filled(int64_t count, et_dtype dtype)
{
    void *memory = et_alloc_aligned((size_t)count * et_dtype_size(dtype) + 64, 64);
    if (!memory)
        die("out of memory");
    uint32_t seed = 1;
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float value = (float)(int32_t)seed / 2147483648.0f;
        if (dtype == ET_BF16)
            ((et_bf16 *)memory)[i] = et_bf16_from_float(value);
        else
            ((float *)memory)[i] = value;
    }
    return memory;
}

/* Best rate of a few seconds' runs. */
static double rate(const et_gemm_shape *s, double seconds, void (*run)(void *), void *payload)
{
    double best = 1e30, begin = et_clock_monotonic(), now = begin;
    for (int i = 0; i < 3 || now - begin < seconds; i++) {
        double start = et_clock_monotonic();
        run(payload);
        now = et_clock_monotonic();
        best = now - start < best ? now - start : best;
    }
    return 2e-9 * (double)s->m * (double)s->n * (double)s->k / best;
}

typedef struct ours {
    const et_gemm *gemm;
    const work *at;
    const void *b;
} ours;

static void run_ours(void *payload)
{
    ours *run = payload;
    et_gemm_run(run->gemm, run->at->c, run->at->a, run->b, run->at->bias);
}

/* One primitive for all threads. Version 3 of oneDNN has another API: compared with 2 only. */
#if DNNL_VERSION_MAJOR < 3
typedef struct theirs {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_exec_arg_t arguments[4];
    void *memory[4];
} theirs;

static void check(dnnl_status_t status)
{
    if (status != dnnl_success)
        die("oneDNN failed");
}

static void run_theirs(void *payload)
{
    theirs *run = payload;
    check(dnnl_primitive_execute(run->primitive, run->stream, 4, run->arguments));
}

static void layout(dnnl_memory_desc_t *out, int64_t rows, int64_t columns, et_dtype dtype,
                   bool transposed, bool any)
{
    dnnl_dims_t dims = { rows, columns };
    dnnl_format_tag_t tag = any ? dnnl_format_tag_any : transposed ? dnnl_ba : dnnl_ab;
    check(dnnl_memory_desc_init_by_tag(out, 2, dims, dtype == ET_BF16 ? dnnl_bf16 : dnnl_f32, tag));
}

static double rate_theirs(const et_gemm_shape *s, bool any, double seconds)
{
    dnnl_engine_t engine;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t product;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t description;
    theirs run = { 0 };
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&run.stream, engine, dnnl_stream_default_flags));
    layout(&a, s->m, s->k, s->a, s->transpose_a, any && s->transpose_a);
    layout(&b, s->k, s->n, s->b, s->transpose_b, any);
    layout(&c, s->m, s->n, s->c, false, false);
    check(dnnl_matmul_desc_init(&product, &a, &b, NULL, &c));
    check(dnnl_primitive_attr_create(&attributes));
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    if (dnnl_primitive_desc_create(&description, &product, attributes, engine, NULL))
        return 0.0;
    check(dnnl_primitive_create(&run.primitive, description));
    const struct {
        dnnl_query_t what;
        int name;
    } parts[] = { { dnnl_query_src_md, DNNL_ARG_SRC },
                  { dnnl_query_weights_md, DNNL_ARG_WEIGHTS },
                  { dnnl_query_dst_md, DNNL_ARG_DST },
                  { dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD } };
    for (int i = 0; i < 4; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(description, parts[i].what, 0);
        run.memory[i] = et_alloc_aligned(dnnl_memory_desc_get_size(md) + 64, 64);
        if (!run.memory[i])
            die("out of memory");
        memset(run.memory[i], 0, dnnl_memory_desc_get_size(md));
        run.arguments[i].arg = parts[i].name;
        check(dnnl_memory_create(&run.arguments[i].memory, md, engine, run.memory[i]));
    }
    double result = rate(s, seconds, run_theirs, &run);
    for (int i = 0; i < 4; i++) {
        dnnl_memory_destroy(run.arguments[i].memory);
        et_free(run.memory[i]);
    }
    dnnl_primitive_destroy(run.primitive);
    dnnl_primitive_desc_destroy(description);
    dnnl_primitive_attr_destroy(attributes);
    dnnl_stream_destroy(run.stream);
    dnnl_engine_destroy(engine);
    return result;
}
#else
static double rate_theirs(const et_gemm_shape *s, bool any, double seconds)
{
    (void)s, (void)any, (void)seconds;
    return 0.0;
}
#endif

static bool equal_bits(ours *run, const void *start, int threads)
{
    const work *at = run->at;
    memcpy(at->c, start, at->c_bytes);
    omp_set_num_threads(1);
    run_ours(run);
    memcpy(at->c2, at->c, at->c_bytes);
    memcpy(at->c, start, at->c_bytes);
    omp_set_num_threads(threads);
    run_ours(run);
    return memcmp(at->c, at->c2, at->c_bytes) == 0;
}

static void bench(const bench_case *one, et_dtype dtype, double seconds)
{
    et_gemm_shape s = one->shape;
    s.a = s.b = dtype;
    s.c = s.accumulate ? ET_F32 : dtype;
    int threads = omp_get_max_threads();
    et_error error = ET_ERROR_INIT;
    et_gemm_cache *cache;
    et_gemm *gemm = NULL;
    if (et_gemm_cache_open(&cache, threads, &error) || et_gemm_get(&gemm, cache, &s, &error))
        die(error.text);
    work at = { .a = filled(s.m * s.k, dtype),
                .b = filled(s.n * s.k, dtype),
                .c = filled(s.m * s.n, s.c),
                .c2 = filled(s.m * s.n, s.c),
                .bias = s.bias ? filled(s.n, ET_F32) : NULL,
                .c_bytes = (size_t)(s.m * s.n) * et_dtype_size(s.c) };
    void *start = filled(s.m * s.n, s.c);
    if (s.pack_b) {
        at.packed = et_alloc_aligned(et_gemm_packed_size(gemm), 64);
        if (!at.packed)
            die("out of memory");
        et_gemm_pack(gemm, at.packed, at.b);
    }
    ours run = { gemm, &at, s.pack_b ? at.packed : at.b };
    bool equal = equal_bits(&run, start, threads);
    omp_set_num_threads(1);
    double one_thread = rate(&s, seconds, run_ours, &run);
    omp_set_num_threads(threads);
    double all = rate(&s, seconds, run_ours, &run);
    double plain = rate_theirs(&s, false, seconds), any = rate_theirs(&s, true, seconds);
    double best = all > any ? all : any;
    best = best > plain ? best : plain;
    printf("%-24s %5lld %5lld %5lld %-8s %8.1f %8.1f %8.1f %8.1f %6.2f  %-5s %4lld %s\n", one->name,
           (long long)s.m, (long long)s.n, (long long)s.k, et_dtype_name(dtype), one_thread, all,
           plain, any, all / best, equal ? "equal" : "DIFFER", (long long)et_gemm_tiles(gemm),
           et_gemm_implementation(gemm));
    fflush(stdout);
    bench_figure(all, "GFLOP/s", best, "gemm.%s.%s.gflops", one->name, bench_dtype_short(dtype));
    void *owned[] = { at.a, at.b, at.packed, at.c, at.c2, at.bias, start };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        et_free(owned[i]);
    et_gemm_cache_close(cache);
}

int main(int argc, char **argv)
{
    const char *filter = argc > 1 ? argv[1] : "";
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.2;
    printf("%s, %d threads\n", et_gemm_isa(), omp_get_max_threads());
    printf("%-24s %5s %5s %5s %-8s %8s %8s %8s %8s %6s  %-5s %4s\n", "product", "m", "n", "k",
           "type", "1 thread", "all", "plain", "any", "share", "bits", "tiles");
    for (int half = et_gemm_has_bf16(); half >= 0; half--)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (strstr(cases[i].name, filter))
                bench(&cases[i], half ? ET_BF16 : ET_F32, seconds);
    return 0;
}
