/* Times of every kernel on the shapes of a step: best table beside another one.
 *
 *     bench_kernels [TABLE [SEGMENT_LENGTH]]
 *
 * TABLE is what et_kernels_named() knows (default: what et_kernels_best() chooses). For each
 * kernel: shape, type, milliseconds (the fastest and the median run), and by the fastest: ns per
 * element, GB/s of memory touched or GFLOP/s where products count, and how many times faster
 * than the reference, which runs on one thread and on 1/64 of the rows. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <etude/dtype.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "kernel/kernels.h"

enum { ROWS = 4096, VOCABULARY = 10000, PARAMETERS = 4 * 1000 * 1000 };

/* One problem and the buffers that every kernel draws from. */
typedef struct problem {
    int64_t rows, width, segment; /* segment: rows of each */
    int heads;
    et_dtype dtype;
    void *x, *y, *z, *out;    /* act, rows * max(3 width, vocabulary) */
    float *a, *b, *c, *d, *e; /* parameters and sums */
    float *lse, *scratch;
    int32_t *ids, *offsets;
    et_attention_shape shape;
} problem;

typedef void bench_fn(const et_kernels *k, problem *p);

static const et_random use = { .seed = 1, .step = 2, .site = 3 };

static void bench_norm(const et_kernels *k, problem *p)
{
    k->layer_norm(p->y, p->lse, p->x, p->a, p->b, 1e-5f, p->rows, p->width, p->dtype);
}

static void bench_norm_grad(const et_kernels *k, problem *p)
{
    k->layer_norm_grad(p->out, p->c, p->d, NULL, p->scratch, p->y, p->x, p->lse, p->a, p->b,
                       p->rows, p->width, p->dtype);
}

static void bench_column_sum(const et_kernels *k, problem *p)
{
    k->column_sum(p->c, p->scratch, p->x, p->rows, p->width, p->dtype);
}

static void bench_sum(const et_kernels *k, problem *p)
{
    p->c[0] = (float)k->sum(p->x, p->rows * p->width, p->dtype);
}

static void bench_fill(const et_kernels *k, problem *p)
{
    k->fill(p->y, 0.5f, p->rows * p->width, p->dtype);
}

static void elementwise_of(const et_kernels *k, problem *p, const et_ew_step *steps, int count,
                           int inputs)
{
    et_ew_program program = { .inputs = inputs,
                              .steps = count,
                              .outputs = 1,
                              .input_dtype = { p->dtype, p->dtype },
                              .output = { steps[count - 1].to },
                              .output_dtype = { p->dtype } };
    memcpy(program.step, steps, (size_t)count * sizeof *steps);
    k->elementwise(&program, (void *[]){ p->out }, (const void *[]){ p->x, p->y }, p->rows,
                   p->width, use);
}

static void bench_add(const et_kernels *k, problem *p)
{
    const et_ew_step step = { .op = ET_EW_ADD, .a = 0, .b = 1, .to = 2 };
    elementwise_of(k, p, &step, 1, 2);
}

static void bench_dropout(const et_kernels *k, problem *p)
{
    const et_ew_step step = { .op = ET_EW_DROPOUT, .a = 0, .to = 2, .x = 0.3f };
    elementwise_of(k, p, &step, 1, 1);
}

static void bench_dropout_add(const et_kernels *k, problem *p)
{
    const et_ew_step steps[] = { { .op = ET_EW_DROPOUT, .a = 0, .to = 2, .x = 0.3f },
                                 { .op = ET_EW_ADD, .a = 2, .b = 1, .to = 2 } };
    elementwise_of(k, p, steps, 2, 2);
}

static void bench_gelu(const et_kernels *k, problem *p)
{
    const et_ew_step step = { .op = ET_EW_GELU, .a = 0, .to = 2 };
    elementwise_of(k, p, &step, 1, 1);
}

static void bench_embedding(const et_kernels *k, problem *p)
{
    k->embedding(p->out, p->ids, p->ids, p->e, NULL, 11.0f, p->rows, p->width, p->dtype);
}

static void bench_embedding_grad(const et_kernels *k, problem *p)
{
    k->embedding_grad(p->e, p->ids, p->x, 1e-6f, p->rows, p->width, VOCABULARY, p->dtype);
}

static void attention_of(const et_kernels *k, problem *p, bool causal, float rate, bool grad)
{
    const size_t width = (size_t)p->width * et_dtype_size(p->dtype);
    et_attention_shape *s = &p->shape;
    char *q = p->x, *dq = p->y;
    s->causal = causal;
    s->rate = rate;
    if (grad)
        k->attention_grad(dq, dq + width, dq + 2 * width, p->z, NULL, p->lse, q, q + width,
                          q + 2 * width, s, p->scratch);
    else
        k->attention(p->out, p->lse, q, q + width, q + 2 * width, s, p->scratch);
}

static void bench_attention(const et_kernels *k, problem *p)
{
    attention_of(k, p, false, 0, false);
}

static void bench_attention_dropped(const et_kernels *k, problem *p)
{
    attention_of(k, p, true, 0.1f, false);
}

