/* Decorators that choose and mix samples by number. Each maps a pick of its own numbers to picks of
 * the inner samples, CHUNK at a time, in order. These decorators have no position.
 *
 * A mix with weights w[p] and passes of `count` samples: part p gives quota[p] = count w[p] / sum w
 * samples of a pass (by largest remainders), spread as evenly as possible: number n belongs to the
 * part whose next due time is the earliest (see make_turns). In pass e it gives its samples number
 * e quota + j, j from 0. Number m of a part is member m % size of the part's permutation m / size,
 * so all samples of a part are used before any is used again. */
#include <stdlib.h>
#include <string.h>

#include <etude/data.h>
#include <etude/flows.h>
#include <etude/records.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"
#include "base/options.h"
#include "engine/tensor/tensor.h"

#define CHUNK      256
#define WEIGHT_MAX 1e100 /* sums of weights are finite */

/* ---- samples of parts, by number ---- */

typedef struct parted {
    et_samples samples;
    et_samples **parts; /* [count], owned once the samples are open */
    int count;
    et_arena arena; /* of parts and of the lists that run reads */
    /* The samples of one part that pick has from `at` on, in the part's numbers: at least one, at
     * most CHUNK. */
    et_pick (*run)(const struct parted *self, et_pick pick, int64_t at, uint32_t which[CHUNK],
                   et_samples **part);
} parted;

static void parted_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const parted *self = (const parted *)samples;
    uint32_t which[CHUNK];
    int32_t *at[ET_LAYOUT_KINDS] = { NULL };
    et_samples *part;
    for (int64_t done = 0; done < pick.count;) {
        const et_pick run = self->run(self, pick, done, which, &part);
        for (int k = 1; k < samples->layout.kinds; k++)
            at[k] = sizes[k] + done;
        part->class->sizes(part, run, at);
        done += run.count;
    }
}

static int parted_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    const parted *self = (const parted *)samples;
    uint32_t which[CHUNK];
    et_samples *part;
    int status = ET_OK;
    for (int64_t done = 0; !status && done < pick.count;) {
        const et_pick run = self->run(self, pick, done, which, &part);
        status = part->class->fill(part, run, batch, error);
        done += run.count;
    }
    return status;
}

static void parted_describe(const et_samples *samples, uint32_t n, int kind, char *text,
                            size_t size)
{
    const parted *self = (const parted *)samples;
    uint32_t which[CHUNK];
    et_samples *part;
    self->run(self, (et_pick){ &n, 1, 0 }, 0, which, &part);
    part->class->describe(part, which[0], kind, text, size);
}

/* Leaves the parts to the caller. */
static void parted_free(parted *self)
{
    et_arena_release(&self->arena);
    et_free(self);
}

static void parted_close(et_samples *samples)
{
    parted *self = (parted *)samples;
    for (int i = 0; i < self->count; i++)
        et_samples_close(self->parts[i]);
    parted_free(self);
}

/* Allocates a zeroed struct of `size` bytes that begins with a parted, and sets its parts. NULL: no
 * memory. */
static void *parted_new(size_t size, et_samples *const *parts, int count, const char *what,
                        et_error *error)
{
    parted *self = et_alloc_zero(1, size);
    if (self)
        self->parts = et_arena_array(&self->arena, count, sizeof(et_samples *));
    if (!self || !self->parts) {
        et_free(self);
        et_alloc_failed(error, what);
        return NULL;
    }
    memcpy(self->parts, parts, count * sizeof(et_samples *));
    self->count = count;
    self->samples.layout = parts[0]->layout;
    return self;
}

/* ---- take, shard, subset ---- */

typedef struct choice {
    parted parted;   /* one part */
    uint32_t *which; /* [count]; NULL: first + stride i */
    uint32_t first, stride;
} choice;

static et_pick choice_run(const parted *samples, et_pick pick, int64_t at, uint32_t which[CHUNK],
                          et_samples **part)
{
    const choice *self = (const choice *)samples;
    const int64_t count = pick.count - at < CHUNK ? pick.count - at : CHUNK;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t n = pick.which[at + i];
        which[i] = self->which ? self->which[n] : self->first + self->stride * n;
    }
    *part = samples->parts[0];
    return (et_pick){ which, count, pick.epoch };
}

