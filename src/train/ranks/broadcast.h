/* Broadcasts from rank 0 to all ranks: the state tree, plain values, and the checkpoints of another
 * run. All ranks call these
 * functions together; a failure on one rank is a failure on all. comm NULL: does nothing. */
#ifndef ETUDE_TRAIN_RANKS_BROADCAST_H
#define ETUDE_TRAIN_RANKS_BROADCAST_H

#include <etude/comm.h>
#include <etude/value.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state.h"

/* A tree of plain values as bytes, for another process of the same program: every kind, numbers bit
 * for bit, also NaN and infinity. */

/* Appends value and everything below it; the buffer keeps a failure. */
void et_value_write_bytes(et_strbuf *to, const et_value *value);

/* *out: a copy in arena. ET_EFORMAT: bytes that write has not made. */
int et_value_read_bytes(et_value **out, et_arena *arena, const void *bytes, size_t size,
                        et_error *error);

/* Every array and part becomes rank 0's; of a tensor in parts each rank gets its own part of rank
 * 0's restored tensor. A tensor that rank 0 has found missing is missing on all ranks. One status
 * for all; ET_ECONFIG: a rank has another tree. */
int et_state_broadcast(et_state *state, et_comm *comm, et_error *error);

/* *out: values of rank 0, a dict; on other ranks an exact copy in arena. values of other ranks are
 * ignored. status: the result of making values, on rank 0 alone or on all ranks. */
int et_values_broadcast(const et_value *values, const et_value **out, et_arena *arena,
                        et_comm *comm, int status, et_error *error);

/* *text of rank 0 (NULL: none) is copied to the other ranks, which free it with et_free. status:
 * the result of making the text, on rank 0 alone or on all ranks. */
int et_text_broadcast(char **text, et_comm *comm, int status, et_error *error);

/* ---- waiting for checkpoints ---- */

/* Waiting for the checkpoints of a run that another process trains, by all ranks that evaluate them
 * together. Rank 0 looks, and its result holds for all ranks. The caller repeats the call after a
 * while; nothing is kept in between.
 *
 *     status = et_checkpoint_wait_next(comm, &path, &step, "runs/a", step, false, &error);
 *     ... path NULL: there is none ...
 *     bool over = et_clock_monotonic() - since > timeout;
 *     status = et_together_decide(comm, ET_OK, &over, &error);
 */
/* et_checkpoint_next by rank 0. */
int et_checkpoint_wait_next(et_comm *comm, char **path, int64_t *step, const char *model_dir,
                            int64_t after, bool transient, et_error *error);

/* Call after all ranks have tried to load a checkpoint, with the status of et_together_run. *found
 * false: the checkpoint was removed before a rank loaded it, which is not an error. */
int et_checkpoint_wait_loaded(et_comm *comm, int status, bool *found);

#endif
