#include "data/pair_iterator.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/philox.h"
#include "io/checksum.h"
#include "io/format.h"

/* Lengths are told apart up to here when sorting; longer ones share a bucket. */
#define LENGTHS 4096

/* Batches that a pool of automatic size is meant to hold: the short one that each pool ends
 * with is then half a batch in 256. */
#define POOL_BATCHES 256
#define POOL_MIN     4096

typedef struct pair_iterator {
    et_pair_source source;
    const et_encoded *encoded;
    et_pair_iterator_options options;
    et_pair_position position; /* of the next batch */
    int64_t pools;             /* in an epoch */
    int64_t pool_size;         /* pairs of the largest pool */
    uint32_t *order;           /* [pairs]: the epoch's permutation */
    uint32_t *sorted;          /* [pool_size]: the pool's pairs, as batches take them */
    uint32_t *starts;          /* [pool_size + 1]: batch b takes sorted[starts[b]..starts[b+1]) */
    uint32_t *batch_order;     /* [pool_size]: in which order batches are given */
    int64_t batches;           /* in the pool */
    int64_t loaded_epoch, loaded_pool; /* what order, and sorted, are for; -1: nothing */
} pair_iterator;

static int64_t longer_side(const et_encoded *encoded, int64_t pair)
{
    int64_t source = et_encoded_source_length(encoded, pair);
    int64_t target = et_encoded_target_length(encoded, pair);
    return source > target ? source : target;
}

static et_random random_for(const pair_iterator *self, const char *use)
{
    return (et_random){ .seed = self->options.seed,
                        .step = (uint64_t)self->position.epoch,
                        .site = et_random_site(use) };
}

/* ---- an epoch and its pools ---- */

static void load_epoch(pair_iterator *self)
{
    uint32_t pairs = (uint32_t)self->encoded->pairs;
    if (self->loaded_epoch == self->position.epoch)
        return;
    if (self->options.shuffle)
        et_random_permutation(random_for(self, "pairs/order"), self->order, pairs);
    else
        for (uint32_t i = 0; i < pairs; i++)
            self->order[i] = i;
    self->loaded_epoch = self->position.epoch;
    self->loaded_pool = -1;
}

/* Pools are of equal size but for one pair. */
static int64_t pool_begin(const pair_iterator *self, int64_t pool)
{
    int64_t pairs = self->encoded->pairs;
    return pairs / self->pools * pool + (pool < pairs % self->pools ? pool : pairs % self->pools);
}

static int64_t bucket_of(const pair_iterator *self, uint32_t pair)
{
    int64_t length = longer_side(self->encoded, pair);
    return length < LENGTHS ? length : LENGTHS - 1;
}

/* Counting sort by the longer side: stable, so that equal lengths stay shuffled. */
static void sort_pool(pair_iterator *self, const uint32_t *pool, int64_t count)
{
    uint32_t places[LENGTHS + 1] = { 0 };
    for (int64_t i = 0; i < count; i++)
        places[bucket_of(self, pool[i]) + 1]++;
    for (int64_t length = 0; length < LENGTHS; length++)
        places[length + 1] += places[length];
    for (int64_t i = 0; i < count; i++)
        self->sorted[places[bucket_of(self, pool[i])]++] = pool[i];
}

