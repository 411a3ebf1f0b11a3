/* The tree of shards over ranks: each computes a run of them, rank r of R from r S / R to
 * (r + 1) S / R of S. What a rank's shards come to is one sum, or a few where the tree cuts through
 * its run; each rank adds up a part of all sums in the tree's order, then everybody gets all parts
 * (exchange.h). So a rank sends and receives about twice the gradient, however many there are, and
 * every bit is that of one process with as many shards.
 *
 * Gradients are final in a rank's last shard alone, and go while its pass still runs: the pass's
 * plans tell the reducer, which listens until it is closed. Of several over one pass the one that
 * was opened last does; the others' gradients go after their passes.
 *
 * Who fails says so in meet, and then all fail with its status and text; what was sent by then is
 * forgotten. */
#ifndef ETUDE_TRAIN_STEP_RANKED_H
#define ETUDE_TRAIN_STEP_RANKED_H

#include <etude/metrics.h>

#include "engine/comm/comm.h"
#include "train/step/reducer.h"

/* pass: borrowed, as comm, and prepared. comm NULL: one rank. ET_ECONFIG: more ranks than shards,
 * or one shard alone. */
int et_ranked_open(et_reducer **out, et_pass *pass, int shards, et_comm *comm, et_error *error);

/* A set of metrics, of the same definitions everywhere, becomes the sum over all ranks. */
int et_metrics_sum_ranks(et_metrics *metrics, et_comm *comm, et_error *error);

/* The same in room for all ranks' et_metrics_bytes, which the caller has, once all have agreed. */
int et_metrics_join_ranks(et_metrics *metrics, et_comm *comm, void *room, et_error *error);

#endif
