/* Calls of SentencePiece: loading a model, encoding, decoding, training. The only C++ file
 * (vocabulary_sentencepiece.cc) implements them and throws no exception; in a build without the
 * library, vocabulary_none.c does, and every call fails. Only vocabulary.c uses them, and its
 * header has the contracts. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_VOCABULARY_SENTENCEPIECE_H
#define ETUDE_DATA_TEXT_VOCABULARY_VOCABULARY_SENTENCEPIECE_H

#include "data/text/vocabulary/vocabulary.h"
#include "data/text/vocabulary/vocabulary_check.h"

typedef struct et_sentencepiece et_sentencepiece;

/* bytes must be checked (et_vocabulary_check), which gives facts; name is for messages. ET_EFORMAT:
 * the library refuses the model, or finds other facts. */
int et_sentencepiece_load(et_sentencepiece **out, const et_vocabulary_facts *facts,
                          const void *bytes, size_t length, const char *name, et_error *error);
void et_sentencepiece_free(et_sentencepiece *model); /* NULL allowed */

int et_sentencepiece_encode(const et_sentencepiece *model, const char *text, size_t length,
                            et_tokens *tokens, et_error *error);

/* All ids are below the number of tokens. */
int et_sentencepiece_decode(const et_sentencepiece *model, const int32_t *ids, size_t count,
                            et_strbuf *out, et_error *error);

/* id is below the number of tokens. Borrowed. */
const char *et_sentencepiece_token(const et_sentencepiece *model, int32_t id);

/* options are checked. */
int et_sentencepiece_train(char **bytes, size_t *length, const et_vocabulary_options *options,
                           et_vocabulary_lines_fn *lines, void *payload, et_error *error);

#endif
