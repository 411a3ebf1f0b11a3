/* Scores of translations: BLEU, chrF2 and TER with the numbers and printed lines of sacrebleu 2,
 * and Model Garden's uncased BLEU. One reference per hypothesis.
 *
 * A score is a streaming metric: add pairs, merge the counts of other ranks or threads, read the
 * value at any time. Counts are integer sums, so order and grouping do not change a bit of the
 * value. Text is UTF-8, one line each, ended by 0. The caller reads files and detokenizes.
 * Sentences are not kept.
 *
 *     et_score *bleu;
 *     et_score_result result;
 *     et_bleu_options options = ET_BLEU_OPTIONS_INIT;
 *     if (et_bleu_new(&bleu, &options, &error)) ...
 *     for (size_t i = 0; i < count; i++)
 *         if (et_score_add(bleu, hypotheses[i], references[i], &error)) ...
 *     if (et_score_value(bleu, &result, &error)) ...
 *     puts(et_score_print(bleu, &result, 2, NULL, text));
 *     et_score_free(bleu);
 *
 * Threads: use a metric from one thread at a time; merge the metrics of several threads. */
#ifndef ETUDE_SCORE_H
#define ETUDE_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/export.h>

#define ET_BLEU_ORDER 4 /* n-grams of 1 to 4 words */
#define ET_CHRF_ORDER 6 /* n-grams of 1 to 6 characters */

/* Enough for every signature and printed line. */
#define ET_SCORE_TEXT_MAX 320

typedef struct et_score et_score; /* a metric, of any kind */

/* How a line is split into words. */
typedef enum et_bleu_tokens {
    ET_BLEU_TOKENS_13A,  /* mteval-v13a, as reported by WMT; sacrebleu's default */
    ET_BLEU_TOKENS_NONE, /* split at white space: for tokenized text, as multi-bleu */
    ET_BLEU_TOKENS_CHAR, /* every character is a word */
    ET_BLEU_TOKENS_V14,  /* mteval-v14 by Unicode categories, as in Model Garden */
} et_bleu_tokens;

/* The precision of an order without a match. */
typedef enum et_bleu_smooth {
    ET_BLEU_SMOOTH_EXP,          /* 1 / (2^k total) for the k-th such order; 0 if no word matches */
    ET_BLEU_SMOOTH_NONE,         /* 0; the score is then 0 too */
    ET_BLEU_SMOOTH_MODEL_GARDEN, /* as EXP, also if no word matches. An order without n-grams is
                                    left out of the sum of logarithms, but counts in its divisor */
} et_bleu_smooth;

typedef struct et_bleu_options {
    et_bleu_tokens tokens;
    et_bleu_smooth smooth;
    bool lowercase;       /* both sides, as Python's str.lower() */
    bool effective_order; /* stop at the longest order of the hypothesis: for single sentences */
} et_bleu_options;

/* sacrebleu's defaults. */
#define ET_BLEU_OPTIONS_INIT                                                                       \
    {                                                                                              \
        ET_BLEU_TOKENS_13A, ET_BLEU_SMOOTH_EXP, false, false                                       \
    }
/* For tokenized and lower-cased text: the value of multi-bleu. */
#define ET_BLEU_OPTIONS_TOKENIZED                                                                  \
    {                                                                                              \
        ET_BLEU_TOKENS_NONE, ET_BLEU_SMOOTH_EXP, false, false                                      \
    }
/* "bleu_score" of Model Garden's translation task. */
#define ET_BLEU_OPTIONS_MODEL_GARDEN                                                               \
    {                                                                                              \
        ET_BLEU_TOKENS_V14, ET_BLEU_SMOOTH_MODEL_GARDEN, true, false                               \
    }

/* Sums over the pairs: the whole state of a metric, for saving and merging. */
typedef struct et_bleu_counts {
    int64_t pairs;
    int64_t sys_len, ref_len;       /* words of the hypotheses and of the references */
    int64_t correct[ET_BLEU_ORDER]; /* matching n-grams, clipped to the reference's count */
    int64_t total[ET_BLEU_ORDER];   /* n-grams of the hypotheses */
} et_bleu_counts;

/* chrF2: F-score (beta 2) of the mean precision and recall of character n-grams, orders 1 to 6,
 * without white space. Orders for which one side has no n-grams are ignored. */
