/* Draws with replacement, the same numbers as numpy's
 *
 *     numpy.random.default_rng(seed).choice(count, size=(samples, count))
 *
 * so that significance tests agree with sacrebleu's. The generator is PCG XSL RR 128/64 (O'Neill
 * 2014, "PCG: a family of simple fast space-efficient statistically good algorithms for random
 * number generation"), started from the seed as numpy's SeedSequence does. Numbers below a bound
 * are made by multiplication and rejection (Lemire 2019, "Fast random integer generation in an
 * interval").
 *
 * Everywhere else in Etude a random number is a function of what it is for. Here draws are one
 * sequence, and a resample has an own state. */
#ifndef ETUDE_METRIC_RESAMPLE_H
#define ETUDE_METRIC_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct et_resample {
    uint64_t state[2], increment[2]; /* of 128 bits each, the lower 64 first */
    bool has_half;                   /* the upper half of a number is left for the next draw */
    uint32_t half;
} et_resample;

void et_resample_init(et_resample *resample, uint64_t seed);

/* The next draw, from 0 to count - 1; count: 1 to 2^32. */
uint32_t et_resample_draw(et_resample *resample, uint64_t count);

#endif
