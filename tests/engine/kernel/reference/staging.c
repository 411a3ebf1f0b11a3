/* Staging by its definitions: every element is read from its place in the source, or is 0 beyond
 * the source, and is stored by the layout's formula (arguments.h). Conversions use double, which
 * holds both types exactly. */
#include <string.h>

#include "engine/kernel/reference/reference.h"

/* Element (i, j) of the stored matrix, 0 beyond it. */
static double stored(const et_stored *from, int64_t i, int64_t j)
{
    bool inside = i < from->rows && j < from->columns;
    return inside ? et_reference_load(from->data, i * from->stride + j, from->dtype) : 0;
}

/* to[i, j] = from[i, j] */
static void rows(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                 const et_stored *from)
{
    for (int64_t i = 0; i < to_rows; i++)
        for (int64_t j = 0; j < to_columns; j++)
            et_reference_store(to, i * to_columns + j, stored(from, i, j), dtype);
}

/* to[j, i] = from[i, j] */
static void across(void *to, int64_t to_rows, int64_t to_columns, et_dtype dtype,
                   const et_stored *from)
{
    for (int64_t j = 0; j < to_rows; j++)
        for (int64_t i = 0; i < to_columns; i++)
            et_reference_store(to, j * to_columns + i, stored(from, i, j), dtype);
}

/* to[i / 2, j, i % 2] = from[i, j] */
static void row_pairs(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from)
{
    for (int64_t i = 0; i < to_rows; i++)
        for (int64_t j = 0; j < to_columns; j++)
            et_reference_store(to, (i / 2 * to_columns + j) * 2 + i % 2, stored(from, i, j),
                               ET_BF16);
}

/* to[j / 2, i, j % 2] = from[i, j] */
static void pairs_across(et_bf16 *to, int64_t to_rows, int64_t to_columns, const et_stored *from)
{
    for (int64_t j = 0; j < to_rows; j++)
        for (int64_t i = 0; i < to_columns; i++)
            et_reference_store(to, (j / 2 * to_columns + i) * 2 + j % 2, stored(from, i, j),
                               ET_BF16);
}

/* relu(sum of parts + bias). Column j of the row that `from` begins. */
static double finished(const et_finish *how, const float *from, int64_t j)
{
    double sum = how->bias ? how->bias[j] : 0;
    for (int64_t part = 0; part < how->parts; part++)
        sum += from[part * how->part_stride + j];
    return how->relu ? et_reference_relu(sum) : sum;
}

/* c = finished, or c += finished. */
static void finish(const et_finish *how, void *c, const float *from)
{
    for (int64_t i = 0; i < how->rows; i++)
        for (int64_t j = 0; j < how->columns; j++) {
            double value = finished(how, from + i * how->from_stride, j);
            if (how->accumulate)
                value += et_reference_load(c, i * how->c_stride + j, how->c);
            et_reference_store(c, i * how->c_stride + j, value, how->c);
        }
}

/* c = relu(c) */
static void relu(void *c, int64_t rows, int64_t columns, int64_t stride, et_dtype dtype)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            et_reference_store(c, i * stride + j,
                               et_reference_relu(et_reference_load(c, i * stride + j, dtype)),
                               dtype);
}

/* The reference's rows for staging. */
const et_staging et_reference_staging = {
    .rows = rows,
    .across = across,
    .row_pairs = row_pairs,
    .pairs_across = pairs_across,
    .finish = finish,
    .relu = relu,
};
