/* The tree of shards over ranks. Each rank computes consecutive shards: rank r of R from r S / R to
 * (r + 1) S / R of S. The sum of a rank's shards is one sum, or a few sums if the tree cuts through
 * them. Each rank adds up a part of all sums in the tree's order, then every rank gets all parts
 * (below). So for any number of ranks, a rank sends and receives about twice the gradient, and
 * results have the bits of one process with the same number of shards.
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

#include "train/ranks/bucket_sum.h"
#include "train/step/reducer.h"

/* The exchange of ranks for one update. Each rank has a few sums, arrays of one layout. All sums of
 * all ranks become one sum, added in the tree's order, on every rank. The layout is divided into
 * buckets. A bucket is sent as soon as it is ready on this rank, while the rest is computed:
 *
 *     et_exchange_begin(exchange, status, &bad, &error, mine);    nothing that comes later can fail
 *     ...  et_exchange_ready(exchange, bucket);                   its elements of mine are final
 *     status = et_exchange_wait(exchange, &bad, &error);
 *
 * All ranks agree on one status and on whether there is a bad gradient: before anything is sent or,
 * if the first bucket is small, with its message. With a bad gradient there is no sum. Afterwards
 * every bucket is sent, whatever happens on this rank. A rank that fails later must report its
 * error in an agreement after et_exchange_wait; no sum may be used before it.
 *
 * With bfloat16_gradients of comm, sums are sent as bfloat16: a sum is rounded before it is sent to
 * the rank that adds it. Each part of the total is rounded before it is sent back, also on the rank
 * that added it, so all ranks have the same values. Sums that stay on their rank and moving means
 * are not rounded.
 *
 * From begin to wait, comm belongs to the exchange. Its own thread sends if the transport allows
 * that (et_comm_class) and the thread has begun; otherwise wait sends. One other thread may call
 * ready. Nothing is allocated. */

/* The division of a layout into buckets: depends only on the parameters, not on passes or ranks. */
typedef struct et_buckets {
    int64_t *end; /* [count], owned: bucket i ends before element end[i] */
    int count;
    int trained; /* buckets of gradients; at most one more, for moving means */
} et_buckets;

int et_buckets_divide(et_buckets *buckets, const et_params *params, int64_t means, et_error *error);
void et_buckets_release(et_buckets *buckets);

/* Borrowed, but order. */
typedef struct et_exchange_parts {
    et_rank_sums sums;
    const et_buckets *buckets;
    int *order; /* [count] in which they become ready; all take rank 0's; owned from then on */
} et_exchange_parts;

typedef struct et_exchange et_exchange;

int et_exchange_open(et_exchange **out, const et_exchange_parts *parts, et_error *error);
void et_exchange_close(et_exchange *self); /* NULL allowed */

/* mine: [this rank's sums], from left to right, if status is ET_OK and nothing is bad; the total
 * goes into the first. */
void et_exchange_begin(et_exchange *self, int status, bool bad, const et_error *error,
                       float *const *mine);
void et_exchange_ready(et_exchange *self, int bucket);

/* Buckets that are not ready go as they are. *bad: a rank has begun with a bad one. */
int et_exchange_wait(et_exchange *self, bool *bad, et_error *error);

/* pass: borrowed, as comm, and prepared. comm NULL: one rank. ET_ECONFIG: more ranks than shards,
 * or only one shard. */
int et_ranked_open(et_reducer **out, et_pass *pass, int shards, et_comm *comm, et_error *error);

#endif
