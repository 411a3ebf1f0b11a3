/* Packs weights for products of rows: the part that is the same for every instruction set.
 * row_product.h describes the layouts and the conversion to bytes.
 *
 * As bytes, column w of a weight becomes scale q: q = round(127 w / max|w|), scale = (w . q) / (q .
 * q), rounded to 16 bits. The lengths of scale q and of the rest, w - scale q, are stored with the
 * bytes: best_tokens.inc.c uses them to bound the error of a logit computed from bytes.
 *
 * Example: w = (1, -0.5, 0.26). 127 / 1 = 127, so q = (127, -64, 33) with -63.5 rounded to the even
 * neighbour; w . q = 127 + 32 + 8.58 = 167.58, q . q = 21314, scale = 0.0078624.
 *
 * x has values 0 .. 255, because the instructions need one unsigned side: u = q + 128. The sum is
 * then too large by 128 times the sum of the column's bytes, which `offset` subtracts: sum u q_w +
 * offset = sum q q_w. All are whole numbers, so the sum is exact in any order. */
#include "engine/kernel/row_product.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/inline.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/sizes.h"

/* Added to a float32 below 2^22 and subtracted again: the nearest whole number, as rintf. */
#define NEAREST 0x1.8p23f

/* Bounds the error of a sum of k products in float32, for |x| |w| = 1: k roundings of half a unit
 * each, and as many again for the bound's own sum. */
static double rounding(int64_t k)
{
    return (double)(2 * k + 16) * 0x1p-24;
}

/* Bytes of the panels. */
static size_t panels_size(int64_t columns, int64_t k, et_row_kind kind)
{
    return kind == ET_ROW_F32 ? columns * k * sizeof(float) : (size_t)(columns * et_round_up(k, 4));
}

/* Bytes have four arrays of a number per column after the panels. */
size_t et_row_weight_size(int64_t panel, int64_t n, int64_t k, et_row_kind kind)
{
    int64_t columns = et_round_up(n, panel);
    size_t size = et_lines(panels_size(columns, k, kind));
    return kind == ET_ROW_F32 ? size : size + 4 * et_lines(columns * sizeof(float));
}

/* Only computes pointers: nothing is written. Each part of the memory begins at a cache line:
 * panels, then for bytes scale, offset, length, error. */
et_row_weight et_row_weight_at(void *memory, int64_t panel, int64_t n, int64_t k, et_row_kind kind)
{
    et_assert(panel >= 1 && n >= 1 && k >= 1);
    et_assert(kind == ET_ROW_F32 || k <= ET_ROW_BYTES_MAX);
    et_row_weight weight = { .kind = kind, .n = n, .k = k, .panel = panel, .panels = memory };
    int64_t columns = et_round_up(n, panel);
    size_t line = et_lines(columns * sizeof(float));
    char *next = (char *)memory + et_lines(panels_size(columns, k, kind));
    if (kind == ET_ROW_INT8) {
        weight.scale = (float *)(void *)next;
        weight.offset = (int32_t *)(void *)(next + line);
        weight.length = (float *)(void *)(next + 2 * line);
        weight.error = (float *)(void *)(next + 3 * line);
    }
    return weight;
}

/* Element (i, j) of W is from[i * row + j * column]. */
typedef struct source {
    const void *from;
    et_dtype dtype;
    int64_t row, column;
} source;

ET_INLINE float element(const void *from, int64_t at, et_dtype dtype)
{
    return dtype == ET_BF16 ? et_bf16_to_float(((const et_bf16 *)from)[at])
                            : ((const float *)from)[at];
}

/* k rows of `panel` columns side by side; zeros after the last column. dtype and next, the distance
 * between columns, are constants if that makes it a copy. */
