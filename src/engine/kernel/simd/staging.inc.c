/* Staging for matrix products (arguments.h). Everything that is transposed goes through V_LANES x
 * V_LANES squares of 32-bit units in registers; a pair of bfloat16 is one unit.
 *
 * Transposing element by element would load a cache line for each element, and use a sixteenth of
 * it. A square reads V_LANES runs of V_LANES units and writes as many, so with 16 lanes of float32
 * each line is used whole; between them the square is in registers.
 *
 * Targets are dense, [to_rows, to_columns]. Whole vectors and squares take a path without masks;
 * only those at an edge check the end of the source. */
#ifndef ETUDE_KERNEL_STAGING_INC_C
#define ETUDE_KERNEL_STAGING_INC_C

#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/simd/simd.h"

/* The address of element (row, column). */
ET_INLINE const void *stored_at(const et_stored *from, int64_t row, int64_t column)
{
    return (const char *)from->data +
           (size_t)(row * from->stride + column) * (from->dtype == ET_BF16 ? 2 : 4);
}

/* One row of n elements, the rest of `width` zeroed. Whole vectors go four at a time: a panel's
 * row is that wide on the widest CPUs. */
ET_INLINE void stage_row(float *to, int64_t width, const void *from, int64_t n, et_dtype dtype)
{
    int64_t j = 0;
    for (; j + 4 * V_LANES <= n; j += 4 * V_LANES)
        ET_UNROLL
    for (int k = 0; k < 4; k++)
        v_store(to + j + k * V_LANES, v_read(from, j + k * V_LANES, dtype));
    for (; j < width; j += V_LANES)
        v_put_n(to, j, j < n ? v_read_n(from, j, n - j, dtype) : v_set(0.0f), width - j);
}

/* bfloat16 becomes float32 on the way, exactly. */
ET_INLINE void rows_float(float *to, int64_t to_rows, int64_t to_columns, const et_stored *from,
                          et_dtype dtype)
{
    for (int64_t i = 0; i < from->rows; i++)
        stage_row(to + i * to_columns, to_columns, stored_at(from, i, 0), from->columns, dtype);
    for (int64_t i = from->rows; i < to_rows; i++)
        stage_row(to + i * to_columns, to_columns, NULL, 0, dtype);
}

/* Two elements a lane: the type stays, so bits are moved and not converted. */
static void rows_bf16(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from)
{
    for (int64_t i = 0; i < to_rows; i++)
        for (int64_t j = 0; j < to_columns; j += 2 * V_LANES) {
            const int64_t n = i < from->rows ? from->columns - j : 0;
            vf units = n > 0 ? v_load_units_n(stored_at(from, i, j), n) : v_set(0.0f);
            v_store_units_n(to + i * to_columns + j, units, to_columns - j);
        }
}

/* By type once, outside all loops. */
static void stage_rows(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                       const et_stored *from)
{
    et_assert(from->rows <= to_rows && from->columns <= to_columns);
    if (dtype == ET_BF16)
        rows_bf16(to, to_rows, to_columns, from);
    else
        ET_BY_DTYPE(from->dtype, rows_float, to, to_rows, to_columns, from);
}

/* The square of float32 or bfloat16 elements from (i, j) on, transposed; zeros beyond. */
ET_INLINE void take_square(vf square[V_LANES], const et_stored *from, int64_t i, int64_t j,
                           et_dtype dtype)
{
    /* Elements beyond the source read as zero, row by row. */
    const int64_t columns = from->columns - j;
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        square[r] = i + r < from->rows && columns > 0
                        ? v_read_n(stored_at(from, i + r, j), 0, columns, dtype)
                        : v_set(0.0f);
    v_transpose(square);
}

/* The same for a whole square, to a whole square. */
ET_INLINE void move_square(float *to, int64_t to_stride, const et_stored *from, int64_t i,
                           int64_t j, et_dtype dtype)
{
    const void *x = from->data;
    const int64_t at = i * from->stride + j;
    vf square[V_LANES];
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        square[r] = v_read(x, at + r * from->stride, dtype);
    v_transpose(square);
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        v_store(to + r * to_stride, square[r]);
}

/* Works in squares: whole squares are stored directly from registers, squares at an edge are
 * masked. */
