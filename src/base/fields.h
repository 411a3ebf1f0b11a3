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

/* What a message about an unknown word ends its first sentence with: ". Nearest: --lr", where mark
 * is "--", or "" if none is near. By value, so that it can stand in a call of et_fail. */
typedef struct et_hint {
    char text[96];
} et_hint;
et_hint et_nearest_hint(const char *word, const char *const *names, const char *mark);

#endif
