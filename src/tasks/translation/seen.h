/* Which samples a validation has looked at: a mark for each, set as its batch goes by, so that one
 * that goes by twice counts once, and cleared when the pass is begun anew. What is decoded and
 * scored beside the loss are those, in the order of their numbers: a validation of a few batches
 * scores what it has evaluated. Model Garden gives each line an id and sorts by it. */
#ifndef ETUDE_TASKS_TRANSLATION_SEEN_H
#define ETUDE_TASKS_TRANSLATION_SEEN_H

#include <etude/data.h>

/* [count], the owner's. */
typedef struct et_seen {
    bool *is;
    int64_t count;
} et_seen;

/* seen is borrowed and outlives the source, which owns inner. */
int et_seen_open(et_source **out, et_source *inner, et_seen *seen, et_error *error);

#endif
