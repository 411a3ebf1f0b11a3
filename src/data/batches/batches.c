/* The order of data, from counted random numbers, in three levels:
 *
 *   epoch   order = permutation(seed, epoch)         all samples
 *   pool    order[begin .. end), sorted by size      about 256 batches of them
 *   batch   a run of the sorted pool that fits the capacities; the runs in random order
 *
 * Example: sizes of a pool 5 3 9 3 8 with capacity 10 -> sorted 3 3 5 8 9 -> cuts [3 3] [5] [8] [9]
 * -> for example [8] [3 3] [9] [5].
 *
 * Sorting puts samples of similar size together, so steps have equal work and a batch holds as many
 * samples as possible. Sorting pools, not all of the data, keeps epochs different. Shuffling
 * batches keeps sizes from increasing through a pool. Without sorting, pools are whole batches, and
 * batches come in the order of the samples: only the last one of an epoch is short.
 *
 * Invariants:
 *
 *   (1) the position names the next batch: epoch, pool, batch, each below its count;
 *   (2) order is that of loaded_epoch; pool, sizes, sorted, starts and batch_order are those of
 *       loaded_pool in it;
 *   (3) the following batches depend only on the fingerprint and the position. Restoring a
 *       position makes its epoch and pool again; no earlier batch is replayed;
 *   (4) nothing is allocated after open.
 *
 * With buckets an epoch is one pool, in the order of the samples, and batches come as their buckets
 * fill up. taken has the samples that wait, a part for each bucket. */
#include <stdio.h>
#include <string.h>

#include <etude/data.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"
#include "base/options.h"
#include "base/text/format.h"
#include "data/batches/source.h"

/* Largest size that sorting distinguishes; larger ones share a bucket. The table of a pool's sort
 * has 16 KiB with it, on the stack. */
#define SIZES 4096

#define DEFAULT_ROWS 32 /* of a batch of samples that have one kind, as in Keras's fit */
/* The number of batches that an automatic pool should hold. Each pool ends with a short batch, so
 * the loss is half a batch in 256. */
#define POOL_BATCHES 256
/* Raise this when a position comes to mean other samples. */
#define ORDER_VERSION 2
/* Least number of samples in a pool: a smaller pool would have too few samples of one size. */
#define POOL_MIN 4096

/* BUCKETED_VERSION: ORDER_VERSION with buckets. BLOCK: number of samples whose sizes are read in
 * one call. */
#define BUCKETED_VERSION 1
#define BLOCK            512

typedef struct bucket {
    et_bucket is;
    int64_t first;   /* its part of taken, rows long */
    int64_t waiting; /* samples in it */
} bucket;

typedef struct batches {
    et_source source;
    et_samples *samples; /* owned */
    et_batches_options options;
    int64_t epoch, pool, batch; /* the position: of the next batch */
    int64_t fingerprint;        /* of data, layout and options */
    int64_t pools;              /* in an epoch */
    int64_t pool_size;          /* samples of the largest pool */
    et_random_order order;      /* of all samples, in this epoch */
    et_arena arena;             /* of all below */
    uint32_t *taken;            /* [pool_size]: the pool's samples, as the order has them */
    /* [pool_size]: from kind 1 their sizes, in that order; for kind 0 the sort keys. */
    int32_t *size[ET_LAYOUT_KINDS];
    uint32_t *sorted;      /* [pool_size]: places in taken, as batches take them */
    uint32_t *which;       /* [pool_size]: the sample of each place in taken */
    uint32_t *starts;      /* [pool_size + 1]: batch b takes which[starts[b]..starts[b+1]) */
    uint32_t *batch_order; /* [pool_size]: in which order batches are given; NULL: as they are */
    int64_t batches;       /* in the loaded pool */
    int64_t loaded_epoch, loaded_pool; /* epoch of order, pool of sorted; -1: not loaded */
    bucket *buckets;                   /* [bucket_count]; NULL: pools are sorted */
    int bucket_count;
} batches;

/* Each use and epoch has its own random stream: drawing more numbers for one does not change
 * another. */
static et_random random_for(const batches *self, const char *use)
{
    return (et_random){ .seed = self->options.seed,
                        .step = (uint64_t)self->epoch,
                        .site = et_random_site(use) };
}

