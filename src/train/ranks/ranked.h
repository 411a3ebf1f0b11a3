/* The tree of shards over ranks. Each rank computes consecutive shards: rank r of R from r S / R to
 * (r + 1) S / R of S. The sum of a rank's shards is one sum, or a few sums if the tree cuts through
 * them. Each rank adds up a part of all sums in the tree's order, then every rank gets all parts
 * (exchange.h). So a rank sends and receives about twice the gradient for any number of ranks, and
 * every bit is that of one process with as many shards.
 *
 * Gradients become final only in a rank's last shard, and are sent while its pass still runs: the
 * pass's plans report to the reducer until it is closed. If several reducers use one pass, the last
 * one opened gets the reports; gradients of the others are sent after their passes.
 *
 * A rank that fails reports it in meet; then all ranks fail with its status and text, and sent data
 * is dropped. */
#ifndef ETUDE_TRAIN_RANKS_RANKED_H
#define ETUDE_TRAIN_RANKS_RANKED_H

#include <etude/comm.h>

#include "train/step/reducer.h"

/* pass: borrowed, as comm, and prepared. comm NULL: one rank. ET_ECONFIG: more ranks than shards,
 * or only one shard. */
int et_ranked_open(et_reducer **out, et_pass *pass, int shards, et_comm *comm, et_error *error);

#endif
