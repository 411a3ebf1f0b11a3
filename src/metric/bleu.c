#include "metric/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text/format.h"

/* BLEU (Papineni et al. 2002, https://aclanthology.org/P02-1040):
 *     BLEU = BP exp(1/4 sum_n log p_n),  BP = min(1, exp(1 - r/c))
 * with p_n = matching n-grams over n-grams of the hypotheses, r and c the words of references
 * and hypotheses. Expressions keep the order of sacrebleu's, so that every bit is its own. */

/* Each n-gram of the hypothesis matches at most as often as the reference has it (clipped counts).
 */
static int count_pair(et_score *bleu, et_score_counts *out, et_error *error)
{
    et_bleu_counts *counts = &out->bleu;
    int status = et_ngrams_match(&bleu->ngrams, &bleu->hypothesis_words, &bleu->reference_words,
                                 ET_BLEU_ORDER, counts->correct, error);
    if (status)
        return status;
    /* One pair's counts: a metric of one, ready to be merged. */
    counts->pairs = 1;
    counts->sys_len = (int64_t)bleu->hypothesis_words.count;
    counts->ref_len = (int64_t)bleu->reference_words.count;
    for (int n = 0; n < ET_BLEU_ORDER; n++)
        counts->total[n] = counts->sys_len > n ? counts->sys_len - n : 0;
    return 0;
}

static int check(const et_score_counts *all, et_error *error)
{
    const et_bleu_counts *counts = &all->bleu;
    for (int n = 0; n < ET_BLEU_ORDER; n++)
        if (counts->correct[n] > counts->total[n])
            return et_fail(error, ET_EDATA,
                           "counts to merge: %" PRId64 " of %" PRId64
                           " n-grams match, which is impossible",
                           counts->correct[n], counts->total[n]);
    return ET_OK;
}

/* sacrebleu's score is 0 without any match; the first order without n-grams ends the list. The
 * brevity penalty is 1 if the hypotheses are at least as long as the references, and 0 if they are
 * empty. Smoothing "exp": the k-th order without a match has the precision 100 / (2^k total). A log
 * of 0 is -9999999999, so one order without a match and without smoothing makes the score 0. */
static void sacrebleu_value(et_score_result *result, const et_bleu_counts *counts,
                            const et_bleu_options *options)
{
    /* BP = exp(1 - r/c) for short hypotheses. */
    if (counts->sys_len < counts->ref_len)
        result->bp =
            counts->sys_len ? exp(1 - (double)counts->ref_len / (double)counts->sys_len) : 0;
    /* Without a single matching n-gram smoothing is not asked: the score is 0. */
    bool any = false;
    for (int n = 0; n < ET_BLEU_ORDER; n++)
        any |= counts->correct[n] > 0;
    if (!any)
        return;
    /* smooth doubles with each order that has no match. */
    double smooth = 1;
    /* How many precisions the mean is over. */
    int order = ET_BLEU_ORDER;
    for (int n = 0; n < ET_BLEU_ORDER && counts->total[n] > 0; n++) {
        double total = (double)counts->total[n];
        /* The mean is then over the orders that the hypothesis is long enough for. */
        if (options->effective_order)
            order = n + 1;
        if (counts->correct[n] > 0)
            result->precisions[n] = 100. * (double)counts->correct[n] / total;
        else if (options->smooth == ET_BLEU_SMOOTH_EXP)
            result->precisions[n] = 100. / ((smooth *= 2) * total);
    }
    double sum = 0;
    for (int n = 0; n < order; n++)
        sum += result->precisions[n] > 0 ? log(result->precisions[n]) : -9999999999.;
    result->score = result->bp * exp(sum / order);
}

/* compute_bleu of Model Garden's metrics/bleu.py, in percent. If this would divide by zero (no
 * words in any reference), the score is 0. It differs from sacrebleu's in three ways: it smooths
 * even if nothing matches at all, it always divides the sum over orders by 4, and it treats a ratio
 * of lengths below 10^-6 as 0. */
