#include "metric/bootstrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"

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
            if (from != to) {
                uint32_t y = hashed(&in, pool[from]);
                const uint32_t value = pool[to] * 0xca01f9ddu - y * 0x4973f715u;
                pool[to] = value ^ value >> 16;
            }
    for (int i = 0; i < WORDS; i++)
        words[i] = hashed(&out, pool[i % POOL]);
}

/* ---- numbers of 128 bits ---- */

static void add_wide(uint64_t to[2], const uint64_t value[2])
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

static void advance(et_resample *r)
{
    static const uint64_t factor[2] = { 4865540595714422341u, 2549297995355413924u };
    uint64_t next[2];
    multiply(next, r->state[0], factor[0]);
    next[1] += r->state[0] * factor[1] + r->state[1] * factor[0];
    r->state[0] = next[0];
    r->state[1] = next[1];
    add_wide(r->state, r->increment);
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
    advance(r);
    add_wide(r->state, start);
    advance(r);
}

/* ---- draws ---- */

/* The lower half of a number comes first. */
static uint32_t next_32(et_resample *r)
{
    if (r->has_half) {
        r->has_half = false;
        return r->half;
    }
    advance(r);
    const unsigned turn = (unsigned)(r->state[1] >> 58);
    uint64_t value = r->state[0] ^ r->state[1];
    value = value >> turn | value << ((64 - turn) & 63);
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

/* ---- the test ---- */

/* The scores of all resamples, [outputs, samples], and the lines of one, [lines]. */
typedef struct resamples {
    const et_score *score;
    et_score_counts *const *counts;
    int outputs;
    size_t lines, samples;
    double *scores;
    uint32_t *drawn;
} resamples;

static et_score_result score_lines(const resamples *r, int output, const uint32_t *lines)
{
    et_score_counts sum = { .bleu = { 0 } };
    et_score_result result;
    for (size_t i = 0; i < r->lines; i++)
        et_score_sum(r->score, &sum, &r->counts[output][lines ? lines[i] : i]);
    et_score_compute(r->score, &result, &sum);
    return result;
}

ET_SORT_NUMBERS(by_value, double)

/* How often the difference of a resample is farther from their mean than the real one is from 0.
 * The real one counts as a resample. */
static double p_value_of(const resamples *r, int output, double real)
{
    const double *first = r->scores, *scores = r->scores + (size_t)output * r->samples;
    double mean = 0;
    size_t more = 0;
    for (size_t s = 0; s < r->samples; s++)
        mean += fabs(scores[s] - first[s]);
    mean /= (double)r->samples;
    if (mean == 0 && real == 0)
        return 1;
    for (size_t s = 0; s < r->samples; s++)
        more += fabs(scores[s] - first[s]) - mean > real;
    return (double)(more + 1) / (double)(r->samples + 1);
}

/* Sorts the scores: the first output last, since the others are compared with it. */
static void conclude(resamples *r, et_bootstrap_result *results)
{
    const size_t out = r->samples / 40; /* 2.5 % */
    for (int o = 0; o < r->outputs; o++) {
        results[o].real = score_lines(r, o, NULL);
        results[o].p_value =
            o ? p_value_of(r, o, fabs(results[o].real.score - results[0].real.score)) : 1;
    }
    for (int o = 0; o < r->outputs; o++) {
        double *scores = r->scores + (size_t)o * r->samples;
        qsort(scores, r->samples, sizeof *scores, by_value);
        double sum = 0;
        for (size_t i = 0; i < r->samples; i++)
            sum += scores[i];
        results[o].mean = sum / (double)r->samples;
        results[o].interval = 0.5 * (scores[r->samples - out - 1] - scores[out]);
    }
}

int et_bootstrap_run(const et_bootstrap *bootstrap, const et_score *score,
                     et_score_counts *const *counts, int outputs, size_t lines,
                     et_bootstrap_result *results, et_error *error)
{
    resamples r = { .score = score,
                    .counts = counts,
                    .outputs = outputs,
                    .lines = lines,
                    .samples = (size_t)bootstrap->samples };
    et_assert(outputs >= 1 && bootstrap->samples >= 1);
    if (!lines || lines > (uint64_t)1 << 32)
        return et_fail(error, ET_EDATA, "%zu lines to draw from: need 1 to 2^32", lines);
    int status = ET_ALLOC(r.scores, (size_t)outputs * r.samples, "resamples", error);
    if (!status)
        status = ET_ALLOC(r.drawn, lines, "resamples", error);
    if (!status) {
        et_resample random;
        et_resample_init(&random, bootstrap->seed);
        for (size_t s = 0; s < r.samples; s++) {
            for (size_t i = 0; i < r.lines; i++)
                r.drawn[i] = et_resample_draw(&random, r.lines);
            for (int o = 0; o < r.outputs; o++)
                r.scores[(size_t)o * r.samples + s] = score_lines(&r, o, r.drawn).score;
        }
        conclude(&r, results);
    }
    et_free(r.scores);
    et_free(r.drawn);
    return status;
}