static void bench_attention_grad(const et_kernels *k, problem *p)
{
    attention_of(k, p, false, 0, true);
}

static void bench_attention_grad_dropped(const et_kernels *k, problem *p)
{
    attention_of(k, p, true, 0.1f, true);
}

/* In place: after the first run the logits are a gradient, which costs the same. */
static void bench_entropy(const et_kernels *k, problem *p)
{
    k->softmax_cross_entropy(p->z, p->c, p->d, p->lse, p->ids, 0.1f, true, p->rows, VOCABULARY,
                             p->dtype);
}

static void bench_log_softmax(const et_kernels *k, problem *p)
{
    k->log_softmax(p->z, p->rows / 16, VOCABULARY);
}

static void bench_top_k(const et_kernels *k, problem *p)
{
    k->top_k(p->c, p->offsets, p->z, 10, p->rows / 16, VOCABULARY);
}

static void bench_adam(const et_kernels *k, problem *p)
{
    k->adam(p->a, p->b, p->c, p->d, p->z, NULL, 1e-6f, 0.9f, 0.98f, 1e-9f, 0, 1, 0,
            p->rows * PARAMETERS / ROWS);
}

static void bench_squares(const et_kernels *k, problem *p)
{
    p->lse[0] = (float)k->sum_of_squares(p->d, p->rows * PARAMETERS / ROWS);
}

static void bench_to_bf16(const et_kernels *k, problem *p)
{
    k->to_bf16(p->z, p->d, p->rows * PARAMETERS / ROWS);
}

static void bench_draw_normal(const et_kernels *k, problem *p)
{
    k->draw_normal(p->d, 0, p->rows * PARAMETERS / ROWS, 1, (et_random){ 1, 0, 1 });
}

/* What to run, and what one row costs: act elements moved, bytes otherwise moved, flops. */
typedef struct bench {
    const char *name;
    bench_fn *run;
    double acts, bytes; /* per row and column */
    double flops;       /* per row, column and key */
    bool once;          /* width and dtype do not matter */
} bench;

static const bench benches[] = {
    { "layer_norm", bench_norm, 2, 0, 0, false },
    { "layer_norm_grad", bench_norm_grad, 3, 0, 0, false },
    { "column_sum", bench_column_sum, 1, 0, 0, false },
    { "sum", bench_sum, 1, 0, 0, false },
    { "fill", bench_fill, 1, 0, 0, false },
    { "add", bench_add, 3, 0, 0, false },
    { "dropout", bench_dropout, 2, 0, 0, false },
    { "dropout+add", bench_dropout_add, 3, 0, 0, false },
    { "gelu", bench_gelu, 2, 0, 0, false },
    { "embedding", bench_embedding, 1, 4, 0, false },
    { "embedding_grad", bench_embedding_grad, 1, 8, 0, false },
    { "attention", bench_attention, 4, 0, 4, false },
    { "attention causal drop", bench_attention_dropped, 4, 0, 4, false },
    { "attention_grad", bench_attention_grad, 7, 0, 10, false },
    { "attention_grad causal drop", bench_attention_grad_dropped, 7, 0, 10, false },
    { "cross_entropy", bench_entropy, 2, 0, 0, false },
    { "log_softmax", bench_log_softmax, 0, 0.5, 0, true },
    { "top_k", bench_top_k, 0, 0.25, 0, true },
    { "adam", bench_adam, 0, 30, 0, true },
    { "sum_of_squares", bench_squares, 0, 4, 0, true },
    { "to_bf16", bench_to_bf16, 0, 6, 0, true },
    { "draw_normal", bench_draw_normal, 0, 4, 0, true },
};

enum { RUNS = 51 };

