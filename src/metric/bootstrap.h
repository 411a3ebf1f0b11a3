/* Paired bootstrap resampling (Koehn 2004, "Statistical significance tests for machine translation
 * evaluation", https://aclanthology.org/W04-3250): whether outputs for the same sources differ by
 * more than the choice of the sources explains. Each resample draws as many lines as there are,
 * with replacement, the same for all outputs, and computes the score of each. Draws and formulas
 * are sacrebleu's, with double precision (sacrebleu has float32 sums; scores agree in five digits
 * at least).
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

/* The result for one output. interval: half the width of the interval with 95 % of the resamples'
 * scores. p_value: the probability that two equally good outputs differ as much as this output and
 * the first one. It is 1 for the first output, and for an output with the same scores in all
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

#endif
