/* Softmax cross-entropy over a vocabulary whose logits never exist all at once: they come in parts
 * of columns. The results of a part for each row are kept, rows are joined, and parts become
 * derivatives. With m the largest and s = sum of e^(x - m) of part p, n columns of it:
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
#ifndef ETUDE_ENGINE_KERNEL_SOFTMAX_PARTS_H
#define ETUDE_ENGINE_KERNEL_SOFTMAX_PARTS_H

#include <stdint.h>

#include <etude/dtype.h>

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

#endif
