/* Times every kernel on the shapes of a step, in the best table and in another one.
 *
 *     bench_kernels [TABLE [SEGMENT_LENGTH]]
 *
 * TABLE is what et_kernels_named() knows (default: what et_kernels_best() chooses). For each
 * kernel, prints shape, type and milliseconds (the fastest and the median run). From the fastest
 * run follow ns per element, GB/s of memory or GFLOP/s of products, and the ratio to the reference,
 * which runs on one thread and on 1/64 of the rows. Kernels of decoding get few rows; each row
 * attends to SEGMENT_LENGTH positions. Kernels that always use float32 are listed only under
 * float32. The peak is the rate of a large float32 product, or of memory, on this machine. Kernels
 * whose operands fit in cache can exceed the peak. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <etude/dtype.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "bench.h"
#include "engine/exec/profile.h"
#include "engine/kernel/kernels.h"
#include "engine/kernel/reference/reference.h"

/* DECODED: 32 sentences with a beam of 4. TILE: columns of X in a tile of X^T Y, rows in a chunk.
 * PART: columns of the vocabulary at a time. */
enum {
    ROWS = 4096,
    DECODED = 128,
    TILE = 128,
    PART = 1000,
    VOCABULARY = 10000,
    PARAMETERS = 4 * 1000 * 1000,
    BEST = 4
};

/* A weight of products of rows in the layout of the table that reads it. */
typedef struct packed {
    void *memory;
    et_row_weight weight; /* a view of memory; panel 0: nothing yet */
} packed;

/* One problem and the buffers that every kernel draws from. */
typedef struct problem {
    int64_t rows, width, segment; /* segment: rows of each */
    int heads;
    et_dtype dtype;
    void *x, *y, *z, *out; /* act; [rows, 3 width], the same, [rows, vocabulary], [rows, width] */
    float *a, *b, *c, *d, *e; /* parameters and sums */
    float *lse, *scratch;
    int32_t *ids, *offsets;
    int32_t *slots, *lengths; /* of the cache: [DECODED, segment], [DECODED] */
    int32_t *found;           /* [DECODED, BEST] */
    void *room;               /* work space of products of rows, aligned to 64 */
    packed bytes, floats, pieces;
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
    const et_layer_norm_grad norm = { .dx = p->out,
                                      .dgamma = p->c,
                                      .dbeta = p->d,
                                      .scratch = p->scratch,
                                      .dy = p->y,
                                      .x = p->x,
                                      .stats = p->lse,
                                      .gamma = p->a,
                                      .beta = p->b,
                                      .rows = p->rows,
                                      .width = p->width,
                                      .dtype = p->dtype };
    k->layer_norm_grad(&norm);
}

static void bench_row_sum(const et_kernels *k, problem *p)
{
    k->row_sum(p->lse, p->x, p->rows, p->width, p->dtype);
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
        k->attention_grad(dq, dq + width, dq + 2 * width, p->z, p->lse, q, q + width, q + 2 * width,
                          s, p->scratch);
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

/* Beams part ways: neighbouring positions are anywhere in the cache. */
static void bench_cached_attention(const et_kernels *k, problem *p)
{
    const size_t width = (size_t)p->width * et_dtype_size(p->dtype);
    const char *cache = p->y;
    et_cached_attention_shape shape = {
        .rows = (int)p->rows,
        .length = p->lengths,
        .slot = p->slots,
        .slot_stride = p->segment,
        .heads = p->heads,
        .head_dim = p->shape.head_dim,
        .query_stride = 3 * p->width,
        .key_stride = 3 * p->width,
        .value_stride = 3 * p->width,
        .out_stride = p->width,
        .scale = p->shape.scale,
        .dtype = p->dtype,
    };
    k->cached_attention(p->out, p->x, cache + width, cache + 2 * width, &shape);
}

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory)
        exit(4);
    return memory;
}

/* Packs p->e as n columns for this table, unless it is packed already: the warm-up run does it. */
static const et_row_weight *pack(packed *to, const et_kernels *k, const problem *p, int64_t n,
                                 et_row_kind kind)
{
    if (to->weight.panel == k->panel)
        return &to->weight;
    free(to->memory);
    to->memory = aligned(et_row_weight_size(k->panel, n, p->width, kind));
    to->weight = et_row_weight_at(to->memory, k->panel, n, p->width, kind);
    et_row_weight_pack(&to->weight, p->e, ET_F32, true);
    return &to->weight;
}

