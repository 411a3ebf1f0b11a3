#include <etude/score.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "metric/ngram.h"
#include "metric/score.h"
#include "metric/tokenize.h"

/* chrF (Popovic 2015, https://aclanthology.org/W15-3049):
 *     chrF = (1 + beta^2) P R / (beta^2 P + R),  beta = 2
 * with P and R the means over n = 1 to 6 of the matching character n-grams over those of the
 * hypothesis and of the reference. Expressions keep the order of sacrebleu's. */

/* A metric in the making: counts are its state, the rest is memory for the pair in hand. */
struct et_chrf {
    et_chrf_options options;            /* a copy */
    et_chrf_counts counts;              /* sums over all pairs, by order */
    int64_t line;                       /* calls of add since new or clear */
    et_tokenizer hypothesis, reference; /* the two lines as characters; memory is kept */
    et_ngrams ngrams;                   /* the reference's of one order */
};

/* Memory for lines comes with the first pair. */
int et_chrf_new(et_chrf **out, const et_chrf_options *options, et_error *error)
{
    static const et_chrf_options defaults = ET_CHRF_OPTIONS_INIT;
    *out = NULL;
    /* Zeros are empty counts, and tokenizers and tables without memory. */
    et_chrf *chrf = et_alloc_zero(1, sizeof(*chrf));
    if (!chrf)
        return et_alloc_failed(error, sizeof(*chrf), "chrF");
    chrf->options = options ? *options : defaults;
    *out = chrf;
    return 0;
}

void et_chrf_free(et_chrf *chrf)
{
    if (!chrf)
        return;
    et_tokenizer_release(&chrf->hypothesis);
    et_tokenizer_release(&chrf->reference);
    et_ngrams_release(&chrf->ngrams);
    et_free(chrf);
}

void et_chrf_clear(et_chrf *chrf)
{
    chrf->counts = (et_chrf_counts){ 0 };
    chrf->line = 0;
}

/* Reads text as characters that are no white space. N-grams go over the ends of words: "ab c"
 * and "a bc" are the same to it. */
static int characters(const et_chrf *chrf, et_tokenizer *tokenizer, const char *text,
                      const char *side, int64_t line, et_error *error)
{
    int status =
        et_tokenizer_run(tokenizer, ET_BLEU_TOKENS_NONE, chrf->options.lowercase, text, error);
    if (status)
        return et_fail_while(error, status, "%s line %" PRId64, side, line);
    /* Moved together in place: what is kept is never more than what was there. */
    et_codes *codes = &tokenizer->line;
    size_t count = 0;
    for (size_t i = 0; i < codes->count; i++)
        if (!et_unicode_is_space(codes->items[i]))
            codes->items[count++] = codes->items[i];
    codes->count = count;
    return 0;
}

/* A line of n characters has n - order + 1. */
static int64_t ngram_count(const et_codes *codes, int order)
{
    et_assert(order >= 1 && order <= ET_CHRF_ORDER);
    int64_t count = (int64_t)codes->count - order + 1;
    return count > 0 ? count : 0;
}

/* As in sacrebleu, an order that the reference is too short for counts nothing of the
 * hypothesis. */
static int count_pair(et_chrf *chrf, et_chrf_counts *counts, int64_t line, const char *hypothesis,
                      const char *reference, et_error *error)
{
    int status = et_score_check_pair(hypothesis, reference, line, error);
    if (!status)
        status = characters(chrf, &chrf->hypothesis, hypothesis, "hypothesis", line, error);
    if (!status)
        status = characters(chrf, &chrf->reference, reference, "reference", line, error);
    /* Codes are the characters themselves: no numbers for them are needed. */
    const et_codes *ours = &chrf->hypothesis.line, *theirs = &chrf->reference.line;
    if (!status)
        status = et_ngrams_match(&chrf->ngrams, ours, theirs, ET_CHRF_ORDER, counts->match, error);
    if (status)
        return status;
    counts->pairs = 1;
    for (int n = 0; n < ET_CHRF_ORDER; n++) {
        counts->reference[n] = ngram_count(theirs, n + 1);
        counts->hypothesis[n] = counts->reference[n] ? ngram_count(ours, n + 1) : 0;
    }
    return 0;
}

