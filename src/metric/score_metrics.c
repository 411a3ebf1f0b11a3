/* Scores of texts as metrics: their counts are the state. */
#include <math.h>
#include <string.h>

#include "metric/kinds.h"
#include "metric/score.h"

static const char *const no_sums[] = { NULL };
static const char *const bleu_names[] = { "", "bp", "hyp_len", "ref_len", NULL };
static const char *const chrf_names[] = { "", NULL };

/* Members are int64_t and nothing else, so a state of whole numbers has their layout. */
static int64_t bleu_count(const et_metric *metric)
{
    (void)metric;
    return sizeof(et_bleu_counts) / sizeof(int64_t);
}

static int64_t chrf_count(const et_metric *metric)
{
    (void)metric;
    return sizeof(et_chrf_counts) / sizeof(int64_t);
}

static void bleu_value(const et_metric *metric, const et_exact_sum *sums, const int64_t *state,
                       double *values)
{
    (void)sums;
    const et_bleu_metric *bleu = (const et_bleu_metric *)(const void *)metric;
    et_bleu_counts counts;
    et_score_result result;
    memcpy(&counts, state, sizeof counts);
    et_bleu_compute(&result, &counts, &bleu->options);
    values[0] = counts.pairs ? result.score : NAN;
    values[1] = counts.pairs ? result.bp : NAN;
    values[2] = (double)result.sys_len;
    values[3] = (double)result.ref_len;
}

static void chrf_value(const et_metric *metric, const et_exact_sum *sums, const int64_t *state,
                       double *values)
{
    (void)metric, (void)sums;
    et_chrf_counts counts;
    memcpy(&counts, state, sizeof counts);
    values[0] = counts.pairs ? et_chrf_compute(&counts) : NAN;
}

const et_metric_class et_bleu_metric_class = {
    .name = "bleu", .values = bleu_names, .sums = no_sums, .count = bleu_count, .value = bleu_value
};

static const et_metric_class chrf_class = {
    .name = "chrf", .values = chrf_names, .sums = no_sums, .count = chrf_count, .value = chrf_value
};

const et_metric et_metric_chrf = { &chrf_class };