ET_INLINE void across_float(float *to, int64_t to_rows, int64_t to_columns, const et_stored *from,
                            et_dtype dtype)
{
    for (int64_t i = 0; i < to_columns; i += V_LANES)
        for (int64_t j = 0; j < to_rows; j += V_LANES) {
            if (i + V_LANES <= from->rows && j + V_LANES <= from->columns) {
                move_square(to + j * to_columns + i, to_columns, from, i, j, dtype);
                continue;
            }
            vf square[V_LANES];
            take_square(square, from, i, j, dtype);
            const int rows = to_rows - j < V_LANES ? (int)(to_rows - j) : V_LANES;
            for (int r = 0; r < rows; r++)
                v_store_n(to + (j + r) * to_columns + i, square[r], to_columns - i);
        }
}

/* Lane c: elements (i, j + c) and (i + 1, j + c), those beyond from as zeros. */
ET_INLINE vf row_pair(const et_stored *from, int64_t i, int64_t j)
{
    static const et_bf16 zeros[V_LANES] = { 0 };
    const int64_t columns = from->columns - j;
    if (i >= from->rows || columns <= 0)
        return v_set(0.0f);
    const et_bf16 *next = i + 1 < from->rows ? stored_at(from, i + 1, j) : zeros;
    return v_load_pairs_n(stored_at(from, i, j), next, columns);
}

/* Units of two rows, transposed, are runs of 2 V_LANES elements.
 *
 * Two rows of the source, i and i + 1, make a lane for each column; transposed, a register has 2
 * V_LANES neighbours of one row of the target. Example with two lanes, rows a and b, c and d of the
 * source, columns 0 and 1:
 *   (a0 b0) (a1 b1)          (a0 b0) (c0 d0)   row 0 of the target: a0 b0 c0 d0
 *   (c0 d0) (c1 d1)    ->    (a1 b1) (c1 d1)   row 1: a1 b1 c1 d1 */
static void across_bf16(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from)
{
    for (int64_t i = 0; i < to_columns; i += 2 * V_LANES)
        for (int64_t j = 0; j < to_rows; j += V_LANES) {
            vf square[V_LANES];
            ET_UNROLL
            for (int r = 0; r < V_LANES; r++)
                square[r] = row_pair(from, i + 2 * r, j);
            v_transpose(square);
            const int rows = to_rows - j < V_LANES ? (int)(to_rows - j) : V_LANES;
            ET_UNROLL
            for (int r = 0; r < V_LANES; r++)
                if (r < rows)
                    v_store_units_n(to + (j + r) * to_columns + i, square[r], to_columns - i);
        }
}

/* Rows of the source are columns of the target, so the bounds are exchanged. */
static void stage_across(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                         const et_stored *from)
{
    et_assert(from->rows <= to_columns && from->columns <= to_rows);
    if (dtype == ET_BF16)
        across_bf16(to, to_rows, to_columns, from);
    else
        ET_BY_DTYPE(from->dtype, across_float, to, to_rows, to_columns, from);
}

/* Interleaves two rows into one of twice the width: element j of the first, element j of the
 * second, and so on, as dot products of pairs read them. */
static void stage_row_pairs(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from)
{
    et_assert(from->rows <= to_rows && from->columns <= to_columns && to_rows % 2 == 0);
    for (int64_t i = 0; i < to_rows; i += 2, to += 2 * to_columns) {
        const et_bf16 *row = (const et_bf16 *)from->data + i * from->stride;
        const int64_t whole = i + 1 < from->rows ? from->columns / V_LANES * V_LANES : 0;
        const int64_t filled = i < from->rows ? from->columns : 0;
        for (int64_t j = 0; j < whole; j += V_LANES)
            v_store_units(to + 2 * j, v_load_pairs(row + j, row + from->stride + j));
        for (int64_t j = whole; j < to_columns; j += V_LANES) {
            if (j >= filled && j + V_LANES <= to_columns)
                v_store_units(to + 2 * j, v_set(0.0f));
            else
                v_store_units_n(to + 2 * j, row_pair(from, i, j), 2 * (to_columns - j));
        }
    }
}

/* A whole square of units onto a whole one; x: its first, rows `stride` elements apart. */
ET_INLINE void move_units(et_bf16 *to, int64_t to_stride, const et_bf16 *x, int64_t stride)
{
    vf square[V_LANES];
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        square[r] = v_load_units(x + r * stride);
    v_transpose(square);
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        v_store_units(to + r * to_stride, square[r]);
}

