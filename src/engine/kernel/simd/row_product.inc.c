/* Products of rows with a packed weight. A block of V_PANEL_ROWS rows times one panel of columns
 * has its sums in registers from the first k to the last; a panel stays in cache for all rows (the
 * micro-kernel and packing of Goto, van de Geijn 2008, "Anatomy of High-Performance Matrix
 * Multiplication", without its blocks of k: rows are few).
 *
 *   r rows of a block, s vectors of a panel, i along k, p panels
 *
 * Memory: the weight is read once for all rows, the rows once for each panel, from cache. With few
 * rows, most of the time is reading the weight, so weights as bytes, a quarter of the size, are
 * faster. An element is k multiply-adds from 0 (bytes: from `offset`) in order of k, in blocks of
 * any number of rows, so the bits of a row do not depend on the other rows. */
#ifndef ETUDE_KERNEL_ROW_PRODUCT_INC_C
#define ETUDE_KERNEL_ROW_PRODUCT_INC_C

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/row_product.h"
#include "engine/kernel/simd/simd.h"

/* Vectors of a panel. A panel's width depends on the vectors' width: a packed weight fits only
 * tables with the same width. */
#define V_PANEL 2
#define PANEL   (V_PANEL * V_LANES)

/* Multiply-adds below which a product stays on one thread. */
#define ROW_GRAIN 200000

/* Operands and result of a block: x and y at its first row, the rest at the panel's first column.
 *
 * Strides are in elements: x_stride in floats or bytes. columns counts the columns from the panel's
 * first to n, so it may exceed a panel. */
typedef struct row_block {
    const void *x; /* [r] float32, or bytes + 128 */
    const void *w; /* the panel */
    void *y;
    et_dtype y_type;
    const float *row_scale; /* bytes: [r] */
    const float *scale;     /* bytes: [columns] */
    const int32_t *offset;
    const float *bias;
    int64_t k, x_stride, y_stride, columns;
    bool relu;
} row_block;

/* Element i of y. */
ET_INLINE void *y_at(const row_block *b, int64_t i)
{
    return (char *)b->y + (size_t)i * (b->y_type == ET_BF16 ? sizeof(et_bf16) : sizeof(float));
}

/* The same p panels further on; w stays, as its distance depends on the kind. */
ET_INLINE row_block at_panel(const row_block *b, int64_t p)
{
    row_block at = *b;
    at.y = y_at(b, p * PANEL);
    at.columns -= p * PANEL;
    at.scale = b->scale ? b->scale + p * PANEL : NULL;
    at.offset = b->offset ? b->offset + p * PANEL : NULL;
    at.bias = b->bias ? b->bias + p * PANEL : NULL;
    return at;
}

/* Finishes the sums of a panel's columns: adds the bias, then takes the larger of the sum and a
 * floor. Without relu the floor is minus infinity, without a bias the bias is 0, so no sum needs a
 * test. */
typedef struct row_finish {
    vf bias[V_PANEL], least;
} row_finish;

ET_INLINE row_finish finish_of(const row_block *b)
{
    row_finish f;
    f.least = v_set(b->relu ? 0.0f : -INFINITY);
    for (int s = 0; s < V_PANEL; s++) {
        const int64_t left = b->columns - s * V_LANES;
        f.bias[s] = b->bias && left > 0 ? v_get_n(b->bias, s * V_LANES, left) : v_set(0.0f);
    }
    return f;
}

/* Vector s of row r. whole: y is float32, and the panel has no end in it. */
ET_INLINE void finish_sum(const row_block *b, int r, const row_finish *f, int s, vf sum,
                          const bool whole)
{
    const int64_t column = s * V_LANES, at = r * b->y_stride + column;
    sum = v_max(f->least, sum + f->bias[s]);
    if (whole)
        v_store((float *)b->y + at, sum);
    else if (b->columns > column)
        v_write_n(b->y, at, sum, b->columns - column, b->y_type);
}

ET_INLINE bool is_whole(const row_block *b)
{
    return b->columns >= PANEL && b->y_type == ET_F32;
}

ET_INLINE void finish_floats(const row_block *b, vf sum[][V_PANEL], const int rows)
{
    const row_finish f = finish_of(b);
    const bool whole = is_whole(b);
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < V_PANEL; s++)
            finish_sum(b, r, &f, s, sum[r][s], whole);
}

/* Whole sums to float32: q q_w sums times the row's unit times the column's scale. */
ET_INLINE void finish_bytes(const row_block *b, vi sum[][V_PANEL], const int rows)
{
    const bool whole = is_whole(b);
    const vf left = v_load(b->scale), right = v_load(b->scale + V_LANES);
    const row_finish f = finish_of(b);
    ET_UNROLL
    for (int r = 0; r < rows; r++) {
        const vf unit = v_set(b->row_scale[r]);
        finish_sum(b, r, &f, 0, v_float(sum[r][0]) * (unit * left), whole);
        finish_sum(b, r, &f, 1, v_float(sum[r][1]) * (unit * right), whole);
    }
}

