/* Loops over raw pointers, in both types of activations: a step's work between its products.
 * bfloat16 is included here because products of that type need more than AVX2. */
#include <math.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/kernel/kernels.h"
#include "guard/guard.h"

enum { ROWS = 256, WIDTH = 128, HEADS = 4, VOCABULARY = 1000, WORDS = 64, SEGMENTS_MAX = ROWS };
enum { PARTIALS = 2 * WIDTH * ((ROWS + ET_ROW_BLOCK - 1) / ET_ROW_BLOCK), LONGEST = 32 };

/* Buffers of one type that every kernel draws from. */
typedef struct buffers {
    et_dtype dtype;
    void *x, *y, *z;     /* [ROWS, 3 WIDTH] */
    void *logits, *kept; /* [WORDS, VOCABULARY] */
    float *row[4];       /* [ROWS * HEADS] */
    float *parameter[4]; /* [VOCABULARY * WIDTH] */
    float *scratch;
    int32_t ids[ROWS], offsets[SEGMENTS_MAX + 1];
    int segments;
} buffers;

typedef struct both {
    buffers of[2];
} both;

static const et_random use = { 1, 2, 3 };

/* Lengths 1, 8, 15, 22, 29, 4, ... until the rows are used up. */
static void cut_segments(buffers *b)
{
    int at = 0;
    for (b->segments = 0; at < ROWS; b->segments++) {
        b->offsets[b->segments] = at;
        int length = 1 + 7 * b->segments % LONGEST;
        at += length < ROWS - at ? length : ROWS - at;
    }
    b->offsets[b->segments] = at;
}

static void fill(buffers *b, et_dtype dtype)
{
    b->dtype = dtype;
    b->x = guard_numbers(ROWS * 3 * WIDTH, dtype, 1);
    b->y = guard_numbers(ROWS * 3 * WIDTH, dtype, 2);
    b->z = guard_numbers(ROWS * 3 * WIDTH, dtype, 3);
    b->kept = guard_numbers(WORDS * VOCABULARY, dtype, 4);
    b->logits = guard_numbers(WORDS * VOCABULARY, dtype, 4);
    for (int i = 0; i < 4; i++) {
        b->row[i] = guard_numbers(ROWS * HEADS, ET_F32, 5);
        b->parameter[i] = guard_numbers(VOCABULARY * WIDTH, ET_F32, 6 + (uint32_t)i);
    }
    size_t attention = et_attention_scratch(LONGEST, WIDTH / HEADS);
    b->scratch = guard_memory((attention > PARTIALS ? attention : PARTIALS) * sizeof(float));
    for (int i = 0; i < ROWS; i++)
        b->ids[i] = i % 9 ? i * 7919 % VOCABULARY : -1;
    cut_segments(b);
}

static void *open_both(void)
{
    both *b = guard_memory(sizeof *b);
    fill(&b->of[0], ET_F32);
    fill(&b->of[1], ET_BF16);
    return b;
}

static void close_both(void *work)
{
    both *b = work;
    for (int k = 0; k < 2; k++) {
        buffers *of = &b->of[k];
        et_free(of->x);
        et_free(of->y);
        et_free(of->z);
        et_free(of->logits);
        et_free(of->kept);
        et_free(of->scratch);
        for (int i = 0; i < 4; i++) {
            et_free(of->row[i]);
            et_free(of->parameter[i]);
        }
    }
    et_free(b);
}

/* ---- attention: self with dropout, cross without; forward and backward ---- */

static void attend(const buffers *b, bool causal, float rate)
{
    const et_kernels *k = et_kernels_best();
    size_t column = WIDTH * et_dtype_size(b->dtype);
    char *q = b->x, *dq = b->z;
    et_attention_shape shape = {
        .segments = b->segments,
        .query_offsets = b->offsets,
        .key_offsets = b->offsets,
        .heads = HEADS,
        .head_dim = WIDTH / HEADS,
        .query_stride = 3L * WIDTH,
        .key_stride = 3L * WIDTH,
        .value_stride = 3L * WIDTH,
        .out_stride = WIDTH,
        .causal = causal,
        .scale = 1 / sqrtf(WIDTH / HEADS),
        .rate = rate,
        .random = use,
        .dtype = b->dtype,
        .scratch_per_thread = et_attention_scratch(LONGEST, WIDTH / HEADS),
    };
    k->attention(b->y, b->row[0], q, q + column, q + 2 * column, &shape, b->scratch);
    k->attention_grad(dq, dq + column, dq + 2 * column, b->y, b->row[0], q, q + column,
                      q + 2 * column, &shape, b->scratch);
}

static void run_attention(void *work)
{
    both *b = work;
    for (int i = 0; i < 2; i++) {
        attend(&b->of[i], true, 0.1f);
        attend(&b->of[i], false, 0);
    }
}

/* ---- loss and what decoding does with logits ---- */

