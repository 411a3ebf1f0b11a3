/* Arguments of kernels, by the kinds of kernels.def: attention, layers, updates of slices, softmax
 * in parts, products, copies around products, best tokens. Legend as in kernels.h. Pointers are
 * borrowed for the call. */
#ifndef ETUDE_ENGINE_KERNEL_ARGUMENTS_H
#define ETUDE_ENGINE_KERNEL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>
#include <etude/ops_layout.h>

#include "base/numbers/philox.h"
#include "engine/kernel/row_product.h"
#include "engine/kernel/window.h"

/* ---- attention ---- */

/* Arguments of the attention kernels: queries, keys and values of a batch of segments (training,
 * encoding) or of one new row per hypothesis (decoding). The kernels are et_kernels.attention,
 * attention_grad and cached_attention. */

/* Sizes of a (segment, head) tile of attention: numbers that the scratch's size and the kernels
 * must agree on. Every width is padded to ET_ATTENTION_PAD, the widest vector of all tables, so
 * inner loops have no tails. */
/* Floats of the widest vector, 16 as in AVX-512. Tables with shorter vectors use it too, so that
 * scratch has the same size for all. */
#define ET_ATTENTION_PAD 16

/* Query rows of one pass: their scores against all keys of a segment stay in cache. 16 x 512 keys
 * are 32 KiB. Two blocks of rows of the widest table, so few are computed in vain. */
#define ET_ATTENTION_ROWS 16

/* padded(64) = 64, padded(65) = 80. */
static inline size_t et_attention_padded(size_t count)
{
    return (count + ET_ATTENTION_PAD - 1) / ET_ATTENTION_PAD * ET_ATTENTION_PAD;
}

/* Multi-head attention over segments. Query rows of segment s are query_offsets[s] ..
 * query_offsets[s+1]; keys and values likewise. A row holds heads * head_dim columns from the given
 * pointer, rows `stride` elements apart, so q, k and v may be column ranges of one matrix. Weights
 * are softmax(scale * q k^T); rows of a causal segment see keys up to their own position only.
 * Dropout acts on the weights; the element index of weight (query row t, head h, key j within its
 * segment) is ((t * heads + h) << 16) + j. Empty segments (both ranges empty) are allowed; a query
 * whose segment has no keys gives 0. */
typedef struct et_attention_shape {
    int segments;
    const int32_t *query_offsets; /* [segments + 1], ascending */
    const int32_t *key_offsets;   /* [segments + 1], ascending */
    int heads, head_dim;
    int64_t query_stride, key_stride, value_stride, out_stride; /* elements between rows */
    bool causal;
    float scale; /* usually 1 / sqrt(head_dim) */
    float rate;  /* dropout on the weights; 0: none */
    et_random random;
    et_dtype dtype;
    size_t scratch_per_thread; /* floats: et_attention_scratch() of the longest segments; thread
                                  i uses scratch + i * scratch_per_thread */
} et_attention_shape;

/* Attention of one new query row per hypothesis over a key/value cache (decoding). Row r sees
 * length[r] cached rows; position p of row r is the cache row
 *   slot[r * slot_stride + p]  when slot is given (beam search: an ancestor table), or
 *   begin[r] + p               when slot is NULL (cross attention over the encoder's rows).
 * A cache row holds heads * head_dim columns. No row reads another's numbers and sums run in
 * the order of positions, so a row has the same bits in any batch. Length 0 gives zeros. */
#define ET_CACHED_HEAD_DIM_MAX 1024 /* the running output of one head lives on the stack */

typedef struct et_cached_attention_shape {
    int rows;
    const int32_t *length; /* [rows] positions seen */
    const int32_t *slot;   /* [rows, slot_stride] cache rows, or NULL */
    int64_t slot_stride;
    const int32_t *begin; /* [rows] first cache row where slot is NULL */
    int heads, head_dim;
    int64_t query_stride, key_stride, value_stride, out_stride; /* elements between rows */
    float scale;
    et_dtype dtype; /* of q, keys, values and out */
} et_cached_attention_shape;

/* Floats of scratch for one thread of attention and attention_grad. longest_key: rows of the
 * longest segment of keys. The result is linear in longest_key, because queries come in blocks of a
 * fixed size. */
