/* Paired bootstrap resampling (Koehn 2004, "Statistical significance tests for machine translation
 * evaluation", https://aclanthology.org/W04-3250): tests whether outputs for the same sources
 * differ more than the choice of the sources explains. A resample draws lines with replacement, as
 * many as there are, the same for all outputs, and computes the score of each output. Draws and
 * formulas are sacrebleu's, with double precision (sacrebleu has float32 sums; scores agree in five
 * digits at least).
 *
 *     et_bootstrap bootstrap = { .samples = 1000, .seed = 12345 };
 *     et_bootstrap_result results[2];
 *     if (et_bootstrap_run(&bootstrap, bleu, counts, 2, lines, results, &error)) ... */
#ifndef ETUDE_METRIC_BOOTSTRAP_H
#define ETUDE_METRIC_BOOTSTRAP_H

#include "metric/score.h"

typedef struct et_bootstrap {
    int64_t samples; /* resamples, at least 1 */
    uint64_t seed;
} et_bootstrap;

/* The result for one output. interval: half the width of the interval that has 95 % of the
 * resamples' scores. p_value: the probability that two equally good outputs differ as much as this
 * output and the first. It is 1 for the first output, and for an output with the same scores in all
 * resamples (sacrebleu: 1 / (samples + 1)). */
typedef struct et_bootstrap_result {
    et_score_result real;
    double mean, interval, p_value;
} et_bootstrap_result;

/* counts: [outputs][lines] of each line of each output (et_score_count). results: [outputs].
 * ET_EDATA: no lines, or more than 2^32. */
int et_bootstrap_run(const et_bootstrap *bootstrap, const et_score *score,
                     et_score_counts *const *counts, int outputs, size_t lines,
                     et_bootstrap_result *results, et_error *error);

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
 * In the rest of Etude a random number is a function of its use. Here draws are one sequence, and a
 * resample has its own state. */
typedef struct et_resample {
    uint64_t state[2], increment[2]; /* of 128 bits each, the lower 64 first */
    bool has_half;                   /* the upper half of a number is left for the next draw */
    uint32_t half;
} et_resample;

void et_resample_init(et_resample *resample, uint64_t seed);

/* The next draw, from 0 to count - 1; count: 1 to 2^32. */
uint32_t et_resample_draw(et_resample *resample, uint64_t count);

#endif
