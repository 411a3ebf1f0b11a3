#include "kernel/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/attention.h"

const et_kernels *et_kernels_named(const char *name)
{
    if (strcmp(name, "reference") == 0)
        return &et_kernels_reference;
    return NULL;
}

const et_kernels *et_kernels_best(void)
{
    return &et_kernels_reference;
}

uint32_t et_dropout_threshold(float rate)
{
    et_assert(rate >= 0 && rate < 1);
    float threshold = roundf(rate * 65536.0f);
    return threshold < 65536.0f ? (uint32_t)threshold : 65535u;
}

float et_dropout_scale(float rate)
{
    return 65536.0f / (float)(65536u - et_dropout_threshold(rate));
}

size_t et_attention_scratch(int longest_query, int longest_key, int head_dim)
{
    size_t keys = et_attention_padded((size_t)longest_key);
    size_t dim = et_attention_padded((size_t)head_dim);
    (void)longest_query;
    /* k, its transpose, v's transpose, dk, dv; q, dout, dq of a pass; weights and their
     * gradient of a pass; one line of slack for alignment. */
    return 5 * keys * dim + ET_ATTENTION_ROWS * (3 * dim + 2 * keys) + ET_ATTENTION_PAD;
}
