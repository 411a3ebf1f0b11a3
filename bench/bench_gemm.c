/* Compares the rate of each matrix product of a translation model, in training and in decoding,
 * with all other ways to compute the product.
 *
 *     bench_gemm [FILTER] [SECONDS [ROUNDS]]
 *
 * FILTER is part of a name, such as "base" or "dW". Each way runs for SECONDS (0.03) in each of
 * ROUNDS (7). A round runs the ways in turn, every other round in reverse order, and keeps the best
 * time of each way. For each other way, a round gives the ratio of Etude's rate to the other rate;
 * the median of the rounds counts. The share is the smallest of these medians: the ratio to the
 * best other way. (The best way of each round would be the luckiest one, so the share would be too
 * small.) '<' marks a product with a share below 0.9; the last lines list these products. Rates are
 * medians, in GFLOP/s.
 *
 * With one thread (OMP_NUM_THREADS) the program measures processor time, otherwise elapsed time. It
 * runs small products several times between two readings of the clock. In a step, one thread
 * computes some products alone, so they are measured on one thread: those of the vocabulary's loss
 * and of decoding many rows, because other threads compute other blocks, and the smallest products.
 * Repeated here, the smallest products would be faster on two threads, each with its half in cache;
 * but in the steps of `bench_mlp adult` two threads took 1.2 times as long.
 *
 * Operands have the layout that they have in a step. The time of a way includes bringing them into
 * another layout as often as in a step: for each product of a layer; for one in 16 products of the
 * vocabulary, whose table serves 16 blocks of rows; never in decoding, where weights do not change.
 *
 *     ours     what a step does, with packing
 *     other    the same by Etude's other way, if there is one: Etude's kernel instead of oneDNN's
 *              blocks, or blocks instead of Etude's kernel or of a B that is read as stored
 *     stored   one oneDNN primitive for operands as stored, with the copies that it makes
 *     packed   one oneDNN primitive for operands in the layouts that it chooses, with its reorders
 *              (stored and packed add the same bias or sum as ours)
 *     share    ours / the best of these four
 *     peak     one oneDNN primitive, all operands and the result in its own layouts, no reorders: a
 *              step cannot compute the product in this way, so the share does not count it
 *
 * dX and dW are the gradients of a layer's input and of its weight. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "bench.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/kernels.h"
#include "engine/kernel/row_product.h"
#include "onednn.h"

#define ROUNDS_MAX 99

/* Blocks of rows that a packed table serves in a step of 4,096 tokens. */
#define BLOCKS 16

/* How often a packed operand is used. */
enum { EACH = 1, KEPT = 0 };

typedef struct bench_case {
    const char *name;
    et_gemm_shape shape;
    int uses;  /* uses of a packed operand, or KEPT: packed long ago */
    bool lone; /* uses one thread: other threads have other work, or are not worth starting */
} bench_case;

#define FORWARD(text, M, N, K)                                                                     \
    {                                                                                              \
        .name = text " forward",                                                                   \
        .shape = { .m = M, .n = N, .k = K, .pack_b = true, .bias = true }, .uses = EACH            \
    }
#define DX(text, M, N, K)                                                                          \
    {                                                                                              \
        .name = text " dX",                                                                        \
        .shape = { .m = M, .n = K, .k = N, .pack_b = true, .transpose_b = true }, .uses = EACH     \
    }
#define DW(text, M, N, K)                                                                          \
    {                                                                                              \
        .name = text " dW", .shape = { .m = K, .n = N, .k = M, .transpose_a = true, .c = ET_F32 }, \
        .uses = EACH                                                                               \
    }
#define ALL(text, M, N, K) FORWARD(text, M, N, K), DX(text, M, N, K), DW(text, M, N, K)

/* For a batch of few rows: nothing is packed. */
#define FEW(text, M, N, K, LONE)                                                                   \
    { .name = text " forward",                                                                     \
      .shape = { .m = M, .n = N, .k = K, .bias = true },                                           \
      .uses = EACH,                                                                                \
      .lone = LONE },                                                                              \
        { .name = text " dX",                                                                      \
          .shape = { .m = M, .n = K, .k = N, .transpose_b = true },                                \
          .uses = EACH,                                                                            \
          .lone = LONE },                                                                          \
    {                                                                                              \
        .name = text " dW", .shape = { .m = K, .n = N, .k = M, .transpose_a = true, .c = ET_F32 }, \
        .uses = EACH, .lone = LONE                                                                 \
    }

