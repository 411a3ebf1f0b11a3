/* What <etude/fields.h> leaves to the library's own parts: help, and the nearest name. */
#ifndef ETUDE_BASE_FIELDS_H
#define ETUDE_BASE_FIELDS_H

#include <etude/fields.h>

#include "base/strbuf.h"

/* One line per member: "path  type  default (range)  help". */
void et_fields_help(const et_fields *table, et_strbuf *out, const char *path);

/* The entry of names (ended by NULL) nearest to word: by letters (up to a third of the word's may
 * differ, case and - _ aside), by word parts (num_heads: num_attention_heads) or by initials (lr:
 * learning_rate). NULL if none is near. */
const char *et_nearest(const char *word, const char *const *names);

#endif
