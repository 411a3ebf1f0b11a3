/* Normalizes punctuation before a text is split into tokens, as Moses does: one kind of quotes,
 * dashes and spaces, and the language's order of quotes and commas. Equal to sacremoses'
 * MosesPunctNormalizer with its defaults. Models of OPUS-MT were trained on such text. */
#ifndef ETUDE_DATA_TEXT_PUNCTUATION_H
#define ETUDE_DATA_TEXT_PUNCTUATION_H

#include <stddef.h>
#include <stdint.h>

#include "data/text/vocabulary/vocabulary.h"

struct et_strbuf;

/* The rules of a language; static. */
typedef struct et_punctuation et_punctuation;

/* language: a code, such as "de". A language without its own rules gets the general rules. NULL or
 * "": returns NULL. */
const et_punctuation *et_punctuation_of(const char *language);

/* A number that identifies the rules, the same in every program; 0: NULL. */
uint64_t et_punctuation_number(const et_punctuation *rules);

/* Writes the normalized line to out, which is emptied first: [length] bytes of UTF-8 without a byte
 * 0. Without memory, out has failed. */
void et_punctuation_normalize(const et_punctuation *rules, const char *text, size_t length,
                              struct et_strbuf *out);

/* Encodes a text of one side of a pair as et_vocabulary_encode does. If the model was trained on
 * normalized text, the text is normalized first. */
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
