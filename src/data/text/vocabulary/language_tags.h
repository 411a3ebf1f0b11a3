/* Tags for the target language of a multilingual model, as in OPUS-MT: ">>fra<<". Such a model
 * expects a tag in front of each source. */
#ifndef ETUDE_DATA_TEXT_VOCABULARY_LANGUAGE_TAGS_H
#define ETUDE_DATA_TEXT_VOCABULARY_LANGUAGE_TAGS_H

#include <etude/fields.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "data/text/vocabulary/vocabulary.h"

bool et_language_tag_is(const char *token);

/* The tags of a vocabulary, in arena. ET_ENOMEM. */
int et_language_tags_read(et_strings *tags, const et_vocabulary *vocabulary, et_arena *arena);
/* Bytes of the tag that text begins with; 0: none of these. */
size_t et_language_tag_begins(const et_strings *tags, const char *text, size_t length);

/* Returns the number of tags in a vocabulary, and appends the first ones: ">>deu<< >>fra<<". */
int32_t et_language_tags_list(const et_vocabulary *vocabulary, et_strbuf *list);

#endif
