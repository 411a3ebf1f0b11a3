/* The order of training data, made from counted random numbers, in three levels:
 *
 *   epoch   order = permutation(seed, epoch)         all pairs
 *   pool    order[begin .. end), sorted by length    about 256 batches of them
 *   batch   a run of the sorted pool that fits the budgets; the runs in random order
 *
 * Example: lengths of a pool 5 3 9 3 8 with budget 10 -> sorted 3 3 5 8 9 -> cuts [3 3] [5] [8]
 * [9] -> say [8] [3 3] [9] [5].
 *
 * Sorting brings sentences of like length together, so that a step's work is even and a batch
 * holds as many pairs as fit; sorting within a pool and not the whole corpus keeps epochs
 * different; shuffling batches keeps lengths from rising through a pool.
 *
 * Invariants:
 *   (1) position names the next batch: epoch, pool, batch, each less than what there is;
 *   (2) order is that of loaded_epoch; pool, sorted, starts and batch_order are those of
 *       loaded_pool in it;
 *   (3) what comes depends on the fingerprint and the position only, so a position is restored
 *       by making its epoch and pool again: no batch before it is replayed;
 *   (4) nothing is allocated after open.
 *
 * Memory: 16 bytes a pair of a pool, nothing for the others. */
#include "data/pair_iterator.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/philox.h"
#include "base/checksum.h"
#include "base/format.h"

/* Lengths are told apart up to here when sorting; longer ones share a bucket. The table of a
 * pool's sort has 16 KiB with it, on the stack. */
#define LENGTHS 4096

/* Batches that a pool of automatic size is meant to hold: the short one that each pool ends
 * with is then half a batch in 256. */
#define POOL_BATCHES 256
/* Another one when a position comes to mean other pairs. */
#define ORDER_VERSION 2
/* Pairs that are brought nearer before they are copied: a fetch from memory takes as long as
 * copying some five. */
#define AHEAD 8
/* Pairs: a smaller pool would sort too few of a kind together. */
#define POOL_MIN 4096

typedef struct pair_iterator {
    et_pair_source source;
    const et_encoded *encoded;        /* borrowed */
    et_pair_iterator_options options; /* a copy */
    et_pair_position position;        /* of the next batch */
    int64_t pools;                    /* in an epoch */
    int64_t pool_size;                /* pairs of the largest pool */
    et_random_order order;            /* of all pairs, in this epoch */
    uint32_t *pool;                   /* [pool_size]: the pool's pairs, as the order has them */
    uint32_t *sorted;                 /* [pool_size]: the pool's pairs, as batches take them */
    uint32_t *starts;      /* [pool_size + 1]: batch b takes sorted[starts[b]..starts[b+1]) */
    uint32_t *batch_order; /* [pool_size]: in which order batches are given */
    int64_t batches;       /* in the loaded pool */
    int64_t loaded_epoch, loaded_pool; /* what order, and sorted, are for; -1: nothing */
} pair_iterator;

/* What a pair takes of a batch, going by the side that fills its budget first where both budgets
 * are the same. */
static int64_t longer_side(const et_encoded *encoded, int64_t pair)
{
    int64_t source = et_encoded_source_length(encoded, pair);
    int64_t target = et_encoded_target_length(encoded, pair);
    return source > target ? source : target;
}

/* A stream of its own for each use and epoch: drawing more for one changes nothing of another. */
static et_random random_for(const pair_iterator *self, const char *use)
{
    return (et_random){ .seed = self->options.seed,
                        .step = (uint64_t)self->position.epoch,
                        .site = et_random_site(use) };
}

/* ---- an epoch and its pools ----
 *
 * order, pool, sorted, starts and batch_order are made here, each from the one before it and from
 * random numbers of (seed, epoch, pool). */

/* Members of the order are computed when their pool is made: an epoch begins at no cost, however
 * many pairs there are. */
static void load_epoch(pair_iterator *self)
{
    if (self->loaded_epoch == self->position.epoch)
        return;
    self->order =
        et_random_order_of(random_for(self, "pairs/order"), (uint32_t)self->encoded->pairs);
    self->loaded_epoch = self->position.epoch;
    /* The pools of another epoch hold other pairs. */
    self->loaded_pool = -1;
}

/* Pools are of equal size but for one pair. The first pairs % pools of them have one more: 10
 * pairs in 3 pools begin at 0, 4, 7 and end at 10. */
static int64_t pool_begin(const pair_iterator *self, int64_t pool)
{
    et_assert(pool >= 0 && pool <= self->pools);
    int64_t pairs = self->encoded->pairs;
    return pairs / self->pools * pool + (pool < pairs % self->pools ? pool : pairs % self->pools);
}

