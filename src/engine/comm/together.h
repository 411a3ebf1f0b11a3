/* Work of one process, done by several ranks. The work itself knows nothing of ranks; these
 * functions add what several processes need: one status for all ranks, and rank 0's values for all
 * ranks.
 *
 *     status = et_together_run(comm, open_files, self, &error);    each rank's own files
 *     if (!status && !et_comm_rank(comm))
 *         status = read_step(&step, &error);                       may fail on rank 0 alone
 *     status = et_together_give(comm, status, &step, sizeof step, &error);
 *
 * If one rank fails while the others wait for its bytes, they wait forever. So ranks agree on one
 * status (et_comm_agree). Three rules say where:
 * - A collective that carries bytes agrees before it sends them. It takes the status of this rank's
 *   earlier work, which then needs no other agreement.
 * - Work ends with one status (et_together_run) if it is a public call that all ranks make, or if
 *   the caller accepts some statuses that are not ET_OK (ET_EINTERRUPTED, ET_EDIVERGED,
 *   ET_ENOTFOUND).
 * - Other work needs nothing: all ranks hear of a failure at the next of these calls.
 *
 * All other code calls these functions instead of et_comm_agree (tools/check-names). Exceptions:
 * - train/run/run.c, inner_loop.c, saving.c: requests to stop or save are flags of the agreement
 *   between two steps, and an interrupted loop agrees again before it saves
 * - train/ranks/ranked.c: a step's agreement is sent with the messages of its gradients
 * - train/ranks/eval_shard.c, train/step/trainer.c: an evaluation ends (`end`) also after a
 *   failure, so it agrees before and after its end
 * - command/ranks.c: ranks of a command end with one status, and one rank
 *   reports it before any of them ends
 *
 * All ranks call these functions together. comm NULL: this process alone. */
#ifndef ETUDE_ENGINE_COMM_TOGETHER_H
#define ETUDE_ENGINE_COMM_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/comm.h>

typedef int et_together_fn(void *self, et_error *error);

/* Each rank does the work; all ranks return the first failure. */
int et_together_run(et_comm *comm, et_together_fn *work, void *self, et_error *error);

/* Rank 0 does the work first, so the other ranks find its results. */
int et_together_in_turn(et_comm *comm, et_together_fn *work, void *self, et_error *error);

/* status: the result of this rank's earlier work; all ranks return the first failure. */

/* *yes becomes rank 0's; or whether any rank says yes. */
int et_together_decide(et_comm *comm, int status, bool *yes, et_error *error);
int et_together_any(et_comm *comm, int status, bool *yes, et_error *error);

/* bytes [size] become rank 0's. */
int et_together_give(et_comm *comm, int status, void *bytes, size_t size, et_error *error);

/* *all (et_free): mine [size] of each rank, in the order of ranks. After a failure NULL. */
int et_together_table(et_comm *comm, int status, const void *mine, size_t size, void **all,
                      et_error *error);

/* The same for bytes of different sizes: *all (et_free) has the ranks' bytes, one after another in
 * their order, sizes [ranks] their lengths. */
int et_together_collect(et_comm *comm, int status, const void *mine, size_t size, void **all,
                        size_t *sizes, et_error *error);

/* Hands out bytes [*size] of rank 0; other ranks need not know the size. Other ranks get a copy
 * (et_free), followed by a byte 0, or NULL if there are none. */
int et_together_hand_out(et_comm *comm, int status, void **bytes, size_t *size, et_error *error);

#endif