size_t et_attention_scratch(int longest_key, int head_dim);

/* ---- layers ---- */

/* Arguments of kernels for layers: recurrence, norms over a batch, embeddings of several columns,
 * scaled copies of a matrix, pooling.
 *
 * An image is [N, H, W, C]; a norm over a batch takes it as [N H W, C]. */

/* Arguments of the recurrence of the simpler simple recurrent unit, SSRU (Kim et al. 2019, "From
 * Research to Production and Back: Ludicrously Fast Neural Machine Translation"), over the rows of
 * segments, each column by itself:
 *
 *   c[t] = f[t] c[t - 1] + (1 - f[t]) x[t],   f = 1 / (1 + e^-gate)
 *
 * Before the first row of a segment c is 0. Decoding has one new row for each hypothesis, whose
 * c[t - 1] is a row of `state`.
 *
 * Sums are float32. The state is float32 too, so c has the same bits whether the rows of a segment
 * come together or one by one. Pointers are borrowed for the call. */
typedef struct et_recurrence {
    const void *x, *gate; /* [rows, width] */
    int64_t segments, width;
    const int32_t *offsets; /* [segments + 1], ascending; NULL: each row is a segment */
    /* Without offsets: row t reads c[t - 1] from state[where[t][0]] (-1: zeros) and writes c[t] to
     * state[where[t][1]]. No row reads a state that another row writes. */
    const int32_t *where; /* [segments, 2] */
    float *state;         /* [slots, width] */
    et_dtype dtype;       /* of x, gate, c and their derivatives */
} et_recurrence;

/* Rows of a batch that count: row t counts if mask[t / each] is not 0. */
typedef struct et_counted {
    const float *mask; /* [samples]; NULL: all count */
    int64_t each;      /* rows of a sample: 1, of an image H W */
} et_counted;

/* Facts of a batch norm about its columns, [D] each. */
typedef struct et_batch_statistics {
    const float *mean, *variance, *gamma, *beta; /* beta: not read by the derivative */
    float epsilon;
    bool given; /* statistics are not the batch's own: they do not depend on x */
    et_counted counted;
} et_batch_statistics;

/* ids [rows, count], a result [rows, width]; the table of column c, [column[c].rows,
 * column[c].width], follows the tables of earlier columns, and so do its columns of the result. */
typedef struct et_column_embedding {
    const et_column *column;
    int count;
    int64_t rows, width;
    et_dtype dtype; /* of the result */
} et_column_embedding;

/* `count` copies of w [rows, width] side by side, [rows, count width]. */
typedef struct et_scaled_matrix {
    const float *w;
    const float *row_scale;    /* [count, rows] */
    const float *column_scale; /* [count, width]; NULL: ones */
    int64_t rows, width, count;
    et_dtype dtype; /* of the copies */
} et_scaled_matrix;

/* Derivatives of these, written. */
typedef struct et_scaled_matrix_grad {
    const void *dy;
    float *dw, *drow;
    float *dcolumn; /* NULL: not wanted */
} et_scaled_matrix_grad;

typedef struct et_pool_shape {
    int64_t batch, channels;
    et_window down, across; /* over rows and over columns of the image */
    bool mean;              /* else the largest */
    et_dtype dtype;
} et_pool_shape;

/* ---- updates of slices ---- */

/* Arguments of the optimizer's loops (et_kernels.adam, sgd, rmsprop, ...): flat slices of float32,
 * and the work that follows every update of any rule. */

typedef struct et_slice_update {
    float *weight; /* [count], as all arrays */
    const float *gradient;
    et_bf16 *shadow; /* becomes bfloat16(weight); NULL: no shadow */
    float *average;  /* moves towards weight; NULL: no average */
    float decay;     /* rate * weight decay; 0: none */
    float gradient_scale;
    float average_decay;
    int64_t count;
} et_slice_update;

typedef struct et_adam_moments {
    float *m, *v;
    float rate_t; /* with the bias correction */
    float beta_1, beta_2, epsilon;
} et_adam_moments;

typedef struct et_momentum {
    float *accumulator; /* NULL: no momentum */
    float rate, momentum;
    bool nesterov;
} et_momentum;

