/* Kernels: loops over raw pointers and sizes, nothing else. They allocate nothing, know no
 * graph, keep no state. A table holds one function per kernel; there is one table per
 * instruction set (plain C, AVX2, AVX-512, the same with VNNI), all compiled from the same source
 * over a small vector header, and one readable reference. et_kernels_best() chooses by what the CPU
 * can do.
 *
 * Legend: T rows (tokens), D columns (width), H heads, S segments, V vocabulary.
 * "act" is the element type of activations, float32 or bfloat16, given as a dtype argument;
 * arithmetic, statistics and parameters are float32.
 *
 * Threads: kernels use OpenMP loops above a grain. Every result has the same bits for any
 * number of threads: sums over rows run over fixed blocks of ET_ROW_BLOCK rows, whose partial
 * sums are added in order. Results of two tables differ by rounding only. */
#ifndef ETUDE_KERNEL_KERNELS_H
#define ETUDE_KERNEL_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

#include "kernel/attention.h"
#include "kernel/best_pieces.h"
#include "kernel/elementwise.h"
#include "kernel/float_product.h"
#include "kernel/layers.h"
#include "kernel/softmax_parts.h"
#include "kernel/staging.h"

/* Rows in one block of a sum over rows. Part of the result's bits: another number gives sums in
 * another order. */
#define ET_ROW_BLOCK 128

/* ---- one table per instruction set ------------------------------------------------------- */

