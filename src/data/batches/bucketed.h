/* Batches by length bucket, as in TensorFlow's group_by_window and Model Garden's data loader.
 * Samples go, in the order of the pass, into the bucket for their length; a full bucket is a batch.
 * One bucket is Model Garden's static batching.
 *
 *     et_bucket buckets[ET_BUCKETS_MAX];
 *     int count = et_buckets_scaled(buckets, 64, 24576);
 *     et_bucketed_options options = { .buckets = buckets, .count = count, .shuffle = true };
 *     if (et_bucketed_open(&source, samples, &options, &error)) ...
 *
 * The length of a sample is that of its longest kind. At the end of a pass the rests in the buckets
 * are the last batches, the shortest first: no sample is left out. Batches are packed as always,
 * without padding. Order, position and ownership as for et_batches_open. The batches of a pass are
 * planned when it begins, from lengths only. */
#ifndef ETUDE_DATA_BATCHES_BUCKETED_H
#define ETUDE_DATA_BATCHES_BUCKETED_H

#include <etude/data.h>

#define ET_BUCKETS_MAX 256

typedef struct et_bucket {
    int64_t longest; /* of a sample, in its largest kind */
    int64_t rows;    /* samples of a batch */
} et_bucket;

typedef struct et_bucketed_options {
    uint64_t seed;
    bool shuffle, repeat;     /* as in et_batches_options */
    const et_bucket *buckets; /* [count], longest rising; copied */
    int count;
} et_bucketed_options;

/* Model Garden's rule: bounds 8, then x = max(x + 1, int(1.1 x)) below longest, then longest + 1. A
 * bucket holds lengths below its bound, and budget / bound samples: 0 if the budget is too small.
 * Returns the number of buckets; -1: more than ET_BUCKETS_MAX. */
int et_buckets_scaled(et_bucket *buckets, int64_t longest, int64_t budget);
/* The same with other numbers: bounds from first on, each scale times the one before. */
int et_buckets_of(et_bucket *buckets, int64_t longest, int64_t budget, int64_t first, double scale);

/* Owns samples from then on, which have more than one kind. ET_ECONFIG: a bucket without rows, or a
 * sample that is longer than the last one takes. */
int et_bucketed_open(et_source **out, et_samples *samples, const et_bucketed_options *options,
                     et_error *error);

#endif