/* Lengths from 1 (EOS alone) to LENGTHS - 1, in which all longer ones are. */
static int64_t bucket_of(const pair_iterator *self, uint32_t pair)
{
    int64_t length = longer_side(self->encoded, pair);
    return length < LENGTHS ? length : LENGTHS - 1;
}

static void take_pool(pair_iterator *self, int64_t begin, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)(begin + i);
        self->pool[i] = self->options.shuffle ? et_random_order_at(&self->order, at) : at;
        et_encoded_lengths_soon(self->encoded, self->pool[i]);
    }
}

/* Counting sort by the longer side: stable, so that equal lengths stay shuffled. places[l] is
 * first the number of pairs shorter than l, then where the next of length l goes. */
static void sort_pool(pair_iterator *self, int64_t count)
{
    const uint32_t *pool = self->pool;
    uint32_t places[LENGTHS + 1] = { 0 };
    for (int64_t i = 0; i < count; i++)
        places[bucket_of(self, pool[i]) + 1]++;
    for (int64_t length = 0; length < LENGTHS; length++)
        places[length + 1] += places[length];
    for (int64_t i = 0; i < count; i++)
        self->sorted[places[bucket_of(self, pool[i])]++] = pool[i];
}

/* Cuts the sorted pool into batches, each as long as it fits (greedy, from the front). A pair
 * alone always fits: check_budgets saw to that when the source was opened. */
static void cut_pool(pair_iterator *self, int64_t count)
{
    const et_pair_shape *shape = &self->source.shape;
    int64_t source = 0, target = 0, segments = 0;
    self->batches = 0;
    self->starts[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t more_source = et_encoded_source_length(self->encoded, self->sorted[i]);
        int64_t more_target = et_encoded_target_length(self->encoded, self->sorted[i]);
        /* The pair that does not fit begins the next batch. */
        if (source + more_source > shape->source_budget ||
            target + more_target > shape->target_budget || segments == shape->max_segments) {
            self->starts[++self->batches] = (uint32_t)i;
            source = target = segments = 0;
        }
        source += more_source;
        target += more_target;
        segments++;
    }
    self->starts[++self->batches] = (uint32_t)count;
}

/* The pool goes into the site, since a random number has no field for it. */
static void order_batches(pair_iterator *self)
{
    et_assert(self->batches > 0 && self->batches <= self->pool_size);
    uint32_t count = (uint32_t)self->batches;
    if (self->options.shuffle) {
        et_random random = random_for(self, "pairs/batches");
        random.site ^= (uint32_t)self->position.pool;
        et_random_permutation(random, self->batch_order, count);
    } else
        for (uint32_t i = 0; i < count; i++)
            self->batch_order[i] = i;
}

/* Makes what the position's pool needs, unless it is there. Called before every batch. */
static void load_pool(pair_iterator *self)
{
    load_epoch(self);
    if (self->loaded_pool == self->position.pool)
        return;
    int64_t begin = pool_begin(self, self->position.pool);
    int64_t count = pool_begin(self, self->position.pool + 1) - begin;
    et_assert(self->position.pool < self->pools);
    et_assert(count > 0 && count <= self->pool_size);
    take_pool(self, begin, count);
    if (self->options.bucket)
        sort_pool(self, count);
    else
        memcpy(self->sorted, self->pool, (size_t)count * sizeof *self->sorted);
    cut_pool(self, count);
    order_batches(self);
    self->loaded_pool = self->position.pool;
}

/* ---- batches ----
 *
 * From pairs to arrays of tokens. A pair takes places behind those before it on each side, so
 * offsets rise and no token is between two sentences. */

/* Appends a pair's source: pieces and EOS; positions count from 0 in each sentence. */
static void add_source(const et_encoded *encoded, et_pair_batch *batch, uint32_t pair)
{
    int64_t at = batch->source_tokens, length = et_encoded_source_length(encoded, pair);
    et_encoded_ids(encoded, pair, false, batch->source_ids + at);
    for (int64_t i = 0; i < length; i++)
        batch->source_positions[at + i] = (int32_t)i;
    batch->source_offsets[batch->segments] = (int32_t)at;
    batch->source_tokens += length;
}

/* The input is the labels moved on by one, behind the start symbol. Pieces 7 8 and EOS 1, start
 * 0: labels 7 8 1, input 0 7 8. */
static void add_target(const et_encoded *encoded, et_pair_batch *batch, uint32_t pair)
{
    int64_t at = batch->target_tokens, length = et_encoded_target_length(encoded, pair);
    et_encoded_ids(encoded, pair, true, batch->target_labels + at);
    batch->target_ids[at] = encoded->start;
    memcpy(batch->target_ids + at + 1, batch->target_labels + at,
           (size_t)(length - 1) * sizeof *batch->target_ids);
    for (int64_t i = 0; i < length; i++)
        batch->target_positions[at + i] = (int32_t)i;
    batch->target_offsets[batch->segments] = (int32_t)at;
    batch->target_tokens += length;
}