static const et_samples_class choice_class = {
    .name = "choice",
    .sizes = parted_sizes,
    .fill = parted_fill,
    .describe = parted_describe,
    .close = parted_close,
};

/* Computes totals of the chosen samples, because batches are planned from totals. */
static void measure(et_samples *samples)
{
    int32_t size[ET_LAYOUT_KINDS][CHUNK], *sizes[ET_LAYOUT_KINDS];
    uint32_t which[CHUNK];
    memset(samples->total, 0, sizeof samples->total);
    memset(samples->largest, 0, sizeof samples->largest);
    samples->total[0] = samples->count;
    samples->largest[0] = 1;
    for (int k = 0; k < ET_LAYOUT_KINDS; k++)
        sizes[k] = size[k];
    for (int64_t at = 0; samples->layout.kinds > 1 && at < samples->count; at += CHUNK) {
        int64_t count = samples->count - at < CHUNK ? samples->count - at : CHUNK;
        for (int64_t i = 0; i < count; i++)
            which[i] = (uint32_t)(at + i);
        samples->class->sizes(samples, (et_pick){ which, count, 0 }, sizes);
        for (int k = 1; k < samples->layout.kinds; k++)
            for (int64_t i = 0; i < count; i++) {
                samples->total[k] += size[k][i];
                if (size[k][i] > samples->largest[k])
                    samples->largest[k] = size[k][i];
            }
    }
}

static const et_samples_class mix_class;

/* which: [count], copied; NULL: first + stride i. */
static int choice_open(et_samples **out, et_samples *inner, int64_t count, const uint32_t *which,
                       uint32_t first, uint32_t stride, et_error *error)
{
    choice *self = parted_new(sizeof *self, &inner, 1, "a choice of samples", error);
    if (!self)
        return ET_ENOMEM;
    const size_t size = which ? count * sizeof *which : 0;
    et_samples *chosen = &self->parted.samples;
    chosen->class = &choice_class;
    chosen->count = count;
    self->parted.run = choice_run;
    self->first = first;
    self->stride = stride;
    if (which) {
        self->which = et_arena_array(&self->parted.arena, count, sizeof *which);
        if (!self->which) {
            parted_free(&self->parted);
            return et_alloc_failed(error, "a choice of samples");
        }
        memcpy(self->which, which, size);
    }
    const uint64_t facts[] = { inner->fingerprint, (uint64_t)count, first, stride,
                               which ? et_checksum(which, size) : 0 };
    chosen->fingerprint = et_checksum(facts, sizeof facts);
    measure(chosen);
    /* In a mix, numbers stand for other samples in each pass, so sizes of the whole mix are
     * used. */
    const et_samples *samples = inner;
    while (samples->class == &choice_class)
        samples = ((const parted *)samples)->parts[0];
    if (samples->class == &mix_class)
        memcpy(chosen->largest, inner->largest, sizeof inner->largest);
    *out = chosen;
    return ET_OK;
}

int et_take_open(et_samples **out, et_samples *inner, int64_t count, et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%lld samples of %lld: choose at least one",
                       (long long)count, (long long)inner->count);
    return choice_open(out, inner, count < inner->count ? count : inner->count, NULL, 0, 1, error);
}

int et_shard_open(et_samples **out, et_samples *inner, int64_t first, int64_t count,
                  et_error *error)
{
    if (count < 1 || first < 0 || first >= count || first >= inner->count)
        return et_fail(error, ET_ECONFIG, "shard %lld of %lld over %lld samples is empty",
                       (long long)first, (long long)count, (long long)inner->count);
    return choice_open(out, inner, (inner->count - first - 1) / count + 1, NULL, (uint32_t)first,
                       (uint32_t)(count < inner->count ? count : inner->count), error);
}

int et_subset_open(et_samples **out, et_samples *inner, const uint32_t *which, int64_t count,
                   et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_EDATA, "none of the %lld samples is left",
                       (long long)inner->count);
    for (int64_t i = 0; i < count; i++)
        if (which[i] >= inner->count)
            return et_fail(error, ET_ECONFIG, "sample %lu does not exist; there are %lld",
                           (unsigned long)which[i], (long long)inner->count);
    return choice_open(out, inner, count, which, 0, 0, error);
}

/* ---- mix ---- */