static void bench_row_product(const et_kernels *k, problem *p)
{
    const et_row_weight *weight = pack(&p->floats, k, p, p->width, ET_ROW_F32);
    k->row_product(p->c, p->d, &(et_row_product){ .rows = p->rows, .weight = weight });
}

static void bench_row_product_int8(const et_kernels *k, problem *p)
{
    const et_row_weight *weight = pack(&p->bytes, k, p, p->width, ET_ROW_INT8);
    const et_row_product shape = { .rows = p->rows, .weight = weight, .scratch = p->room };
    k->row_product(p->c, p->d, &shape);
}

static void bench_best_tokens(const et_kernels *k, problem *p)
{
    const et_best_tokens shape = { .rows = p->rows,
                                   .count = BEST,
                                   .weight = pack(&p->pieces, k, p, VOCABULARY, ET_ROW_INT8),
                                   .table = p->e,
                                   .dtype = p->dtype,
                                   .scratch = p->room };
    k->best_tokens(p->c, p->found, p->x, &shape);
}

/* As many words as a shortlist has, anywhere in the table. */
static void bench_listed(const et_kernels *k, problem *p)
{
    const et_listed_product product = { .rows = p->rows,
                                        .count = PART,
                                        .width = p->width,
                                        .h = p->x,
                                        .dtype = p->dtype,
                                        .words = p->ids,
                                        .table = p->e };
    k->listed_product(p->z, &product);
}

static et_recurrence recurrence_of(const problem *p)
{
    return (et_recurrence){ .x = p->x,
                            .gate = p->y,
                            .segments = p->shape.segments,
                            .width = p->width,
                            .offsets = p->offsets,
                            .dtype = p->dtype };
}

static void bench_recurrence(const et_kernels *k, problem *p)
{
    const et_recurrence r = recurrence_of(p);
    k->recurrence(p->out, &r);
}

static void bench_recurrence_grad(const et_kernels *k, problem *p)
{
    const et_recurrence r = recurrence_of(p);
    k->recurrence_grad(p->out, p->z, p->x, p->y, &r);
}

/* A tile of a weight's gradient, in chunks of rows as gemm/run.c has them. */
static void bench_float_product(const et_kernels *k, problem *p)
{
    const int64_t width = p->width, chunk = p->rows < TILE ? p->rows : TILE;
    for (int64_t row = 0; row < p->rows; row += chunk)
        k->float_product(&(et_float_product){ .m = TILE,
                                              .n = width,
                                              .k = chunk,
                                              .a = p->a + row * width,
                                              .b = p->d + row * width,
                                              .c = p->c,
                                              .a_row = 1,
                                              .a_step = width,
                                              .ldb = width,
                                              .ldc = width,
                                              .accumulate = row > 0,
                                              .ahead = row + 2 * chunk <= p->rows });
}

/* In place: after the first run the logits are a gradient, which costs the same. */
static void bench_entropy(const et_kernels *k, problem *p)
{
    k->softmax_cross_entropy(p->z, p->c, p->d, p->lse, p->ids, 0.1f, true, p->rows, VOCABULARY,
                             p->dtype);
}

/* The same block of logits as every part of the vocabulary, one after the other on one thread. */
static void bench_softmax_parts(const et_kernels *k, problem *p)
{
    const int64_t parts = (VOCABULARY + PART - 1) / PART, held = parts * p->rows;
    const et_softmax_rows rows = { .rows = p->rows,
                                   .vocabulary = VOCABULARY,
                                   .columns = PART,
                                   .parts = parts,
                                   .labels = p->ids,
                                   .smoothing = 0.1f,
                                   .largest = p->a,
                                   .sum = p->a + held,
                                   .shifted = p->a + 2 * held,
                                   .label_logit = p->c,
                                   .label_leads = p->c + ROWS,
                                   .loss = p->c + 2 * ROWS,
                                   .nll = p->c + 3 * ROWS,
                                   .correct = p->c + 4 * ROWS };
    for (int64_t i = 0; i < parts; i++)
        k->softmax_parts->part(&rows, i, p->z, p->dtype, p->d);
    k->softmax_parts->join(&rows, 0, p->rows);
    for (int64_t i = 0; i < parts; i++)
        k->softmax_parts->grad(&rows, i, p->z, p->dtype, p->z, p->dtype);
}