/* A step of i: 2 loads, `rows` broadcasts, 2 rows multiply-adds. rows is a constant. Rows are
 * addressed from two of them: twelve from a single one would need more registers for addresses than
 * exist. */
ET_INLINE void float_block(const row_block *b, const int rows)
{
    vf sum[V_PANEL_ROWS][V_PANEL];
    const int half = (rows + 1) / 2;
    const int64_t stride = b->x_stride;
    const float *x = b->x, *lower = x + half * stride, *w = b->w;
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < V_PANEL; s++)
            sum[r][s] = v_set(0.0f);
    for (int64_t i = 0; i < b->k; i++, w += PANEL, x++, lower++) {
        const vf left = v_load(w), right = v_load(w + V_LANES);
        ET_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf value = v_set(r < half ? x[r * stride] : lower[(r - half) * stride]);
            sum[r][0] = v_fma(value, left, sum[r][0]);
            sum[r][1] = v_fma(value, right, sum[r][1]);
        }
    }
    finish_floats(b, sum, rows);
}

/* One or two rows of few sums would leave the units of multiply-add waiting for each other: so many
 * panels side by side. Each has its own sums, in the order of float_block. */
ET_INLINE void float_panels(const row_block *b, const int rows, const int panels)
{
    vf sum[4][2][V_PANEL];
    const float *x = b->x, *w = b->w;
    const int64_t panel = b->k * PANEL;
    ET_UNROLL
    for (int p = 0; p < panels; p++)
        ET_UNROLL
    for (int r = 0; r < rows; r++)
        sum[p][r][0] = sum[p][r][1] = v_set(0.0f);
    for (int64_t i = 0; i < b->k; i++, w += PANEL)
        ET_UNROLL
    for (int p = 0; p < panels; p++) {
        const vf left = v_load(w + p * panel), right = v_load(w + p * panel + V_LANES);
        ET_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf value = v_set(x[r * b->x_stride + i]);
            sum[p][r][0] = v_fma(value, left, sum[p][r][0]);
            sum[p][r][1] = v_fma(value, right, sum[p][r][1]);
        }
    }
    for (int p = 0; p < panels; p++) {
        const row_block at = at_panel(b, p);
        finish_floats(&at, sum[p], rows);
    }
}

/* Four k at a time; sums begin with the offset, which undoes the 128 that x has too much. */
ET_INLINE void byte_block(const row_block *b, const int rows)
{
    vi sum[V_PANEL_ROWS][V_PANEL];
    const uint8_t *x = b->x, *w = b->w;
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < V_PANEL; s++)
            sum[r][s] = v_load_int(b->offset + s * V_LANES);
    for (int64_t i = 0; i < b->k; i += 4, w += 4 * PANEL) {
        const vi left = v_load_int(w), right = v_load_int(w + 4 * V_LANES);
        ET_UNROLL
        for (int r = 0; r < rows; r++) {
            const vi value = v_quad(x + r * b->x_stride + i);
            sum[r][0] = v_dot(sum[r][0], value, left);
            sum[r][1] = v_dot(sum[r][1], value, right);
        }
    }
    finish_bytes(b, sum, rows);
}

/* Makes the number of rows a constant, so that their sums are registers. A number above
 * V_PANEL_ROWS never occurs; its case is compiled as one row, so that no table needs its own list.
 */
#define ROWS_CASE(rows)                                                                            \
    case rows:                                                                                     \
        if ((rows) > V_PANEL_ROWS)                                                                 \
            break;                                                                                 \
        if (kind == ET_ROW_F32)                                                                    \
            float_block(b, (rows) <= V_PANEL_ROWS ? (rows) : 1);                                   \
        else                                                                                       \
            byte_block(b, (rows) <= V_PANEL_ROWS ? (rows) : 1);                                    \
        break

/* rows is in 1 .. V_PANEL_ROWS. */
static void run_block(const row_block *b, et_row_kind kind, int rows)
{
    switch (rows) {
        ROWS_CASE(1);
        ROWS_CASE(2);
        ROWS_CASE(3);
        ROWS_CASE(4);
        ROWS_CASE(5);
        ROWS_CASE(6);
        ROWS_CASE(7);
        ROWS_CASE(8);
        ROWS_CASE(9);
        ROWS_CASE(10);
        ROWS_CASE(11);
        ROWS_CASE(12);
    }
}

/* All rows times panel p of a product whose block is `whole`. Blocks of rows are of nearly equal
 * size: 14 rows are 7 and 7, not 12 and 2. */
static void run_panel(const row_block *whole, const et_row_weight *weight, int64_t rows, int64_t p)
{
    const row_block panel = at_panel(whole, p);
    row_block b = panel;
    const int64_t blocks = (rows + V_PANEL_ROWS - 1) / V_PANEL_ROWS;
    const size_t element = weight->kind == ET_ROW_F32 ? sizeof(float) : 1;
    const int64_t depth = weight->kind == ET_ROW_F32 ? weight->k : (weight->k + 3) / 4 * 4;
    const char *x = b.x;
    b.w = (const char *)weight->panels + (size_t)(p * PANEL * depth) * element;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = rows * i / blocks, last = rows * (i + 1) / blocks;
        b.x = x + (size_t)(first * b.x_stride) * element;
        b.y = y_at(&panel, first * b.y_stride);
        b.row_scale = whole->row_scale ? whole->row_scale + first : NULL;
        run_block(&b, weight->kind, (int)(last - first));
    }
}

