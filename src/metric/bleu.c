#include <etude/score.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "metric/ngram.h"
#include "metric/score.h"
#include "metric/tokenize.h"

/* BLEU (Papineni et al. 2002, https://aclanthology.org/P02-1040):
 *     BLEU = BP exp(1/4 sum_n log p_n),  BP = min(1, exp(1 - r/c))
 * with p_n = matching n-grams over n-grams of the hypotheses, r and c the words of references
 * and hypotheses. Expressions keep the order of sacrebleu's, so that every bit is its own. */

/* A metric in the making: counts are its state, the rest is memory for the pair in hand. */
struct et_bleu {
    et_bleu_options options; /* a copy */
    et_bleu_counts counts;   /* sums over all pairs: the whole state of the metric */
    int64_t line;            /* calls of add since new or clear */
    /* What one pair needs, kept for the next. */
    et_tokenizer hypothesis, reference;         /* the two lines as codes, words set apart */
    et_codes hypothesis_words, reference_words; /* a number for each word */
    et_words words;                             /* from words to numbers */
    et_ngrams ngrams;                           /* the reference's n-grams of one order */
};

/* Memory for lines comes with the first pair. */
int et_bleu_new(et_bleu **out, const et_bleu_options *options, et_error *error)
{
    static const et_bleu_options defaults = ET_BLEU_OPTIONS_INIT;
    *out = NULL;
    options = options ? options : &defaults;
    if ((unsigned)options->tokens > ET_BLEU_TOKENS_V14 ||
        (unsigned)options->smooth > ET_BLEU_SMOOTH_MODEL_GARDEN)
        return et_fail(error, ET_ECONFIG, "BLEU: tokens %d or smooth %d is out of range",
                       (int)options->tokens, (int)options->smooth);
    /* Zeros are empty counts, and tokenizers and tables without memory. */
    et_bleu *bleu = et_alloc_zero(1, sizeof(*bleu));
    if (!bleu)
        return et_alloc_failed(error, sizeof(*bleu), "BLEU");
    bleu->options = *options;
    *out = bleu;
    return 0;
}

void et_bleu_free(et_bleu *bleu)
{
    if (!bleu)
        return;
    et_tokenizer_release(&bleu->hypothesis);
    et_tokenizer_release(&bleu->reference);
    et_codes_release(&bleu->hypothesis_words);
    et_codes_release(&bleu->reference_words);
    et_words_release(&bleu->words);
    et_ngrams_release(&bleu->ngrams);
    et_free(bleu);
}

/* Memory and options stay. */
void et_bleu_clear(et_bleu *bleu)
{
    bleu->counts = (et_bleu_counts){ 0 };
    bleu->line = 0;
}

/* side and line are for the message: "hypothesis line 12: ...". */
static int tokenize(const et_bleu *bleu, et_tokenizer *tokenizer, const char *text,
                    const char *side, int64_t line, et_error *error)
{
    int status =
        et_tokenizer_run(tokenizer, bleu->options.tokens, bleu->options.lowercase, text, error);
    return status ? et_fail_while(error, status, "%s line %" PRId64, side, line) : 0;
}

/* text -> tokens -> numbers -> n-grams that match. Each n-gram of the hypothesis matches at most
 * as often as the reference has it (clipped counts). counts is written as a whole on success
 * only. */
