#include "metric/resample.h"

#include "base/assert.h"

/* ---- the seed ---- */

enum { POOL = 4, WORDS = 8 };

/* A hash whose constant changes with each use. */
typedef struct hash {
    uint32_t constant, factor;
} hash;

static uint32_t hashed(hash *h, uint32_t value)
{
    value ^= h->constant;
    h->constant *= h->factor;
    value *= h->constant;
    return value ^ value >> 16;
}

static uint32_t mixed(uint32_t x, uint32_t y)
{
    const uint32_t value = x * 0xca01f9ddu - y * 0x4973f715u;
    return value ^ value >> 16;
}

/* The seed's words fill a pool, each word of the pool is mixed into the others, and the pool gives
 * as many words as are wanted. */
static void words_of(uint64_t seed, uint32_t words[WORDS])
{
    const uint32_t given[POOL] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t pool[POOL];
    hash in = { 0x43b0d7e5u, 0x931e8875u }, out = { 0x8b51f9ddu, 0x58f38dedu };
    for (int i = 0; i < POOL; i++)
        pool[i] = hashed(&in, given[i]);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mixed(pool[to], hashed(&in, pool[from]));
    for (int i = 0; i < WORDS; i++)
        words[i] = hashed(&out, pool[i % POOL]);
}

/* ---- numbers of 128 bits ---- */

static void add(uint64_t to[2], const uint64_t value[2])
{
    to[0] += value[0];
    to[1] += value[1] + (to[0] < value[0]);
}

/* The product of two numbers of 64 bits, in parts of 32. */
static void multiply(uint64_t out[2], uint64_t a, uint64_t b)
{
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t low = al * bl, first = ah * bl + (low >> 32), second = al * bh + (uint32_t)first;
    out[0] = second << 32 | (uint32_t)low;
    out[1] = ah * bh + (first >> 32) + (second >> 32);
}

static void step(et_resample *r)
{
    static const uint64_t factor[2] = { 4865540595714422341u, 2549297995355413924u };
    uint64_t next[2];
    multiply(next, r->state[0], factor[0]);
    next[1] += r->state[0] * factor[1] + r->state[1] * factor[0];
    r->state[0] = next[0];
    r->state[1] = next[1];
    add(r->state, r->increment);
}

void et_resample_init(et_resample *r, uint64_t seed)
{
    uint32_t words[WORDS];
    words_of(seed, words);
    const uint64_t start[2] = { words[2] | (uint64_t)words[3] << 32,
                                words[0] | (uint64_t)words[1] << 32 };
    const uint64_t stream[2] = { words[6] | (uint64_t)words[7] << 32,
                                 words[4] | (uint64_t)words[5] << 32 };
    *r = (et_resample){ .increment = { stream[0] << 1 | 1, stream[1] << 1 | stream[0] >> 63 } };
    step(r);
    add(r->state, start);
    step(r);
}

/* ---- draws ---- */

static uint64_t next_64(et_resample *r)
{
    step(r);
    const uint64_t value = r->state[0] ^ r->state[1];
    const unsigned turn = (unsigned)(r->state[1] >> 58);
    return value >> turn | value << ((64 - turn) & 63);
}

/* The lower half of a number comes first. */
static uint32_t next_32(et_resample *r)
{
    if (r->has_half) {
        r->has_half = false;
        return r->half;
    }
    const uint64_t value = next_64(r);
    r->has_half = true;
    r->half = (uint32_t)(value >> 32);
    return (uint32_t)value;
}

uint32_t et_resample_draw(et_resample *r, uint64_t count)
{
    et_assert(count >= 1 && count <= (uint64_t)1 << 32);
    if (count == 1)
        return 0;
    const uint64_t unfair = ((uint64_t)1 << 32) % count; /* as many low halves are drawn again */
    uint64_t product;
    do
        product = next_32(r) * count;
    while ((uint32_t)product < unfair);
    return (uint32_t)(product >> 32);
}