typedef struct et_chrf_options {
    bool lowercase; /* both sides, as Python's str.lower() */
} et_chrf_options;

#define ET_CHRF_OPTIONS_INIT                                                                       \
    {                                                                                              \
        false                                                                                      \
    }

typedef struct et_chrf_counts {
    int64_t pairs;
    int64_t hypothesis[ET_CHRF_ORDER]; /* n-grams, only of pairs whose reference has this order */
    int64_t reference[ET_CHRF_ORDER];
    int64_t match[ET_CHRF_ORDER];
} et_chrf_counts;

/* TER (Snover et al. 2006): the fewest edits that make the hypothesis the reference, in percent of
 * the reference's words. An edit inserts, deletes or replaces a word, or moves a block of words. A
 * smaller score is better, and it may exceed 100. Words are what white space separates. The search
 * for moves has the limits of Tercom and sacrebleu. */
typedef struct et_ter_options {
    bool case_sensitive; /* otherwise both sides are lower-cased, as Python's str.lower() does */
} et_ter_options;

#define ET_TER_OPTIONS_INIT                                                                        \
    {                                                                                              \
        false                                                                                      \
    }

typedef struct et_ter_counts {
    int64_t pairs;
    int64_t edits, ref_len; /* ref_len: words of the references */
} et_ter_counts;

typedef union et_score_counts {
    et_bleu_counts bleu; /* all begin with pairs */
    et_chrf_counts chrf;
    et_ter_counts ter;
} et_score_counts;

typedef struct et_score_result {
    double score;                     /* 0 to 100; TER: from 0 */
    double precisions[ET_BLEU_ORDER]; /* 0 to 100; of BLEU, as the members below */
    double bp;                        /* brevity penalty, 0 to 1 */
    int64_t sys_len, ref_len;
} et_score_result;

/* options NULL: the defaults. ET_ECONFIG: an invalid option. */
ET_API int et_bleu_new(et_score **out, const et_bleu_options *options, et_error *error);
ET_API int et_chrf_new(et_score **out, const et_chrf_options *options, et_error *error);
ET_API int et_ter_new(et_score **out, const et_ter_options *options, et_error *error);
ET_API void et_score_free(et_score *score); /* NULL allowed */

/* Removes all pairs. */
ET_API void et_score_clear(et_score *score);

/* Adds a pair; either text may be empty. ET_EDATA: a text is NULL or not UTF-8. The error names
 * side, line (number of the call since new or clear, from 1) and byte. On failure the counts do not
 * change. */
ET_API int et_score_add(et_score *score, const char *hypothesis, const char *reference,
                        et_error *error);

/* Adds the counts of a metric of the same kind with equal options. ET_EDATA: no text can have such
 * counts, or the sum is too large; nothing is added. */
ET_API int et_score_merge(et_score *score, const et_score_counts *counts, et_error *error);

/* The score of all pairs. ET_EDATA: no pairs. */
ET_API int et_score_value(const et_score *score, et_score_result *result, et_error *error);

/* The score of one pair, without adding it. For BLEU set effective_order. */
ET_API int et_score_sentence(et_score *score, et_score_result *result, const char *hypothesis,
                             const char *reference, et_error *error);

/* The sums so far. Valid until free. */
ET_API const et_score_counts *et_score_total(const et_score *score);

/* Returns text: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:etude-0.1.0" for BLEU,
 * "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:etude-0.1.0" for chrF,
 * "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:etude-0.1.0" for TER: sacrebleu's
 * signatures except for the version. */
ET_API char *et_score_signature(const et_score *score, char text[ET_SCORE_TEXT_MAX]);

/* Returns text: "BLEU = 41.02 71.2/48.1/34.0/24.4 (BP = 1.000 ratio = 1.003 hyp_len = 12130 ref_len
 * = 12088)", "chrF2 = 67.33" or "TER = 41.90" with width decimals of the score, limited to 0 to 17.
 * signature (NULL: none) follows "BLEU|". sacrebleu's command prints one decimal, its API two. */
ET_API char *et_score_print(const et_score *score, const et_score_result *result, int width,
                            const char *signature, char text[ET_SCORE_TEXT_MAX]);

#endif
