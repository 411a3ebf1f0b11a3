#include "engine/kernel/copies.h"

#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "engine/kernel/parallel.h"

static void blocks_part(const et_blocks *b, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        memcpy(b->to + (size_t)i * b->to_stride, b->from + (size_t)i * b->from_stride, b->bytes);
}

void et_copy_blocks(const et_blocks *b)
{
    const bool much = b->blocks * (int64_t)b->bytes >= 4 * ET_GRAIN;
    ET_PARALLEL(much, b->blocks, 1, blocks_part, b);
}

static void rows_part(char *y, const char *x, const int32_t *row, size_t bytes, int64_t begin,
                      int64_t end)
{
    for (int64_t r = begin; r < end; r++)
        if (row[r] < 0)
            memset(y + (size_t)r * bytes, 0, bytes);
        else
            memcpy(y + (size_t)r * bytes, x + (size_t)row[r] * bytes, bytes);
}

void et_copy_rows(void *y, const void *x, const int32_t *row, int64_t rows, size_t bytes)
{
    const bool much = rows * (int64_t)bytes >= 4 * ET_GRAIN;
    ET_PARALLEL(much, rows, 1, rows_part, y, x, row, bytes);
}

static void one_hot_part(void *y, const int32_t *ids, int64_t depth, et_dtype dtype, int64_t begin,
                         int64_t end)
{
    const size_t row = (size_t)depth * et_dtype_size(dtype);
    memset((char *)y + (size_t)begin * row, 0, (size_t)(end - begin) * row);
    for (int64_t t = begin; t < end; t++) {
        if (ids[t] < 0 || ids[t] >= depth)
            continue;
        if (dtype == ET_BF16)
            ((et_bf16 *)y)[t * depth + ids[t]] = et_bf16_from_float(1);
        else
            ((float *)y)[t * depth + ids[t]] = 1;
    }
}

void et_write_one_hot(void *y, const int32_t *ids, int64_t rows, int64_t depth, et_dtype dtype)
{
    et_assert(dtype != ET_I32);
    ET_PARALLEL(rows * depth >= ET_GRAIN, rows, 1, one_hot_part, y, ids, depth, dtype);
}

static void numbers_part(void *y, const int32_t *x, et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        if (dtype == ET_BF16)
            ((et_bf16 *)y)[i] = et_bf16_from_float((float)x[i]);
        else
            ((float *)y)[i] = (float)x[i];
}

void et_write_numbers(void *y, const int32_t *x, int64_t count, et_dtype dtype)
{
    et_assert(dtype != ET_I32);
    ET_PARALLEL(count >= ET_GRAIN, count, 1, numbers_part, y, x, dtype);
}
