#include "metric/score.h"

#include <inttypes.h>

#include "base/assert.h"

/* chrF (Popovic 2015, https://aclanthology.org/W15-3049):
 *     chrF = (1 + beta^2) P R / (beta^2 P + R),  beta = 2
 * with P and R the means over n = 1 to 6 of the matching character n-grams over those of the
 * hypothesis and of the reference. Expressions keep the order of sacrebleu's. */

/* Takes white space out of a line. N-grams go over the ends of words: "ab c" and "a bc" are the
 * same. */
static void join_words(et_codes *codes)
{
    size_t count = 0;
    for (size_t i = 0; i < codes->count; i++)
        if (!et_unicode_is_space(codes->items[i]))
            codes->items[count++] = codes->items[i];
    codes->count = count;
}

/* A line of n characters has n - order + 1. */
static int64_t ngram_count(const et_codes *codes, int order)
{
    et_assert(order >= 1 && order <= ET_CHRF_ORDER);
    int64_t count = (int64_t)codes->count - order + 1;
    return count > 0 ? count : 0;
}

/* As in sacrebleu, if the reference is too short for an order, the hypothesis's n-grams of that
 * order do not count. */
static int count_pair(et_score *chrf, et_score_counts *out, et_error *error)
{
    et_chrf_counts *counts = &out->chrf;
    et_codes *ours = &chrf->hypothesis.line, *theirs = &chrf->reference.line;
    join_words(ours);
    join_words(theirs);
    int status = et_ngrams_match(&chrf->ngrams, ours, theirs, ET_CHRF_ORDER, counts->match, error);
    if (status)
        return status;
    counts->pairs = 1;
    for (int n = 0; n < ET_CHRF_ORDER; n++) {
        counts->reference[n] = ngram_count(theirs, n + 1);
        counts->hypothesis[n] = counts->reference[n] ? ngram_count(ours, n + 1) : 0;
    }
    return 0;
}

static int check(const et_score_counts *all, et_error *error)
{
    const et_chrf_counts *counts = &all->chrf;
    for (int n = 0; n < ET_CHRF_ORDER; n++)
        if (counts->match[n] > counts->reference[n] || counts->match[n] > counts->hypothesis[n])
            return et_fail(error, ET_EDATA,
                           "counts to merge: %" PRId64 " n-grams match, of %" PRId64 " and %" PRId64
                           ", which is impossible",
                           counts->match[n], counts->hypothesis[n], counts->reference[n]);
    return ET_OK;
}

/* Means over the orders that both sides have n-grams of ("effective order"); 5 is 1 + beta^2, 4
 * is beta^2. */
static void compute(const et_score *chrf, et_score_result *result, const et_score_counts *all)
{
    (void)chrf;
    const et_chrf_counts *counts = &all->chrf;
    *result = (et_score_result){ .score = 0 };
    /* P and R are means over orders of the corpus's sums, not means over sentences. */
    double precision = 0, recall = 0;
    int order = 0;
    for (int n = 0; n < ET_CHRF_ORDER; n++) {
        /* An order for which one of the sides is too short is skipped in both means. */
        if (!counts->hypothesis[n] || !counts->reference[n])
            continue;
        precision += (double)counts->match[n] / (double)counts->hypothesis[n];
        recall += (double)counts->match[n] / (double)counts->reference[n];
        order++;
    }
    /* If there is nothing to compare or nothing matches, the formula has 0/0: the score is 0. */
    if (!order || precision + recall == 0)
        return;
    /* F = (1 + beta^2) P R / (beta^2 P + R), in percent. */
    precision /= order;
    recall /= order;
    result->score = 100 * (5 * precision * recall / (4 * precision + recall));
}

/* nc: order of characters, nw: of words (0: chrF, not chrF++), space: whether white space counts.
 */
static const et_score_class class = { .title = "chrF2",
                                      .size = sizeof(et_chrf_counts),
                                      .settings = "eff:yes|nc:6|nw:0|space:no",
                                      .count = count_pair,
                                      .check = check,
                                      .compute = compute };
_Static_assert(ET_CHRF_ORDER == 6, "the settings have it");

int et_chrf_new(et_score **out, const et_chrf_options *options, et_error *error)
{
    const et_bleu_options own = { .tokens = ET_BLEU_TOKENS_NONE,
                                  .lowercase = options && options->lowercase };
    return et_score_new(out, &class, &own, error);
}
