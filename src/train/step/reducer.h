/* Reducers: the addition between passes and an update. An update has a number of shards, each one
 * batch. A reducer adds their gradients, divisors and measures in a fixed tree of shards:
 *
 *     0   1   2   3   4   5        leaves
 *      \ /     \ /     \ /
 *      0-1     2-3     4-5         neighbours first
 *        \     /        |
 *          0-3          |
 *            \---- 0-5 -/          the rest, from the right
 *
 * So the bits depend only on the number of shards, not on the process or time of each. A process
 * computes the shards from `first` to `end`: all, or those of its rank (ranked.h). Other work on
 * gradients (clipping each, noise) is another class.
 *
 *     static int run(void *self, int shard, et_error *error)     a pass runs; et_reducer_add
 *     if ((status = et_reducer_sum(reducer, ET_OK, run, self, &sum, &error))) ...
 *     et_optimizer_apply(optimizer, sum.gradient, 1 / sum.divisor);
 *
 * Adding allocates nothing. One thread. */
#ifndef ETUDE_TRAIN_STEP_REDUCER_H
#define ETUDE_TRAIN_STEP_REDUCER_H

#include <etude/privacy.h>

#include "base/assert.h"
#include "engine/exec/pass.h"

/* Borrowed from the reducer or the store, until the next begin or pass. */
typedef struct et_reduced {
    float *gradient; /* [trained size] of the store; an update may use it up */
    double loss, divisor;
    int measures;
    const et_measured *measured; /* [measures]: as the pass has them, over all shards */
    const float *means; /* new values of moving means, one after another: the mean over shards */
} et_reduced;

typedef struct et_reducer et_reducer;

typedef struct et_reducer_class {
    const char *name;
    void (*begin)(et_reducer *self);
    /* The pass runs on this shard next; add follows unless the pass fails. NULL: nothing to do. */
    void (*expect)(et_reducer *self, int shard);
    /* ET_EDIVERGED, without a text: this shard's gradient or loss is not finite. */
    int (*add)(et_reducer *self, int shard, const et_pass *pass, et_error *error);
    int (*end)(et_reducer *self, et_reduced *out, et_error *error);
    void (*close)(et_reducer *self);
    /* Before end, with the status of this process's shards: returns the status of all.
     * ET_EDIVERGED: reducer->bad is the first shard that is not finite. NULL: there are no other
     * ranks. */
    int (*meet)(et_reducer *self, int status, et_error *error);
    /* Reports a failed shard with its rank's error text. NULL: this process has all shards. */
    int (*failed)(et_reducer *self, int shard, int status, et_error *error);
} et_reducer_class;

struct et_reducer {
    const et_reducer_class *class;
    int shards;
    int first, end; /* shards of this process */
    bool whole;     /* an update consumes all its batches, also if it is skipped */
    size_t bytes;   /* memory of sums; 0 of one shard */
    int bad;        /* the shard that add or meet found not finite */
    uint64_t seed;  /* for its random numbers, and the number of the step; set before begin */
    int64_t step;
};

/* Adds in this process, shards in order from 0. pass: one of the passes to add, prepared. */
int et_tree_open(et_reducer **out, const et_pass *pass, int shards, et_error *error);

static inline void et_reducer_begin(et_reducer *reducer)
{
    reducer->class->begin(reducer);
}

static inline void et_reducer_expect(et_reducer *reducer, int shard)
{
    et_assert(shard >= reducer->first && shard < reducer->end);
    if (reducer->class->expect)
        reducer->class->expect(reducer, shard);
}

static inline int et_reducer_add(et_reducer *reducer, int shard, const et_pass *pass,
                                 et_error *error)
{
    et_assert(shard >= reducer->first && shard < reducer->end);
    int status = reducer->class->add(reducer, shard, pass, error);
    if (status == ET_EDIVERGED)
        reducer->bad = shard;
    return status;
}

static inline int et_reducer_meet(et_reducer *reducer, int status, et_error *error)
{
    return reducer->class->meet ? reducer->class->meet(reducer, status, error) : status;
}

static inline int et_reducer_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    return reducer->class->end(reducer, out, error);
}

static inline int et_reducer_failed(et_reducer *reducer, int shard, int status, et_error *error)
{
    return reducer->class->failed ? reducer->class->failed(reducer, shard, status, error) : status;
}

/* Runs a pass on a shard and adds the result. */
typedef int et_shard_fn(void *self, int shard, et_error *error);

/* Sums all shards. Calls run for each shard of this process, in order. All ranks call it; status:
 * the rank's status so far. ET_EDIVERGED: shard reducer->bad is not finite. */
int et_reducer_sum(et_reducer *reducer, int status, et_shard_fn *run, void *self, et_reduced *sum,
                   et_error *error);

void et_reducer_close(et_reducer *reducer); /* NULL allowed */

/* ---- private updates ---- */

int et_privacy_check(const et_privacy_options *options, et_error *error);

/* *reducer, a tree of the pass, is replaced by a private reducer that owns the tree
 * (<etude/privacy.h>): it clips gradients and passes them to the tree, which adds them. After a
 * failure it is closed and NULL. Options are copied, and were checked.
 *
 *   per example   g = divisor / shards (sum of g_i min(1, C / |g_i|) + C noise N(0, 1))
 *   of an update  g = divisor (m min(1, C / |m|) + C noise N(0, 1)),   m = sum of g_i / divisor
 *
 * The optimizer divides by the divisor. Noise is a function of (seed, step, place); padding stays
 * zero. */
int et_private_open(et_reducer **reducer, const et_pass *pass, const et_privacy_options *options,
                    et_error *error);

#endif