static bool has_sizes(const batches *self)
{
    return self->source.layout.kinds > 1;
}

/* ---- an epoch and its pools ---- */

/* Makes order, taken, size, sorted, starts and batch_order, each from the previous one and from
 * random numbers of (seed, epoch, pool). */

/* The order is computed pool by pool, so an epoch with many samples begins without delay. */
static void load_epoch(batches *self)
{
    if (self->loaded_epoch == self->epoch)
        return;
    self->order =
        et_random_order_of(random_for(self, self->buckets ? "bucketed/order" : "pairs/order"),
                           (uint32_t)self->samples->count);
    self->loaded_epoch = self->epoch;
    self->loaded_pool = -1; /* the pools of another epoch hold other samples */
}

/* With sizes, numbers of samples in pools differ by at most one: 10 samples in 3 pools begin at 0,
 * 4, 7 and end at 10. Without sizes, a pool has whole batches. */
static int64_t pool_begin(const batches *self, int64_t pool)
{
    et_assert(pool >= 0 && pool <= self->pools);
    int64_t count = self->samples->count;
    if (!has_sizes(self))
        return pool * self->pool_size < count ? pool * self->pool_size : count;
    return count / self->pools * pool + (pool < count % self->pools ? pool : count % self->pools);
}

/* Counting sort: stable, so that samples of equal size stay shuffled. At the start, first[s] is the
 * number of samples smaller than s; then it is the place for the next sample of size s. */
static void sort_pool(batches *self, int64_t count)
{
    const int32_t *key = self->size[0];
    uint32_t first[SIZES + 1] = { 0 };
    for (int64_t i = 0; i < count; i++)
        first[key[i] + 1]++;
    for (int64_t size = 0; size < SIZES; size++)
        first[size + 1] += first[size];
    for (int64_t i = 0; i < count; i++)
        self->sorted[first[key[i]]++] = (uint32_t)i;
}

/* Cuts the sorted pool into batches, each as long as it fits (greedy, from the front). A single
 * sample always fits: check_sizes checked this when the source was opened. */
static void cut_pool(batches *self, int64_t count)
{
    const et_layout *layout = &self->source.layout;
    const int kinds = layout->kinds;
    int64_t filled[ET_LAYOUT_KINDS] = { 0 };
    uint32_t begin = 0;
    self->batches = 0;
    self->starts[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = self->sorted[i];
        bool fits = i - begin < layout->capacity[0];
        for (int k = 1; k < kinds; k++) {
            filled[k] += self->size[k][at];
            fits &= filled[k] <= layout->capacity[k];
        }
        if (!fits) {
            self->starts[++self->batches] = begin = i;
            for (int k = 1; k < kinds; k++)
                filled[k] = self->size[k][at];
        }
        self->which[i] = self->taken[at];
    }
    if (!self->options.drop_remainder || count - begin == layout->capacity[0])
        self->starts[++self->batches] = (uint32_t)count;
}

/* A random number has no field for the pool, so the site contains the pool. */
static void order_batches(batches *self)
{
    et_assert(self->batches <= self->pool_size);
    uint32_t count = (uint32_t)self->batches;
    if (self->options.shuffle && self->options.bucket) {
        et_random random = random_for(self, "pairs/batches");
        random.site ^= (uint32_t)self->pool;
        et_random_permutation(random, self->batch_order, count);
    } else
        for (uint32_t i = 0; i < count; i++)
            self->batch_order[i] = i;
}

static uint32_t number_at(const batches *self, int64_t at)
{
    return self->options.shuffle ? et_random_order_at(&self->order, (uint32_t)at) : (uint32_t)at;
}

static void give_batch(batches *self, bucket *from)
{
    const uint32_t used = self->starts[self->batches];
    memcpy(self->which + used, self->taken + from->first, from->waiting * sizeof *self->which);
    self->starts[++self->batches] = used + (uint32_t)from->waiting;
    from->waiting = 0;
}