typedef struct mixed {
    int64_t quota; /* samples of a pass */
    et_random_order order;
    int64_t ordered; /* pass of the part in `order`; -1: none */
} mixed;

typedef struct mix {
    parted parted;
    mixed *of; /* [parts] */
    uint64_t seed;
    uint8_t *part_of;  /* [samples.count]: the part that gives this sample */
    uint32_t *turn_of; /* [samples.count]: the turn of that part in the pass */
} mix;

static et_random_order order_of(const mix *self, int at, int64_t pass)
{
    const et_random random = { self->seed, (uint64_t)pass, et_random_site("mix") ^ (uint32_t)at };
    return et_random_order_of(random, (uint32_t)self->parted.parts[at]->count);
}

static et_pick mix_run(const parted *samples, et_pick pick, int64_t at, uint32_t which[CHUNK],
                       et_samples **part)
{
    const mix *self = (const mix *)samples;
    const uint32_t n = pick.which[at];
    const int of = self->part_of[n];
    const int64_t count = samples->parts[of]->count;
    mixed *m = &self->of[of];
    const int64_t number = pick.epoch * m->quota + self->turn_of[n], pass = number / count;
    if (m->ordered != pass) {
        m->order = order_of(self, of, pass);
        m->ordered = pass;
    }
    which[0] = et_random_order_at(&m->order, (uint32_t)(number % count));
    *part = samples->parts[of];
    return (et_pick){ which, 1, pick.epoch };
}

/* Describes the sample of the first pass: the number alone does not tell the pass. */
static void mix_describe(const et_samples *samples, uint32_t n, int kind, char *text, size_t size)
{
    const mix *self = (const mix *)samples;
    const et_samples *inner = self->parted.parts[self->part_of[n]];
    const int64_t turn = self->turn_of[n], count = inner->count;
    /* Not the part's own order, which another thread may be at. */
    const et_random_order order = order_of(self, self->part_of[n], turn / count);
    inner->class->describe(inner, et_random_order_at(&order, (uint32_t)(turn % count)), kind, text,
                           size);
}

static const et_samples_class mix_class = {
    .name = "mix",
    .sizes = parted_sizes,
    .fill = parted_fill,
    .describe = mix_describe,
    .close = parted_close,
};

/* Largest remainders: quotas are rounded down; then the parts that lost most get one more, the
 * earlier part first. */
static void make_quotas(mix *self, const double *weights, double sum)
{
    int64_t given = 0, count = self->parted.samples.count;
    for (int i = 0; i < self->parted.count; i++)
        given += self->of[i].quota = (int64_t)((double)count * weights[i] / sum);
    for (; given < count; given++) {
        int most = 0;
        double lost = -1;
        for (int i = 0; i < self->parted.count; i++) {
            double left = (double)count * weights[i] / sum - (double)self->of[i].quota;
            if (left > lost) {
                lost = left;
                most = i;
            }
        }
        self->of[most].quota++;
    }
}

/* Turn j of a part is due at (2 j + 1) / (2 quota) of the pass. If two turns are due at the same
 * time, the earlier part comes first. */
static void make_turns(mix *self, uint32_t *next)
{
    for (int64_t n = 0; n < self->parted.samples.count; n++) {
        int first = -1;
        double due = 2;
        for (int i = 0; i < self->parted.count; i++) {
            double at = (2.0 * next[i] + 1) / (2.0 * (double)self->of[i].quota);
            if (next[i] < self->of[i].quota && at < due) {
                due = at;
                first = i;
            }
        }
        et_assert(first >= 0);
        self->part_of[n] = (uint8_t)first;
        self->turn_of[n] = next[first]++;
    }
}

/* Whether samples can be joined: all have the same fields, no object occurs twice, because the
 * result owns each, and there are fewer than 2^32 in all. Adds the number of samples to *total.
 * of_what: "of a mix". */
