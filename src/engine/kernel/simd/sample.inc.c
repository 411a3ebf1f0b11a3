/* Samples by counter: those of base/numbers/philox.h, bit for bit, from the words of draw.inc.c.
 * Element e is a function only of the seed and its place, so threads may begin anywhere. */
#ifndef ETUDE_KERNEL_SAMPLE_INC_C
#define ETUDE_KERNEL_SAMPLE_INC_C

#include <stdint.h>

#include "base/assert.h"
#include "base/numbers/philox.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/draw.inc.c"
#include "engine/kernel/simd/simd.h"

ET_INLINE void noise_run(void *y, const float *number, int64_t at, int64_t count, et_dtype dtype)
{
    for (int64_t i = 0; i < count; i += V_LANES)
        v_write_n(y, at + i, v_load(number + i), count - i, dtype);
}

/* begin is a multiple of DRAW_RUN. */
static void noise_part(void *y, et_random random, et_dtype dtype, int64_t begin, int64_t end)
{
    uint32_t word[DRAW_RUN];
    float number[DRAW_RUN];
    for (int64_t at = begin; at < end; at += DRAW_RUN) {
        const int64_t count = end - at < DRAW_RUN ? end - at : DRAW_RUN;
        draw_words(word, random, (uint64_t)at / 4);
        draw_run_normal(number, word);
        ET_BY_DTYPE(dtype, noise_run, y, number, at, count);
    }
}

static void noise(void *y, int64_t count, et_random random, et_dtype dtype)
{
    ET_PARALLEL(count >= ET_GRAIN, count, DRAW_RUN, noise_part, y, random, dtype);
}

/* The number is 24 bits, which float32 has exactly. */
ET_INLINE void bernoulli_run(void *y, const void *p, const uint32_t *word, int64_t at,
                             int64_t count, et_dtype dtype)
{
    float number[DRAW_RUN];
    for (int64_t i = 0; i < DRAW_RUN; i++)
        number[i] = (float)(int32_t)(word[i] >> 8) * 0x1p-24f;
    for (int64_t i = 0; i < count; i += V_LANES) {
        const vm hit = v_gt(v_read_n(p, at + i, count - i, dtype), v_load(number + i));
        v_write_n(y, at + i, v_select(hit, v_set(1.0f), v_set(0.0f)), count - i, dtype);
    }
}

/* begin is a multiple of DRAW_RUN, first one of a block's four. */
static void bernoulli_part(void *y, const void *p, int64_t first, et_random random, et_dtype dtype,
                           int64_t begin, int64_t end)
{
    uint32_t word[DRAW_RUN];
    for (int64_t at = begin; at < end; at += DRAW_RUN) {
        const int64_t count = end - at < DRAW_RUN ? end - at : DRAW_RUN;
        draw_words(word, random, (uint64_t)(first + at) / 4);
        ET_BY_DTYPE(dtype, bernoulli_run, y, p, word, at, count);
    }
}

static void bernoulli(void *y, const void *p, int64_t first, int64_t count, et_random random,
                      et_dtype dtype)
{
    et_assert(first >= 0 && first % 4 == 0);
    ET_PARALLEL(count >= ET_GRAIN, count, DRAW_RUN, bernoulli_part, y, p, first, random, dtype);
}

#endif
