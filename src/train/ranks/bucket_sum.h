/* The sum of one bucket over ranks: a few arrays on each rank become one array on all ranks, added
 * in the tree's order and thus with the bits of one process. The way of sending depends only on the
 * number of ranks, the tree and the size of the bucket, so all ranks choose the same way.
 *
 *     et_bucket_sum_run(sum, mine, count, false, NULL, &error);     the sum is in mine[0]
 *
 * For a small bucket an agreement costs no extra message: `word` is sent with the first bucket of
 * an update (et_comm_say in comm.h). Unless all ranks have agreed on ET_OK and no flag, the arrays
 * are undefined afterwards. All other failures are ET_EIO: a rank is lost.
 *
 * Nothing is allocated after open. Use from one thread at a time. Borrows the arguments of open. */
#ifndef ETUDE_TRAIN_RANKS_BUCKET_SUM_H
#define ETUDE_TRAIN_RANKS_BUCKET_SUM_H

#include "engine/comm/comm.h"
#include "train/step/reducer_private.h"

/* The sums of each rank. */
typedef struct et_rank_sums {
    et_comm *comm;
    const et_kernels *kernels;
    const et_tree_node *nodes; /* [begin[ranks]]: all sums, from left to right */
    const int *begin;          /* [ranks + 1]: the first sum of each rank */
    int shards;
} et_rank_sums;

typedef struct et_bucket_sum et_bucket_sum;

/* longest: elements of the largest bucket. */
int et_bucket_sum_open(et_bucket_sum **out, const et_rank_sums *sums, int64_t longest,
                       et_error *error);
void et_bucket_sum_close(et_bucket_sum *self); /* NULL allowed */

/* mine: [this rank's sums] [count]; NULL if this rank has none, which word reports. halves: sent
 * values are rounded to bfloat16. word: this rank's word, replaced by the agreed word; NULL: no
 * bucket has a word. */
int et_bucket_sum_run(et_bucket_sum *self, float *const *mine, int64_t count, bool halves,
                      et_comm_word *word, et_error *error);

/* Whether a word may ride on a bucket. */
bool et_bucket_sum_carries(const et_bucket_sum *self, int64_t count, bool halves);

/* The name of the way that a bucket goes. */
const char *et_bucket_sum_collective(const et_bucket_sum *self, int64_t count, bool halves);

/* Calls add(payload, to, from) in the tree's order, until all are added to number 0. */
typedef void et_fold_fn(void *payload, int to, int from);
void et_tree_fold(const et_tree_node *nodes, int count, int shards, et_fold_fn *add, void *payload);

#endif