typedef struct et_mean_squares {
    float *squares;
    float *mean;        /* NULL: not centered */
    float *accumulator; /* NULL: no momentum */
    float rate, rho, momentum, epsilon;
} et_mean_squares;

typedef struct et_square_sums {
    float *squares;
    float rate, epsilon;
} et_square_sums;

/* Adam's direction, instead of a step. */
typedef struct et_adam_direction {
    float *gradient; /* [count], as all arrays; becomes the direction */
    const float *weight;
    float *m, *v;
    float gradient_scale, beta_1, beta_2, epsilon;
    float m_scale, v_scale; /* of the bias correction: 1 / (1 - beta^t) */
    float decay;            /* times the weight, added */
    int64_t count;
} et_adam_direction;

/* ---- softmax in parts ---- */

/* Softmax cross-entropy over a vocabulary whose logits never exist all at once: they come in parts
 * of columns. The results of a part for each row are kept, rows are joined, and parts become
 * derivatives. With m, the largest logit x of a part, and s, the sum of e^(x - m) over the part:
 *
 *   M = max m    S = sum of s e^(m - M)    log of the row's sum of e^x = M + log S
 *   softmax = f e^(x - m),  f = e^(m - M) / S
 *
 * (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"). The kernels are
 * single-threaded: callers distribute parts, then rows, then parts.
 *
 * Rows may be two samples of the same tokens that should agree (Liang et al. 2021, "R-Drop:
 * Regularized Dropout for Neural Networks"). x and y are the logits of the two, p and q their
 * softmax, t the target, a the weight:
 *
 *   loss of both = (CE(x) + CE(y)) / 2 + a / 4 (KL(p, q) + KL(q, p))
 *   KL(p, q) + KL(q, p) = E_p[x - y] + E_q[y - x]               the logarithms of the sums cancel
 *   its derivative by x = (p - t) / 2 + a / 4 (p (x - y - E_p[x - y]) + p - q)
 *
 * Each of the two has half of everything, so both together count as one row. */

/* A block of rows. Labels and results are those of et_kernels.softmax_cross_entropy; R = rows. All
 * arrays are the caller's. [parts, R] are written by `part`, results by `join`. With two draws,
 * rows t and R / 2 + t are one token with one label. */
typedef struct et_softmax_rows {
    int64_t rows, vocabulary;
    int64_t columns; /* of a part; the last part has the rest */
    int64_t parts;
    const int32_t *labels; /* [R]; negative: an empty row */
    float smoothing;
    float *largest; /* [parts, R] m */
    float *sum;     /* [parts, R] s; once joined, f */
    float *shifted; /* [parts, R] sum of x - m */
    /* x of the label, from the part that the label is in. */
    float *label_logit;          /* [R] */
    float *label_leads;          /* [R] 1 if the label is the first of its part's largest */
    float *loss, *nll, *correct; /* [R] */
    float *apart;                /* [parts, R] sum of e^(x - m) (x - y); NULL: no two draws */
    float *mean_apart;           /* [R] E_p[x - y], with apart */
    float agreement;             /* a, with apart */
} et_softmax_rows;

/* Columns of a part. V = 10 in parts of 4: 4, 4, 2. */
static inline int64_t et_softmax_part_columns(const et_softmax_rows *rows, int64_t part)
{
    int64_t left = rows->vocabulary - part * rows->columns;
    return left < rows->columns ? left : rows->columns;
}

/* The row that is the other draw of row t's token, of two draws. */
static inline int64_t et_softmax_other_draw(const et_softmax_rows *rows, int64_t t)
{
    return (t + rows->rows / 2) % rows->rows;
}

/* Order: every part, then join over all rows, then grad of every part. Parts may come in any order
 * and on any threads, and so may shares of the rows: no two write the same element. */
typedef struct et_softmax_parts {
    /* The results of a part [R, its columns] of logits for each row. kept, if not NULL, becomes
     * e^(x - m), of type dtype. Its empty rows do not change. */
    void (*part)(const et_softmax_rows *rows, int64_t part, void *kept, et_dtype dtype,
                 const float *logits);

    /* Call after all parts: loss, nll and correct of rows begin .. end - 1, and f. */
    void (*join)(const et_softmax_rows *rows, int64_t begin, int64_t end);

    /* A part of d(sum of losses)/d(logits), of type to, from kept, of type dtype. */
    void (*grad)(const et_softmax_rows *rows, int64_t part, void *gradient, et_dtype to,
                 const void *kept, et_dtype dtype);
} et_softmax_parts;

