/* Which of two labels is asked for: the positive class. */
#ifndef ETUDE_DATA_TABLE_FEATURES_LABEL_YES_H
#define ETUDE_DATA_TABLE_FEATURES_LABEL_YES_H

#include <stdbool.h>

/* Whether a label is the positive one beside the other: a word for yes, or the larger number. */
bool et_label_is_yes(const char *label, const char *other);

#endif
