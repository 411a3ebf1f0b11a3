/* Numbers for initial values, DRAW_RUN elements at a time: those of et_random_uniform and
 * et_random_normal, bit for bit, in the operations and the order of base/numbers/normal.h.
 *
 *   uniform   in [-1, 1): 24 bits of a word
 *   normal    the inverse of the distribution function at a word of 32 bits, by polynomials
 * Element e takes word e % 4 of Philox block e / 4 (Salmon et al. 2011, "Parallel random numbers:
 * as easy as 1, 2, 3").
 *
 * Any part of an array can be drawn separately, because the number of an element depends only on
 * the seed and its position. */
#ifndef ETUDE_KERNEL_DRAW_INC_C
#define ETUDE_KERNEL_DRAW_INC_C

#include <stdint.h>

#include "base/assert.h"
#include "base/numbers/normal.h"
#include "base/numbers/philox.h"
#include "engine/kernel/simd/simd.h"

#define DRAW_BLOCKS 64 /* enough that loops over them become vectors */
#define DRAW_RUN    (4 * DRAW_BLOCKS)

/* word[e] = word e % 4 of block first + e / 4. The loops over blocks are innermost, so that the
 * compiler vectorizes them; the rounds are those of et_philox. */
static void draw_words(uint32_t word[DRAW_RUN], et_random random, uint64_t first)
{
    uint32_t c[4][DRAW_BLOCKS];
    uint32_t k0 = (uint32_t)random.seed, k1 = (uint32_t)(random.seed >> 32);
    for (uint64_t i = 0; i < DRAW_BLOCKS; i++) {
        c[0][i] = (uint32_t)(first + i);
        c[1][i] = (uint32_t)((first + i) >> 32);
        c[2][i] = (uint32_t)random.step;
        c[3][i] = random.site ^ (uint32_t)(random.step >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += ET_PHILOX_W0, k1 += ET_PHILOX_W1)
        for (int i = 0; i < DRAW_BLOCKS; i++) {
            const uint64_t p0 = (uint64_t)ET_PHILOX_M0 * c[0][i];
            const uint64_t p1 = (uint64_t)ET_PHILOX_M1 * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[1][i] = (uint32_t)p1;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[3][i] = (uint32_t)p0;
        }
    for (int i = 0; i < DRAW_BLOCKS; i++)
        for (int k = 0; k < 4; k++)
            word[4 * i + k] = c[k][i];
}

/* Rounded twice, as base/numbers/normal.h does: a fused one would give other bits on other CPUs. */
ET_INLINE vf draw_multiply_add(vf a, vf b, vf c)
{
    const vf product = a * b;
    return product + c;
}

/* A polynomial, highest power first. By Horner's rule, with two roundings in each step. */
ET_INLINE vf draw_polynomial(const float *coefficient, int count, vf x)
{
    vf p = v_set(coefficient[0]);
    for (int i = 1; i < count; i++)
        p = draw_multiply_add(p, x, v_set(coefficient[i]));
    return p;
}

/* -log x by m and e of x = m 2^e, and log m = 2 atanh((m - 1) / (m + 1)). */
ET_INLINE vf draw_minus_log(vf x)
{
    static const float terms[ET_NORMAL_LOG_TERMS] = ET_NORMAL_LOG;
    vf e, m = v_split(x, &e);
    const vm large = v_gt(m, v_set(ET_NORMAL_LOG_FROM));
    m = v_select(large, m * v_set(0.5f), m);
    e = v_select(large, e + v_set(1.0f), e);
    const vf s = (m - v_set(1.0f)) / (m + v_set(1.0f));
    const vf p = draw_polynomial(terms, ET_NORMAL_LOG_TERMS, s * s);
    return v_set(0.0f) - draw_multiply_add(e, v_set(ET_NORMAL_LOG_2), p * s);
}

/* t: the word as a signed number; rest: its distance from the nearer end. Computes two polynomials,
 * near the middle and towards the ends, and selects one in each lane. */
ET_INLINE vf draw_normal_of(vf t, vf rest)
{
    static const float near_terms[ET_NORMAL_TERMS] = ET_NORMAL_NEAR;
    static const float far_terms[ET_NORMAL_TERMS] = ET_NORMAL_FAR;
    const vf x = (t + v_set(0.5f)) * v_set(0x1p-31f);
    const vf end = (rest + v_set(0.5f)) * v_set(0x1p-31f);
    const vf w = draw_minus_log(end * (v_set(2.0f) - end));
    const vf near = draw_polynomial(near_terms, ET_NORMAL_TERMS, w - v_set(ET_NORMAL_NEAR_CENTRE));
    const vf far =
        draw_polynomial(far_terms, ET_NORMAL_TERMS, v_sqrt(w) - v_set(ET_NORMAL_FAR_CENTRE));
    return v_select(v_gt(v_set(ET_NORMAL_NEAR_END), w), near, far) * x;
}

/* Makes a run of numbers of a run of words, before any scale. */
typedef void draw_fn(float to[DRAW_RUN], const uint32_t word[DRAW_RUN]);

/* In base's order of operations: a number of 24 bits is exact, and so is twice it less 1. */
static void draw_run_uniform(float to[DRAW_RUN], const uint32_t word[DRAW_RUN])
{
    for (int i = 0; i < DRAW_RUN; i++)
        to[i] = 2 * ((float)(int32_t)(word[i] >> 8) * 0x1p-24f) - 1;
}

/* The distance to the end is computed in whole numbers, before rounding. */
static void draw_run_normal(float to[DRAW_RUN], const uint32_t word[DRAW_RUN])
{
    float t[DRAW_RUN], rest[DRAW_RUN];
    for (int i = 0; i < DRAW_RUN; i++) {
        const int32_t number = (int32_t)(word[i] ^ 0x80000000u);
        t[i] = (float)number;
        rest[i] = (float)(INT32_MAX - (number < 0 ? -1 - number : number));
    }
    for (int i = 0; i < DRAW_RUN; i += V_LANES)
        v_store(to + i, draw_normal_of(v_load(t + i), v_load(rest + i)));
}

/* Elements first .. first + count, in runs of whole blocks. */
ET_INLINE void draw(float *to, int64_t first, int64_t count, float scale, et_random random,
                    draw_fn *run)
{
    et_assert(first >= 0 && count >= 0);
    uint32_t word[DRAW_RUN];
    float number[DRAW_RUN];
    for (int64_t done = 0; done < count;) {
        const int64_t skip = (first + done) % 4;
        const int64_t left = count - done;
        const int64_t take = left < DRAW_RUN - skip ? left : DRAW_RUN - skip;
        draw_words(word, random, (uint64_t)(first + done - skip) / 4);
        run(number, word);
        for (int64_t i = 0; i < take; i++)
            to[done + i] = scale * number[skip + i];
        done += take;
    }
}

static void draw_uniform(float *to, int64_t first, int64_t count, float scale, et_random random)
{
    draw(to, first, count, scale, random, draw_run_uniform);
}

static void draw_normal(float *to, int64_t first, int64_t count, float scale, et_random random)
{
    draw(to, first, count, scale, random, draw_run_normal);
}

#endif