static int count_pair(et_bleu *bleu, et_bleu_counts *counts, int64_t line, const char *hypothesis,
                      const char *reference, et_error *error)
{
    int status = et_score_check_pair(hypothesis, reference, line, error);
    if (!status)
        status = tokenize(bleu, &bleu->hypothesis, hypothesis, "hypothesis", line, error);
    if (!status)
        status = tokenize(bleu, &bleu->reference, reference, "reference", line, error);
    if (!status)
        status = et_words_number(&bleu->words, &bleu->hypothesis_words, &bleu->reference_words,
                                 &bleu->hypothesis.line, &bleu->reference.line, error);
    if (!status)
        status = et_ngrams_match(&bleu->ngrams, &bleu->hypothesis_words, &bleu->reference_words,
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

/* A pair that fails is not counted, and neither is its line. */
int et_bleu_add(et_bleu *bleu, const char *hypothesis, const char *reference, et_error *error)
{
    et_bleu_counts counts;
    int status = count_pair(bleu, &counts, bleu->line + 1, hypothesis, reference, error);
    if (!status)
        status = et_bleu_merge(bleu, &counts, error);
    /* Lines count from 1 in messages: the next one is line + 1. */
    bleu->line += !status;
    return status;
}

/* Counts first: with different numbers of lines no pair is added. */
int et_bleu_add_corpus(et_bleu *bleu, const char *const *hypotheses, size_t hypothesis_count,
                       const char *const *references, size_t reference_count, et_error *error)
{
    int status = et_score_check_counts(hypothesis_count, reference_count, error);
    if (!status)
        status = et_score_check_pair((const char *)hypotheses, (const char *)references, 1, error);
    for (size_t i = 0; !status && i < reference_count; i++)
        status = et_bleu_add(bleu, hypotheses[i], references[i], error);
    return status;
}

/* Integers only, so the order of merging changes no bit. */
int et_bleu_merge(et_bleu *bleu, const et_bleu_counts *counts, et_error *error)
{
    for (int n = 0; n < ET_BLEU_ORDER; n++)
        if (counts->correct[n] > counts->total[n])
            return et_fail(error, ET_EDATA,
                           "counts to merge: %" PRId64 " of %" PRId64
                           " n-grams match, which is impossible",
                           counts->correct[n], counts->total[n]);
    return et_score_add_counts(&bleu->counts, counts, sizeof *counts, error);
}

/* sacrebleu's: score 0 without any match; the first order without n-grams ends the list. The
 * brevity penalty is 1 where hypotheses are as long or longer, 0 where they are empty. Smoothing
 * "exp": the k-th order without a match has the precision 100 / (2^k total). A log of 0 is
 * -9999999999, so one order without a match and without smoothing makes the score 0. */
static void sacrebleu_value(et_bleu_result *result, const et_bleu_counts *counts,
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

/* compute_bleu of Model Garden's metrics/bleu.py, in percent. Where that divides by zero (no
 * words in any reference) the score is 0. Differs from the other in three things: smoothing also
 * where nothing matches at all, the mean over the orders that have n-grams is divided by 4 all
 * the same, and the ratio of lengths below 10^-6 counts as 0. */
static void model_garden_value(et_bleu_result *result, const et_bleu_counts *counts)
{
    /* mean stays what it was with the last order that has n-grams; its divisor is always 4. */
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

/* precisions begin at 0, which is what an order without n-grams shows. */
void et_bleu_compute(et_bleu_result *result, const et_bleu_counts *counts,
                     const et_bleu_options *options)
{
    et_assert(counts->sys_len >= 0 && counts->ref_len >= 0);
    /* The lengths are shown with the score, whatever the rules. */
    *result = (et_bleu_result){
        .bp = 1,
        .sys_len = counts->sys_len,
        .ref_len = counts->ref_len,
    };
    if (options->smooth == ET_BLEU_SMOOTH_MODEL_GARDEN)
        model_garden_value(result, counts);
    else
        sacrebleu_value(result, counts, options);
}

/* No pair at all is an error, not a score of 0. */
int et_bleu_value(const et_bleu *bleu, et_bleu_result *result, et_error *error)
{
    /* The words of "nothing to score" are score.c's. */
    if (!bleu->counts.pairs)
        return et_score_check_counts(0, 0, error);
    et_bleu_compute(result, &bleu->counts, &bleu->options);
    return 0;
}

/* Counts nothing: the sums are as before. */
int et_bleu_sentence(et_bleu *bleu, et_bleu_result *result, const char *hypothesis,
                     const char *reference, et_error *error)
{
    et_bleu_counts counts;
    int status = count_pair(bleu, &counts, 1, hypothesis, reference, error);
    if (!status)
        et_bleu_compute(result, &counts, &bleu->options);
    return status;
}

const et_bleu_counts *et_bleu_total(const et_bleu *bleu)
{
    return &bleu->counts;
}

/* sacrebleu's keys in its order; version is ours, since that is who computed it. */
char *et_bleu_signature(const et_bleu *bleu, char text[ET_SCORE_TEXT_MAX])
{
    /* ORDER et_bleu_smooth. */
    static const char *const smooth_names[] = {
        [ET_BLEU_SMOOTH_EXP] = "exp",
        [ET_BLEU_SMOOTH_NONE] = "none",
        [ET_BLEU_SMOOTH_MODEL_GARDEN] = "model-garden",
    };
    snprintf(text, ET_SCORE_TEXT_MAX, "nrefs:1|case:%s|eff:%s|tok:%s|smooth:%s|version:etude-%s",
             bleu->options.lowercase ? "lc" : "mixed", bleu->options.effective_order ? "yes" : "no",
             et_bleu_tokens_name(bleu->options.tokens), smooth_names[bleu->options.smooth],
             ET_VERSION);
    return text;
}

/* "BLEU|... = 35.12 68.1/42.0/28.3/19.5 (BP = 1.000 ratio = 1.010 hyp_len = 12103 ref_len =
 * 11980)" */
char *et_bleu_print(const et_bleu_result *result, int width, const char *signature,
                    char text[ET_SCORE_TEXT_MAX])
{
    /* 0 where the references have no words: there is no ratio to show. */
    double ratio = result->ref_len ? (double)result->sys_len / (double)result->ref_len : 0;
    const double *p = result->precisions;
    snprintf(text, ET_SCORE_TEXT_MAX,
             "BLEU%s%s = %s %s/%s/%s/%s (BP = %s ratio = %s hyp_len = %" PRId64
             " ref_len = %" PRId64 ")",
             signature ? "|" : "", signature ? signature : "",
             et_format_fixed(result->score, et_score_width(width)).text,
             et_format_fixed(p[0], 1).text, et_format_fixed(p[1], 1).text,
             et_format_fixed(p[2], 1).text, et_format_fixed(p[3], 1).text,
             et_format_fixed(result->bp, 3).text, et_format_fixed(ratio, 3).text, result->sys_len,
             result->ref_len);
    return text;
}