static int check_joined(et_samples *const *parts, int count, const char *of_what, int64_t *total,
                        et_error *error)
{
    for (int i = 0; i < count; i++) {
        if (!et_layout_same(&parts[i]->layout, &parts[0]->layout))
            return et_fail(error, ET_ECONFIG, "part %d %s has other fields than part 0", i,
                           of_what);
        for (int k = 0; k < i; k++)
            if (parts[k] == parts[i])
                return et_fail(error, ET_EUSAGE,
                               "parts %d and %d %s are the same object: open the samples twice", k,
                               i, of_what);
        *total += parts[i]->count;
    }
    if (*total > UINT32_MAX)
        return et_fail(error, ET_EDATA, "parts %s: %lld samples: use fewer than 2^32", of_what,
                       (long long)*total);
    return ET_OK;
}

static int check_parts(et_samples *const *parts, const double *weights, int count, double *sum,
                       int64_t *total, et_error *error)
{
    if (count < 1 || count > UINT8_MAX)
        return et_fail(error, ET_ECONFIG, "a mix of %d parts: give 1 to %d", count, UINT8_MAX);
    for (int i = 0; i < count; i++) {
        if (!(weights[i] > 0) || weights[i] > WEIGHT_MAX)
            return et_fail(error, ET_ECONFIG,
                           "weight %g of part %d: give a positive number of at most %g", weights[i],
                           i, WEIGHT_MAX);
        *sum += weights[i];
    }
    return check_joined(parts, count, "of a mix", total, error);
}

int et_mix_open(et_samples **out, et_samples *const *parts, const double *weights, int count,
                uint64_t seed, et_error *error)
{
    double sum = 0;
    int64_t total = 0;
    int status = check_parts(parts, weights, count, &sum, &total, error);
    mix *self = status ? NULL : parted_new(sizeof *self, parts, count, "a mix", error);
    if (!self)
        return status ? status : ET_ENOMEM;
    et_samples *s = &self->parted.samples;
    et_arena *arena = &self->parted.arena;
    self->of = et_arena_array(arena, count, sizeof *self->of);
    self->part_of = et_arena_array(arena, total, sizeof *self->part_of);
    self->turn_of = et_arena_array(arena, total, sizeof *self->turn_of);
    uint32_t next[UINT8_MAX] = { 0 };
    if (arena->failed) {
        parted_free(&self->parted);
        return et_alloc_failed(error, "a mix");
    }
    s->class = &mix_class;
    s->count = total;
    self->parted.run = mix_run;
    self->seed = seed;
    for (int i = 0; i < count; i++)
        self->of[i] = (mixed){ .ordered = -1 };
    make_quotas(self, weights, sum);
    make_turns(self, next);
    uint64_t print = et_checksum(&seed, sizeof seed);
    for (int i = 0; i < count; i++) {
        const et_samples *part = parts[i];
        const int64_t quota = self->of[i].quota;
        const uint64_t facts[] = { print, part->fingerprint, (uint64_t)quota };
        print = et_checksum(facts, sizeof facts);
        /* Bounds for any pass, because every sample of a part occurs in some pass. */
        for (int k = 0; k < s->layout.kinds; k++) {
            s->total[k] += (int64_t)((double)part->total[k] * (double)quota / (double)part->count);
            s->largest[k] = part->largest[k] > s->largest[k] ? part->largest[k] : s->largest[k];
        }
    }
    s->total[0] = total;
    s->fingerprint = print;
    *out = s;
    return ET_OK;
}

/* ---- filter and split ---- */

/* Filters call the program once for each sample and keep the numbers of the accepted samples: the
 * result is a subset and has no position. Splits of arrays also work by numbers. */

#define ROWS 64 /* most rows to make in one call */

/* Samples begin .. begin + count - 1 of the first pass. */
static int fill(et_samples *inner, et_batch *batch, int64_t begin, int64_t count, et_error *error)
{
    uint32_t which[ROWS];
    et_assert(count > 0 && count <= ROWS);
    for (int64_t i = 0; i < count; i++)
        batch->sample[i] = which[i] = (uint32_t)(begin + i);
    memset(batch->filled, 0, sizeof batch->filled);
    int status = inner->class->fill(inner, (et_pick){ which, count, 0 }, batch, error);
    if (!status)
        et_batch_finish(batch);
    return status;
}

static int choose(et_samples *inner, et_keep_fn *keep, void *payload, et_batch *batch,
                  uint32_t *which, int64_t *kept, et_error *error)
{
    for (int64_t begin = 0; begin < inner->count; begin += ROWS) {
        int64_t count = inner->count - begin < ROWS ? inner->count - begin : ROWS;
        int status = fill(inner, batch, begin, count, error);
        if (status)
            return status;
        for (int64_t i = 0; i < count; i++)
            if (keep(payload, batch, i))
                which[(*kept)++] = (uint32_t)(begin + i);
    }
    return ET_OK;
}