/* Cuts the sorted pool into batches, each as long as it fits. */
static void cut_pool(pair_iterator *self, int64_t count)
{
    const et_pair_shape *shape = &self->source.shape;
    int64_t source = 0, target = 0, segments = 0;
    self->batches = 0;
    self->starts[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t more_source = et_encoded_source_length(self->encoded, self->sorted[i]);
        int64_t more_target = et_encoded_target_length(self->encoded, self->sorted[i]);
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

static void order_batches(pair_iterator *self)
{
    uint32_t count = (uint32_t)self->batches;
    if (self->options.shuffle) {
        et_random random = random_for(self, "pairs/batches");
        random.site ^= (uint32_t)self->position.pool;
        et_random_permutation(random, self->batch_order, count);
    } else
        for (uint32_t i = 0; i < count; i++)
            self->batch_order[i] = i;
}

static void load_pool(pair_iterator *self)
{
    load_epoch(self);
    if (self->loaded_pool == self->position.pool)
        return;
    int64_t begin = pool_begin(self, self->position.pool);
    int64_t count = pool_begin(self, self->position.pool + 1) - begin;
    et_assert(self->position.pool < self->pools);
    et_assert(count > 0 && count <= self->pool_size);
    if (self->options.bucket)
        sort_pool(self, self->order + begin, count);
    else
        memcpy(self->sorted, self->order + begin, (size_t)count * sizeof *self->sorted);
    cut_pool(self, count);
    order_batches(self);
    self->loaded_pool = self->position.pool;
}

/* ---- batches ---- */

static void add_source(const et_encoded *encoded, et_pair_batch *batch, uint32_t pair)
{
    int64_t at = batch->source_tokens, length = et_encoded_source_length(encoded, pair);
    et_encoded_ids(encoded, pair, false, batch->source_ids + at);
    for (int64_t i = 0; i < length; i++)
        batch->source_positions[at + i] = (int32_t)i;
    batch->source_offsets[batch->segments] = (int32_t)at;
    batch->source_tokens += length;
}

/* The input is the labels moved on by one, behind the start symbol. */
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

static void fill_batch(const pair_iterator *self, et_pair_batch *batch)
{
    uint32_t which = self->batch_order[self->position.batch];
    batch->segments = 0;
    batch->source_tokens = batch->target_tokens = 0;
    batch->epoch = self->position.epoch;
    for (uint32_t i = self->starts[which]; i < self->starts[which + 1]; i++) {
        uint32_t pair = self->sorted[i];
        add_source(self->encoded, batch, pair);
        add_target(self->encoded, batch, pair);
        batch->pair[batch->segments++] = pair;
    }
    et_assert(batch->segments > 0);
    et_assert(batch->source_tokens <= self->source.shape.source_budget);
    et_assert(batch->target_tokens <= self->source.shape.target_budget);
    et_pair_batch_finish(batch, &self->source.shape);
}

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

/* ---- the class ---- */

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

/* A position comes from a file: it is taken only if it is one that save could have given. */
static int iterator_restore(et_pair_source *source, const et_pair_position *position,
                            et_error *error)
{
    pair_iterator *self = (pair_iterator *)source;
    if (position->fingerprint != self->position.fingerprint)
        return et_fail(error, ET_EDATA,
                       "the saved position is for other data: the text, the vocabulary, the "
                       "filter, the seed or the batch size changed: restore those, or begin in "
                       "another directory");
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
    et_free(self->order);
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

/* ---- opening ---- */

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

/* As many pairs as POOL_BATCHES batches hold, going by the fuller side. */
static int64_t automatic_pool(const pair_iterator *self)
{
    const et_encoded *encoded = self->encoded;
    const et_pair_shape *shape = &self->source.shape;
    double source = (double)encoded->sizes.source_tokens / (double)shape->source_budget;
    double target = (double)encoded->sizes.target_tokens / (double)shape->target_budget;
    double batches = source > target ? source : target;
    int64_t size = (int64_t)((double)encoded->pairs * POOL_BATCHES / batches);
    return size > POOL_MIN ? size : POOL_MIN;
}

static void choose_pools(pair_iterator *self)
{
    int64_t pairs = self->encoded->pairs;
    int64_t wanted = self->options.pool ? self->options.pool : automatic_pool(self);
    self->pools = (pairs + wanted - 1) / wanted;
    self->pool_size = (pairs + self->pools - 1) / self->pools;
}

/* Of all that a sequence of batches depends on. */
static int64_t fingerprint(const pair_iterator *self)
{
    const et_pair_shape *shape = &self->source.shape;
    uint64_t facts[] = { self->encoded->key,
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

static int allocate(pair_iterator *self, et_error *error)
{
    size_t pairs = (size_t)self->encoded->pairs, pool = (size_t)self->pool_size;
    self->order = et_alloc(pairs, sizeof *self->order);
    self->sorted = et_alloc(pool, sizeof *self->sorted);
    self->starts = et_alloc(pool + 1, sizeof *self->starts);
    self->batch_order = et_alloc(pool, sizeof *self->batch_order);
    if (!self->order || !self->sorted || !self->starts || !self->batch_order)
        return et_alloc_failed(error, (pairs + 3 * pool) * sizeof(uint32_t), "the order of pairs");
    return ET_OK;
}

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
