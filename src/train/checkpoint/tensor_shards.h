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
#ifndef ETUDE_TRAIN_CHECKPOINT_TENSOR_SHARDS_H
#define ETUDE_TRAIN_CHECKPOINT_TENSOR_SHARDS_H

#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/state.h"

int et_tensor_shards_give(const et_state *state, et_error *error);
int et_tensor_shards_read(const et_state *state, size_t tensor, et_safetensors_take_fn *take,
                          void *payload, et_error *error);
int et_tensor_shards_end(const et_state *state, int status, et_error *error);

#endif
