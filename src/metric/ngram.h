/* Counts the n-grams that two sequences share, exactly and in linear time. A sequence is an array
 * of codes: characters, or words numbered by et_words. An n-gram is identified by the slot of its
 * first n - 1 codes in the table of that order and by its last code, so two n-grams of any length
 * are compared as two integers.
 *
 * Both tables keep their memory between pairs; a stamp distinguishes this pair's entries from older
 * ones, so nothing is cleared. */
#ifndef ETUDE_METRIC_NGRAM_H
#define ETUDE_METRIC_NGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/unicode.h"

typedef struct et_ngram_slot et_ngram_slot;

typedef struct et_ngrams {
    et_ngram_slot *slots; /* [capacity], owned */
    size_t capacity;      /* a power of two, or 0 */
    uint32_t stamp;       /* of the order that is being counted */
    et_codes at[2];       /* per position of each side: slot of the n-gram that starts there */
} et_ngrams;

#define ET_NGRAMS_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0,                                                                                \
        {                                                                                          \
            ET_CODES_INIT, ET_CODES_INIT                                                           \
        }                                                                                          \
    }

/* match[n - 1] = n-grams of hypothesis that reference has too, each at most as often as there,
 * for n = 1 to order. */
int et_ngrams_match(et_ngrams *ngrams, const et_codes *hypothesis, const et_codes *reference,
                    int order, int64_t match[], et_error *error);

void et_ngrams_release(et_ngrams *ngrams);

/* Numbers for words: equal words of a pair have equal numbers. */
typedef struct et_word_slot et_word_slot;

typedef struct et_words {
    et_word_slot *slots; /* [capacity], owned; words point into the reference's line */
    size_t capacity;
    uint32_t stamp; /* of the pair that is being numbered */
} et_words;

#define ET_WORDS_INIT                                                                              \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* The number of a word that the reference does not have. */
#define ET_WORD_UNKNOWN UINT32_MAX

/* Numbers the words of two tokenized lines. */
int et_words_number(et_words *words, et_codes *hypothesis, et_codes *reference,
                    const et_codes *hypothesis_line, const et_codes *reference_line,
                    et_error *error);

void et_words_release(et_words *words);

#endif