/* The source of a product's copies. */
static et_stored stored(const problem *p)
{
    return (et_stored){ p->x, p->rows, p->width, p->width, p->dtype };
}

static void bench_staging_rows(const et_kernels *k, problem *p)
{
    const et_stored from = stored(p);
    k->staging->rows(p->z, p->rows, p->width, p->dtype, &from);
}

static void bench_staging_across(const et_kernels *k, problem *p)
{
    const et_stored from = stored(p);
    k->staging->across(p->z, p->width, p->rows, p->dtype, &from);
}

static void bench_staging_row_pairs(const et_kernels *k, problem *p)
{
    const et_stored from = stored(p);
    k->staging->row_pairs(p->z, p->rows, p->width, &from);
}

static void bench_staging_pairs_across(const et_kernels *k, problem *p)
{
    const et_stored from = stored(p);
    k->staging->pairs_across(p->z, p->width, p->rows, &from);
}

static void bench_staging_finish(const et_kernels *k, problem *p)
{
    const et_finish how = { .rows = p->rows,
                            .columns = p->width,
                            .parts = 1,
                            .from_stride = p->width,
                            .c_stride = p->width,
                            .bias = p->b,
                            .relu = true,
                            .c = p->dtype };
    k->staging->finish(&how, p->out, p->a);
}

static void bench_staging_relu(const et_kernels *k, problem *p)
{
    k->staging->relu(p->out, p->rows, p->width, p->width, p->dtype);
}

static void bench_softmax(const et_kernels *k, problem *p)
{
    k->softmax(p->z, p->z, p->rows / 16, VOCABULARY, ET_F32);
}

static void bench_log_softmax(const et_kernels *k, problem *p)
{
    k->log_softmax(p->z, p->z, p->rows / 16, VOCABULARY, ET_F32);
}

static void bench_top_k(const et_kernels *k, problem *p)
{
    k->top_k(p->c, p->offsets, p->z, 10, p->rows / 16, VOCABULARY);
}

static void bench_adam(const et_kernels *k, problem *p)
{
    const et_slice_update update = { p->a, p->d, p->z, NULL, 0, 1, 0, p->rows * PARAMETERS / ROWS };
    k->adam(&update, &(et_adam_moments){ p->b, p->c, 1e-6f, 0.9f, 0.98f, 1e-9f });
}

static void bench_sgd(const et_kernels *k, problem *p)
{
    const et_slice_update update = { p->a, p->d, NULL, NULL, 0, 1, 0, p->rows * PARAMETERS / ROWS };
    k->sgd(&update, &(et_momentum){ p->b, 1e-6f, 0.9f, false });
}

static void bench_amsgrad(const et_kernels *k, problem *p)
{
    const et_slice_update update = { p->a, p->d, NULL, NULL, 0, 1, 0, p->rows * PARAMETERS / ROWS };
    k->amsgrad(&update, &(et_adam_moments){ p->b, p->c, 1e-6f, 0.9f, 0.98f, 1e-9f }, p->z);
}

static void bench_rmsprop(const et_kernels *k, problem *p)
{
    const et_slice_update update = { p->a, p->d, NULL, NULL, 0, 1, 0, p->rows * PARAMETERS / ROWS };
    k->rmsprop(&update, &(et_mean_squares){ p->c, NULL, p->b, 1e-6f, 0.9f, 0.9f, 1e-7f });
}

static void bench_adagrad(const et_kernels *k, problem *p)
{
    const et_slice_update update = { p->a, p->d, NULL, NULL, 0, 1, 0, p->rows * PARAMETERS / ROWS };
    k->adagrad(&update, &(et_square_sums){ p->c, 1e-6f, 1e-7f });
}

static void bench_adam_direction(const et_kernels *k, problem *p)
{
    k->adam_direction(&(et_adam_direction){ .gradient = p->d,
                                            .weight = p->a,
                                            .m = p->b,
                                            .v = p->c,
                                            .gradient_scale = 1,
                                            .beta_1 = 0.9f,
                                            .beta_2 = 0.98f,
                                            .epsilon = 1e-6f,
                                            .m_scale = 1,
                                            .v_scale = 1,
                                            .count = p->rows * PARAMETERS / ROWS });
}