/* Plans all batches of the pass. */
static void fill_buckets(batches *self)
{
    uint32_t block[BLOCK];
    int32_t size[ET_LAYOUT_KINDS][BLOCK];
    int32_t *sizes[ET_LAYOUT_KINDS];
    for (int k = 0; k < ET_LAYOUT_KINDS; k++)
        sizes[k] = size[k];
    self->batches = 0;
    self->starts[0] = 0;
    for (int64_t at = 0; at < self->samples->count;) {
        int64_t some = 0;
        for (; some < BLOCK && at < self->samples->count; at++)
            block[some++] = number_at(self, at);
        self->samples->class->sizes(self->samples, (et_pick){ block, some, self->epoch }, sizes);
        for (int64_t i = 0; i < some; i++) {
            int64_t length = 0;
            for (int k = 1; k < self->source.layout.kinds; k++)
                length = size[k][i] > length ? size[k][i] : length;
            bucket *to = self->buckets;
            while (length > to->is.longest)
                to++;
            et_assert(to < self->buckets + self->bucket_count);
            self->taken[to->first + to->waiting++] = block[i];
            if (to->waiting == to->is.rows)
                give_batch(self, to);
        }
    }
    for (int b = 0; b < self->bucket_count; b++)
        if (self->buckets[b].waiting)
            give_batch(self, &self->buckets[b]);
    et_assert_equal(self->starts[self->batches], self->samples->count);
}

/* Loads the position's pool, unless it is loaded already. Called before every batch. */
static void load_pool(batches *self)
{
    load_epoch(self);
    if (self->loaded_pool == self->pool)
        return;
    self->loaded_pool = self->pool;
    if (self->buckets) {
        fill_buckets(self);
        return;
    }
    int64_t begin = pool_begin(self, self->pool);
    int64_t count = pool_begin(self, self->pool + 1) - begin;
    et_assert(count > 0 && count <= self->pool_size);
    for (int64_t i = 0; i < count; i++) {
        self->taken[i] = number_at(self, begin + i);
        self->sorted[i] = (uint32_t)i;
    }
    if (has_sizes(self))
        self->samples->class->sizes(self->samples, (et_pick){ self->taken, count, self->epoch },
                                    self->size);
    if (self->options.bucket) {
        /* Sort keys: sizes of the kind that fills its capacity first, if capacities are the same.
         */
        int32_t *key = self->size[0];
        memcpy(key, self->size[1], count * sizeof *key);
        for (int k = 2; k < self->source.layout.kinds; k++)
            for (int64_t i = 0; i < count; i++)
                key[i] = self->size[k][i] > key[i] ? self->size[k][i] : key[i];
        for (int64_t i = 0; i < count; i++)
            key[i] = key[i] < SIZES ? key[i] : SIZES - 1;
        sort_pool(self, count);
    }
    cut_pool(self, count);
    order_batches(self);
}

/* Advances the position: a full batch count carries to the pool, and pools to the epoch. The next
 * load_pool loads that pool. */
static void advance(batches *self)
{
    if (++self->batch < self->batches)
        return;
    self->batch = 0;
    if (++self->pool < self->pools)
        return;
    self->pool = 0;
    self->epoch++;
}

/* ---- the class ---- */

/* The last pool has no batches if the remainder is dropped. */
static bool find_batch(batches *self)
{
    for (;;) {
        if (!self->options.repeat && self->epoch > 0)
            return false;
        load_pool(self);
        if (self->batch < self->batches)
            return true;
        advance(self);
    }
}

/* A pass ends when the epoch counter advances, and stays ended. */
static int batches_next(et_source *source, et_batch *batch, et_error *error)
{
    batches *self = (batches *)source;
    if (!find_batch(self)) {
        et_batch_clear(batch);
        return ET_OK;
    }
    const int64_t b = self->batch_order ? self->batch_order[self->batch] : self->batch;
    const uint32_t begin = self->starts[b];
    et_pick pick = { self->which + begin, self->starts[b + 1] - begin, self->epoch };
    memset(batch->filled, 0, sizeof batch->filled);
    batch->epoch = pick.epoch;
    memcpy(batch->sample, pick.which, pick.count * sizeof *pick.which);
    int status = et_callback_status(self->samples->class->fill(self->samples, pick, batch, error),
                                    "fill of et_samples_class", error);
    if (status)
        return status;
    et_assert_equal(batch->filled[0], pick.count);
    et_batch_finish(batch);
    advance(self);
    return ET_OK;
}