/* Of a block of 256 rows and a part of P columns, which is a thread's (op_vocabulary_loss.c). */
#define LOSS(text, P, D)                                                                           \
    { .name = text " logits",                                                                      \
      .shape = { .m = 256, .n = P, .k = D, .pack_b = true, .transpose_b = true },                  \
      .uses = BLOCKS,                                                                              \
      .lone = true },                                                                              \
        { .name = text " dh",                                                                      \
          .shape = { .m = 256, .n = D, .k = P, .pack_b = true, .accumulate = true },               \
          .uses = BLOCKS,                                                                          \
          .lone = true },                                                                          \
    {                                                                                              \
        .name = text " dtable",                                                                    \
        .shape = { .m = P, .n = D, .k = 256, .transpose_a = true, .accumulate = true },            \
        .uses = EACH, .lone = true                                                                 \
    }

/* Products as float32 go by rows (row_product.h), others by tiles. Many rows come from many
 * sentences, which threads divide: then each thread does all of its products alone. */
#define DECODE(text, M, N, K)                                                                      \
    {                                                                                              \
        .name = "decode " text,                                                                    \
        .shape = { .m = M, .n = N, .k = K, .pack_b = true, .row_tile = 32 }, .uses = KEPT,         \
        .lone = M > 8                                                                              \
    }

static const bench_case cases[] = {
    ALL("tiny qkv", 4096, 384, 128),
    ALL("tiny kv", 4096, 256, 128),
    ALL("tiny out", 4096, 128, 128),
    ALL("tiny ffn out", 4096, 128, 256),
    ALL("tiny out 3600", 3600, 128, 128),
    ALL("tiny out odd", 4097, 128, 128),
    LOSS("tiny loss", 384, 128),
    ALL("base qkv", 4096, 1536, 512),
    ALL("base kv", 4096, 1024, 512),
    ALL("base out", 4096, 512, 512),
    ALL("base ffn in", 4096, 2048, 512),
    ALL("base ffn out", 4096, 512, 2048),
    ALL("base out 3600", 3600, 512, 512),
    LOSS("base loss", 192, 512),
    FEW("mlp", 128, 512, 512, false),
    FEW("vae in", 128, 500, 784, false),
    FEW("vae hidden", 128, 500, 500, false),
    FEW("vae code", 128, 40, 500, false),
    FEW("vae decode", 128, 500, 40, false),
    FEW("vae logits", 128, 784, 500, false),
    FEW("table", 128, 105, 64, true),
    FEW("table 2", 128, 64, 32, true),
    ALL("small qkv", 768, 384, 128),
    ALL("small out", 768, 128, 128),
    ALL("small ffn in", 768, 512, 128),
    ALL("small ffn out", 768, 128, 512),
    DECODE("1", 1, 512, 512),
    DECODE("32", 32, 512, 512),
    DECODE("128", 128, 512, 512),
    DECODE("tiny 32", 32, 384, 128),
    DECODE("tiny 128", 128, 384, 128),
    DECODE("ffn 32", 32, 2048, 512),
};

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

/* ---- ways ---- */

/* Operands of ours, as stored. */
typedef struct work {
    void *a, *b, *c, *c2;
    float *bias;
    size_t c_bytes;
} work;

enum { OURS, OTHER, STORED, PACKED, PEAK, WAYS };

/* One way to compute a case. missing: there is none. */
typedef struct way {
    const bench_case *one;
    const work *at;
    bool missing;
    et_gemm_cache *cache;
    et_gemm *gemm;
    void *packed;
    et_row_weight rows; /* panels NULL: no product of rows */
    et_dtype type;      /* of such a product's rows, */
    void *scratch;      /* and the place of widened operands; NULL: not widened */
    bench_primitive primitive;
    void (*pack)(struct way *);
    void (*run)(struct way *);
} way;

static void pack_nothing(way *w)
{
    (void)w;
}

static void pack_ours(way *w)
{
    et_gemm_pack(w->gemm, w->packed, w->at->b);
}

static void run_ours(way *w)
{
    et_gemm_run(w->gemm, w->at->c, w->at->a, w->packed ? w->packed : w->at->b, w->at->bias);
}

static void run_rows(way *w)
{
    const et_row_product shape = { .rows = w->one->shape.m,
                                   .x = w->type,
                                   .y = w->type,
                                   .weight = &w->rows,
                                   .scratch = w->scratch };
    et_kernels_best()->row_product(w->at->c, w->at->a, &shape);
}