static void bench_blend(const et_kernels *k, problem *p)
{
    k->blend(p->c, p->d, 0.5f, 0.5f, p->rows * PARAMETERS / ROWS);
}

static void bench_accumulate(const et_kernels *k, problem *p)
{
    k->accumulate(p->c, p->d, p->rows * PARAMETERS / ROWS);
}

static void bench_squares(const et_kernels *k, problem *p)
{
    p->lse[0] = (float)k->sum_of_squares(p->d, p->rows * PARAMETERS / ROWS);
}

static void bench_to_bf16(const et_kernels *k, problem *p)
{
    k->to_bf16(p->z, p->d, p->rows * PARAMETERS / ROWS);
}

static void bench_from_bf16(const et_kernels *k, problem *p)
{
    k->from_bf16(p->c, p->z, p->rows * PARAMETERS / ROWS);
}

static void bench_draw_uniform(const et_kernels *k, problem *p)
{
    k->draw_uniform(p->d, 0, p->rows * PARAMETERS / ROWS, 1, (et_random){ 1, 0, 1 });
}

static void bench_draw_normal(const et_kernels *k, problem *p)
{
    k->draw_normal(p->d, 0, p->rows * PARAMETERS / ROWS, 1, (et_random){ 1, 0, 1 });
}

/* How many columns a row has, and how many terms each of its sums. */
typedef enum extent { NONE, WIDTH, SEGMENT, COLUMNS, PIECES, LISTED, FLAT } extent;

/* FEW: few rows, as many as are decoded together. F32: data are float32, whatever dtype is. ONCE:
 * the width does not matter either. BYTES: products of bytes, whose peak is not measured here.
 * BF16: data are bfloat16. */
enum { FEW = 1, F32 = 2, ONCE = 4, BYTES = 8, BF16 = 16 };

/* The kernel to run, and the cost of one row: act elements moved, bytes otherwise moved, flops. */
typedef struct bench {
    const char *name;
    bench_fn *run;
    double acts, bytes; /* per row and column */
    double flops;       /* per row, column and term of a sum */
    extent columns, terms;
    int flags;
} bench;