/* The scale of a row's bytes: x is about unit (q - 128). */
typedef struct byte_scale {
    float unit, inverse;
} byte_scale;

/* As pack_bytes does a column. The sum over vectors has one order, so a row has the same bytes and
 * unit everywhere. Zeros give 0 for both; a number that is not finite gives a unit of NaN. */
static byte_scale quantize_row(uint8_t *q, const void *x, int64_t k, et_dtype dtype)
{
    vf most = v_set(0.0f);
    for (int64_t i = 0; i < k; i += V_LANES) {
        const vf value = v_read_n(x, i, k - i, dtype);
        most = v_max(v_max(value, v_set(0.0f) - value), most);
    }
    const float largest = v_largest(most);
    const float inverse = largest >= ET_ROW_SMALLEST ? 127.0f / largest : 0.0f;
    vf cross = v_set(0.0f), square = v_set(0.0f);
    for (int64_t i = 0; i < k; i += V_LANES) {
        const vf value = v_read_n(x, i, k - i, dtype), whole = v_round(value * v_set(inverse));
        v_store_bytes(q + i, whole + v_set(128.0f));
        cross = v_fma(value, whole, cross);
        square = v_fma(whole, whole, square);
    }
    const float sum = v_sum(square);
    return (byte_scale){ sum == 0 ? 0.0f : v_sum(cross) / sum, inverse };
}

/* After the last k, up to a multiple of four, a row's bytes meet zeros of the weight. */
static void quantize_rows(uint8_t *q, float *unit, const void *x, int64_t k, et_dtype dtype,
                          int64_t begin, int64_t end)
{
    const int64_t stride = et_row_stride(k);
    const size_t row = (size_t)k * (dtype == ET_BF16 ? sizeof(et_bf16) : sizeof(float));
    for (int64_t r = begin; r < end; r++)
        unit[r] = quantize_row(q + r * stride, (const char *)x + (size_t)r * row, k, dtype).unit;
}

static void widen_rows(float *to, const et_bf16 *x, int64_t k, int64_t begin, int64_t end)
{
    for (int64_t i = begin * k; i < end * k; i += V_LANES)
        v_put_n(to, i, v_read_n(x, i, end * k - i, ET_BF16), end * k - i);
}

/* Panels p to p + 3 of one row, p and p + 1 of two. */
static void run_few(const row_block *whole, const et_row_weight *weight, int64_t rows, int64_t p)
{
    row_block b = at_panel(whole, p);
    b.w = (const float *)weight->panels + p * PANEL * weight->k;
    if (rows == 1)
        float_panels(&b, 1, 4);
    else
        float_panels(&b, 2, 2);
}

/* Panels begin .. end - 1; b: the whole product's. */
static void run_panels(const row_block *b, const et_row_weight *weight, int64_t rows, int64_t begin,
                       int64_t end)
{
    int64_t p = begin;
    const int64_t few = rows == 1 ? 4 : rows == 2 ? 2 : 0;
    const int64_t wide = weight->kind == ET_ROW_F32 ? few : 0;
    for (; wide && p + wide <= end; p += wide)
        run_few(b, weight, rows, p);
    for (; p < end; p++)
        run_panel(b, weight, rows, p);
}

/* Rows become bytes, or wider, first, all of them before the first panel: the end of ET_PARALLEL is
 * a barrier. */
static void row_product(void *y, const void *x, const et_row_product *shape)
{
    const et_row_weight *weight = shape->weight;
    const int64_t rows = shape->rows, panels = (weight->n + PANEL - 1) / PANEL, k = weight->k;
    row_block b = { .x = x,
                    .y = y,
                    .y_type = shape->y,
                    .scale = weight->scale,
                    .offset = weight->offset,
                    .bias = shape->bias,
                    .k = k,
                    .x_stride = k,
                    .y_stride = weight->n,
                    .columns = weight->n,
                    .relu = shape->relu };
    et_assert(weight->panel == PANEL);
    if (weight->kind == ET_ROW_INT8) {
        const int64_t stride = et_row_stride(k);
        uint8_t *bytes = shape->scratch;
        float *scale = (float *)(void *)(bytes + rows * stride);
        ET_PARALLEL(rows * k >= ET_GRAIN, rows, 1, quantize_rows, bytes, scale, x, k, shape->x);
        b.x = bytes;
        b.x_stride = stride;
        b.row_scale = scale;
    } else if (shape->x == ET_BF16) {
        ET_PARALLEL(rows * k >= ET_GRAIN, rows, 1, widen_rows, shape->scratch, x, k);
        b.x = shape->scratch;
    }
    ET_PARALLEL(rows * weight->n * k >= ROW_GRAIN, panels, 1, run_panels, &b, weight, rows);
}

#endif