/* ---- products of operands as stored ---- */

/* C = A B with float32 sums, from operands that are not copied, each stored as it is or transposed:
 *
 *   gradients of weights   A^T B: the rows of both belong to the long sum
 *   a few rows             A B and A B^T, forward and backward: packing B first, for one reading,
 *                          would cost as much as a good part of the product
 *
 * B goes through a panel of columns on the stack, filled while its first rows are multiplied. A
 * transposed A goes through panels of its rows in `room`, because the elements that a block reads
 * are far apart in A. bfloat16 operands are multiplied in pairs of k by tables with instructions
 * for that, in no more time than the same number of float32; other tables widen them. */

/* The longest sum of one call: a panel so deep stays in the first-level cache. Twice as long of
 * bfloat16. */
#define ET_FLOAT_PRODUCT_DEPTH 128

/* Single-threaded: gemm/run.c calls it for a tile and a chunk of k. */
typedef struct et_float_product {
    /* m, n may be 0; k is in 1 .. et_float_product_depth(ab). */
    int64_t m, n, k;
    /* Type of A and B. ET_BF16 only for a transposed A and a plain B, and with room. */
    et_dtype ab;
    const void *a; /* element (i, l) at i * a_row + l * a_step */
    const void *b; /* [k, n], or across [n, k], rows ldb apart */
    float *c;      /* [m, n], rows ldc apart; overlaps neither */
    /* Elements. a_row or a_step is 1; ldb is at least n (across: k), ldc at least n. */
    int64_t a_row, a_step, ldb, ldc;
    bool across; /* B is stored transposed */
    /* In this order: C +=, + bias [n], relu. bias may be NULL. */
    bool accumulate;
    const float *bias;
    bool relu;
    bool ahead; /* prefetch what follows along k in A and B, because it is needed next */
    /* et_float_product_scratch bytes aligned to 64, for an A of a_row 1; NULL: A is read in place.
     */
    void *room;
} et_float_product;

/* The longest k of one call. */
static inline int64_t et_float_product_depth(et_dtype ab)
{
    return ab == ET_BF16 ? 2 * ET_FLOAT_PRODUCT_DEPTH : ET_FLOAT_PRODUCT_DEPTH;
}

/* For any table: panels are at most 16 rows wide. Units of k are of four bytes, a float32 or two
 * bfloat16. */
static inline size_t et_float_product_scratch(int64_t m, int64_t k, et_dtype ab)
{
    const int64_t units = ab == ET_BF16 ? (k + 1) / 2 : k;
    return (size_t)((m + 15) / 16 * 16 * units) * sizeof(float);
}

/* ---- copies around products ---- */

/* Copies for a matrix product's block: operands in the dense layout and type that the block reads,
 * and its result in the layout and type of C. Single-threaded, part of each table of kernels;
 * gemm/gemm_private.h combines the layouts.
 *
 * bfloat16 becomes float32 exactly. Nothing is read beyond the stored elements; targets may have
 * any alignment (64 bytes is faster) and do not overlap their source. */

/* A matrix as stored: element (i, j) at i * stride + j. */
typedef struct et_stored {
    /* Borrowed; at element (0, 0). */
    const void *data;
    int64_t rows, columns;
    int64_t stride; /* elements */
    et_dtype dtype; /* ET_F32 or ET_BF16 */
} et_stored;

/* How float32 sums become C: c = relu(sum of parts + bias), or c += that. */
typedef struct et_finish {
    int64_t rows, columns;
    int64_t parts;       /* partial sums to add up, in order; at least 1 */
    int64_t part_stride; /* floats from one to the next */
    int64_t from_stride; /* floats from row to row of a part */
    int64_t c_stride;    /* elements from row to row of C */
    const float *bias;   /* [columns]; NULL: none */
    bool relu;           /* before anything is added to C */
    bool accumulate;     /* C is ET_F32 */
    et_dtype c;          /* ET_F32 or ET_BF16 */
} et_finish;

