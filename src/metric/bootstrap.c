#include "metric/bootstrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "metric/resample.h"

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

static void draw(resamples *r, uint64_t seed)
{
    et_resample random;
    et_resample_init(&random, seed);
    for (size_t s = 0; s < r->samples; s++) {
        for (size_t i = 0; i < r->lines; i++)
            r->drawn[i] = et_resample_draw(&random, r->lines);
        for (int o = 0; o < r->outputs; o++)
            r->scores[(size_t)o * r->samples + s] = score_lines(r, o, r->drawn).score;
    }
}

ET_SORT_NUMBERS(by_value, double)

static double mean_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

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
        results[o].mean = mean_of(scores, r->samples);
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
    r.scores = et_alloc((size_t)outputs * r.samples, sizeof *r.scores);
    r.drawn = et_alloc(lines, sizeof *r.drawn);
    int status =
        r.scores && r.drawn
            ? ET_OK
            : et_alloc_failed(error, (size_t)outputs * r.samples * sizeof *r.scores, "resamples");
    if (!status) {
        draw(&r, bootstrap->seed);
        conclude(&r, results);
    }
    et_free(r.scores);
    et_free(r.drawn);
    return status;
}