static void batches_position(const et_source *source, et_position *position)
{
    const batches *self = (const batches *)source;
    et_position_put(position, "epoch", self->epoch);
    if (!self->buckets)
        et_position_put(position, "pool", self->pool);
    et_position_put(position, "batch", self->batch);
    et_position_put(position, "fingerprint", self->fingerprint);
}

/* A position comes from a file, so it is accepted only if the source could have given it. The
 * number of batches is known only after the pool is made. So the position is tried, and undone if
 * the pool lacks the batch. */
static int try_position(batches *self, int64_t epoch, int64_t pool, int64_t batch, et_error *error)
{
    const batches before = *self;
    bool sound = epoch >= 0 && pool >= 0 && pool < self->pools && batch >= 0;
    if (sound) {
        self->epoch = epoch;
        self->pool = pool;
        self->batch = batch;
        load_pool(self);
        sound = batch < self->batches || (batch == 0 && self->batches == 0);
    }
    if (sound)
        return ET_OK;
    self->epoch = before.epoch;
    self->pool = before.pool;
    self->batch = before.batch;
    char pool_text[40] = "";
    if (!self->buckets)
        snprintf(pool_text, sizeof pool_text, "pool %lld, ", (long long)pool);
    return et_fail(error, ET_EDATA,
                   "the saved position (epoch %lld, %sbatch %lld) is not in the data: its file is "
                   "damaged",
                   (long long)epoch, pool_text, (long long)batch);
}

static int batches_seek(et_source *source, const et_position *position, et_error *error)
{
    batches *self = (batches *)source;
    int64_t saved = 0, epoch = 0, pool = 0, batch = 0;
    int status = et_position_get(position, "fingerprint", &saved, error);
    if (!status && saved != self->fingerprint)
        return et_fail(error, ET_EDATA,
                       "the saved position is for other data: the data, its settings, the seed or "
                       "the batch size changed; restore them, or start in another directory");
    if (status || (status = et_position_get(position, "epoch", &epoch, error)) ||
        (!self->buckets && (status = et_position_get(position, "pool", &pool, error))) ||
        (status = et_position_get(position, "batch", &batch, error)))
        return status;
    return try_position(self, epoch, pool, batch, error);
}

static int batches_rewind(et_source *source, bool next, et_error *error)
{
    batches *self = (batches *)source;
    const bool within = self->pool || self->batch;
    return try_position(self, next && self->options.repeat ? self->epoch + within : 0, 0, 0, error);
}

/* Most places named in a message. */
#define DESCRIBED 8

/* Samples of a batch are of like size but from anywhere in the data, so each is named. */
static void batches_describe(const et_source *source, const et_batch *batch, char *text,
                             size_t size)
{
    const et_samples *samples = ((const batches *)source)->samples;
    size_t used = 0;
    int64_t count = batch->filled[0];
    for (int64_t i = 0; i < count && i < DESCRIBED && used + 4 < size; i++) {
        if (i)
            used += (size_t)snprintf(text + used, size - used, ", ");
        samples->class->describe(samples, batch->sample[i], 0, text + used, size - used);
        used += strlen(text + used);
    }
    if (count > DESCRIBED && used < size)
        snprintf(text + used, size - used, " and %lld more", (long long)(count - DESCRIBED));
}

/* A pass is made to count its batches only if samples have sizes. */
static int batches_batches(et_source *source, int64_t *count, et_error *error)
{
    batches *self = (batches *)source;
    const int64_t epoch = self->epoch, pool = self->pool;
    int64_t rows = self->source.layout.capacity[0], samples = self->samples->count;
    (void)error;
    if (!has_sizes(self)) {
        *count = (samples + (self->options.drop_remainder ? 0 : rows - 1)) / rows;
        return ET_OK;
    }
    *count = 0;
    self->epoch = 0;
    for (self->pool = 0; self->pool < self->pools; self->pool++) {
        load_pool(self);
        *count += self->batches;
    }
    self->epoch = epoch;
    self->pool = pool;
    return ET_OK;
}

static void release(batches *self)
{
    et_arena_release(&self->arena);
    et_free(self);
}

static void batches_close(et_source *source)
{
    batches *self = (batches *)source;
    et_samples_close(self->samples);
    release(self);
}

static uint64_t batches_content(const et_source *source)
{
    return ((const batches *)source)->samples->fingerprint;
}

