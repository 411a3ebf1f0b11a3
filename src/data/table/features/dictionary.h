/* Positions of texts in a list, by hash: for looking up the entries of a column. Texts need not be
 * terminated. A dictionary does not change after it is made; the arena owns everything. */
#ifndef ETUDE_DATA_TABLE_FEATURES_DICTIONARY_H
#define ETUDE_DATA_TABLE_FEATURES_DICTIONARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct et_dictionary et_dictionary;

/* Copies texts. Of equal ones the first counts. NULL: no memory. */
et_dictionary *et_dictionary_new(et_arena *arena, const char *const *texts, int count);

int et_dictionary_count(const et_dictionary *self);
const char *const *et_dictionary_texts(const et_dictionary *self);

/* -1: it is not there. */
int et_dictionary_find(const et_dictionary *self, const char *text, size_t length);

#endif
