/* Philox 4x32-10 and the numbers made from it. Each round multiplies two of the counter's words
 * by constants, and mixes the halves of the products with the other two words and the key; the
 * key grows by Weyl constants from round to round. Constants: table 2 of the paper, sections 3
 * and 4 (the Weyl ones are the golden ratio and sqrt(3) - 1, scaled by 2^32). */
#include "base/numbers/philox.h"

#include <math.h>

#include "base/assert.h"
#include "base/numbers/normal.h"

#define ROUNDS     10
#define MULTIPLY_0 0xd2511f53u
#define MULTIPLY_1 0xcd9e8d57u
#define WEYL_0     0x9e3779b9u
#define WEYL_1     0xbb67ae85u
#define FNV_BASIS  2166136261u
#define FNV_PRIME  16777619u
#define TWO_TO_M24 0x1p-24f
#define TWO_TO_M31 0x1p-31f

/* One round, with products p0 = M0 c0 and p1 = M1 c2 of 64 bits:
 *   c0' = high(p1) ^ c1 ^ k0,  c1' = low(p1),  c2' = high(p0) ^ c3 ^ k1,  c3' = low(p0)
 * Seven rounds are the fewest that passed the paper's tests, ten leave a margin. 20
 * multiplications make four words. */
et_philox_block et_philox(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t product0 = (uint64_t)MULTIPLY_0 * c0;
        uint64_t product1 = (uint64_t)MULTIPLY_1 * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    return (et_philox_block){ { c0, c1, c2, c3 } };
}

/* The counter names the number, the key the run: (index, step, site) differ for any two
 * numbers of a run, up to 2^32 steps; from there on the site is mixed with the step's upper
 * half. */
et_philox_block et_random_block(et_random random, uint64_t index)
{
    const uint32_t counter[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)random.step,
                                  random.site ^ (uint32_t)(random.step >> 32) };
    const uint32_t key[2] = { (uint32_t)random.seed, (uint32_t)(random.seed >> 32) };
    return et_philox(counter, key);
}

/* The upper 24 bits, as many as a float32 in [1/2, 1) has: every value is exact, 1 is never
 * reached. Element e is word e % 4 of block e / 4, so a kernel draws four at once. */
float et_random_uniform(et_random random, uint64_t element)
{
    et_philox_block block = et_random_block(random, element / 4);
    return (float)(block.word[element % 4] >> 8) * TWO_TO_M24;
}

/* Horner's rule, the highest power first; see base/numbers/normal.h for why it is never fused. */
static float polynomial(const float *coefficient, int count, float x)
{
    float p = coefficient[0];
    for (int i = 1; i < count; i++)
        p = p * x + coefficient[i];
    return p;
}

/* -log(x), x positive and normal. frexpf gives m in [1/2, 1); doubled, m is in [1, 2), and above
 * 4/3 it is halved. So log m is near 0 on both sides, and its series is short. */
static float minus_log(float x)
{
    static const float terms[ET_NORMAL_LOG_TERMS] = ET_NORMAL_LOG;
    int exponent;
    float m = 2 * frexpf(x, &exponent), e = (float)(exponent - 1);
    if (m > ET_NORMAL_LOG_FROM) {
        m *= 0.5f;
        e += 1;
    }
    float s = (m - 1) / (m + 1);
    return 0 - (e * ET_NORMAL_LOG_2 + polynomial(terms, ET_NORMAL_LOG_TERMS, s * s) * s);
}

/* See base/numbers/normal.h. The word as a signed number t, -2^31 <= t < 2^31: the lower half is
 * the mirror image of the upper. */
float et_random_normal(et_random random, uint64_t element)
{
    static const float near[ET_NORMAL_TERMS] = ET_NORMAL_NEAR;
    static const float far[ET_NORMAL_TERMS] = ET_NORMAL_FAR;
    int32_t t = (int32_t)(et_random_block(random, element / 4).word[element % 4] ^ 0x80000000u);
    float x = ((float)t + 0.5f) * TWO_TO_M31;
    float end = ((float)(INT32_MAX - (t < 0 ? -1 - t : t)) + 0.5f) * TWO_TO_M31;
    float w = minus_log(end * (2 - end));
    if (w < ET_NORMAL_NEAR_END)
        return polynomial(near, ET_NORMAL_TERMS, w - ET_NORMAL_NEAR_CENTRE) * x;
    return polynomial(far, ET_NORMAL_TERMS, sqrtf(w) - ET_NORMAL_FAR_CENTRE) * x;
}

/* High 64 bits of a 64 by 64 bit product: Lemire, "Fast random integer generation in an
 * interval", 2019, without its rejection (the bias is bound / 2^64). */
uint64_t et_random_below(et_random random, uint64_t element, uint64_t bound)
{
    et_assert(bound > 0);
    et_philox_block block = et_random_block(random, element / 2);
    const uint32_t *pair = block.word + (element & 1) * 2;
    uint64_t bits = (uint64_t)pair[1] << 32 | pair[0];
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)bits * bound >> 64);
}

/* Fisher and Yates as Durstenfeld 1964 has it: place i - 1 gets one of the i that are left,
 * drawn as element i - 1. Serial, and the same for every number of threads. */
void et_random_permutation(et_random random, uint32_t *order, uint32_t count)
{
    et_assert(order || count == 0);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)et_random_below(random, i - 1, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

/* Permutations whose members are computed one at a time: a Feistel network on the fewest bits that
 * hold count (Luby and Rackoff 1988: four rounds of good functions cannot be distinguished from
 * chance), repeated until it gives a number below count (Black and Rogaway, "Ciphers with arbitrary
 * finite domains", 2002). At least half of all numbers are below count, so the network runs less
 * than twice on average. */
et_random_order et_random_order_of(et_random random, uint32_t count)
{
    et_random_order order = { .count = count };
    int bits = 0;
    while ((uint64_t)1 << bits < count)
        bits++;
    order.low = bits / 2;
    order.high = bits - order.low;
    for (uint64_t i = 0; i < ET_RANDOM_ORDER_ROUNDS; i++)
        order.key[i] = et_random_block(random, i / 4).word[i % 4];
    return order;
}

/* Each of the upper 16 bits depends on all of x: Wellons, "Prospecting for hash functions", 2018
 * (lowbias32), without its last step, x ^ x >> 16, which does not change these bits. */
static uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    return (x ^ x >> 15) * 0x846ca68bu;
}

/* The top bits, at most 16 of them; computed in 64 bits, so that a shift for 0 bits gives 0. */
static uint32_t top_bits(uint32_t x, int bits)
{
    return (uint32_t)((uint64_t)x >> (32 - bits));
}

/* A walk that began below count comes there again at last: each number has one before it. */
uint32_t et_random_order_at(const et_random_order *order, uint32_t i)
{
    et_assert(i < order->count);
    do {
        uint32_t low = i & (((uint32_t)1 << order->low) - 1), high = i >> order->low;
        for (int round = 0; round < ET_RANDOM_ORDER_ROUNDS; round += 2) {
            high ^= top_bits(mixed(low + order->key[round]), order->high);
            low ^= top_bits(mixed(high + order->key[round + 1]), order->low);
        }
        i = high << order->low | low;
    } while (i >= order->count);
    return i;
}

/* One pass, 32 bits: two names of a model that meet would share their numbers, at odds of n^2
 * / 2^33 for n names. */
uint32_t et_random_site(const char *name)
{
    uint32_t hash = FNV_BASIS;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * FNV_PRIME;
    return hash;
}
