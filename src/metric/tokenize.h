/* Splits a line into words, as the BLEU scripts do: the result is the same text with white space
 * between the words. base/text/unicode.h defines white space, digits, punctuation and symbols. To
 * add a tokenizer: a row in tokenize.c and its name in <etude/score.h>. */
#ifndef ETUDE_METRIC_TOKENIZE_H
#define ETUDE_METRIC_TOKENIZE_H

#include <stdbool.h>

#include <etude/score.h>

#include "base/text/unicode.h"

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

#endif
