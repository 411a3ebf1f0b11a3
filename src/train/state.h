/* What <etude/state.h> leaves to the library's own parts: making a tree, its weights and slots, and
 * what checkpoint.h reads of it.
 *
 * Names: weights by parameter name; slots "optimizer/<slot>/<parameter>"; averages
 * "average/<parameter>". */
#ifndef ETUDE_TRAIN_STATE_H
#define ETUDE_TRAIN_STATE_H

#include <etude/error.h>
#include <etude/params.h>
#include <etude/state.h>
#include <etude/tensor.h>

#include "optim/optimizer.h"

#define ET_STATE_AVERAGE   "average/"
#define ET_STATE_OPTIMIZER "optimizer/"

/* A tensor of the tree. */
typedef struct et_state_tensor {
    const char *name; /* owned by the tree */
    float *data;      /* borrowed, et_shape_count elements */
    et_shape shape;
} et_state_tensor;

int et_state_new(et_state **out, et_error *error);
void et_state_free(et_state *state); /* NULL allowed */

/* The store that was attached; NULL: none. */
et_params *et_state_params(const et_state *state);

/* Whether a tensor of this name is a weight: neither a slot nor an average. */
bool et_state_is_weight(const char *name);

/* All parts as a new dict in arena: name to the part's dict. */
int et_state_save(const et_state *state, et_value **out, et_arena *arena, et_error *error);

/* Whether such a dict has exactly the parts of this tree. ET_ECONFIG names the first that is
 * missing or unknown. */
int et_state_match(const et_state *state, const et_value *tree, et_error *error);

/* Restores parts from a dict that matches. If a part refuses its values, its error; parts
 * before it are restored then. */
int et_state_restore(et_state *state, const et_value *tree, et_error *error);

size_t et_state_tensor_count(const et_state *state);
const et_state_tensor *et_state_tensor_at(const et_state *state, size_t index);
/* NULL: there is none of that name. */
const et_state_tensor *et_state_tensor_find(const et_state *state, const char *name);

#endif