static void model_garden_value(et_score_result *result, const et_bleu_counts *counts)
{
    /* mean keeps its value from the last order that has n-grams; its divisor is always 4. */
    double smooth = 1, sum = 0, mean = 0;
    for (int n = 0; n < ET_BLEU_ORDER && counts->total[n] > 0; n++) {
        double total = (double)counts->total[n];
        double precision = counts->correct[n] > 0 ? (double)counts->correct[n] / total
                                                  : 1 / ((smooth *= 2) * total);
        sum += log(precision);
        mean = exp(sum / ET_BLEU_ORDER);
        result->precisions[n] = 100 * precision;
    }
    double ratio = counts->ref_len ? (double)counts->sys_len / (double)counts->ref_len : 0;
    result->bp = ratio < 1e-6 ? 0 : ratio < 1 ? exp(1 - 1 / ratio) : 1;
    result->score = 100 * mean * result->bp;
}

/* precisions start at 0, the value of an order without n-grams. */
static void compute(const et_score *bleu, et_score_result *result, const et_score_counts *all)
{
    const et_bleu_counts *counts = &all->bleu;
    et_assert(counts->sys_len >= 0 && counts->ref_len >= 0);
    /* The lengths are shown with the score, whatever the rules. */
    *result = (et_score_result){
        .bp = 1,
        .sys_len = counts->sys_len,
        .ref_len = counts->ref_len,
    };
    if (bleu->options.smooth == ET_BLEU_SMOOTH_MODEL_GARDEN)
        model_garden_value(result, counts);
    else
        sacrebleu_value(result, counts, &bleu->options);
}

static void sign(const et_score *bleu, char text[ET_SCORE_TEXT_MAX])
{
    /* ORDER et_bleu_smooth. */
    static const char *const smooth_names[] = {
        [ET_BLEU_SMOOTH_EXP] = "exp",
        [ET_BLEU_SMOOTH_NONE] = "none",
        [ET_BLEU_SMOOTH_MODEL_GARDEN] = "model-garden",
    };
    snprintf(text, ET_SCORE_TEXT_MAX, "eff:%s|tok:%s|smooth:%s",
             bleu->options.effective_order ? "yes" : "no",
             et_bleu_tokens_name(bleu->options.tokens), smooth_names[bleu->options.smooth]);
}

/* "BLEU|... = 35.12 68.1/42.0/28.3/19.5 (BP = 1.000 ratio = 1.010 hyp_len = 12103 ref_len =
 * 11980)" */
static void print(const et_score_result *result, int width, const char *name,
                  char text[ET_SCORE_TEXT_MAX])
{
    /* 0 if the references have no words: there is no ratio. */
    double ratio = result->ref_len ? (double)result->sys_len / (double)result->ref_len : 0;
    const double *p = result->precisions;
    snprintf(text, ET_SCORE_TEXT_MAX,
             "%s = %s %s/%s/%s/%s (BP = %s ratio = %s hyp_len = %" PRId64 " ref_len = %" PRId64 ")",
             name, et_format_fixed(result->score, width).text, et_format_fixed(p[0], 1).text,
             et_format_fixed(p[1], 1).text, et_format_fixed(p[2], 1).text,
             et_format_fixed(p[3], 1).text, et_format_fixed(result->bp, 3).text,
             et_format_fixed(ratio, 3).text, result->sys_len, result->ref_len);
}

static const et_score_class class = { .title = "BLEU",
                                      .size = sizeof(et_bleu_counts),
                                      .by_words = true,
                                      .count = count_pair,
                                      .check = check,
                                      .compute = compute,
                                      .sign = sign,
                                      .print = print };

int et_bleu_new(et_score **out, const et_bleu_options *options, et_error *error)
{
    static const et_bleu_options defaults = ET_BLEU_OPTIONS_INIT;
    *out = NULL;
    options = options ? options : &defaults;
    if ((unsigned)options->tokens > ET_BLEU_TOKENS_V14 ||
        (unsigned)options->smooth > ET_BLEU_SMOOTH_MODEL_GARDEN)
        return et_fail(error, ET_ECONFIG, "BLEU: tokens %d or smooth %d is out of range",
                       (int)options->tokens, (int)options->smooth);
    return et_score_new(out, &class, options, error);
}