ET_INLINE void pack_rows(const et_row_weight *w, int64_t panel, source s, et_dtype dtype,
                         int64_t next)
{
    float *to = (float *)w->panels + panel * w->k * w->panel;
    const int64_t first = panel * w->panel, columns = et_smaller(w->n - first, w->panel);
    for (int64_t i = 0; i < w->k; i++, to += w->panel) {
        const int64_t at = i * s.row + first * next;
        for (int64_t c = 0; c < columns; c++)
            to[c] = element(s.from, at + c * next, dtype);
        for (int64_t c = columns; c < w->panel; c++)
            to[c] = 0;
    }
}

/* A column as bytes, and sums over it: q, q q, x q, x x. */
typedef struct quantized {
    int32_t sum;
    double square, cross, whole;
} quantized;

/* Byte i of the column goes to to[i / 4 * four + i % 4 * one]. */
static quantized quantize_column(int8_t *to, int64_t four, int64_t one, const float *from,
                                 int64_t step, int64_t k)
{
    quantized t = { 0, 0, 0, 0 };
    float largest = 0;
    for (int64_t i = 0; i < k; i++) {
        const float size = fabsf(from[i * step]);
        largest = size > largest ? size : largest;
    }
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (int64_t i = 0; i < k; i++) {
        const float x = from[i * step], near = x * inverse + NEAREST - NEAREST;
        const float q = fabsf(near) <= 127.0f ? near : 0.0f;
        to[i / 4 * four + i % 4 * one] = (int8_t)q;
        t.sum += (int32_t)q;
        t.square += (double)q * q;
        t.cross += (double)x * q;
        t.whole += (double)x * x;
    }
    return t;
}

/* NaN if the column has a number that is not finite; then all results of the column are NaN. */
static float scale_of(quantized t)
{
    return !isfinite(t.whole) ? NAN : t.square > 0 ? (float)(t.cross / t.square) : 0;
}

/* Rounds to 16 bits: times a q of 7 bits it is exact in float32, so that packing the unpacked
 * values gives these bytes and this scale again. */
static float shorten(float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + 0x80) & ~(uint32_t)0xff;
    memcpy(&scale, &bits, sizeof bits);
    return scale;
}

/* Packs column j; to is the place of its first four bytes. A column of zeros has scale 0; a column
 * with a number that is not finite gets NaN, so that the fault is not lost.
 *
 * Four rows of a column are four adjacent bytes, and the columns of a panel follow one another, as
 * v_dot reads them. `error` includes the rounding of float32 sums, so that a bound made from it
 * holds for the computed values. */
static void pack_bytes(const et_row_weight *w, int64_t j, int8_t *to, source s)
{
    const float *from = (const float *)s.from + j * s.column;
    const quantized t = quantize_column(to, 4 * w->panel, 1, from, s.row, w->k);
    const double scale = isfinite(t.whole) ? shorten(scale_of(t)) : 0;
    const double rest = t.whole - 2 * scale * t.cross + scale * scale * t.square;
    w->scale[j] = isfinite(t.whole) ? (float)scale : NAN;
    w->offset[j] = -128 * t.sum;
    w->length[j] = (float)(scale * sqrt(t.square));
    w->error[j] = (float)(sqrt(fmax(0, rest)) + rounding(w->k) * sqrt(t.whole));
}

/* The whole panel is zeroed first: columns after n and rows after k then give 0. */
static void pack_panel(const et_row_weight *w, int64_t panel, source s)
{
    if (w->kind == ET_ROW_F32) {
        if (s.dtype == ET_BF16 && s.column == 1)
            pack_rows(w, panel, s, ET_BF16, 1);
        else if (s.dtype == ET_BF16)
            pack_rows(w, panel, s, ET_BF16, s.column);
        else if (s.column == 1)
            pack_rows(w, panel, s, ET_F32, 1);
        else
            pack_rows(w, panel, s, ET_F32, s.column);
        return;
    }
    size_t size = et_round_up(w->k, 4) * w->panel;
    int8_t *to = (int8_t *)w->panels + (size_t)panel * size;
    memset(to, 0, size);
    for (int64_t c = 0; c < w->panel; c++) {
        int64_t j = panel * w->panel + c;
        if (j < w->n)
            pack_bytes(w, j, to + 4 * c, s);
        else
            w->scale[j] = w->length[j] = w->error[j] = 0, w->offset[j] = 0;
    }
}

