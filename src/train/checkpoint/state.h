/* The state tree, for the library's own parts: weights and slots, and the functions that
 * checkpoint.h needs beyond <etude/state.h>.
 *
 * Names: weights by parameter name; slots "optimizer/<slot>/<parameter>"; averages
 * "average/<parameter>". */

/* Tensors that are divided among ranks (et_state_tensor.cut), for rank 0, which saves them. Rank 0
 * asks for one tensor after another, as often as it likes, while the other ranks serve:
 *
 *     if (et_comm_rank(comm)) status = et_tensor_shards_give(state, &error);
 *     if (!et_comm_rank(comm)) {
 *         ... et_tensor_shards_read(state, i, take, payload, &error) ...
 *         status = et_tensor_shards_end(state, status, &error);        lets the others go
 *     }
 *
 * All ranks have agreed on ET_OK before. The other ranks do not learn rank 0's status between give
 * and end; the next agreement tells them. Rank 0 needs no more memory than a chunk. */
#ifndef ETUDE_TRAIN_CHECKPOINT_STATE_H
#define ETUDE_TRAIN_CHECKPOINT_STATE_H

#include <etude/error.h>
#include <etude/params.h>
#include <etude/state.h>
#include <etude/tensor.h>

#include "engine/optim/optimizer.h"
#include "formats/safetensors/safetensors.h"

#define ET_STATE_AVERAGE   "average/"
#define ET_STATE_OPTIMIZER "optimizer/"

/* A tensor of the tree. */
typedef struct et_state_tensor {
    const char *name; /* owned by the tree */
    float *data;      /* borrowed, et_shape_count elements; of a tensor in parts this rank's */
    et_shape shape;
    bool missing; /* the restored file had no such tensor: its values have not changed */
    bool foreign; /* a program's own, which changes when it likes: a save takes a copy */
    /* In parts: borrowed, [ranks + 1]: rank r has elements cut[r] to cut[r + 1] - 1. NULL: every
     * rank has all of it. */
    const int64_t *cut;
    const float *whole; /* in parts: the whole restored tensor, until et_state_end_restore */
} et_state_tensor;

/* The ranks that have tensors in parts (all the same); NULL: all tensors are whole. A save must ask
 * for the other ranks' parts (below). */
et_comm *et_state_ranks(const et_state *state);

/* The store that was attached; NULL: none. */
et_params *et_state_params(const et_state *state);

/* Whether a part is attached: of this object, under this name; either may be NULL. */
bool et_state_has(const et_state *state, const void *self, const char *name);
/* Nothing is attached from here on: ET_EUSAGE. */
void et_state_seal(et_state *state);

/* Attaches a part that a restored file may lack: its restore is then not called. */
int et_state_add_optional(et_state *state, const char *name, const et_part_class *class, void *self,
                          et_error *error);

/* Call after a restore from the file of another optimizer. Missing tensors
 * (et_state_tensor.missing) start again: the average from the weights, the rule's slots (all, if
 * one is missing) from zero. tells: with warnings. */
void et_state_start_slots(const et_state *state, bool tells);

/* Whether a tensor of this name is a weight: neither a slot nor an average. */
bool et_state_is_weight(const char *name);

/* All parts as a new dict in arena: name to the part's dict. */
int et_state_save(const et_state *state, et_value **out, et_arena *arena, et_error *error);

/* Checks that such a dict has exactly the parts of this tree; optional parts may be missing.
 * ET_ECONFIG names the first missing or unknown part. */
int et_state_match(const et_state *state, const et_value *tree, et_error *error);
/* The same, but a part that only one side has gives a warning, which begins with path. ET_EFORMAT:
 * a part is not a dict. */
int et_state_match_partly(const et_state *state, const et_value *tree, const char *path,
                          et_error *error);

/* Restores the parts that the dict has. If a part refuses its values, its error; parts
 * before it are restored then. */
int et_state_restore(et_state *state, const et_value *tree, et_error *error);

size_t et_state_tensor_count(const et_state *state);
const et_state_tensor *et_state_tensor_at(const et_state *state, size_t index);

/* Copies a tensor's values; NULL: the tensor is missing. Of a tensor in parts, this rank copies
 * only its part; other parts are read from values (et_state_broadcast) until
 * et_state_end_restore. */
void et_state_tensor_fill(et_state *state, size_t index, const float *values);
void et_state_end_restore(et_state *state);

/* Notes that another rank has read a tensor's values, or that they are missing. */
void et_state_tensor_mark(et_state *state, size_t index, bool missing);

/* NULL: no tensor has this name. */
const et_state_tensor *et_state_tensor_find(const et_state *state, const char *name);

int et_tensor_shards_give(const et_state *state, et_error *error);
int et_tensor_shards_read(const et_state *state, size_t tensor, et_safetensors_take_fn *take,
                          void *payload, et_error *error);
int et_tensor_shards_end(const et_state *state, int status, et_error *error);

#endif
