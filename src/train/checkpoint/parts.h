/* Tensors that ranks have in parts (et_state_tensor.cut), for rank 0, which saves them. It asks for
 * one after another, as often as it likes, while the others stand by:
 *
 *     status = et_parts_begin(state, status, &error);          all ranks
 *     if (!status && et_comm_rank(comm)) status = et_parts_give(state, &error);
 *     if (!status && !et_comm_rank(comm)) {
 *         ... et_parts_read(state, i, take, payload, &error) ...
 *         status = et_parts_end(state, status, &error);        lets the others go
 *     }
 *
 * Where a rank has failed before, begin fails on all and nothing is asked. What rank 0 comes to
 * between begin and end is its own: the next agreement tells the others. Rank 0 needs no more
 * memory than a piece. */
#ifndef ETUDE_TRAIN_CHECKPOINT_PARTS_H
#define ETUDE_TRAIN_CHECKPOINT_PARTS_H

#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/state.h"

int et_parts_begin(const et_state *state, int status, et_error *error);
int et_parts_give(const et_state *state, et_error *error);
int et_parts_read(const et_state *state, size_t tensor, et_safetensors_take_fn *take, void *payload,
                  et_error *error);
int et_parts_end(const et_state *state, int status, et_error *error);

#endif
