/* A part: an object that is written as plain values and read back, so that it can be attached to
 * a tree of state, sent or compared, by whoever knows its class and nothing else of it.
 *
 *     static const et_part_class counter_part = { "counter", save_counter, restore_counter };
 *     et_state_add(state, "counter", &counter_part, &counter, &error);
 *
 * A part owns no dict: save fills one, restore reads one. One thread at a time. */
#ifndef ETUDE_BASE_PART_H
#define ETUDE_BASE_PART_H

#include <etude/error.h>

#include "base/value.h"

/* How an object of some kind is written as plain values and read back. */
typedef struct et_part_class {
    const char *name; /* of the kind, for messages */
    /* Fills dict, which is empty. Must depend on the state only: no time, no pointer. */
    int (*save)(const void *self, et_value *dict, et_error *error);
    /* Reads what save wrote; of a tree, after all tensors were restored, in order of adding. */
    int (*restore)(void *self, const et_value *dict, et_error *error);
} et_part_class;

/* Doubles that must come back bit for bit, whatever they are: JSON has neither NaN nor
 * infinity, so those are written as text. NULL: no memory. */
et_value *et_part_set_real(et_value *dict, const char *key, double real);
/* A number, or such text; anything else is ET_EFORMAT. */
int et_part_read_real(const et_value *dict, const char *key, double *out, et_error *error);

#endif
