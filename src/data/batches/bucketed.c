/* A pass as a list of batches: which [samples] has the samples of batch b at starts[b] to starts[b
 * + 1]. The list is made when the pass begins, by going through the samples once. Meanwhile waiting
 * [rooms] has the samples in buckets, one part for each bucket.
 *
 * Invariants:
 *
 *   (1) the position names the next batch: epoch and batch, each below its count;
 *   (2) which and starts are those of loaded_epoch;
 *   (3) the following batches depend only on fingerprint and position;
 *   (4) nothing is allocated after open. */
#include "data/batches/bucketed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"
#include "data/batches/source.h"

/* Raise this when a position comes to mean other samples. */
#define ORDER_VERSION 1
/* Samples whose sizes are requested at a time. */
#define BLOCK 512

typedef struct bucket {
    et_bucket is;
    int64_t first;   /* its part of waiting, rows long */
    int64_t waiting; /* samples in it */
} bucket;

typedef struct bucketed {
    et_source source;
    et_samples *samples; /* owned */
    bucket *buckets;     /* [count], in the arena as waiting, which and starts */
    int count;
    et_bucketed_options options;
    int64_t epoch, batch; /* the position */
    int64_t fingerprint;
    uint32_t *waiting;
    uint32_t *which;       /* [samples] */
    uint32_t *starts;      /* [samples + 1] */
    int64_t batches, used; /* of the pass: batches, and samples in them */
    int64_t loaded_epoch;
    et_arena arena;
} bucketed;

/* ---- buckets ---- */

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

/* ---- a pass ---- */

static void give_batch(bucketed *self, bucket *from)
{
    memcpy(self->which + self->used, self->waiting + from->first,
           (size_t)from->waiting * sizeof *self->which);
    self->used += from->waiting;
    self->starts[++self->batches] = (uint32_t)self->used;
    from->waiting = 0;
}

static void load_epoch(bucketed *self)
{
    if (self->loaded_epoch == self->epoch)
        return;
    const uint32_t count = (uint32_t)self->samples->count;
    const et_random random = { .seed = self->options.seed,
                               .step = (uint64_t)self->epoch,
                               .site = et_random_site("bucketed/order") };
    et_random_order order = et_random_order_of(random, count);
    uint32_t block[BLOCK];
    self->batches = self->used = 0;
    self->starts[0] = 0;
    for (uint32_t at = 0; at < count;) {
        int64_t some = 0;
        for (; some < BLOCK && at < count; at++)
            block[some++] = self->options.shuffle ? et_random_order_at(&order, at) : at;
        int32_t size[ET_LAYOUT_KINDS][BLOCK];
        int32_t *sizes[ET_LAYOUT_KINDS];
        for (int k = 0; k < ET_LAYOUT_KINDS; k++)
            sizes[k] = size[k];
        self->samples->class->sizes(self->samples, (et_pick){ block, some, self->epoch }, sizes);
        for (int64_t i = 0; i < some; i++) {
            int64_t length = 0;
            for (int k = 1; k < self->source.layout.kinds; k++)
                length = size[k][i] > length ? size[k][i] : length;
            bucket *to = self->buckets;
            while (length > to->is.longest)
                to++;
            et_assert(to < self->buckets + self->count);
            self->waiting[to->first + to->waiting++] = block[i];
            if (to->waiting == to->is.rows)
                give_batch(self, to);
        }
    }
    for (int b = 0; b < self->count; b++)
        if (self->buckets[b].waiting)
            give_batch(self, &self->buckets[b]);
    et_assert(self->used == self->samples->count);
    self->loaded_epoch = self->epoch;
}

/* ---- the class ---- */

static int bucketed_next(et_source *source, et_batch *batch, et_error *error)
{
    bucketed *self = (bucketed *)source;
    if (!self->options.repeat && self->epoch > 0) {
        et_batch_clear(batch);
        return ET_OK;
    }
    load_epoch(self);
    uint32_t begin = self->starts[self->batch];
    et_pick pick = { self->which + begin, self->starts[self->batch + 1] - begin, self->epoch };
    int status = et_samples_fill(self->samples, pick, batch, error);
    if (status)
        return status;
    if (++self->batch == self->batches) {
        self->batch = 0;
        self->epoch++;
    }
    return ET_OK;
}

static void bucketed_position(const et_source *source, et_position *position)
{
    const bucketed *self = (const bucketed *)source;
    et_position_put(position, "epoch", self->epoch);
    et_position_put(position, "batch", self->batch);
    et_position_put(position, "fingerprint", self->fingerprint);
}