/* Panels are independent, so each free thread takes the next one. */
void et_row_weight_pack(const et_row_weight *weight, const void *from, et_dtype dtype,
                        bool transposed)
{
    et_assert(weight->panels && from);
    et_assert(dtype == ET_F32 || (dtype == ET_BF16 && weight->kind == ET_ROW_F32));
    source s = { from, dtype, transposed ? 1 : weight->n, transposed ? weight->k : 1 };
    int64_t panels = et_part_count(weight->n, weight->panel);
#pragma omp parallel for schedule(static) if (!omp_in_parallel() && weight->n * weight->k > 65536)
    for (int64_t panel = 0; panel < panels; panel++)
        pack_panel(weight, panel, s);
}

int64_t et_row_stride(int64_t k)
{
    return (int64_t)et_lines((size_t)k);
}

/* Bytes of each row of x, and its unit. */
size_t et_row_scratch(int64_t rows, int64_t k, et_row_kind kind, et_dtype x)
{
    if (kind == ET_ROW_F32)
        return x == ET_F32 ? 0 : rows * k * sizeof(float);
    return (size_t)(rows * et_row_stride(k)) + et_lines(rows * sizeof(float));
}

void et_row_weight_to_bytes(int8_t *q, float *scale, const float *w, int64_t rows, int64_t columns,
                            bool by_rows)
{
    const int64_t count = by_rows ? rows : columns, k = by_rows ? columns : rows;
    const int64_t step = by_rows ? 1 : columns, next = by_rows ? columns : 1;
    et_assert(k <= ET_ROW_BYTES_MAX);
    for (int64_t j = 0; j < count; j++)
        scale[j] =
            shorten(scale_of(quantize_column(q + j * next, 4 * step, step, w + j * next, step, k)));
}

void et_row_weight_from_bytes(float *w, const int8_t *q, const float *scale, int64_t rows,
                              int64_t columns, bool by_rows)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            w[i * columns + j] = scale[by_rows ? i : j] * q[i * columns + j];
}

/* ---- best tokens ---- */

/* The scratch of best_tokens.inc.c, with one layout for all tables. et_best_buffers_at cuts it, and
 * et_best_scratch calls et_best_buffers_at for its size, so the two cannot disagree. */

/* Takes the next `bytes` of the memory, in whole cache lines. memory may be NULL to compute only
 * the size: the pointers are not used then. */
static void *take(char *memory, size_t *used, size_t bytes)
{
    void *part = memory + *used;
    *used += et_lines(bytes);
    return part;
}

/* One thread's room; every part begins at a line of cache. */
et_best_buffers et_best_buffers_at(void *scratch, const et_row_weight *weight)
{
    et_best_buffers room = { 0 };
    size_t rows = ET_BEST_ROWS, width = (size_t)weight->k;
    room.columns = et_round_up(weight->n, weight->panel);
    room.logits = take(scratch, &room.size, rows * (size_t)room.columns * sizeof(float));
    room.x = take(scratch, &room.size, rows * width * sizeof(float));
    room.bytes = take(scratch, &room.size, rows * (size_t)et_row_stride(weight->k));
    room.scale = take(scratch, &room.size, rows * sizeof(float));
    room.group = take(scratch, &room.size, ET_BEST_GROUPS * sizeof(float));
    room.open_logit = take(scratch, &room.size, ET_BEST_OPEN * sizeof(float));
    room.open_token = take(scratch, &room.size, ET_BEST_OPEN * sizeof(int32_t));
    return room;
}

/* The bytes that one thread needs, a multiple of 64. */
size_t et_best_scratch(const et_row_weight *weight)
{
    et_assert(weight->kind == ET_ROW_INT8);
    char nothing[1];
    return et_best_buffers_at(nothing, weight).size;
}