/* The budgets were kept by cut_pool; the asserts say so before anything reads the arrays. */
static void fill_batch(const pair_iterator *self, et_pair_batch *batch)
{
    et_assert(self->position.batch >= 0 && self->position.batch < self->batches);
    uint32_t which = self->batch_order[self->position.batch];
    batch->segments = 0;
    batch->source_tokens = batch->target_tokens = 0;
    batch->epoch = self->position.epoch;
    uint32_t begin = self->starts[which], end = self->starts[which + 1], soon = begin;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t pair = self->sorted[i];
        for (; soon < end && soon <= i + AHEAD; soon++)
            et_encoded_ids_soon(self->encoded, self->sorted[soon]);
        add_source(self->encoded, batch, pair);
        add_target(self->encoded, batch, pair);
        batch->pair[batch->segments++] = pair;
    }
    et_assert(batch->segments > 0);
    et_assert(batch->source_tokens <= self->source.shape.source_budget);
    et_assert(batch->target_tokens <= self->source.shape.target_budget);
    et_pair_batch_finish(batch, &self->source.shape);
}

/* Carries from batch to pool to epoch; the next load_pool makes what that needs. */
static void advance(pair_iterator *self)
{
    et_pair_position *position = &self->position;
    if (++position->batch < self->batches)
        return;
    position->batch = 0;
    if (++position->pool < self->pools)
        return;
    position->pool = 0;
    position->epoch++;
}

/* ---- the class ----
 *
 * Restoring is the only method that may refuse: it is given numbers from a file. */

/* One pass ends when the epoch counter moves on; it stays ended. */
static int iterator_next(et_pair_source *source, et_pair_batch *batch, et_error *error)
{
    pair_iterator *self = (pair_iterator *)source;
    (void)error;
    if (!self->options.repeat && self->position.epoch > 0) {
        et_pair_batch_clear(batch, &source->shape);
        return ET_OK;
    }
    load_pool(self);
    fill_batch(self, batch);
    advance(self);
    return ET_OK;
}

static void iterator_save(const et_pair_source *source, et_pair_position *position)
{
    *position = ((const pair_iterator *)source)->position;
}

/* A position comes from a file: it is taken only if it is one that save could have given. The
 * number of batches is known only when the pool has been made, so the position is tried and
 * taken back if it is not in it. */
static int iterator_restore(et_pair_source *source, const et_pair_position *position,
                            et_error *error)
{
    pair_iterator *self = (pair_iterator *)source;
    if (position->fingerprint != self->position.fingerprint)
        return et_fail(error, ET_EDATA,
                       "the saved position is for other data: the text, the vocabulary, the "
                       "filter, the seed or the batch size changed: restore those, or begin in "
                       "another directory");
    /* Kept, so that a position which is refused leaves the source where it was. */
    et_pair_position before = self->position;
    bool sound = position->epoch >= 0 && position->pool >= 0 && position->pool < self->pools &&
                 position->batch >= 0;
    if (sound) {
        self->position = *position;
        load_pool(self);
        sound = position->batch < self->batches;
    }
    if (sound)
        return ET_OK;
    self->position = before;
    return et_fail(error, ET_EDATA,
                   "the saved position (epoch %lld, pool %lld, batch %lld) is not in the data: "
                   "the file that held it is damaged",
                   (long long)position->epoch, (long long)position->pool,
                   (long long)position->batch);
}

static void iterator_close(et_pair_source *source)
{
    pair_iterator *self = (pair_iterator *)source;
    et_free(self->pool);
    et_free(self->sorted);
    et_free(self->starts);
    et_free(self->batch_order);
    et_free(self);
}

static const et_pair_source_class iterator_class = {
    .name = "pairs",
    .next = iterator_next,
    .save = iterator_save,
    .restore = iterator_restore,
    .close = iterator_close,
};

/* ---- opening ----
 *
 * All that may fail is here; after it a batch is arithmetic. */

/* budget_setting is the name the user knows the budget by. */
static int sentence_too_long(const pair_iterator *self, int64_t pair, bool target, et_error *error)
{
    const et_encoded *encoded = self->encoded;
    int64_t budget = target ? self->source.shape.target_budget : self->source.shape.source_budget;
    int64_t length =
        target ? et_encoded_target_length(encoded, pair) : et_encoded_source_length(encoded, pair);
    const char *path;
    int64_t line;
    et_encoded_place(encoded, pair, target, &path, &line);
    return et_fail(error, ET_ECONFIG,
                   "%s:%lld: a sentence of %s sub-words (end symbol counted) does not fit %s = "
                   "%s: raise that, or lower max_seq_length",
                   path, (long long)line, et_format_count(length).text,
                   self->options.budget_setting, et_format_count(budget).text);
}

