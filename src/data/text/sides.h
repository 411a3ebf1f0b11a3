/* Encoding of the two sides of a pair: the punctuation is normalized, if the model was trained on
 * such text, and the text becomes tokens. */
#ifndef ETUDE_DATA_TEXT_SIDES_H
#define ETUDE_DATA_TEXT_SIDES_H

#include "data/text/vocabulary/vocabulary.h"

/* As et_vocabulary_encode, of the text as rules normalize it. */
int et_sides_encode_by(const struct et_punctuation *rules, const et_vocabulary *vocabulary,
                       const char *text, size_t length, et_tokens *tokens, et_error *error);

/* As et_vocabulary_encode, for a text of the source or the target. */
static inline int et_sides_encode(const et_sides *sides, bool target, const char *text,
                                  size_t length, et_tokens *tokens, et_error *error)
{
    const et_vocabulary *vocabulary = target ? sides->target : sides->source;
    const struct et_punctuation *rules = sides->punctuation[target];
    return rules ? et_sides_encode_by(rules, vocabulary, text, length, tokens, error)
                 : et_vocabulary_encode(vocabulary, text, length, tokens, error);
}

#endif