/* Whether a batch is there is known only when the pass is laid out: tried, and taken back. */
static int try_position(bucketed *self, int64_t epoch, int64_t batch, et_error *error)
{
    const int64_t was = self->epoch;
    bool sound = epoch >= 0 && batch >= 0;
    if (sound) {
        self->epoch = epoch;
        load_epoch(self);
        sound = batch < self->batches;
    }
    if (sound) {
        self->batch = batch;
        return ET_OK;
    }
    self->epoch = was;
    return et_fail(
        error, ET_EDATA,
        "the saved position (epoch %lld, batch %lld) is not in the data: its file is damaged",
        (long long)epoch, (long long)batch);
}

static int bucketed_seek(et_source *source, const et_position *position, et_error *error)
{
    bucketed *self = (bucketed *)source;
    int64_t epoch = 0, batch = 0;
    int status;
    if ((status = et_position_check(position, self->fingerprint, error)) ||
        (status = et_position_get(position, "epoch", &epoch, error)) ||
        (status = et_position_get(position, "batch", &batch, error)))
        return status;
    return try_position(self, epoch, batch, error);
}

static int bucketed_rewind(et_source *source, bool next, et_error *error)
{
    bucketed *self = (bucketed *)source;
    const bool within = self->batch > 0;
    return try_position(self, next && self->options.repeat ? self->epoch + within : 0, 0, error);
}

static void bucketed_describe(const et_source *source, const et_batch *batch, char *text,
                              size_t size)
{
    et_samples_describe(((const bucketed *)source)->samples, batch, text, size);
}

static int bucketed_batches(et_source *source, int64_t *count, et_error *error)
{
    bucketed *self = (bucketed *)source;
    const int64_t epoch = self->epoch;
    (void)error;
    self->epoch = 0;
    load_epoch(self);
    *count = self->batches;
    self->epoch = epoch;
    return ET_OK;
}

static void release(bucketed *self)
{
    et_arena_release(&self->arena);
    et_free(self);
}

static void bucketed_close(et_source *source)
{
    bucketed *self = (bucketed *)source;
    et_samples_close(self->samples);
    release(self);
}

static uint64_t bucketed_content(const et_source *source)
{
    return ((const bucketed *)source)->samples->fingerprint;
}

static const et_source_class bucketed_class = {
    .name = "bucketed",
    .next = bucketed_next,
    .position = bucketed_position,
    .seek = bucketed_seek,
    .describe = bucketed_describe,
    .close = bucketed_close,
    .batches = bucketed_batches,
    .content = bucketed_content,
    .rewind = bucketed_rewind,
};

/* ---- opening ---- */

static int check(const et_samples *samples, const et_bucketed_options *o, et_error *error)
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

static int64_t fingerprint(const bucketed *self)
{
    const et_bucketed_options *o = &self->options;
    const uint64_t facts[] = { ORDER_VERSION, self->samples->fingerprint, o->seed,
                               (uint64_t)o->shuffle | (uint64_t)o->repeat << 1,
                               et_checksum(o->buckets, (size_t)o->count * sizeof *o->buckets) };
    return (int64_t)et_checksum(facts, sizeof facts);
}

int et_bucketed_open(et_source **out, et_samples *samples, const et_bucketed_options *options,
                     et_error *error)
{
    int status = check(samples, options, error);
    if (status)
        return status;
    bucketed *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "batches");
    self->source = (et_source){ .class = &bucketed_class, .layout = samples->layout };
    self->samples = samples;
    self->options = *options;
    self->count = options->count;
    self->loaded_epoch = -1;
    self->buckets = et_arena_array(&self->arena, (size_t)options->count, sizeof *self->buckets);
    const size_t count = (size_t)samples->count;
    /* The largest batch of all. A bucket never holds more than there are samples. */
    et_layout *layout = &self->source.layout;
    int64_t first = 0;
    for (int i = 0; self->buckets && i < self->count; i++) {
        bucket *b = &self->buckets[i];
        b->is = self->options.buckets[i];
        if (b->is.rows > self->samples->count)
            b->is.rows = self->samples->count;
        b->first = first;
        first += b->is.rows;
        if (b->is.rows > layout->capacity[0])
            layout->capacity[0] = b->is.rows;
        for (int k = 1; k < layout->kinds; k++)
            if (b->is.rows * b->is.longest > layout->capacity[k])
                layout->capacity[k] = b->is.rows * b->is.longest;
    }
    self->fingerprint = fingerprint(self);
    self->options.buckets = NULL;
    self->waiting = et_arena_array(&self->arena, (size_t)first, sizeof *self->waiting);
    self->which = et_arena_array(&self->arena, count, sizeof *self->which);
    self->starts = et_arena_array(&self->arena, count + 1, sizeof *self->starts);
    if (self->arena.failed) {
        release(self);
        return et_alloc_failed(error, 2 * count * sizeof(uint32_t), "the order of data");
    }
    *out = &self->source;
    return ET_OK;
}
