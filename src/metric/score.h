/* The common part of the scores of <etude/score.h>. */
#ifndef ETUDE_METRIC_SCORE_H
#define ETUDE_METRIC_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/score.h>

#include "metric/ngram.h"
#include "metric/tokenize.h"

/* Memory for the edits of one pair (ter.c), used again for the next; all owned. Zeros are empty.
 * Row i of the matrix is for the first i words of the hypothesis; its cells are for columns from
 * first[i], a column for each number of reference words. */
typedef struct et_shift_edits {
    et_codes words, moved; /* the hypothesis after the moves so far, and with one more */
    size_t *begin;         /* [rows + 1] of a row's cells in the next three */
    size_t *first;         /* [rows] */
    int32_t *cost, *trial; /* of words and of moved */
    char *step;            /* of words: how its cell was reached */
    size_t row_capacity, cell_capacity, column_capacity;
    int64_t *align;        /* [reference] the word before which a reference word stands; -1: none */
    char *reference_wrong; /* [reference] 1: it does not match */
    char *wrong;           /* [hypothesis] the same */
} et_shift_edits;

void et_shift_edits_release(et_shift_edits *edits);

typedef struct et_score_class {
    const char *title;
    size_t size; /* bytes of its counts, int64_t all */
    /* The counts of one pair, both of whose texts are there; line is for messages. */
    int (*count)(et_score *score, et_score_counts *counts, int64_t line, const char *hypothesis,
                 const char *reference, et_error *error);
    /* ET_EDATA: counts that no text has. */
    int (*check)(const et_score_counts *counts, et_error *error);
    void (*compute)(const et_score *score, et_score_result *result, const et_score_counts *counts);
    void (*sign)(const et_score *score, char text[ET_SCORE_TEXT_MAX]);
    /* name: with its signature, if one is printed. */
    void (*print)(const et_score_result *result, int width, const char *name,
                  char text[ET_SCORE_TEXT_MAX]);
} et_score_class;

/* A metric in the making: counts are its state, the rest is memory for the pair in hand. */
struct et_score {
    const et_score_class *class;
    et_bleu_options options; /* a copy; of chrF and TER lowercase alone */
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
