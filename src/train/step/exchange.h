/* What ranks send each other for one update. Each has a few sums, arrays of one layout; all sums of
 * all ranks become one, in the tree's order, on every rank. The layout is cut into buckets, and a
 * bucket goes as soon as it is ready on this rank, while the rest is computed:
 *
 *     et_exchange_begin(exchange, status, &bad, &error, mine);    nothing that comes later can fail
 *     ...  et_exchange_ready(exchange, bucket);                   its elements of mine are final
 *     status = et_exchange_wait(exchange, &bad, &error);
 *
 * All ranks agree on one status and whether there is a bad one, before anything is sent or, where
 * the first bucket is small, on its message; if so there is no sum. From then on every bucket
 * goes, whatever this rank has come to meanwhile: who fails later has to say so in an agreement
 * behind et_exchange_wait, and no sum counts until then.
 *
 * Where comm has bfloat16_gradients, those go so: a sum is rounded before it is sent to who adds it
 * to others, a part of the whole on its way back and where it stays, so all have the same. Sums
 * that stay on their rank and moving means are not rounded.
 *
 * From begin to wait comm is this one's: a thread of its own speaks, where the transport allows it
 * (et_comm_class), else wait does, as where the thread has not begun by then. ready is for one
 * other thread; nothing is allocated. */
#ifndef ETUDE_TRAIN_STEP_EXCHANGE_H
#define ETUDE_TRAIN_STEP_EXCHANGE_H

#include "train/step/bucket_sum.h"

/* How a layout is cut: by the parameters alone, wherever and by whomever they are trained. */
typedef struct et_buckets {
    int64_t *end; /* [count], owned: bucket i ends before that element */
    int count;
    int trained; /* those of gradients; at most one more, of moving means */
} et_buckets;

int et_buckets_cut(et_buckets *buckets, const et_params *params, int64_t means, et_error *error);
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

/* mine: [this rank's sums], from left to right, where status is ET_OK and nothing is bad; the sum
 * of all comes into the first. */
void et_exchange_begin(et_exchange *self, int status, bool bad, const et_error *error,
                       float *const *mine);
bool et_exchange_begun(const et_exchange *self);
void et_exchange_ready(et_exchange *self, int bucket);

/* Buckets that are not ready go as they are. *bad: a rank has begun with a bad one. */
int et_exchange_wait(et_exchange *self, bool *bad, et_error *error);

#endif