int et_filter_open(et_samples **out, et_samples *inner, et_keep_fn *keep, void *payload,
                   et_error *error)
{
    et_assert(inner && keep);
    et_layout layout = inner->layout;
    et_batch *batch = NULL;
    int64_t kept = 0;
    uint32_t *which;
    if (ET_ALLOC(which, inner->count, "a filter", error))
        return ET_ENOMEM;
    layout.capacity[0] = ROWS;
    for (int k = 1; k < layout.kinds; k++)
        layout.capacity[k] = ROWS * (inner->largest[k] > 0 ? inner->largest[k] : 1);
    int status = et_batch_new(&batch, &layout, error);
    if (!status)
        status = choose(inner, keep, payload, batch, which, &kept, error);
    if (!status)
        status = et_subset_open(out, inner, which, kept, error);
    et_batch_free(batch);
    et_free(which);
    return status;
}

/* ---- split ---- */

int et_split_size(int64_t *size, int64_t count, const et_split_options *options, et_error *error)
{
    int status = et_options_need(options, "et_split_options", error);
    if (status)
        return status;
    double portion = options->portion;
    if (count < 0)
        return et_fail(error, ET_ECONFIG, "%lld samples to split: the number must not be negative",
                       (long long)count);
    if (!(portion >= 0 && portion <= 1))
        return et_fail(error, ET_ECONFIG,
                       "the portion %g for the second part: give a portion from 0 to 1", portion);
    if (!options->size && portion == 0)
        return et_fail(error, ET_ECONFIG,
                       "the second part needs a portion or a size; a size of -1 gives none");
    if (options->size < 0)
        *size = 0;
    else if (options->size)
        *size = options->size < count ? options->size : count;
    else if (portion < 0.5)
        *size = count - (int64_t)((double)count * (1 - portion));
    else
        *size = (int64_t)((double)count * portion);
    return ET_OK;
}

/* The samples which[begin .. end - 1]; NULL if there are none. */
static int open_part(et_samples **out, const et_array *arrays, int fields, int64_t count,
                     const uint32_t *which, int64_t begin, int64_t end, et_error *error)
{
    et_samples *all = NULL;
    *out = NULL;
    if (begin == end)
        return ET_OK;
    int status;
    if ((status = et_arrays_open(&all, arrays, fields, count, error)) ||
        (status = et_subset_open(out, all, which + begin, end - begin, error)))
        et_samples_close(all);
    return status;
}

int et_split_open(et_samples **first, et_samples **second, const et_array *arrays, int fields,
                  int64_t count, const et_split_options *options, et_error *error)
{
    int64_t size = 0;
    *first = *second = NULL;
    if (fields && (count < 1 || count > UINT32_MAX))
        return et_fail(error, ET_ECONFIG, "%lld samples to split: give 1 to 4,294,967,295",
                       (long long)count);
    int status = et_split_size(&size, count, options, error);
    if (status || !fields)
        return status;
    uint32_t *which;
    if (ET_ALLOC(which, count, "a split of arrays", error))
        return ET_ENOMEM;
    et_random random = { .seed = options->seed, .site = et_random_site("split") };
    for (int64_t i = 0; i < count; i++)
        which[i] = (uint32_t)i;
    if (!options->no_shuffle)
        et_random_permutation(random, which, (uint32_t)count);
    if ((status = open_part(first, arrays, fields, count, which, 0, count - size, error)) ||
        (status = open_part(second, arrays, fields, count, which, count - size, count, error))) {
        et_samples_close(*first);
        *first = NULL;
    }
    et_free(which);
    return status;
}

/* ---- interleave ---- */

/* Interleaving is a permutation of the samples of all parts, concatenated; it is computed once. The
 * rule is tf.data's: slots 0 to cycle - 1 are visited in turn. An empty slot takes the next part.
 * Each slot gives up to `block` samples. The end of a part is noticed only at the request for one
 * more sample. Then its slot is empty until the slot's next turn. */