typedef struct timing {
    double best, median; /* seconds */
} timing;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* With one thread its processor time, so that a busy machine matters less. */
static double now(void)
{
    struct timespec t;
    if (omp_get_max_threads() > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return et_clock_monotonic();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* After a run that warms up; at most RUNS of them, and no more after a tenth of a second. */
static timing time_of(bench_fn *run, const et_kernels *k, problem *p)
{
    double seconds[RUNS], spent = 0;
    int runs = 0;
    run(k, p);
    for (; runs < RUNS && spent < 0.1; runs++) {
        double begin = now();
        run(k, p);
        seconds[runs] = now() - begin;
        spent += seconds[runs];
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, by_size);
    return (timing){ seconds[0], seconds[runs / 2] };
}

/* Segments of equal length over p->rows. */
static void cut_segments(problem *p)
{
    const int64_t segments = (p->rows + p->segment - 1) / p->segment;
    for (int64_t s = 0; s <= segments; s++)
        p->offsets[s] = (int32_t)(s * p->segment < p->rows ? s * p->segment : p->rows);
    p->shape.segments = (int)segments;
}

static void measure(const bench *b, const et_kernels *k, problem *p)
{
    const bool vocabulary = b->run == bench_entropy,
               flat = b->run == bench_adam || b->run == bench_squares || b->run == bench_to_bf16;
    double columns = vocabulary || b->once ? VOCABULARY : (double)p->width;
    if (flat)
        columns = (double)PARAMETERS / ROWS;
    cut_segments(p);
    const timing time = time_of(b->run, k, p);
    const double seconds = time.best, elements = (double)p->rows * columns;
    double bytes = elements * (b->acts * (double)et_dtype_size(p->dtype) + b->bytes);
    p->rows = ROWS / 64;
    cut_segments(p);
    double slow = time_of(b->run, &et_kernels_reference, p).best * 64;
    p->rows = ROWS;
    printf("%-27s %-8s D %-5.0f %8.3f ms (median %8.3f) %7.3f ns/element", b->name,
           b->once ? "" : et_dtype_name(p->dtype), columns, seconds * 1e3, time.median * 1e3,
           seconds * 1e9 / elements);
    if (b->flops > 0)
        printf(" %7.1f GFLOP/s", b->flops * elements * (double)p->segment / seconds * 1e-9);
    else
        printf(" %7.1f GB/s   ", bytes / seconds * 1e-9);
    printf(" %6.0fx reference\n", slow / seconds);
}

static void *numbers(size_t count, et_dtype dtype)
{
    void *to = malloc(count * et_dtype_size(dtype));
    if (!to)
        exit(4);
    for (size_t i = 0; i < count; i++) {
        float value = (float)(i * 2654435761u % 2000) / 1000.0f - 1.0f;
        if (dtype == ET_BF16)
            ((et_bf16 *)to)[i] = et_bf16_from_float(value);
        else
            ((float *)to)[i] = value;
    }
    return to;
}

static void open_problem(problem *p, int64_t width, int heads, et_dtype dtype, int64_t segment)
{
    const int head_dim = (int)width / heads;
    *p = (problem){
        .rows = ROWS, .width = width, .segment = segment, .heads = heads, .dtype = dtype
    };
    p->x = numbers((size_t)(3 * ROWS * width), dtype);
    p->y = numbers((size_t)(3 * ROWS * width), dtype);
    p->z = numbers((size_t)ROWS * VOCABULARY, dtype);
    p->out = numbers((size_t)(ROWS * width), dtype);
    p->a = numbers(PARAMETERS, ET_F32);
    p->b = numbers(PARAMETERS, ET_F32);
    p->c = calloc(PARAMETERS, sizeof(float));
    p->d = numbers(PARAMETERS, ET_F32);
    p->e = numbers((size_t)(VOCABULARY * width), ET_F32);
    p->lse = numbers(ROWS * 64, ET_F32);
    p->ids = malloc(ROWS * sizeof *p->ids);
    p->offsets = malloc((ROWS + 1) * sizeof *p->offsets);
    p->shape = (et_attention_shape){
        .query_offsets = p->offsets,
        .key_offsets = p->offsets,
        .heads = heads,
        .head_dim = head_dim,
        .query_stride = 3 * width,
        .key_stride = 3 * width,
        .value_stride = 3 * width,
        .out_stride = width,
        .random = use,
        .dtype = dtype,
        .scale = 1.0f / sqrtf((float)head_dim),
        .scratch_per_thread = et_attention_scratch((int)segment, (int)segment, head_dim),
    };
    size_t attention = p->shape.scratch_per_thread * (size_t)omp_get_max_threads();
    size_t norm = (size_t)(et_row_blocks(ROWS) * 2 * width);
    p->scratch = numbers(attention > norm ? attention : norm, ET_F32);
    if (!p->c || !p->ids || !p->offsets)
        exit(4);
    for (int t = 0; t < ROWS; t++) /* frequent ids are small, as words are */
        p->ids[t] = (int32_t)(VOCABULARY * pow((double)(t * 7919 % ROWS) / ROWS, 4));
}

static void close_problem(problem *p)
{
    free(p->x), free(p->y), free(p->z), free(p->out);
    free(p->a), free(p->b), free(p->c), free(p->d), free(p->e);
    free(p->lse), free(p->scratch), free(p->ids), free(p->offsets);
}

/* The line of /proc/cpuinfo that names it, where there is one. */
static void print_processor(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) {
            fputs(line, stdout);
            break;
        }
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    static const struct {
        int64_t width;
        int heads;
    } models[] = { { 128, 4 }, { 512, 8 } };
    const et_kernels *k = argc > 1 ? et_kernels_named(argv[1]) : et_kernels_best();
    const int64_t segment = argc > 2 ? atol(argv[2]) : 14;
    if (!k || segment < 1 || segment > ROWS) {
        fprintf(stderr, "usage: bench_kernels [reference|plain|avx2|avx512 [1..%d]]\n", ROWS);
        return 2;
    }
    print_processor();
    printf("%s, %d threads, %d rows, segments of %d\n", k->name, omp_get_max_threads(), ROWS,
           (int)segment);
    for (int m = 0; m < 2; m++)
        for (int dtype = ET_F32; dtype <= ET_BF16; dtype++) {
            problem p;
            open_problem(&p, models[m].width, models[m].heads, (et_dtype)dtype, segment);
            for (size_t i = 0; i < sizeof benches / sizeof *benches; i++)
                if (!benches[i].once || (m == 0 && dtype == ET_F32))
                    measure(&benches[i], k, &p);
            close_problem(&p);
        }
    return 0;
}