static const bench benches[] = {
    { "layer_norm", bench_norm, 2, 0, 0, WIDTH, NONE, 0 },
    { "layer_norm_grad", bench_norm_grad, 3, 0, 0, WIDTH, NONE, 0 },
    { "column_sum", bench_column_sum, 1, 0, 0, WIDTH, NONE, 0 },
    { "row_sum", bench_row_sum, 1, 0, 0, WIDTH, NONE, 0 },
    { "sum", bench_sum, 1, 0, 0, WIDTH, NONE, 0 },
    { "fill", bench_fill, 1, 0, 0, WIDTH, NONE, 0 },
    { "add", bench_add, 3, 0, 0, WIDTH, NONE, 0 },
    { "dropout", bench_dropout, 2, 0, 0, WIDTH, NONE, 0 },
    { "dropout+add", bench_dropout_add, 3, 0, 0, WIDTH, NONE, 0 },
    { "gelu", bench_gelu, 2, 0, 0, WIDTH, NONE, 0 },
    { "embedding", bench_embedding, 1, 4, 0, WIDTH, NONE, 0 },
    { "embedding_grad", bench_embedding_grad, 1, 8, 0, WIDTH, NONE, 0 },
    { "attention", bench_attention, 4, 0, 4, WIDTH, SEGMENT, 0 },
    { "attention causal drop", bench_attention_dropped, 4, 0, 4, WIDTH, SEGMENT, 0 },
    { "attention_grad", bench_attention_grad, 7, 0, 10, WIDTH, SEGMENT, 0 },
    { "attention_grad causal drop", bench_attention_grad_dropped, 7, 0, 10, WIDTH, SEGMENT, 0 },
    { "cached_attention", bench_cached_attention, 2, 0, 4, WIDTH, SEGMENT, FEW },
    { "row_product", bench_row_product, 0, 8, 2, WIDTH, WIDTH, FEW | F32 },
    { "row_product int8", bench_row_product_int8, 0, 8, 2, WIDTH, WIDTH, FEW | F32 | BYTES },
    { "best_tokens", bench_best_tokens, 0, 0, 2, PIECES, WIDTH, FEW | BYTES },
    { "listed_product", bench_listed, 0, 0, 2, LISTED, WIDTH, FEW },
    { "recurrence", bench_recurrence, 3, 0, 0, WIDTH, NONE, 0 },
    { "recurrence_grad", bench_recurrence_grad, 6, 0, 0, WIDTH, NONE, 0 },
    { "float_product", bench_float_product, 0, 8, 2, WIDTH, COLUMNS, F32 },
    { "cross_entropy", bench_entropy, 2, 0, 0, PIECES, NONE, 0 },
    { "softmax_parts", bench_softmax_parts, 3, 4, 0, PIECES, NONE, 0 },
    { "staging rows", bench_staging_rows, 2, 0, 0, WIDTH, NONE, 0 },
    { "staging across", bench_staging_across, 2, 0, 0, WIDTH, NONE, 0 },
    { "staging row_pairs", bench_staging_row_pairs, 2, 0, 0, WIDTH, NONE, BF16 },
    { "staging pairs_across", bench_staging_pairs_across, 2, 0, 0, WIDTH, NONE, BF16 },
    { "staging finish", bench_staging_finish, 1, 4, 0, WIDTH, NONE, 0 },
    { "staging relu", bench_staging_relu, 2, 0, 0, WIDTH, NONE, 0 },
    { "softmax", bench_softmax, 0, 0.5, 0, PIECES, NONE, ONCE },
    { "log_softmax", bench_log_softmax, 0, 0.5, 0, PIECES, NONE, ONCE },
    { "top_k", bench_top_k, 0, 0.25, 0, PIECES, NONE, ONCE },
    { "adam", bench_adam, 0, 30, 0, FLAT, NONE, ONCE },
    { "sgd", bench_sgd, 0, 20, 0, FLAT, NONE, ONCE },
    { "amsgrad", bench_amsgrad, 0, 36, 0, FLAT, NONE, ONCE },
    { "rmsprop", bench_rmsprop, 0, 28, 0, FLAT, NONE, ONCE },
    { "adagrad", bench_adagrad, 0, 20, 0, FLAT, NONE, ONCE },
    { "adam_direction", bench_adam_direction, 0, 28, 0, FLAT, NONE, ONCE },
    { "blend", bench_blend, 0, 12, 0, FLAT, NONE, ONCE },
    { "accumulate", bench_accumulate, 0, 12, 0, FLAT, NONE, ONCE },
    { "sum_of_squares", bench_squares, 0, 4, 0, FLAT, NONE, ONCE },
    { "to_bf16", bench_to_bf16, 0, 6, 0, FLAT, NONE, ONCE },
    { "from_bf16", bench_from_bf16, 0, 6, 0, FLAT, NONE, ONCE },
    { "draw_uniform", bench_draw_uniform, 0, 4, 0, FLAT, NONE, ONCE },
    { "draw_normal", bench_draw_normal, 0, 4, 0, FLAT, NONE, ONCE },
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

static double count_of(extent e, const problem *p)
{
    const double counts[] = { 1,    (double)p->width,         (double)p->segment, TILE, VOCABULARY,
                              PART, (double)PARAMETERS / ROWS };
    return counts[e];
}

/* kernel.layer_norm.128.bf16.gb_s; of kernels that know no width, kernel.adam.f32.gb_s */
static void figure(const bench *b, const problem *p, double rate, const et_peak *peak)
{
    const double reachable = b->flops > 0 ? peak->flops : peak->bytes;
    char width[24] = "";
    if (!(b->flags & ONCE))
        snprintf(width, sizeof width, ".%lld", (long long)p->width);
    bench_figure(rate, b->flops > 0 ? "GFLOP/s" : "GB/s",
                 (b->flags & BYTES) ? NAN : 1e-9 * reachable, "kernel.%s%s.%s.%s", b->name, width,
                 bench_dtype_short(p->dtype), b->flops > 0 ? "gflops" : "gb_s");
}

static void measure(const bench *b, const et_kernels *k, problem *p, const et_peak *peak)
{
    const int64_t rows = (b->flags & FEW) ? DECODED : ROWS;
    const double columns = count_of(b->columns, p), terms = count_of(b->terms, p);
    p->rows = rows;
    cut_segments(p);
    const timing time = time_of(b->run, k, p);
    const double seconds = time.best, elements = (double)rows * columns;
    const double bytes = elements * (b->acts * (double)et_dtype_size(p->dtype) + b->bytes);
    const double rate = 1e-9 * (b->flops > 0 ? b->flops * elements * terms : bytes) / seconds;
    p->rows = rows / 64;
    cut_segments(p);
    double slow = time_of(b->run, &et_kernels_reference, p).best * 64;
    printf("%-27s %-8s D %-5.0f %8.3f ms (median %8.3f) %7.3f ns/element %7.1f %s %6.0fx "
           "reference\n",
           b->name, (b->flags & ONCE) ? "" : et_dtype_name(p->dtype), columns, seconds * 1e3,
           time.median * 1e3, seconds * 1e9 / elements, rate, b->flops > 0 ? "GFLOP/s" : "GB/s   ",
           slow / seconds);
    figure(b, p, rate, peak);
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

/* Slots are any rows of the cache, no two of them neighbours. */
static void open_decoding(problem *p)
{
    size_t rows = et_row_scratch(DECODED, p->width, ET_ROW_INT8, ET_F32);
    const et_row_weight table = { .n = VOCABULARY, .k = p->width, .panel = 64 }; /* or less */
    size_t best = et_best_scratch(&table) * (size_t)omp_get_max_threads();
    p->room = aligned(rows > best ? rows : best);
    p->slots = malloc((size_t)(DECODED * p->segment) * sizeof *p->slots);
    p->lengths = malloc(DECODED * sizeof *p->lengths);
    p->found = malloc(DECODED * BEST * sizeof *p->found);
    if (!p->slots || !p->lengths || !p->found)
        exit(4);
    for (int64_t i = 0; i < DECODED * p->segment; i++)
        p->slots[i] = (int32_t)(i * 7919 % ROWS);
    for (int i = 0; i < DECODED; i++)
        p->lengths[i] = (int32_t)p->segment;
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
        .scratch_per_thread = et_attention_scratch((int)segment, head_dim),
    };
    size_t attention = p->shape.scratch_per_thread * (size_t)omp_get_max_threads();
    size_t norm = (size_t)(et_row_blocks(ROWS) * 2 * width);
    p->scratch = numbers(attention > norm ? attention : norm, ET_F32);
    if (!p->c || !p->ids || !p->offsets)
        exit(4);
    for (int t = 0; t < ROWS; t++) /* frequent ids are small, as words are */
        p->ids[t] = (int32_t)(VOCABULARY * pow((double)(t * 7919 % ROWS) / ROWS, 4));
    open_decoding(p);
}

static void close_problem(problem *p)
{
    free(p->x), free(p->y), free(p->z), free(p->out);
    free(p->a), free(p->b), free(p->c), free(p->d), free(p->e);
    free(p->lse), free(p->scratch), free(p->ids), free(p->offsets);
    free(p->slots), free(p->lengths), free(p->found), free(p->room);
    free(p->bytes.memory), free(p->floats.memory), free(p->pieces.memory);
}

static et_peak measure_peak(void)
{
    et_error error = ET_ERROR_INIT;
    et_device *device;
    et_peak peak;
    bench_check(et_device_open(&device, &error), &error);
    bench_check(et_peak_measure(&peak, device, ET_F32, &error), &error);
    et_device_close(device);
    return peak;
}

/* first: of the widths. */
static bool is_run(const bench *b, et_dtype dtype, bool first)
{
    const int other = dtype == ET_F32 ? BF16 : F32 | ONCE;
    return !(b->flags & other) && (first || !(b->flags & ONCE));
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
        fprintf(
            stderr,
            "usage: bench_kernels [reference|plain|avx2|avx512|avx512vnni|avx512bf16 [1..%d]]\n",
            ROWS);
        return 2;
    }
    bench_print_machine();
    const et_peak peak = measure_peak();
    printf("%s, %d rows, segments of %d\n", k->name, ROWS, (int)segment);
    for (int m = 0; m < 2; m++)
        for (int dtype = ET_F32; dtype <= ET_BF16; dtype++) {
            problem p;
            open_problem(&p, models[m].width, models[m].heads, (et_dtype)dtype, segment);
            for (size_t i = 0; i < sizeof benches / sizeof *benches; i++)
                if (is_run(&benches[i], (et_dtype)dtype, m == 0))
                    measure(&benches[i], k, &p, &peak);
            close_problem(&p);
        }
    return 0;
}
