/* Tokens by which a multilingual model is told the target language, as OPUS-MT names them:
 * ">>fra<<". Such a model expects one of them in front of each source. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_LANGUAGE_TAGS_H
#define ETUDE_DATA_TEXT_VOCABULARY_LANGUAGE_TAGS_H

#include "base/text/strbuf.h"
#include "data/text/vocabulary/vocabulary.h"

bool et_language_tag_is(const char *token);

/* Returns the number of such tokens, and appends the first ones: ">>deu<< >>fra<<". */
int32_t et_language_tags_list(const et_vocabulary *vocabulary, et_strbuf *list);

#endif