/* A pair that fails is not counted, and neither is its line. */
int et_chrf_add(et_chrf *chrf, const char *hypothesis, const char *reference, et_error *error)
{
    et_chrf_counts counts;
    int status = count_pair(chrf, &counts, chrf->line + 1, hypothesis, reference, error);
    if (!status)
        status = et_chrf_merge(chrf, &counts, error);
    /* Lines count from 1 in messages: the next one is line + 1. */
    chrf->line += !status;
    return status;
}

/* Counts first: with different numbers of lines no pair is added. */
int et_chrf_add_corpus(et_chrf *chrf, const char *const *hypotheses, size_t hypothesis_count,
                       const char *const *references, size_t reference_count, et_error *error)
{
    int status = et_score_check_counts(hypothesis_count, reference_count, error);
    if (!status)
        status = et_score_check_pair((const char *)hypotheses, (const char *)references, 1, error);
    for (size_t i = 0; !status && i < reference_count; i++)
        status = et_chrf_add(chrf, hypotheses[i], references[i], error);
    return status;
}

/* Integers only, so the order of merging changes no bit. */
int et_chrf_merge(et_chrf *chrf, const et_chrf_counts *counts, et_error *error)
{
    for (int n = 0; n < ET_CHRF_ORDER; n++)
        if (counts->match[n] > counts->reference[n] || counts->match[n] > counts->hypothesis[n])
            return et_fail(error, ET_EDATA,
                           "counts to merge: %" PRId64 " n-grams match, of %" PRId64 " and %" PRId64
                           ", which is impossible",
                           counts->match[n], counts->hypothesis[n], counts->reference[n]);
    return et_score_add_counts(&chrf->counts, counts, sizeof *counts, error);
}

/* Means over the orders that both sides have n-grams of ("effective order"); 5 is 1 + beta^2, 4
 * is beta^2. */
double et_chrf_compute(const et_chrf_counts *counts)
{
    /* P and R are means over orders of the corpus's sums, not means over sentences. */
    double precision = 0, recall = 0;
    int order = 0;
    for (int n = 0; n < ET_CHRF_ORDER; n++) {
        /* An order that one of the sides is too short for is left out of both means. */
        if (!counts->hypothesis[n] || !counts->reference[n])
            continue;
        precision += (double)counts->match[n] / (double)counts->hypothesis[n];
        recall += (double)counts->match[n] / (double)counts->reference[n];
        order++;
    }
    /* Nothing to compare, or nothing that matches: 0, where the formula has 0/0. */
    if (!order || precision + recall == 0)
        return 0;
    /* F = (1 + beta^2) P R / (beta^2 P + R), in percent. */
    precision /= order;
    recall /= order;
    return 100 * (5 * precision * recall / (4 * precision + recall));
}

/* No pair at all is an error, not a score of 0. */
int et_chrf_value(const et_chrf *chrf, double *score, et_error *error)
{
    /* The words of "nothing to score" are score.c's. */
    if (!chrf->counts.pairs)
        return et_score_check_counts(0, 0, error);
    *score = et_chrf_compute(&chrf->counts);
    return 0;
}

/* Counts nothing: the sums are as before. */
int et_chrf_sentence(et_chrf *chrf, double *score, const char *hypothesis, const char *reference,
                     et_error *error)
{
    et_chrf_counts counts;
    int status = count_pair(chrf, &counts, 1, hypothesis, reference, error);
    if (!status)
        *score = et_chrf_compute(&counts);
    return status;
}

const et_chrf_counts *et_chrf_total(const et_chrf *chrf)
{
    return &chrf->counts;
}

/* nc: order of characters, nw: of words (0: chrF, not chrF++), space: white space is left out. */
char *et_chrf_signature(const et_chrf *chrf, char text[ET_SCORE_TEXT_MAX])
{
    snprintf(text, ET_SCORE_TEXT_MAX,
             "nrefs:1|case:%s|eff:yes|nc:%d|nw:0|space:no|version:etude-%s",
             chrf->options.lowercase ? "lc" : "mixed", ET_CHRF_ORDER, ET_VERSION);
    return text;
}

/* "chrF2|nrefs:1|... = 62.31" */
char *et_chrf_print(double score, int width, const char *signature, char text[ET_SCORE_TEXT_MAX])
{
    snprintf(text, ET_SCORE_TEXT_MAX, "chrF2%s%s = %s", signature ? "|" : "",
             signature ? signature : "", et_format_fixed(score, et_score_width(width)).text);
    return text;
}