static void pack_theirs(way *w)
{
    bench_primitive_reorder(&w->primitive, 1);
}

/* Only brings A across if it is a step's own, new each time. */
static void run_theirs(way *w)
{
    bench_primitive_reorder(&w->primitive, 0);
    bench_primitive_run(&w->primitive);
}

/* As the plan of a step has it (engine/exec/cpu/cpu_ops.c, op_vocabulary_loss.c). */
static bool reads_stored(const way *w, const et_gemm_shape *s)
{
    if (!s->pack_b || w->one->uses == KEPT)
        return false;
    return w->one->uses == EACH ? et_gemm_reads_stored(w->cache, s) : et_gemm_own_rows(w->cache, s);
}

static void open_ours(way *w, const et_gemm_shape *s, et_gemm_preference preferred)
{
    et_error error = ET_ERROR_INIT;
    et_gemm_shape shape = *s;
    int status = et_gemm_cache_open(&w->cache, omp_get_max_threads(), &error);
    if (!status) {
        et_gemm_cache_prefer(w->cache, preferred);
        if (preferred == ET_GEMM_BEST && reads_stored(w, s))
            shape.pack_b = false;
        status = et_gemm_get(&w->gemm, w->cache, &shape, &error);
    }
    if (status)
        die(error.text);
    w->run = run_ours;
    if (!shape.pack_b)
        return;
    w->packed = et_alloc_aligned(et_gemm_packed_size(w->gemm), 64);
    if (!w->packed)
        die("out of memory");
    w->pack = pack_ours;
    pack_ours(w);
}

static void open_rows(way *w, const et_gemm_shape *s)
{
    const int64_t panel = et_kernels_best()->panel;
    const size_t scratch = et_row_scratch(s->m, s->k, ET_ROW_F32, s->a);
    w->packed = et_alloc_aligned(et_row_weight_size(panel, s->n, s->k, ET_ROW_F32), 64);
    w->scratch = scratch ? et_alloc_aligned(scratch, 64) : NULL;
    if (!w->packed || (scratch && !w->scratch))
        die("out of memory");
    w->type = s->a;
    w->rows = et_row_weight_at(w->packed, panel, s->n, s->k, ET_ROW_F32);
    et_row_weight_pack(&w->rows, w->at->b, s->a, false);
    w->run = run_rows;
}

static void open_theirs(way *w, const et_gemm_shape *s, int which)
{
    static const dnnl_format_tag_t any = dnnl_format_tag_any;
    const dnnl_format_tag_t a = s->transpose_a ? dnnl_ba : dnnl_ab;
    const dnnl_format_tag_t b = s->transpose_b ? dnnl_ba : dnnl_ab;
    const dnnl_format_tag_t layouts[WAYS][3] = { [STORED] = { a, b, dnnl_ab },
                                                 [PACKED] = { s->transpose_a ? any : a, any,
                                                              dnnl_ab },
                                                 [PEAK] = { any, any, any } };
    bench_problem problem = bench_problem_of(s, 0, layouts[which]);
    problem.bias = s->bias && which != PEAK;
    problem.accumulate = s->accumulate && which != PEAK;
    w->missing = !bench_primitive_open(&w->primitive, &problem);
    if (w->missing)
        return;
    if (which == PACKED) {
        bench_primitive_store(&w->primitive, &problem, 0, a);
        bench_primitive_store(&w->primitive, &problem, 1, b);
        w->pack = pack_theirs;
    }
    w->run = run_theirs;
}

static bool by_rows(const et_gemm_shape *s)
{
    et_gemm_cache *cache;
    et_error error = ET_ERROR_INIT;
    if (!s->row_tile)
        return false;
    if (et_gemm_cache_open(&cache, 1, &error))
        die(error.text);
    const bool floats = et_gemm_multiplied_as(cache, s->a) == ET_F32;
    et_gemm_cache_close(cache);
    return floats;
}

static void open_way(way *w, const bench_case *one, const et_gemm_shape *s, const work *at,
                     int which)
{
    *w = (way){ .one = one, .at = at, .pack = pack_nothing };
    if (which >= STORED)
        open_theirs(w, s, which);
    else if (which == OURS && by_rows(s))
        open_rows(w, s);
    else
        open_ours(w, s, which == OURS ? ET_GEMM_BEST : ET_GEMM_BLOCKS);
}

