#include "base/philox.h"

#include <math.h>

/* Multipliers and Weyl increments of Philox 4x32 (Salmon et al. 2011, table 2). */
#define MULTIPLIER_0 0xd2511f53u
#define MULTIPLIER_1 0xcd9e8d57u
#define WEYL_0       0x9e3779b9u
#define WEYL_1       0xbb67ae85u
#define ROUNDS       10

et_philox_block et_philox(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t left = (uint64_t)MULTIPLIER_0 * c0, right = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(right >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)right;
        c2 = (uint32_t)(left >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)left;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    return (et_philox_block){ { c0, c1, c2, c3 } };
}

et_philox_block et_random_block(et_random random, uint64_t index)
{
    uint32_t counter[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)random.step,
                            random.site ^ (uint32_t)(random.step >> 32) };
    uint32_t key[2] = { (uint32_t)random.seed, (uint32_t)(random.seed >> 32) };
    return et_philox(counter, key);
}

static float unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

float et_random_uniform(et_random random, uint64_t element)
{
    return unit(et_random_block(random, element >> 2).word[element & 3]);
}

/* Box and Muller 1958; 1 - u keeps the logarithm finite. */
float et_random_normal(et_random random, uint64_t element)
{
    et_philox_block block = et_random_block(random, element >> 1);
    int pair = (int)(element & 1) * 2;
    double radius = sqrt(-2 * log(1 - (double)unit(block.word[pair])));
    return (float)(radius * cos(2 * 3.14159265358979323846 * unit(block.word[pair + 1])));
}

uint64_t et_random_below(et_random random, uint64_t element, uint64_t bound)
{
    et_philox_block block = et_random_block(random, element >> 1);
    int pair = (int)(element & 1) * 2;
    uint64_t word = (uint64_t)block.word[pair] << 32 | block.word[pair + 1];
    return (uint64_t)(((unsigned __int128)word * bound) >> 64);
}

void et_random_permutation(et_random random, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)et_random_below(random, i, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

uint32_t et_random_site(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}
