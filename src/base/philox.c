/* Philox 4x32-10 and the numbers made from it. Each round multiplies two of the counter's words
 * by constants, and mixes the halves of the products with the other two words and the key; the
 * key grows by Weyl constants from round to round. Constants: table 2 of the paper, sections 3
 * and 4 (the Weyl ones are the golden ratio and sqrt(3) - 1, scaled by 2^32). */
#include "base/philox.h"

#include <math.h>

#include "base/assert.h"

#define ROUNDS     10
#define MULTIPLY_0 0xd2511f53u
#define MULTIPLY_1 0xcd9e8d57u
#define WEYL_0     0x9e3779b9u
#define WEYL_1     0xbb67ae85u
#define TWO_PI     6.283185307179586476925286766559
#define FNV_BASIS  2166136261u
#define FNV_PRIME  16777619u
#define TWO_TO_M24 0x1p-24f
#define TWO_TO_M32 0x1p-32

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

et_philox_block et_random_block(et_random random, uint64_t index)
{
    const uint32_t counter[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)random.step,
                                  random.site ^ (uint32_t)(random.step >> 32) };
    const uint32_t key[2] = { (uint32_t)random.seed, (uint32_t)(random.seed >> 32) };
    return et_philox(counter, key);
}

float et_random_uniform(et_random random, uint64_t element)
{
    et_philox_block block = et_random_block(random, element / 4);
    return (float)(block.word[element % 4] >> 8) * TWO_TO_M24;
}

/* Words 0 and 1 of a block give elements 4i and 4i+1 (cosine and sine of one angle), words 2
 * and 3 the other two. In double, so that the tail reaches 6.6 and not a float's 5.7. */
float et_random_normal(et_random random, uint64_t element)
{
    et_philox_block block = et_random_block(random, element / 4);
    const uint32_t *pair = block.word + (element % 4 & 2);
    double radius = sqrt(-2.0 * log((pair[0] + 1.0) * TWO_TO_M32));
    double angle = TWO_PI * (pair[1] * TWO_TO_M32);
    return (float)(radius * (element & 1 ? sin(angle) : cos(angle)));
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

void et_random_permutation(et_random random, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)et_random_below(random, i - 1, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

uint32_t et_random_site(const char *name)
{
    uint32_t hash = FNV_BASIS;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * FNV_PRIME;
    return hash;
}
