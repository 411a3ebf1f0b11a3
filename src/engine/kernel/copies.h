/* Copies of elements of any type: nothing is computed, so there is one version, with memcpy. Blocks
 * and rows are divided among threads. */
#ifndef ETUDE_ENGINE_KERNEL_COPIES_H
#define ETUDE_ENGINE_KERNEL_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

/* `blocks` pieces of `bytes` bytes each, which begin every stride bytes: to[i] = from[i]. */
typedef struct et_blocks {
    char *to;
    const char *from;
    size_t to_stride, from_stride, bytes;
    int64_t blocks;
} et_blocks;

void et_copy_blocks(const et_blocks *blocks);

/* y[r] = x[row[r]], rows of `bytes` bytes; a negative row is zeros. */
void et_copy_rows(void *y, const void *x, const int32_t *row, int64_t rows, size_t bytes);

/* y[t, ids[t]] = 1, all else 0; ids outside 0 .. depth - 1 have no 1. */
void et_write_one_hot(void *y, const int32_t *ids, int64_t rows, int64_t depth, et_dtype dtype);

/* y[i] = x[i] as float32 or bfloat16. */
void et_write_numbers(void *y, const int32_t *x, int64_t count, et_dtype dtype);

#endif
