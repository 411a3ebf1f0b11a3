/* The common part of the scores of <etude/score.h>. */
#ifndef ETUDE_METRIC_SCORE_H
#define ETUDE_METRIC_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/score.h>

#include "base/text/unicode.h"

/* Splits a line into words, as the BLEU scripts do: the result is the same text with white space
 * between the words. base/text/unicode.h defines white space, digits, punctuation and symbols. To
 * add a tokenizer: a row in score.c and its name in <etude/score.h>. */

/* Two buffers that take turns, one pass over the line to the next. */
typedef struct et_tokenizer {
    et_codes line; /* the result */
    et_codes spare;
} et_tokenizer;

#define ET_TOKENIZER_INIT                                                                          \
    {                                                                                              \
        ET_CODES_INIT, ET_CODES_INIT                                                               \
    }

/* Reads text into tokenizer->line: decoded, lower-cased if so asked, tokenized. The result is
 * valid until the next call. ET_EDATA: not UTF-8. */
int et_tokenizer_run(et_tokenizer *tokenizer, et_bleu_tokens tokens, bool lowercase,
                     const char *text, et_error *error);

void et_tokenizer_release(et_tokenizer *tokenizer);

/* Finds the next word of line at or after *at: its first code and the one after its last. False: no
 * more words. *at moves past the word. */
bool et_word_next(const et_codes *line, size_t *at, size_t *first, size_t *end);

/* The name in signatures: "13a". Static. */
const char *et_bleu_tokens_name(et_bleu_tokens tokens);

/* Counts the n-grams that two sequences share, exactly and in linear time. A sequence is an array
 * of codes: characters, or words numbered by et_words. Two integers identify an n-gram of any
 * length: its last code, and the slot of its first n - 1 codes in the table of order n - 1.
 *
 * Both tables keep their memory between pairs; a stamp distinguishes this pair's entries from older
 * ones, so nothing is cleared. */

typedef struct et_ngram_slot et_ngram_slot;

typedef struct et_ngrams {
    et_ngram_slot *slots; /* [capacity], owned */
    size_t capacity;      /* a power of two, or 0 */
    uint32_t stamp;       /* of the order that is being counted */
    et_codes at[2];       /* per position of each side: slot of the n-gram that starts there */
} et_ngrams;

/* match[n - 1] = n-grams of hypothesis that reference has too, each at most as often as there,
 * for n = 1 to order. */
int et_ngrams_match(et_ngrams *ngrams, const et_codes *hypothesis, const et_codes *reference,
                    int order, int64_t match[], et_error *error);

/* Numbers for words: equal words of a pair have equal numbers. */
typedef struct et_word_slot et_word_slot;

typedef struct et_words {
    et_word_slot *slots; /* [capacity], owned; words point into the reference's line */
    size_t capacity;
    uint32_t stamp; /* of the pair that is being numbered */
} et_words;

/* The number of a word that the reference does not have. */
#define ET_WORD_UNKNOWN UINT32_MAX

/* Numbers the words of two tokenized lines. */
int et_words_number(et_words *words, et_codes *hypothesis, et_codes *reference,
                    const et_codes *hypothesis_line, const et_codes *reference_line,
                    et_error *error);

/* Memory for the edits of one pair (ter.c), used again for the next; all owned. Zeros are empty.
 * Row i of the matrix is for the first i words of the hypothesis; its cells are for columns from
 * first[i], a column for each number of reference words. */
typedef struct et_shift_edits {
    et_codes words, moved; /* the hypothesis after the moves so far, and with one more */
    size_t *begin;         /* [rows + 1] of a row's cells in cost, trial and step; owned */
    size_t *first;         /* [rows] */
    int32_t *cost, *trial; /* of words and of moved */
    char *step;            /* of words: how its cell was reached */
    size_t capacity;       /* bytes from begin on, where all arrays are */
    int64_t *align;        /* [reference] the word before which a reference word stands; -1: none */
    char *reference_wrong; /* [reference] 1: it does not match */
    char *wrong;           /* [hypothesis] the same */
} et_shift_edits;

typedef struct et_score_class {
    const char *title;
    size_t size;          /* bytes of its counts, int64_t all */
    const char *settings; /* in signatures; NULL: by sign */
    bool by_words;        /* counts numbers of words, not codes */
    /* The counts of one pair, whose lines score->hypothesis and ->reference have, and in numbers
     * score->hypothesis_words and ->reference_words. */
    int (*count)(et_score *score, et_score_counts *counts, et_error *error);
    /* ET_EDATA: counts that no text has. */
    int (*check)(const et_score_counts *counts, et_error *error);
    void (*compute)(const et_score *score, et_score_result *result, const et_score_counts *counts);
    void (*sign)(const et_score *score, char text[ET_SCORE_TEXT_MAX]); /* the settings */
    /* name: with its signature, if one is printed. NULL: "NAME = SCORE". */
    void (*print)(const et_score_result *result, int width, const char *name,
                  char text[ET_SCORE_TEXT_MAX]);
} et_score_class;

/* A metric in the making: counts are its state, the rest is memory for the pair in hand. */
struct et_score {
    const et_score_class *class;
    et_bleu_options options; /* a copy; of chrF and TER lowercase alone differs */
    et_score_counts counts;  /* sums over all pairs: the whole state of the metric */
    int64_t line;            /* calls of add since new or clear */
    /* Memory for one pair, reused for the next. */
    et_tokenizer hypothesis, reference;         /* the two lines as codes */
    et_codes hypothesis_words, reference_words; /* of BLEU and TER: a number for each word */
    et_words words;                             /* of BLEU and TER: from words to numbers */
    et_ngrams ngrams;                           /* the reference's n-grams of one order */
    et_shift_edits edits;                       /* of TER */
};

/* Memory for lines comes with the first pair. */
int et_score_new(et_score **out, const et_score_class *class, const et_bleu_options *options,
                 et_error *error);

/* The counts of one pair, of which nothing is kept. line: for messages. */
int et_score_count(et_score *score, et_score_counts *counts, int64_t line, const char *hypothesis,
                   const char *reference, et_error *error);

/* Adds counts of valid pairs, which must not overflow. */
void et_score_sum(const et_score *score, et_score_counts *sum, const et_score_counts *counts);

/* The score of such counts. */
void et_score_compute(const et_score *score, et_score_result *result,
                      const et_score_counts *counts);

/* Adds line by line. ET_EDATA before the first is added: the two counts differ, or are 0. */
int et_score_add_corpus(et_score *score, const char *const *hypotheses, size_t hypothesis_count,
                        const char *const *references, size_t reference_count, et_error *error);

#endif
