/* Packed batches from an encoded corpus: shuffle, bucket by length, pack to the budgets.
 *
 * An epoch is a seeded permutation of the pairs, cut into pools. A pool is sorted by length
 * (stable: ties stay shuffled), cut into batches from the front, each as full as the budgets
 * and max_segments allow, and its batches are shuffled. So a batch holds pairs of like length,
 * every pair comes once per epoch, and only the last cut of a pool may be short.
 *
 * All choices are counted random numbers of (seed, epoch, pool): the sequence depends on
 * nothing else, and a position is three numbers. */
#ifndef ETUDE_DATA_PAIR_ITERATOR_H
#define ETUDE_DATA_PAIR_ITERATOR_H

#include "data/encoded.h"
#include "data/pair_source.h"

typedef struct et_pair_iterator_options {
    uint64_t seed;
    bool shuffle;               /* another order each epoch; else the corpus's order */
    bool bucket;                /* pairs of like length together */
    bool repeat;                /* epoch after epoch without end; else one pass */
    int64_t pool;               /* pairs sorted together; 0: as many as about 256 batches hold */
    const char *budget_setting; /* what the user sets the budget with, for messages */
} et_pair_iterator_options;

#define ET_PAIR_ITERATOR_OPTIONS_INIT                                                              \
    {                                                                                              \
        0, true, true, true, 0, "global_batch_size"                                                \
    }

/* One pass in order of length: what validation wants. */
#define ET_PAIR_ITERATOR_OPTIONS_ONE_PASS                                                          \
    {                                                                                              \
        0, false, true, false, 0, "global_batch_size"                                              \
    }

/* encoded must outlive the source. ET_ECONFIG: a sentence is longer than its budget; the
 * message names its file, line and length. */
int et_pair_iterator_open(et_pair_source **out, const et_encoded *encoded,
                          const et_pair_shape *shape, const et_pair_iterator_options *options,
                          et_error *error);

#endif
