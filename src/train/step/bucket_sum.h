/* The sums of one bucket, a few arrays on each rank, become one on all: in the tree's order, so bit
 * for bit what one process comes to. How they travel (a way) follows from the number of ranks, the
 * tree and the size of the bucket alone, so all ranks choose the same.
 *
 *     et_bucket_sum_run(sum, mine, count, false, NULL, &error);     the sum is in mine[0]
 *
 * Where the bucket is small an agreement costs no message of its own: `word` rides on the first
 * bucket of an update (et_comm_say in comm.h). Unless all have agreed on ET_OK and no flag the
 * arrays hold anything in the end. Everything else that may fail is ET_EIO: a rank is gone.
 *
 * Nothing is allocated after open. One thread at a time; it borrows what it is opened with. */
#ifndef ETUDE_TRAIN_STEP_BUCKET_SUM_H
#define ETUDE_TRAIN_STEP_BUCKET_SUM_H

#include "engine/comm/comm.h"
#include "train/step/reducer_private.h"

/* Who has which sums. */
typedef struct et_rank_sums {
    et_comm *comm;
    const et_kernels *kernels;
    const et_tree_node *nodes; /* [begin[ranks]]: all sums, from left to right */
    const int *begin;          /* [ranks + 1]: where each rank's are */
    int shards;
} et_rank_sums;

typedef struct et_bucket_sum et_bucket_sum;

/* longest: elements of the largest bucket. */
int et_bucket_sum_open(et_bucket_sum **out, const et_rank_sums *sums, int64_t longest,
                       et_error *error);
void et_bucket_sum_close(et_bucket_sum *self); /* NULL allowed */

/* mine: [this rank's sums] [count]; NULL where word says that there are none. halves: what travels
 * is rounded to bfloat16. word: in what this rank says, out what all have; NULL: nothing, which
 * goes for any bucket. */
int et_bucket_sum_run(et_bucket_sum *self, float *const *mine, int64_t count, bool halves,
                      et_comm_word *word, et_error *error);

/* Whether a word may ride on a bucket. */
bool et_bucket_sum_carries(const et_bucket_sum *self, int64_t count, bool halves);

/* The name of the way that a bucket goes. */
const char *et_bucket_sum_way(const et_bucket_sum *self, int64_t count, bool halves);

/* Calls add(payload, to, from) in the tree's order, until all are added to number 0. */
typedef void et_fold_fn(void *payload, int to, int from);
void et_tree_fold(const et_tree_node *nodes, int count, int shards, et_fold_fn *add, void *payload);

#endif
