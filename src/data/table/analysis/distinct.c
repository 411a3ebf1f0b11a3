/* Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, AofA 2007: the first bits of a hash choose a
 * register, which keeps the longest run of zeros after them. The estimate is Ertl's (New
 * cardinality estimation algorithms for HyperLogLog sketches, arXiv 1702.01284, algorithm 6). It
 * has no bias at any size, so it needs no tables and no other formula for few values. */
#include "data/table/analysis/distinct.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

bool et_distinct_init(et_distinct *distinct, int bits)
{
    et_assert(bits >= ET_DISTINCT_BITS_MIN && bits <= ET_DISTINCT_BITS_MAX);
    *distinct = (et_distinct){ et_alloc_zero((size_t)1 << bits, 1), bits };
    return distinct->seen != NULL;
}

void et_distinct_release(et_distinct *distinct)
{
    et_free(distinct->seen);
    distinct->seen = NULL;
}

static inline void add(unsigned char *seen, int bits, uint64_t hash)
{
    size_t at = hash >> (64 - bits);
    /* A bit at the end: no run is longer than the hash. */
    unsigned char run =
        (unsigned char)(1 + __builtin_clzll(hash << bits | (uint64_t)1 << (bits - 1)));
    seen[at] = run > seen[at] ? run : seen[at];
}

void et_distinct_add(et_distinct *distinct, uint64_t hash)
{
    add(distinct->seen, distinct->bits, hash);
}

__extension__ typedef unsigned __int128 wide;

static inline uint64_t fold(uint64_t x, uint64_t by)
{
    wide product = (wide)x * by;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

void et_distinct_add_numbers(et_distinct *distinct, const double *values, size_t count)
{
    unsigned char *seen = distinct->seen;
    const int bits = distinct->bits;
    for (size_t i = 0; i < count; i++) {
        double value = values[i] + 0.0; /* -0 becomes 0 */
        uint64_t x;
        memcpy(&x, &value, sizeof x);
        /* Halves of products of all bits (wyhash's mixing), twice. */
        x = fold(x ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu);
        add(seen, bits, fold(x, 0x8ebc6af09c88c6e3u));
    }
}

/* x + sum of x^(2^k) * 2^(k-1), k from 1. */
static double sigma(double x)
{
    double power = 1, sum = x, before;
    if (x == 1)
        return INFINITY;
    do {
        x *= x;
        before = sum;
        sum += x * power;
        power += power;
    } while (sum != before);
    return sum;
}

/* (1 - x - sum of (1 - x^(2^-k))^2 * 2^-k) / 3, k from 1. */
static double tau(double x)
{
    double power = 1, sum = 1 - x, before;
    if (x == 0 || x == 1)
        return 0;
    do {
        x = sqrt(x);
        before = sum;
        power /= 2;
        sum -= (1 - x) * (1 - x) * power;
    } while (sum != before);
    return sum / 3;
}

double et_distinct_estimate(const et_distinct *distinct)
{
    const int most = 64 - distinct->bits;
    const size_t registers = (size_t)1 << distinct->bits;
    double all = (double)registers, counts[66] = { 0 };
    for (size_t i = 0; i < registers; i++)
        counts[distinct->seen[i]]++;
    double z = all * tau(1 - counts[most + 1] / all);
    for (int run = most; run >= 1; run--)
        z = (z + counts[run]) / 2;
    z += all * sigma(counts[0] / all);
    return all / (2 * M_LN2) * (all / z);
}
