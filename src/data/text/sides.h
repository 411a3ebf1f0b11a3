/* Encoding of the two sides of a pair: the punctuation is normalized, if the model was trained on
 * such text, and the text becomes tokens. */
#ifndef ETUDE_DATA_TEXT_SIDES_H
#define ETUDE_DATA_TEXT_SIDES_H

#include "data/text/vocabulary/vocabulary.h"

/* As et_vocabulary_encode, for a text of the source or the target. */
int et_sides_encode(const et_sides *sides, bool target, const char *text, size_t length,
                    et_tokens *tokens, et_error *error);

#endif