/* Chooses blocks of a packed B unless Etude's way is that; then Etude's own kernel, if it has this
 * product. */
static void open_other(way *w, const bench_case *one, const et_gemm_shape *s, const work *at,
                       const way *ours)
{
    open_way(w, one, s, at, OTHER);
    if (by_rows(s) || reads_stored(ours, s) ||
        strcmp(et_gemm_implementation(ours->gemm), "own") == 0)
        return;
    et_free(w->packed);
    et_gemm_cache_close(w->cache);
    *w = (way){ .one = one, .at = at, .pack = pack_nothing };
    open_ours(w, s, ET_GEMM_OWN);
    w->missing = strcmp(et_gemm_implementation(w->gemm), "own") != 0;
}

static void close_way(way *w, int which)
{
    et_free(w->packed);
    et_free(w->scratch);
    if (w->cache)
        et_gemm_cache_close(w->cache);
    if (which >= STORED && !w->missing)
        bench_primitive_close(&w->primitive);
}

/* ---- rounds ---- */

/* Operations between two looks at the clock, which takes some tenths of a microsecond. */
#define LOOK_FLOPS 2e7

static double operations_of(const et_gemm_shape *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

/* The best time of a use, with its share of the packing; INFINITY if there is no such way. */
static double time_way(way *w, double seconds, int which)
{
    const bool packs = w->one->uses != KEPT && which != PEAK;
    const int uses = packs ? w->one->uses : 1;
    const int times = 1 + (int)(LOOK_FLOPS / (operations_of(&w->one->shape) * uses));
    double best = INFINITY, begin = bench_work_clock(), now = begin;
    for (int i = 0; !w->missing && (i < 2 || now - begin < seconds); i++) {
        double start = bench_work_clock();
        for (int time = 0; time < times; time++) {
            if (packs)
                w->pack(w);
            for (int use = 0; use < uses; use++)
                w->run(w);
        }
        now = bench_work_clock();
        best = fmin(best, (now - start) / (uses * times));
    }
    return best;
}

/* For each way, by round: GFLOP/s, and the ratio of Etude's rate to it. */
typedef struct figures {
    double rate[WAYS][ROUNDS_MAX], ratio[WAYS][ROUNDS_MAX];
} figures;

static void do_rounds(figures *f, way ways[WAYS], const et_gemm_shape *s, double seconds,
                      int rounds)
{
    for (int i = 0; i < WAYS; i++)
        time_way(&ways[i], 0, i); /* caches and pages */
    for (int round = 0; round < rounds; round++) {
        for (int turn = 0; turn < WAYS; turn++) {
            const int i = round % 2 ? WAYS - 1 - turn : turn;
            f->rate[i][round] = 1e-9 * operations_of(s) / time_way(&ways[i], seconds, i);
        }
        for (int i = 0; i < WAYS; i++)
            f->ratio[i][round] = f->rate[OURS][round] / f->rate[i][round];
    }
}

/* Ours by the best way; a way that is missing has rate 0, and infinity for a ratio. */
static double share_of(figures *f, int rounds)
{
    double share = 1;
    for (int i = 0; i < PEAK; i++)
        share = fmin(share, bench_median(f->ratio[i], rounds));
    return share;
}

/* C after one run with one thread and one with all. */
static bool equal_bits(way *w, const void *start, int threads)
{
    const work *at = w->at;
    memcpy(at->c, start, at->c_bytes);
    omp_set_num_threads(1);
    w->run(w);
    memcpy(at->c2, at->c, at->c_bytes);
    memcpy(at->c, start, at->c_bytes);
    omp_set_num_threads(threads);
    w->run(w);
    return memcmp(at->c, at->c2, at->c_bytes) == 0;
}

/* ---- output ---- */

/* A share as printed. */
typedef struct verdict {
    const char *name;
    double share;
} verdict;

static void print_rate(double rate)
{
    if (rate > 0)
        printf(" %8.1f", rate);
    else
        printf(" %8s", "-");
}

static void print_figures(const bench_case *one, const et_gemm_shape *s, figures *f, int rounds,
                          double share, const way *ours, bool equal)
{
    double rate[WAYS], best = 0;
    printf("%-21s %5lld %5lld %5lld %-8s", one->name, (long long)s->m, (long long)s->n,
           (long long)s->k, et_dtype_name(s->a));
    for (int i = 0; i < WAYS; i++) {
        rate[i] = bench_median(f->rate[i], rounds);
        best = i == PEAK ? best : fmax(best, rate[i]);
        if (i == PEAK)
            printf(" %6.2f %c", share, share < 0.9 ? '<' : ' ');
        print_rate(rate[i]);
    }
    printf("  %-6s %s\n", equal ? "equal" : "DIFFER",
           ours->gemm ? et_gemm_implementation(ours->gemm) : "rows");
    fflush(stdout);
    bench_figure(rate[OURS], "GFLOP/s", best, "gemm.%s.%s.gflops", one->name,
                 bench_dtype_short(s->a));
    bench_figure(share, "share", 1, "gemm.%s.%s.share", one->name, bench_dtype_short(s->a));
}

/* Of one type: how many products, their shares, and which of them are marked. */
static void print_verdicts(const verdict *products, int count, et_dtype dtype)
{
    double shares[sizeof cases / sizeof *cases];
    for (int i = 0; i < count; i++)
        shares[i] = products[i].share;
    if (count == 0)
        return;
    const double median = bench_median(shares, count);
    printf("%s: %d products, shares %.2f to %.2f, median %.2f; below 0.9:", et_dtype_name(dtype),
           count, shares[0], shares[count - 1], median);
    const char *between = "";
    for (int i = 0; i < count; i++)
        if (products[i].share < 0.9) {
            printf("%s %s %.2f", between, products[i].name, products[i].share);
            between = ",";
        }
    printf("%s\n", *between ? "" : " none");
}

/* Results of weights' gradients and of the vocabulary's products are float32. In bfloat16 the block
 * of rows is packed for all parts at once. */
static et_gemm_shape shape_of(const bench_case *one, et_dtype dtype)
{
    et_gemm_shape s = one->shape;
    bool sums = s.transpose_a || one->uses == BLOCKS;
    s.a = s.b = dtype;
    s.c = sums ? ET_F32 : dtype;
    return s;
}

static double bench(const bench_case *one, et_dtype dtype, double seconds, int rounds)
{
    static figures f;
    static way ways[WAYS];
    const et_gemm_shape s = shape_of(one, dtype);
    work at = { .a = filled(s.m * s.k, dtype),
                .b = filled(s.n * s.k, dtype),
                .c = filled(s.m * s.n, s.c),
                .c2 = filled(s.m * s.n, s.c),
                .bias = s.bias ? filled(s.n, ET_F32) : NULL,
                .c_bytes = (size_t)(s.m * s.n) * et_dtype_size(s.c) };
    void *start = filled(s.m * s.n, s.c);
    const int threads = omp_get_max_threads();
    open_way(&ways[OURS], one, &s, &at, OURS);
    bool equal = equal_bits(&ways[OURS], start, threads);
    omp_set_num_threads(one->lone ? 1 : threads);
    open_other(&ways[OTHER], one, &s, &at, &ways[OURS]);
    for (int i = STORED; i < WAYS; i++)
        open_way(&ways[i], one, &s, &at, i);
    do_rounds(&f, ways, &s, seconds, rounds);
    const double share = share_of(&f, rounds);
    print_figures(one, &s, &f, rounds, share, &ways[OURS], equal);
    for (int i = 0; i < WAYS; i++)
        close_way(&ways[i], i);
    omp_set_num_threads(threads);
    void *owned[] = { at.a, at.b, at.c, at.c2, at.bias, start };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        et_free(owned[i]);
    return share;
}

int main(int argc, char **argv)
{
    const char *filter = argc > 1 ? argv[1] : "";
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.03;
    int rounds = argc > 3 ? atoi(argv[3]) : 7;
    if (rounds < 1 || rounds > ROUNDS_MAX)
        die("rounds are 1 to 99");
    bench_print_machine();
    printf("%-21s %5s %5s %5s %-8s %8s %8s %8s %8s %6s   %8s  %-6s\n", "product", "m", "n", "k",
           "type", "ours", "other", "stored", "packed", "share", "roof", "bits");
    static verdict verdicts[2][sizeof cases / sizeof *cases];
    int counts[2] = { 0, 0 };
    for (int half = et_gemm_has_bf16(); half >= 0; half--)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (strstr(cases[i].name, filter))
                verdicts[half][counts[half]++] =
                    (verdict){ cases[i].name,
                               bench(&cases[i], half ? ET_BF16 : ET_F32, seconds, rounds) };
    for (int half = 1; half >= 0; half--)
        print_verdicts(verdicts[half], counts[half], half ? ET_BF16 : ET_F32);
    return 0;
}