static const et_source_class batches_class = {
    .name = "batches",
    .next = batches_next,
    .position = batches_position,
    .seek = batches_seek,
    .describe = batches_describe,
    .close = batches_close,
    .batches = batches_batches,
    .content = batches_content,
    .rewind = batches_rewind,
};

/* ---- opening ---- */

/* The functions below may fail; those above cannot, except filling. */

/* The size of a single sample. */
static int64_t size_of(batches *self, uint32_t sample, int kind)
{
    int32_t size[ET_LAYOUT_KINDS] = { 1 };
    int32_t *sizes[ET_LAYOUT_KINDS];
    for (int k = 0; k < ET_LAYOUT_KINDS; k++)
        sizes[k] = &size[k];
    self->samples->class->sizes(self->samples, (et_pick){ &sample, 1, 0 }, sizes);
    return size[kind];
}

/* The largest sizes are known, so samples are searched only if one does not fit. */
static int check_sizes(batches *self, et_error *error)
{
    const et_layout *layout = &self->source.layout;
    const et_batches_options *o = &self->options;
    for (int64_t i = 0; i < self->samples->count; i++) {
        bool fits = true;
        for (int k = 1; k < layout->kinds; k++) {
            fits &= self->samples->largest[k] <= layout->capacity[k];
            if (fits || size_of(self, (uint32_t)i, k) <= layout->capacity[k])
                continue;
            char sample_text[512];
            self->samples->class->describe(self->samples, (uint32_t)i, k, sample_text,
                                           sizeof sample_text);
            return et_fail(error, ET_ECONFIG, "%s: %s %ss do not fit %s = %s: raise this limit%s%s",
                           sample_text, et_format_count(size_of(self, (uint32_t)i, k)).text,
                           layout->kind[k], o->setting ? o->setting : "the batch's capacity",
                           et_format_count(layout->capacity[k]).text, o->cure ? ", or " : "",
                           o->cure ? o->cure : "");
        }
        if (fits)
            return ET_OK;
    }
    /* The largest sample is of another pass than the first, or the samples say so without having
     * it. */
    const char *setting = self->options.setting;
    for (int k = 1; k < layout->kinds; k++)
        if (self->samples->largest[k] > layout->capacity[k])
            return et_fail(error, ET_ECONFIG,
                           "a sample of a later pass: %s %ss do not fit %s = %s: raise this limit",
                           et_format_count(self->samples->largest[k]).text, layout->kind[k],
                           setting ? setting : "the batch's capacity",
                           et_format_count(layout->capacity[k]).text);
    return ET_OK;
}

/* The number of samples that fill POOL_BATCHES batches, according to the kind that needs the most
 * batches; at most all samples. most: number of batches of an epoch if all were full; 0 if every
 * size is 0. */
static int64_t automatic_pool(const batches *self)
{
    double most = 0;
    for (int k = 1; k < self->source.layout.kinds; k++) {
        double full = (double)self->samples->total[k] / (double)self->source.layout.capacity[k];
        most = full > most ? full : most;
    }
    double count = (double)self->samples->count;
    double size = most > 0 ? count * POOL_BATCHES / most : 0;
    return size > POOL_MIN ? (int64_t)(size < count ? size : count) : POOL_MIN;
}

/* Makes as few pools as the wanted size allows, all of equal size, so that the last one is not
 * small. */
static void choose_pools(batches *self)
{
    int64_t count = self->samples->count, rows = self->source.layout.capacity[0];
    int64_t pool = self->options.pool < count ? self->options.pool : count;
    et_assert(count > 0);
    if (!has_sizes(self)) {
        int64_t wanted = pool ? (pool + rows - 1) / rows : POOL_BATCHES;
        self->pool_size = wanted * rows;
        self->pools = (count + self->pool_size - 1) / self->pool_size;
        return;
    }
    int64_t wanted = pool ? pool : automatic_pool(self);
    self->pools = (count + wanted - 1) / wanted;
    self->pool_size = (count + self->pools - 1) / self->pools;
}

/* The fingerprint of everything on which a sequence of batches depends: the formula of the order,
 * and the number of pools, which is computed if the option is 0. */
