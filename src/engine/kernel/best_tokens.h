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
#ifndef ETUDE_ENGINE_KERNEL_BEST_TOKENS_H
#define ETUDE_ENGINE_KERNEL_BEST_TOKENS_H

#include "engine/kernel/row_product.h"

/* Rows whose logits are in cache together: whole blocks of every table. Blocks have 4, 6 or 12
 * rows. Of 32,000 tokens, 24 rows are 3 MB of logits. */
#define ET_BEST_ROWS 24
/* Most tokens that may be asked for. */
#define ET_BEST_COUNT_MAX 128
/* Tokens computed in float32 at least, if there are as many. They carry most of the sum of a row
 * that is sure of itself, so that bytes blur only its rest. */
#define ET_BEST_EXACT 16
/* Lower bounds kept of a row, each the largest of its share of the tokens. A power of two, four
 * times ET_BEST_COUNT_MAX: then most of the best k are in different groups. */
#define ET_BEST_GROUPS 512
/* Most tokens that bytes may leave open. Past it the whole row is computed, which is always right.
 */
#define ET_BEST_OPEN 512

typedef struct et_best_tokens {
    /* Of h, log_p and token. */
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