typedef struct joined {
    parted parted;
    uint32_t *first; /* [parts + 1]: number of each part's first sample */
} joined;

static et_pick joined_run(const parted *samples, et_pick pick, int64_t at, uint32_t which[CHUNK],
                          et_samples **part)
{
    const uint32_t *first = ((const joined *)samples)->first;
    int low = 0, high = samples->count - 1;
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (first[middle] <= pick.which[at])
            low = middle;
        else
            high = middle - 1;
    }
    int64_t count = 0;
    while (count < CHUNK && at + count < pick.count) {
        const uint32_t n = pick.which[at + count];
        if (n < first[low] || n >= first[low + 1])
            break;
        which[count++] = n - first[low];
    }
    *part = samples->parts[low];
    return (et_pick){ which, count, pick.epoch };
}

static const et_samples_class joined_class = {
    .name = "parts",
    .sizes = parted_sizes,
    .fill = parted_fill,
    .describe = parted_describe,
    .close = parted_close,
};

static int joined_open(joined **out, et_samples *const *parts, int count, int64_t total,
                       et_error *error)
{
    joined *self = parted_new(sizeof *self, parts, count, "parts", error);
    if (!self)
        return ET_ENOMEM;
    self->first = et_arena_array(&self->parted.arena, (size_t)count + 1, sizeof *self->first);
    if (!self->first) {
        parted_free(&self->parted);
        return et_alloc_failed(error, "parts");
    }
    et_samples *s = &self->parted.samples;
    s->class = &joined_class;
    s->count = total;
    self->parted.run = joined_run;
    self->first[0] = 0;
    uint64_t print = (uint64_t)count;
    for (int i = 0; i < count; i++) {
        const et_samples *part = parts[i];
        self->first[i + 1] = self->first[i] + (uint32_t)part->count;
        for (int k = 0; k < s->layout.kinds; k++) {
            s->total[k] += part->total[k];
            s->largest[k] = part->largest[k] > s->largest[k] ? part->largest[k] : s->largest[k];
        }
        const uint64_t facts[] = { print, part->fingerprint, (uint64_t)part->count };
        print = et_checksum(facts, sizeof facts);
    }
    s->fingerprint = print;
    *out = self;
    return ET_OK;
}

typedef struct slot {
    uint32_t next, end; /* samples of its part */
    bool open;          /* its part was not yet found to have ended */
} slot;

static int interleave(et_samples **out, joined *self, int cycle, int64_t block, et_error *error)
{
    uint32_t *order = et_alloc(self->parted.samples.count, sizeof *order);
    slot *slots = et_alloc_zero(cycle, sizeof *slots);
    int status = ET_OK;
    if (!order || !slots)
        status = et_alloc_failed(error, "an order");
    if (!status) {
        /* Writes all numbers in their order. */
        int64_t given = 0;
        int turn = 0, part = 0;
        while (given < self->parted.samples.count) {
            slot *s = &slots[turn];
            if (!s->open && part < self->parted.count) {
                *s = (slot){ self->first[part], self->first[part + 1], true };
                part++;
            }
            int64_t count = 0;
            for (; count < block && s->next < s->end; count++)
                order[given++] = s->next++;
            s->open = count == block;
            turn = (turn + 1) % cycle;
        }
        status =
            et_subset_open(out, &self->parted.samples, order, self->parted.samples.count, error);
    }
    et_free(order);
    et_free(slots);
    return status;
}

int et_interleave_open(et_samples **out, et_samples *const *parts, int count, int cycle_length,
                       int64_t block_length, et_error *error)
{
    int64_t total = 0;
    joined *self = NULL;
    int status = ET_OK;
    if (count < 1 || cycle_length < 0 || block_length < 0)
        status =
            et_fail(error, ET_ECONFIG,
                    "interleaving %d parts, %d at a time, in blocks of %lld: give at least one "
                    "part, and no negative number",
                    count, cycle_length, (long long)block_length);
    else
        status = check_joined(parts, count, "to interleave", &total, error);
    if (!status)
        status = joined_open(&self, parts, count, total, error);
    if (status)
        return status;
    int cycle = cycle_length && cycle_length < count ? cycle_length : count;
    status = interleave(out, self, cycle, block_length ? block_length : 1, error);
    if (status)
        parted_free(&self->parted);
    return status;
}
