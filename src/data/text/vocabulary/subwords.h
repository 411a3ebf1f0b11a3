/* Random sub-words: each pass over the data splits a sentence into other tokens. So a small corpus
 * teaches more, and rare words are seen in parts that other words share.
 *
 *     BPE       each merging step skips each merge with probability rate and makes the first
 *               remaining one: Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: simple and
 *               effective subword regularization", algorithm 1
 *     unigram   samples a segmentation with a probability proportional to its own to the power of
 *               rate: Kudo 2018, "Subword regularization: improving neural network translation
 *               models with multiple subword candidates", over all of them
 *
 * The input is a sentence's tokens from the vocabulary, split word by word (a word begins at
 * U+2581). Tokens that are not text of the vocabulary (unknown, a byte, a symbol of the user's)
 * stay, and so do words of more than ET_SUBWORDS_WORD bytes. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_SUBWORDS_H
#define ETUDE_DATA_TEXT_VOCABULARY_SUBWORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/numbers/philox.h"
#include "data/text/vocabulary/vocabulary.h"

#define ET_SUBWORDS_WORD 256

typedef struct et_subwords et_subwords;

/* vocabulary is borrowed and outlives it; rate as above: BPE in [0, 1), unigram above 0.
 * ET_ECONFIG: a vocabulary of another kind. */
int et_subwords_open(et_subwords **out, const et_vocabulary *vocabulary, double rate,
                     et_error *error);
void et_subwords_close(et_subwords *subwords); /* NULL allowed */

/* A hash of kind and rate. Draws depend only on these, on the vocabulary and on random. */
uint64_t et_subwords_fingerprint(const et_subwords *subwords);

/* Draws other tokens for the text of ids, which have no end symbol. Writes at most room tokens to
 * out and returns their number; 0: room is too small, and out is empty. random: of this sentence;
 * equal values draw the same tokens. Any number of threads. */
size_t et_subwords_draw(const et_subwords *subwords, et_random random, const int32_t *ids,
                        size_t count, int32_t *out, size_t room);

#endif