typedef struct et_kernels {
    const char *name; /* "reference", "plain", "avx2", "avx512", "avx512vnni" */
    int64_t panel;    /* columns of a panel of an et_row_weight */

    /* Runs program over [rows, width]. in[i] is [rows, width] or [width] by its broadcast. An
     * output may be the same buffer as a full input of equal size of element. random gives
     * seed and step; each DROPOUT step has its site. */
    void (*elementwise)(const et_ew_program *program, void *const *out, const void *const *in,
                        int64_t rows, int64_t width, et_random random);

    /* y[t] = (x[t] - mean) * rstd * gamma + beta, rstd = 1 / sqrt(variance + epsilon)
     * (Ba, Kiros, Hinton 2016). stats [T, 2] keeps mean and rstd for the derivative; may be
     * NULL. */
    void (*layer_norm)(void *y, float *stats, const void *x, const float *gamma, const float *beta,
                       float epsilon, int64_t rows, int64_t width, et_dtype dtype);

    /* With g = dy * gamma, n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g * n)),
     * dgamma = sum over rows of dy * n, dbeta of dy (both overwritten). y, if not NULL, becomes
     * layer_norm's result again, to the bit; beta is read for it alone.
     * scratch: et_row_blocks(rows) * 2 * width floats. dx may be dy, y may be x. */
    void (*layer_norm_grad)(void *dx, float *dgamma, float *dbeta, void *y, float *scratch,
                            const void *dy, const void *x, const float *stats, const float *gamma,
                            const float *beta, int64_t rows, int64_t width, et_dtype dtype);

    /* sum[d] = sum over rows of x[t, d]. scratch: et_row_blocks(rows) * width floats. */
    void (*column_sum)(float *sum, float *scratch, const void *x, int64_t rows, int64_t width,
                       et_dtype dtype);

    /* The sum of all elements, float32 within short runs and double over them. */
    double (*sum)(const void *x, int64_t count, et_dtype dtype);

    /* y[i] = value */
    void (*fill)(void *y, float value, int64_t count, et_dtype dtype);

    /* y[t] = table[ids[t]] * scale + positions[position[t]]; a negative id gives a zero row.
     * table [V, D] float32, positions [P, D] float32 or NULL. */
    void (*embedding)(void *y, const int32_t *ids, const int32_t *position, const float *table,
                      const float *positions, float scale, int64_t rows, int64_t width,
                      et_dtype dtype);

    /* dtable[ids[t]] += dy[t] * scale, rows in ascending t for each id: the sum's order does
     * not depend on threads. Negative ids are skipped. Touches only the rows used. */
    void (*embedding_grad)(float *dtable, const int32_t *ids, const void *dy, float scale,
                           int64_t rows, int64_t width, int64_t vocabulary, et_dtype dtype);

    /* out [Tq, H * head_dim]; lse [Tq, H] keeps log of the sum of exp of scores (NULL: not
     * kept). scratch: scratch_per_thread floats for each of omp_get_max_threads() threads. Not
     * to be called from inside a parallel region: its threads would share one part. */
    void (*attention)(void *out, float *lse, const void *q, const void *k, const void *v,
                      const et_attention_shape *shape, float *scratch);

    /* Derivatives by q, k, v (strides as their values), weights recomputed from lse. Rows
     * outside every segment are left alone. (Dao 2023, FlashAttention-2, equations of the
     * backward pass. Its D = rowsum(dout * out) is taken as rowsum(P * dP), the same number
     * without the rounding of out.) dout has out's stride. */
    void (*attention_grad)(void *dq, void *dk, void *dv, const void *dout, const float *lse,
                           const void *q, const void *k, const void *v,
                           const et_attention_shape *shape, float *scratch);

    /* See et_cached_attention_shape. */
    void (*cached_attention)(void *out, const void *q, const void *keys, const void *values,
                             const et_cached_attention_shape *shape);

    /* See row_product.h. */
    void (*row_product)(float *y, const float *x, const et_row_product *shape);

    /* See best_pieces.h. log_p, piece [rows, count], best first; h [rows, width]. */
    void (*best_pieces)(float *log_p, int32_t *piece, const void *h, const et_best_pieces *shape);

    /* One row block of softmax cross-entropy with label smoothing. logits [rows, V] of type
     * dtype become d(sum of losses)/d(logits) in place when gradient is true. For label y >= 0:
     *   loss = sum_i -t_i log p_i - C,  t_y = 1 - e, t_i = e / (V - 1) elsewhere,
     *   C = the entropy of t, so that a perfect prediction scores 0.
     * smoothing is e. A negative label is an empty row: loss 0, gradient 0. loss [rows],
     * nll [rows] (plain -log p_y), correct [rows] (1 where argmax is y) are float32. */
    void (*softmax_cross_entropy)(void *logits, float *loss, float *nll, float *correct,
                                  const int32_t *labels, float smoothing, bool gradient,
                                  int64_t rows, int64_t vocabulary, et_dtype dtype);

    /* logits [rows, V] float32 become log-probabilities in place. */
    void (*log_softmax)(float *logits, int64_t rows, int64_t vocabulary);

    /* The k largest of each row [rows, width]: values descending, equal values by ascending
     * index; value [rows, k], index [rows, k]. A NaN counts as the smallest. */
    void (*top_k)(float *value, int32_t *index, const float *x, int k, int64_t rows, int64_t width);

    /* float32 to bfloat16 and back, rounding to nearest even. */
    void (*to_bf16)(et_bf16 *to, const float *from, int64_t count);
    void (*from_bf16)(float *to, const et_bf16 *from, int64_t count);

    /* ---- the optimizer's loops over flat slices (float32) ---- */

    /* Sum of squares in double over fixed blocks; not finite if any element is not. */
    double (*sum_of_squares)(const float *x, int64_t count);

    /* g = gradient * gradient_scale. Adam as Keras has it: m = b1 m + (1-b1) g,
     * v = b2 v + (1-b2) g^2, w -= rate_t * m / (sqrt(v) + epsilon) [epsilon outside the bias
     * correction, which rate_t = rate * sqrt(1 - b2^t) / (1 - b1^t) holds], preceded by
     * w -= decay * w (decay = rate * weight decay, 0: none). shadow, if not NULL, becomes
     * bfloat16(w); average, if not NULL, becomes average + (1 - average_decay) * (w -
     * average). An m of FLT_MIN or less becomes 0. */
    void (*adam)(float *weight, float *m, float *v, const float *gradient, et_bf16 *shadow,
                 float *average, float rate_t, float beta_1, float beta_2, float epsilon,
                 float decay, float gradient_scale, float average_decay, int64_t count);

    /* Momentum as Keras has it: a = momentum * a - rate * g; w += a, or with Nesterov
     * w += momentum * a - rate * g. accumulator NULL: w -= rate * g. The rest as adam, with a for
     * m. */
    void (*sgd)(float *weight, float *accumulator, const float *gradient, et_bf16 *shadow,
                float *average, float rate, float momentum, bool nesterov, float decay,
                float gradient_scale, float average_decay, int64_t count);

    /* y += x */
    void (*accumulate)(float *y, const float *x, int64_t count);

    /* ---- start values: the same bits from every table ---- */

    /* to[i] = scale * (2 et_random_uniform(random, first + i) - 1), in [-scale, scale). */
    void (*draw_uniform)(float *to, int64_t first, int64_t count, float scale, et_random random);

    /* to[i] = scale * et_random_normal(random, first + i). */
    void (*draw_normal)(float *to, int64_t first, int64_t count, float scale, et_random random);

    /* Copies around matrix products. */
    const et_staging *staging;

    /* Cross-entropy over a vocabulary in parts. */
    const et_softmax_parts *softmax_parts;

    /* C = A B as in float_product.h. Single-threaded. */
    void (*float_product)(const et_float_product *product);

    /* Layers beside the Transformer's. */
    const et_layer_kernels *layers;
} et_kernels;

/* The readable reference: one thread, no tricks. Tests compare every table with it. */
extern const et_kernels et_kernels_reference;

/* Names of tables, the fastest first; NULL at the end. */
extern const char *const et_kernels_names[];

/* The table for an instruction set by name, NULL if there is none or this CPU or this build has
 * it not. */
const et_kernels *et_kernels_named(const char *name);

/* The best table for this CPU. The environment variable ETUDE_ISA may name a lower one; a name
 * that et_kernels_named does not know changes nothing. */
const et_kernels *et_kernels_best(void);

/* Blocks of ET_ROW_BLOCK rows. */
static inline int64_t et_row_blocks(int64_t rows)
{
    return (rows + ET_ROW_BLOCK - 1) / ET_ROW_BLOCK;
}

#endif
