/* The tree of shards over ranks: each computes a run of them, rank r of R from r S / R to
 * (r + 1) S / R of S. What a rank's shards come to is one sum, or a few where the tree cuts through
 * its run; the arrays are cut into R parts, each rank gets one part of all sums and adds it up in
 * the tree's order, then everybody gets all parts. So a rank sends and receives about twice the
 * gradient, however many there are, and every bit is that of one process with as many shards.
 *
 * Who fails says so in meet, and then all fail with its status and text; nothing is sent before. */
#ifndef ETUDE_TRAIN_RANKED_H
#define ETUDE_TRAIN_RANKED_H

#include <etude/metrics.h>

#include "comm/comm.h"
#include "train/reducer.h"

/* comm: borrowed; NULL: one rank. ET_ECONFIG: more ranks than shards, or one shard alone. */
int et_ranked_open(et_reducer **out, const et_pass *pass, int shards, et_comm *comm,
                   et_error *error);

/* A set of metrics, of the same definitions everywhere, becomes the sum over all ranks. */
int et_metrics_sum_ranks(et_metrics *metrics, et_comm *comm, et_error *error);

#endif