/* The longest sentences are known; only when one does not fit is the first such pair looked for. */
static int check_budgets(const pair_iterator *self, et_error *error)
{
    const et_encoded *encoded = self->encoded;
    const et_pair_shape *shape = &self->source.shape;
    if (encoded->sizes.longest_source <= shape->source_budget &&
        encoded->sizes.longest_target <= shape->target_budget)
        return ET_OK;
    int64_t pair = 0;
    while (et_encoded_source_length(encoded, pair) <= shape->source_budget &&
           et_encoded_target_length(encoded, pair) <= shape->target_budget)
        pair++;
    return sentence_too_long(
        self, pair, et_encoded_source_length(encoded, pair) <= shape->source_budget, error);
}

/* As many pairs as POOL_BATCHES batches hold, going by the fuller side. batches: how many a
 * whole epoch would have if all were full. */
static int64_t automatic_pool(const pair_iterator *self)
{
    const et_encoded *encoded = self->encoded;
    const et_pair_shape *shape = &self->source.shape;
    double source = (double)encoded->sizes.source_tokens / (double)shape->source_budget;
    double target = (double)encoded->sizes.target_tokens / (double)shape->target_budget;
    double batches = source > target ? source : target;
    /* pairs / batches is the mean number of pairs in a batch. */
    int64_t size = (int64_t)((double)encoded->pairs * POOL_BATCHES / batches);
    return size > POOL_MIN ? size : POOL_MIN;
}

/* As few as keep each within what is wanted, then all of equal size: no small one at the end. */
static void choose_pools(pair_iterator *self)
{
    int64_t pairs = self->encoded->pairs;
    int64_t wanted = self->options.pool ? self->options.pool : automatic_pool(self);
    self->pools = (pairs + wanted - 1) / wanted;
    self->pool_size = (pairs + self->pools - 1) / self->pools;
}

/* Of all that a sequence of batches depends on, the formula of the order included. Also the number
 * of pools, which the option 0 leaves to be computed. */
static int64_t fingerprint(const pair_iterator *self)
{
    const et_pair_shape *shape = &self->source.shape;
    uint64_t facts[] = { ORDER_VERSION,
                         self->encoded->key,
                         (uint64_t)shape->source_budget,
                         (uint64_t)shape->target_budget,
                         (uint64_t)shape->max_segments,
                         self->options.seed,
                         self->options.shuffle,
                         self->options.bucket,
                         self->options.repeat,
                         (uint64_t)self->pools };
    return (int64_t)et_checksum(facts, sizeof facts);
}

/* A batch holds one pair at least, so a pool of n pairs has at most n batches. */
static int allocate(pair_iterator *self, et_error *error)
{
    size_t pool = (size_t)self->pool_size;
    self->pool = et_alloc(pool, sizeof *self->pool);
    self->sorted = et_alloc(pool, sizeof *self->sorted);
    self->starts = et_alloc(pool + 1, sizeof *self->starts);
    self->batch_order = et_alloc(pool, sizeof *self->batch_order);
    if (!self->pool || !self->sorted || !self->starts || !self->batch_order)
        return et_alloc_failed(error, 4 * pool * sizeof(uint32_t), "the order of pairs");
    return ET_OK;
}

/* Budgets and pairs are within int32_t and uint32_t, in which offsets and indices are kept. */
int et_pair_iterator_open(et_pair_source **out, const et_encoded *encoded,
                          const et_pair_shape *shape, const et_pair_iterator_options *options,
                          et_error *error)
{
    et_assert(shape->source_budget > 0 && shape->target_budget > 0 && shape->max_segments > 0);
    et_assert(shape->source_budget <= INT32_MAX && shape->target_budget <= INT32_MAX);
    et_assert(encoded->pairs > 0 && encoded->pairs <= UINT32_MAX && options->pool >= 0);
    pair_iterator *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "an iterator");
    self->source = (et_pair_source){ &iterator_class, *shape };
    self->encoded = encoded;
    self->options = *options;
    /* The first next makes both. */
    self->loaded_epoch = self->loaded_pool = -1;
    int status = check_budgets(self, error);
    if (!status) {
        choose_pools(self);
        self->position.fingerprint = fingerprint(self);
        status = allocate(self, error);
    }
    if (status) {
        iterator_close(&self->source);
        return status;
    }
    *out = &self->source;
    return ET_OK;
}
