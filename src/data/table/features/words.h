/* Words of texts: the transform words, and counting. Pure functions. */
#ifndef ETUDE_DATA_TABLE_FEATURES_WORDS_H
#define ETUDE_DATA_TABLE_FEATURES_WORDS_H

#include "data/table/features/transforms.h"

/* Most words of a text that a feature may take. */
#define ET_WORDS_MAX 4096

/* Runs between blanks that have a letter: codes and addresses such as 550e8400-e29b or a@b.org are
 * one word. Bytes that are not ASCII are letters. */
int64_t et_words_count(const char *text, size_t length);

/* Words that the transform takes of a text without a limit. */
int64_t et_words_taken(const char *text, size_t length);

void et_words_fit(et_fitted *fitted, const et_fitting *with);
int et_words_apply(const et_fitted *f, const et_reading *value, void *to, et_error *error);

#endif
