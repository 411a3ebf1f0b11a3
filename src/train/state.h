/* The state tree: everything that resumes hangs here, so that a checkpoint is one transaction.
 * Parts attach: small things as plain values (a dict each), arrays as named tensors. The tree
 * knows nothing of files (checkpoint.h does) and owns none of what is attached, which must
 * outlive it.
 *
 *     et_state_add(state, "counter", &counter_part, &counter, &error);
 *     et_state_add_tensor(state, "logits/weight", values, shape, &error);
 *
 * Names: weights by parameter name; slots "optimizer/<slot>/<parameter>"; averages
 * "average/<parameter>". Attach everything before the first save or restore. One thread. */
#ifndef ETUDE_TRAIN_STATE_H
#define ETUDE_TRAIN_STATE_H

#include <etude/error.h>
#include <etude/params.h>
#include <etude/tensor.h>

#include "base/value.h"
#include "optim/optimizer.h"

/* How an object of some kind is written as plain values and read back. */
typedef struct et_state_class {
    const char *name; /* of the kind, for messages */
    /* Fills dict, which is empty. Must depend on the state only: no time, no pointer. */
    int (*save)(const void *self, et_value *dict, et_error *error);
    /* Reads what save wrote. Called after all tensors were restored, in order of adding. */
    int (*restore)(void *self, const et_value *dict, et_error *error);
} et_state_class;

#define ET_STATE_AVERAGE   "average/"
#define ET_STATE_OPTIMIZER "optimizer/"

typedef struct et_state et_state;

/* A tensor of the tree. */
typedef struct et_state_tensor {
    const char *name; /* owned by the tree */
    float *data;      /* borrowed, et_shape_count elements */
    et_shape shape;
    bool missing; /* what was restored last had no such tensor: its values are as before */
} et_state_tensor;

int et_state_new(et_state **out, et_error *error);
void et_state_free(et_state *state); /* NULL allowed */

/* Attaches a part; name is its key in the tree, unique, copied. */
int et_state_add(et_state *state, const char *name, const et_state_class *class, void *self,
                 et_error *error);

/* A part that what is restored may lack: its restore is not called then. */
int et_state_add_optional(et_state *state, const char *name, const et_state_class *class,
                          void *self, et_error *error);

/* Attaches an array; name is unique, copied. */
int et_state_add_tensor(et_state *state, const char *name, float *data, et_shape shape,
                        et_error *error);

/* Attaches all weights, and part "params", which tells the store after a restore
 * (et_params_changed with the shadow). params is materialized and uses its own values. */
int et_state_add_params(et_state *state, et_params *params, et_error *error);

/* Attaches an optimizer: its slots by parameter, and part "optimizer" with its iterations. */
int et_state_add_optimizer(et_state *state, et_optimizer *optimizer, const et_params *params,
                           et_error *error);

/* After a restore from the file of another optimizer: what it had not (et_state_tensor.missing)
 * begins anew, the average from the weights, the rule's slots (all, if one is missing) from zero.
 * Warnings say so. */
void et_state_start_slots(const et_state *state, et_optimizer *optimizer);

/* Whether a tensor of this name is a weight: neither a slot nor an average. */
bool et_state_is_weight(const char *name);

/* All parts as a new dict in arena: name to the part's dict. */
int et_state_save(const et_state *state, et_value **out, et_arena *arena, et_error *error);

/* Whether such a dict has exactly the parts of this tree, optional ones aside. ET_ECONFIG names
 * the first that is missing or unknown. */
int et_state_match(const et_state *state, const et_value *tree, et_error *error);

/* Restores parts from a dict that matches. If a part refuses its values, its error; parts
 * before it are restored then. */
int et_state_restore(et_state *state, const et_value *tree, et_error *error);

size_t et_state_tensor_count(const et_state *state);
const et_state_tensor *et_state_tensor_at(const et_state *state, size_t index);

/* Copies a tensor's values, NULL: there are none, it is missing. */
void et_state_tensor_fill(et_state *state, size_t index, const float *values);

/* NULL: there is none of that name. */
const et_state_tensor *et_state_tensor_find(const et_state *state, const char *name);

/* Doubles that must come back bit for bit, whatever they are: JSON has neither NaN nor
 * infinity, so those are written as text. */
et_value *et_state_set_real(et_value *dict, const char *key, double real);
int et_state_read_real(const et_value *dict, const char *key, double *out, et_error *error);

#endif
