/* Products of rows with a weight, each row by itself, for decoding. Y = X W, X [rows, k] float32 or
 * bfloat16, W [k, n] stored in panels of columns for a table's vectors. Sums are float32; bfloat16
 * is widened before, and a bfloat16 Y is rounded at the end.
 *
 * A row's result has the same bits with any other rows and any number of threads: an element's sum
 * runs over k from first to last. So a batch may shrink and grow during decoding, and only needed
 * rows are computed.
 *
 * As bytes (ET_ROW_INT8), column j of W is scale[j] q. q is its numbers in units of a 127th of the
 * largest, rounded. scale[j] is the factor of least squares, (w q) / (q q), which leaves no error
 * in the direction of w. A row of X is converted in the same way during the product, so no
 * calibration is needed. Sums of bytes are exact. (Wu et al. 2020, "Integer Quantization for Deep
 * Learning Inference", symmetric, by row and by column.)
 *
 *     et_row_weight weight = et_row_weight_at(memory, kernels->panel, n, k, ET_ROW_F32);
 *     et_row_weight_pack(&weight, values, ET_F32, false);
 *     kernels->row_product(y, x, &(et_row_product){ .rows = 3, .weight = &weight });
 */
#ifndef ETUDE_ENGINE_KERNEL_ROW_PRODUCT_H
#define ETUDE_ENGINE_KERNEL_ROW_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

/* How a weight is stored: as float32, or as bytes, in a quarter of the memory. */
typedef enum et_row_kind { ET_ROW_F32, ET_ROW_INT8 } et_row_kind;

/* Longest row of bytes: 2^31 / (255 * 127), rounded down to a simple number. */
#define ET_ROW_BYTES_MAX 65536

/* A row of X whose largest number is below this limit becomes zeros as bytes, because 127 divided
 * by the number may be infinite. A row with a number that is not finite gives NaN. */
#define ET_ROW_SMALLEST 0x1p-120f

/* A packed weight: a view of memory that the caller owns. Columns past n, up to whole panels,
 * are zeros, and so are bytes past k. */
typedef struct et_row_weight {
    et_row_kind kind;
    /* n columns, k rows: as the product's y [rows, n] and x [rows, k]. */
    int64_t n, k;
    int64_t panel;   /* adjacent columns: et_kernels.panel */
    void *panels;    /* float32 [n / panel][k][panel]; bytes [n / panel][k / 4][panel][4] */
    float *scale;    /* bytes: [columns], as all below; else NULL */
    int32_t *offset; /* -128 times the sum of the column's q */
    float *length;   /* Euclidean length of the column as bytes say it */
    float *error;    /* length of the rounded part */
} et_row_weight;

/* Bytes of memory, and the view of it; memory is aligned to 64. */
size_t et_row_weight_size(int64_t panel, int64_t n, int64_t k, et_row_kind kind);
et_row_weight et_row_weight_at(void *memory, int64_t panel, int64_t n, int64_t k, et_row_kind kind);

/* Fills it from a stored W of type dtype: [k, n], or if transposed [n, k]. Bytes are made only from
 * float32. Threaded outside a parallel region. */
void et_row_weight_pack(const et_row_weight *weight, const void *from, et_dtype dtype,
                        bool transposed);

/* The same bytes for a file: w [rows, columns] as scale q. by_rows: one scale per row of w, as for
 * a transposed w; otherwise one per column. Scales have 16 bits, so the rounded weights, read
 * again, give the same bytes and scales. Longest row or column: ET_ROW_BYTES_MAX. */
void et_row_weight_to_bytes(int8_t *q, float *scale, const float *w, int64_t rows, int64_t columns,
                            bool by_rows);
void et_row_weight_from_bytes(float *w, const int8_t *q, const float *scale, int64_t rows,
                              int64_t columns, bool by_rows);

/* One product: y = x W (+ bias) (relu). y overlaps neither x nor scratch. */
typedef struct et_row_product {
    int64_t rows;
    et_dtype x, y; /* types of these: ET_F32 (0) or ET_BF16 */
    const et_row_weight *weight;
    const float *bias; /* [n] or NULL */
    bool relu;
    void *scratch; /* et_row_scratch() bytes, aligned to 64; NULL if that is 0 */
} et_row_product;

/* Bytes for the rows of x in the weight's kind: bytes and a unit for each row; or widened. 0: x is
 * read in place. */
size_t et_row_scratch(int64_t rows, int64_t k, et_row_kind kind, et_dtype x);

/* Bytes from one row of bytes to the next: whole vectors of any table. A row begins at a line of
 * cache. */
int64_t et_row_stride(int64_t k);

/* Products of rows with some rows of a table, as the logits of the tokens of a shortlist:
 *
 *   y[r, i] = h[r] . table[words[i]] + bias[words[i]]
 *
 * The table is read where it is, so a list costs nothing to make. A result has the same bits with
 * any other rows and words, and any number of threads. Pointers are borrowed for the call. */
typedef struct et_listed_product {
    int64_t rows, count, width;
    const void *h; /* [rows, width] of type dtype */
    et_dtype dtype;
    const int32_t *words; /* [count] rows of table */
    const float *table;   /* [V, width] */
    const float *bias;    /* [V]; NULL: none */
} et_listed_product;

#endif