static void run_loss(void *work)
{
    both *b = work;
    const et_kernels *k = et_kernels_best();
    for (int i = 0; i < 2; i++) {
        buffers *of = &b->of[i];
        k->softmax_cross_entropy(of->logits, of->row[0], of->row[1], of->row[2], of->ids, 0.1f,
                                 true, WORDS, VOCABULARY, of->dtype);
    }
    float *logits = b->of[0].kept;
    int32_t best[8 * WORDS];
    k->log_softmax(logits, logits, WORDS, VOCABULARY, ET_F32);
    k->top_k(b->of[0].row[0], best, logits, 8, WORDS, VOCABULARY);
}

/* ---- rows: norms, sums, look-ups ---- */

static void run_norm(void *work)
{
    both *b = work;
    const et_kernels *k = et_kernels_best();
    for (int i = 0; i < 2; i++) {
        buffers *of = &b->of[i];
        float **p = of->parameter;
        k->layer_norm(of->y, of->row[0], of->x, p[0], p[1], 1e-5f, ROWS, WIDTH, of->dtype);
        const et_layer_norm_grad norm = { .dx = of->z,
                                          .dgamma = p[2],
                                          .dbeta = p[3],
                                          .scratch = of->scratch,
                                          .dy = of->y,
                                          .x = of->x,
                                          .stats = of->row[0],
                                          .gamma = p[0],
                                          .beta = p[1],
                                          .rows = ROWS,
                                          .width = WIDTH,
                                          .dtype = of->dtype };
        k->layer_norm_grad(&norm);
        k->column_sum(p[2], of->scratch, of->y, ROWS, WIDTH, of->dtype);
        k->embedding(of->y, of->ids, NULL, p[0], NULL, 11.3f, ROWS, WIDTH, of->dtype);
        k->embedding_grad(p[3], of->ids, of->y, 11.3f, ROWS, WIDTH, VOCABULARY, of->dtype);
    }
}

/* ---- chains ---- */

/* dropout(gelu(x + bias)) + y, and back: dropout of dy times gelu'. */
static const et_ew_step forward[] = { { .op = ET_EW_ADD, .a = 0, .b = 1, .to = 3 },
                                      { .op = ET_EW_GELU, .a = 3, .to = 4 },
                                      { .op = ET_EW_DROPOUT, .a = 4, .to = 5, .x = 0.1f },
                                      { .op = ET_EW_ADD, .a = 5, .b = 2, .to = 6 } };
static const et_ew_step backward[] = { { .op = ET_EW_DROPOUT, .a = 0, .to = 3, .x = 0.1f },
                                       { .op = ET_EW_GELU_GRAD, .a = 3, .b = 2, .to = 4 },
                                       { .op = ET_EW_RELU_GRAD, .a = 4, .b = 2, .to = 5 } };

static void chain(const buffers *b, const et_ew_step *steps, int count)
{
    et_ew_program program = {
        .inputs = 3,
        .steps = count,
        .outputs = 1,
        .broadcast = { ET_EW_FULL, ET_EW_ROW, ET_EW_FULL },
        .input_dtype = { b->dtype, ET_F32, b->dtype },
        .output = { steps[count - 1].to },
        .output_dtype = { b->dtype },
    };
    for (int i = 0; i < count; i++)
        program.step[i] = steps[i];
    et_kernels_best()->elementwise(&program, (void *[]){ b->z },
                                   (const void *[]){ b->x, b->parameter[0], b->y }, ROWS, WIDTH,
                                   use);
}

static void run_elementwise(void *work)
{
    both *b = work;
    for (int i = 0; i < 2; i++) {
        chain(&b->of[i], forward, sizeof forward / sizeof forward[0]);
        chain(&b->of[i], backward, sizeof backward / sizeof backward[0]);
    }
}

/* ---- flat slices ---- */

static void run_flat(void *work)
{
    both *b = work;
    const et_kernels *k = et_kernels_best();
    float **p = b->of[0].parameter;
    const int64_t count = (int64_t)VOCABULARY * WIDTH;
    et_bf16 *shadow = b->of[1].kept; /* of WORDS * VOCABULARY elements */
    const int64_t shadowed = (int64_t)WORDS * VOCABULARY;
    b->of[0].row[0][0] = (float)k->sum_of_squares(p[3], count);
    k->accumulate(p[2], p[3], count);
    const et_slice_update all = { p[0],  p[3], shadow, b->of[1].parameter[0],
                                  1e-4f, 0.5f, 0.99f,  shadowed };
    const et_slice_update plain = { p[0], p[3], NULL, NULL, 0, 0.5f, 0, count };
    k->adam(&all, &(et_adam_moments){ p[1], p[2], 1e-3f, 0.9f, 0.98f, 1e-7f });
    k->sgd(&plain, &(et_momentum){ p[1], 1e-3f, 0.9f, true });
    k->to_bf16(shadow, p[0], shadowed);
    k->from_bf16(p[3], shadow, shadowed);
}

const guard_workload guard_kernels[] = {
    { "attention", open_both, run_attention, close_both, false },
    { "loss", open_both, run_loss, close_both, false },
    { "norm", open_both, run_norm, close_both, false },
    { "elementwise", open_both, run_elementwise, close_both, false },
    { "flat", open_both, run_flat, close_both, false },
};
