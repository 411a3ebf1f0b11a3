/* Sizes and their parts, for code that divides arrays. */
#ifndef ETUDE_ENGINE_KERNEL_SIZES_H
#define ETUDE_ENGINE_KERNEL_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

static inline int64_t et_smaller(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

/* The number of parts of that size, including a last partial one. */
static inline int64_t et_part_count(int64_t whole, int64_t part)
{
    return (whole + part - 1) / part;
}

static inline int64_t et_round_up(int64_t value, int64_t multiple)
{
    return et_part_count(value, multiple) * multiple;
}

/* Element i of an array. */
static inline void *et_element_at(const void *array, int64_t i, et_dtype dtype)
{
    return (char *)array + i * et_dtype_size(dtype);
}

/* Bytes in whole lines of the cache, as kernels want their memory. */
static inline size_t et_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#endif