/* A square at an edge: elements beyond the source read as zero, and nothing is written beyond the
 * target, of which `pairs` rows of units and `columns` columns are left. */
static void edge_units(et_bf16 *to, int64_t to_stride, int64_t pairs, int64_t columns,
                       const et_stored *from, int64_t i, int64_t j)
{
    vf square[V_LANES];
    const int64_t left = from->columns - j;
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        square[r] = i + r < from->rows && left > 0 ? v_load_units_n(stored_at(from, i + r, j), left)
                                                   : v_set(0.0f);
    v_transpose(square);
    ET_UNROLL
    for (int r = 0; r < V_LANES; r++)
        if (r < pairs)
            v_store_units_n(to + r * to_stride, square[r], 2 * columns);
}

/* A pair in the target is two neighbours of a row of the source, moved as one unit. So neither the
 * order within a pair nor the rounding of an element changes. to_rows is even: rows come two at a
 * time. */
static void stage_pairs_across(et_bf16 *to, int64_t to_rows, int64_t to_columns,
                               const et_stored *from)
{
    et_assert(from->rows <= to_columns && from->columns <= to_rows && to_rows % 2 == 0);
    for (int64_t i = 0; i < to_columns; i += V_LANES)
        for (int64_t j = 0; j < to_rows; j += 2 * V_LANES) {
            et_bf16 *part = to + j * to_columns + 2 * i;
            const bool fits = i + V_LANES <= to_columns && j + 2 * V_LANES <= to_rows;
            if (i + V_LANES <= from->rows && j + 2 * V_LANES <= from->columns)
                move_units(part, 2 * to_columns, stored_at(from, i, j), from->stride);
            else if (fits && (i >= from->rows || j >= from->columns))
                for (int r = 0; r < V_LANES; r++)
                    v_store_units(part + 2 * r * to_columns, v_set(0.0f));
            else
                edge_units(part, 2 * to_columns, (to_rows - j) / 2, to_columns - i, from, i, j);
        }
}

/* The order of the sum is part of the result's bits: parts, bias, relu, C's old value. v_max with
 * the sum as second operand keeps a NaN. */
ET_INLINE void finish_row(const et_finish *how, void *c, const float *from, et_dtype dtype)
{
    for (int64_t j = 0; j < how->columns; j += V_LANES) {
        const int64_t n = how->columns - j;
        vf sum = v_get_n(from, j, n);
        for (int64_t part = 1; part < how->parts; part++)
            sum = sum + v_get_n(from + part * how->part_stride, j, n);
        if (how->bias)
            sum = sum + v_get_n(how->bias, j, n);
        if (how->relu)
            sum = v_max(v_set(0.0f), sum);
        if (how->accumulate)
            sum = sum + v_get_n(c, j, n);
        v_write_n(c, j, sum, n, dtype);
    }
}

/* A row of C at a time; from is the first part's. */
static void stage_finish(const et_finish *how, void *c, const float *from)
{
    et_assert(how->parts >= 1 && !(how->accumulate && how->c != ET_F32));
    const size_t row = (size_t)how->c_stride * (how->c == ET_BF16 ? 2 : 4);
    for (int64_t i = 0; i < how->rows; i++)
        ET_BY_DTYPE(how->c, finish_row, how, (char *)c + (size_t)i * row,
                    from + i * how->from_stride);
}

ET_INLINE void relu_row(void *c, int64_t columns, et_dtype dtype)
{
    for (int64_t j = 0; j < columns; j += V_LANES) {
        const int64_t n = columns - j;
        v_write_n(c, j, v_max(v_set(0.0f), v_read_n(c, j, n, dtype)), n, dtype);
    }
}

/* Widening a bfloat16 and rounding it again changes nothing. */
static void stage_relu(void *c, int64_t rows, int64_t columns, int64_t stride, et_dtype dtype)
{
    et_assert(columns <= stride);
    const size_t row = (size_t)stride * et_dtype_size(dtype);
    for (int64_t i = 0; i < rows; i++)
        ET_BY_DTYPE(dtype, relu_row, (char *)c + (size_t)i * row, columns);
}

/* The table's rows for staging, as et_kernels has it. */
static const et_staging staging = {
    .rows = stage_rows,
    .across = stage_across,
    .row_pairs = stage_row_pairs,
    .pairs_across = stage_pairs_across,
    .finish = stage_finish,
    .relu = stage_relu,
};

#endif