static int64_t fingerprint(const batches *self)
{
    const et_layout *layout = &self->source.layout;
    const et_batches_options *o = &self->options;
    uint64_t facts[9 + ET_LAYOUT_KINDS];
    size_t count = 0;
    facts[count++] = ORDER_VERSION;
    facts[count++] = self->samples->fingerprint;
    for (int k = 1; k < layout->kinds; k++)
        facts[count++] = (uint64_t)layout->capacity[k];
    facts[count++] = (uint64_t)layout->capacity[0];
    facts[count++] = o->seed;
    facts[count++] = (uint64_t)o->shuffle | (uint64_t)o->drop_remainder << 1;
    facts[count++] = o->bucket;
    facts[count++] = o->repeat;
    facts[count++] = (uint64_t)self->pools;
    return (int64_t)et_checksum(facts, count * sizeof facts[0]);
}

static int check_options(const et_samples *samples, const et_batches_options *o, et_error *error)
{
    const et_layout *layout = &samples->layout;
    if (samples->count < 1 || samples->count > UINT32_MAX)
        return et_fail(error, ET_EDATA, "%lld samples: give 1 to 4,294,967,295",
                       (long long)samples->count);
    for (int k = 0; k < layout->kinds; k++)
        if (o->capacity[k] < (layout->kinds > 1) || o->capacity[k] > INT32_MAX)
            return et_fail(error, ET_ECONFIG, "a batch of %lld %ss: give 1 to 2^31 - 1",
                           (long long)o->capacity[k], layout->kind[k]);
    if (samples->class->sized && !o->capacity[0])
        return et_fail(error, ET_ECONFIG,
                       "a %s has no usual batch size: set capacity[0] to the number of samples",
                       samples->class->name);
    if (o->pool < 0)
        return et_fail(error, ET_ECONFIG, "a pool of %lld samples: give at least 1",
                       (long long)o->pool);
    if (o->drop_remainder && layout->kinds > 1)
        return et_fail(
            error, ET_ECONFIG,
            "drop_remainder: batches that are filled by %ss are never full; leave it false",
            layout->kind[1]);
    const int64_t rows = o->capacity[0] ? o->capacity[0] : DEFAULT_ROWS;
    if (o->drop_remainder && o->repeat && samples->count < rows)
        return et_fail(
            error, ET_ECONFIG,
            "drop_remainder: %lld samples do not fill one batch of %lld, and repeat would "
            "search without end",
            (long long)samples->count, (long long)rows);
    return ET_OK;
}

int et_batches_open(et_source **out, et_samples *samples, const et_batches_options *options,
                    et_error *error)
{
    static const et_batches_options defaults = { .bucket = 0 };
    options = options ? options : &defaults;
    int status = check_options(samples, options, error);
    batches *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, "batches");
    self->source = (et_source){ .class = &batches_class, .layout = samples->layout };
    memcpy(self->source.layout.capacity, options->capacity, sizeof options->capacity);
    if (!options->capacity[0])
        self->source.layout.capacity[0] = DEFAULT_ROWS;
    self->samples = samples;
    self->options = *options;
    self->options.bucket = options->bucket && has_sizes(self);
    self->loaded_epoch = self->loaded_pool = -1; /* the first next makes both */
    status = check_sizes(self, error);
    if (!status) {
        choose_pools(self);
        self->fingerprint = fingerprint(self);
        /* A batch holds one sample at least, so a pool of n samples has at most n batches. */
        int64_t most =
            self->samples->count < self->pool_size ? self->samples->count : self->pool_size;
        size_t pool = most > 0 ? (size_t)most : 1;
        et_arena *arena = &self->arena;
        self->taken = et_arena_array(arena, pool, sizeof *self->taken);
        self->sorted = et_arena_array(arena, pool, sizeof *self->sorted);
        self->which = et_arena_array(arena, pool, sizeof *self->which);
        self->starts = et_arena_array(arena, pool + 1, sizeof *self->starts);
        self->batch_order = et_arena_array(arena, pool, sizeof *self->batch_order);
        for (int k = 0; has_sizes(self) && k < self->source.layout.kinds; k++)
            self->size[k] = et_arena_array(arena, pool, sizeof *self->size[k]);
        if (arena->failed)
            status = et_alloc_failed(error, "the order of data");
    }
    if (status) {
        release(self);
        return status;
    }
    *out = &self->source;
    return ET_OK;
}

