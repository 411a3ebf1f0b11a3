#include "kernel/gemm_stage.h"

#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"

enum { BLOCK = 64 }; /* columns summed at a time: they stay in registers */

void et_gemm_slab(void *slab, int64_t slab_rows, int64_t slab_columns, const void *from,
                  int64_t rows, int64_t columns, int64_t stride, size_t element)
{
    et_assert(rows <= slab_rows && columns <= slab_columns);
    size_t bytes = (size_t)columns * element;
    size_t rest = (size_t)(slab_columns - columns) * element;
    char *to = slab;
    const char *row = from;
    for (int64_t i = 0; i < rows; i++) {
        memcpy(to, row, bytes);
        if (rest)
            memset(to + bytes, 0, rest);
        to += bytes + rest;
        row += (size_t)stride * element;
    }
    memset(to, 0, (size_t)(slab_rows - rows) * (bytes + rest));
}

static void finish_block(const et_gemm_finish *how, char *c, const float *from, int64_t parts,
                         int64_t part_stride, const float *bias, int n)
{
    float sum[BLOCK];
    for (int j = 0; j < n; j++)
        sum[j] = from[j];
    for (int64_t part = 1; part < parts; part++) {
        const float *more = from + part * part_stride;
        for (int j = 0; j < n; j++)
            sum[j] += more[j];
    }
    if (bias)
        for (int j = 0; j < n; j++)
            sum[j] += bias[j];
    if (how->relu)
        for (int j = 0; j < n; j++)
            sum[j] = sum[j] > 0.0f ? sum[j] : 0.0f;
    float *real = (float *)(void *)c;
    et_bf16 *half = (et_bf16 *)(void *)c;
    if (how->c == ET_BF16)
        for (int j = 0; j < n; j++)
            half[j] = et_bf16_from_float(sum[j]);
    else if (how->accumulate)
        for (int j = 0; j < n; j++)
            real[j] += sum[j];
    else
        for (int j = 0; j < n; j++)
            real[j] = sum[j];
}

void et_gemm_finish_row(const et_gemm_finish *how, void *c, const float *from, int64_t parts,
                        int64_t part_stride, int64_t n)
{
    size_t element = et_dtype_size(how->c);
    for (int64_t j = 0; j < n; j += BLOCK) {
        int width = n - j < BLOCK ? (int)(n - j) : BLOCK;
        finish_block(how, (char *)c + (size_t)j * element, from + j, parts, part_stride,
                     how->bias ? how->bias + j : NULL, width);
    }
}