/* All single-threaded. `from` may be smaller than the target, never larger: the rest is padded. */
typedef struct et_staging {
    /* to [to_rows, to_columns] = from, zero beyond it. dtype is from's or ET_F32. */
    void (*rows)(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                 const et_stored *from);

    /* The same of from transposed: to[j, i] = from[i, j]. */
    void (*across)(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                   const et_stored *from);

    /* Pairs of rows interleaved, as instructions that add two bfloat16 products read them:
     * to [to_rows / 2, to_columns, 2], to[i / 2, j, i % 2] = from[i, j]. to_rows is even. */
    void (*row_pairs)(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from);

    /* The same of from transposed: to[j / 2, i, j % 2] = from[i, j]. */
    void (*pairs_across)(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from);

    /* Makes c [rows, columns] from `parts` matrices of float32 sums. from: the first part, at its
     * first row. c does not overlap the parts. */
    void (*finish)(const et_finish *how, void *c, const float *from);

    /* c = relu(c) in place: [rows, columns], rows `stride` elements apart. */
    void (*relu)(void *c, int64_t rows, int64_t columns, int64_t stride, et_dtype dtype);
} et_staging;

/* ---- best tokens ---- */

/* The most likely next tokens of rows: the k largest of the logits h . table[token] over all
 * tokens, with their log-probabilities.
 *
 * Only tokens that bytes cannot exclude are computed in float32. With x = x' + e and w = w' + d,
 * where ' marks the values as bytes, the inequality of Cauchy and Schwarz gives
 *
 *   |x w - x' w'| = |e w' + x d| <= |e| |w'| + |x| |d|,
 *
 * so a token whose upper bound is below the lower bounds of k others is excluded for certain. The
 * found tokens are those that float32 gives for all tokens, in its order (larger first, then the
 * smaller number). The softmax's sum uses the byte values of excluded tokens: each has little
 * weight, because at least ET_BEST_EXACT are computed exactly, and their errors have both signs. If
 * the bounds leave too many tokens open, or a number is not finite, the whole row is computed in
 * float32.
 *
 * Rows do not depend on each other, nor on the number of threads. */

/* Rows whose logits are in cache together: whole blocks of every table. Blocks have 4, 6 or 12
 * rows. With 32,000 tokens, 24 rows have 3 MB of logits. */
#define ET_BEST_ROWS 24
/* Most tokens that may be asked for. */
#define ET_BEST_COUNT_MAX 128
/* Tokens computed in float32 at least, if there are as many. In a row with a confident prediction
 * these tokens carry most of the sum, so bytes affect only the rest. */
#define ET_BEST_EXACT 16
/* Lower bounds kept of a row, each the largest of its share of the tokens. A power of two, four
 * times ET_BEST_COUNT_MAX: then most of the best k are in different groups. */
#define ET_BEST_GROUPS 512
/* Most tokens that bytes may leave open. Past it the whole row is computed, which is always right.
 */
#define ET_BEST_OPEN 512

typedef struct et_best_tokens {
    /* Rows of h, log_p and token. */
    int64_t rows;
    int count;                   /* k, at most ET_BEST_COUNT_MAX and at most the tokens */
    const et_row_weight *weight; /* ET_ROW_INT8: n tokens, their width k */
    const float *table;          /* [n, k], what weight was packed from */
    et_dtype dtype;              /* of h */
    void *scratch;               /* et_best_scratch() bytes for each thread, aligned to 64 */
} et_best_tokens;

/* A thread's scratch: a view of it, and its size. */
typedef struct et_best_buffers {
    float *logits;  /* [ET_BEST_ROWS, columns] as bytes say them */
    float *x;       /* [ET_BEST_ROWS, width] */
    uint8_t *bytes; /* [ET_BEST_ROWS, et_row_stride(width)] */
    float *scale;   /* [ET_BEST_ROWS] of the bytes */
    float *group;   /* [ET_BEST_GROUPS] */
    /* z in float32 and number of each open token, in ascending order of the token. */
    float *open_logit;   /* [ET_BEST_OPEN] */
    int32_t *open_token; /* [ET_BEST_OPEN] */
    int64_t columns;     /* tokens in whole panels */
    size_t size;
} et_best_buffers;

et_best_buffers et_best_buffers_at(void *scratch, const et_row_weight *weight);
size_t et_best_scratch(const et_row_weight *weight);

#endif