int et_batches_take(et_source **out, et_samples *samples, const et_batches_options *options,
                    et_error *error)
{
    const int status = et_batches_open(out, samples, options, error);
    if (status)
        et_samples_close(samples);
    return status;
}

/* ---- with buckets ---- */

int et_buckets_of(et_bucket *buckets, int64_t longest, int64_t budget, int64_t first, double scale)
{
    int count = 0;
    for (int64_t bound = first;; count++) {
        const bool last = bound >= longest;
        const int64_t end = last ? longest + 1 : bound;
        if (count >= ET_BUCKETS_MAX)
            return -1;
        buckets[count] = (et_bucket){ end - 1, budget / end };
        if (last)
            return count + 1;
        const int64_t scaled = (int64_t)((double)bound * scale);
        bound = scaled > bound + 1 ? scaled : bound + 1;
    }
}

int et_buckets_scaled(et_bucket *buckets, int64_t longest, int64_t budget)
{
    return et_buckets_of(buckets, longest, budget, 8, 1.1);
}

static int check_buckets(const et_samples *samples, const et_bucketed_options *o, et_error *error)
{
    int64_t longest = 0;
    et_assert(samples->layout.kinds > 1 && o->count >= 1);
    for (int k = 1; k < samples->layout.kinds; k++)
        longest = samples->largest[k] > longest ? samples->largest[k] : longest;
    for (int i = 0; i < o->count; i++) {
        const et_bucket *b = &o->buckets[i];
        if (b->rows < 1)
            return et_fail(error, ET_ECONFIG,
                           "the token budget of a batch is too small for samples of up to %lld "
                           "tokens: raise the budget",
                           (long long)b->longest);
        if (b->longest > INT32_MAX / b->rows)
            return et_fail(error, ET_ECONFIG,
                           "a batch of %lld samples of up to %lld tokens: both must be at least 1",
                           (long long)b->rows, (long long)b->longest);
    }
    if (longest > o->buckets[o->count - 1].longest)
        return et_fail(error, ET_ECONFIG, "a sample of %lld tokens: batches allow at most %lld",
                       (long long)longest, (long long)o->buckets[o->count - 1].longest);
    return ET_OK;
}

int et_bucketed_open(et_source **out, et_samples *samples, const et_bucketed_options *o,
                     et_error *error)
{
    int status = check_buckets(samples, o, error);
    batches *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, "batches");
    et_layout *layout = &self->source.layout;
    et_arena *arena = &self->arena;
    const size_t count = (size_t)samples->count;
    int64_t waiting = 0;
    self->source = (et_source){ .class = &batches_class, .layout = samples->layout };
    self->samples = samples;
    self->options =
        (et_batches_options){ .seed = o->seed, .shuffle = o->shuffle, .repeat = o->repeat };
    self->pools = 1;
    self->loaded_epoch = self->loaded_pool = -1;
    self->bucket_count = o->count;
    self->buckets = et_arena_array(arena, o->count, sizeof *self->buckets);
    /* The largest batch of any bucket. A bucket never holds more samples than exist. */
    for (int i = 0; self->buckets && i < o->count; i++) {
        et_bucket is = o->buckets[i];
        if (is.rows > samples->count)
            is.rows = samples->count;
        self->buckets[i] = (bucket){ .is = is, .first = waiting };
        waiting += is.rows;
        if (is.rows > layout->capacity[0])
            layout->capacity[0] = is.rows;
        for (int k = 1; k < layout->kinds; k++)
            if (is.rows * is.longest > layout->capacity[k])
                layout->capacity[k] = is.rows * is.longest;
    }
    const uint64_t facts[] = { BUCKETED_VERSION, samples->fingerprint, o->seed,
                               (uint64_t)o->shuffle | (uint64_t)o->repeat << 1,
                               et_checksum(o->buckets, o->count * sizeof *o->buckets) };
    self->fingerprint = (int64_t)et_checksum(facts, sizeof facts);
    self->taken = et_arena_array(arena, waiting, sizeof *self->taken);
    self->which = et_arena_array(arena, count, sizeof *self->which);
    self->starts = et_arena_array(arena, count + 1, sizeof *self->starts);
    if (arena->failed) {
        release(self);
        return et_alloc_failed(error, "the order of data");
    }
    *out = &self->source;
    return ET_OK;
}
