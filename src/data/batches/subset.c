/* Decorators that choose and mix samples by number. Each maps a pick of its own numbers to picks of
 * the inner samples, CHUNK at a time, in order. None has a position.
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
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"
#include "base/options.h"
#include "data/batches/source.h"

#define CHUNK      256
#define WEIGHT_MAX 1e100 /* sums of weights are finite */

/* ---- take, shard, subset ---- */

typedef struct choice {
    et_samples samples;
    et_samples *inner; /* owned */
    uint32_t *which;   /* [count], owned; NULL: first + stride i */
    uint32_t first, stride;
} choice;

static uint32_t chosen_one(const choice *self, uint32_t n)
{
    return self->which ? self->which[n] : self->first + self->stride * n;
}

static int64_t chosen(const choice *self, et_pick pick, int64_t at, uint32_t which[CHUNK])
{
    int64_t count = pick.count - at < CHUNK ? pick.count - at : CHUNK;
    for (int64_t i = 0; i < count; i++)
        which[i] = chosen_one(self, pick.which[at + i]);
    return count;
}

static void choice_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const choice *self = (const choice *)samples;
    uint32_t which[CHUNK];
    int32_t *at[ET_LAYOUT_KINDS] = { NULL };
    for (int64_t done = 0, count; done < pick.count; done += count) {
        count = chosen(self, pick, done, which);
        for (int k = 1; k < samples->layout.kinds; k++)
            at[k] = sizes[k] + done;
        self->inner->class->sizes(self->inner, (et_pick){ which, count, pick.epoch }, at);
    }
}

static int choice_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    choice *self = (choice *)samples;
    uint32_t which[CHUNK];
    int status = ET_OK;
    for (int64_t done = 0, count; !status && done < pick.count; done += count) {
        count = chosen(self, pick, done, which);
        status = self->inner->class->fill(self->inner, (et_pick){ which, count, pick.epoch }, batch,
                                          error);
    }
    return status;
}

static void choice_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                            size_t size)
{
    const choice *self = (const choice *)samples;
    self->inner->class->describe(self->inner, chosen_one(self, which), kind, text, size);
}

static void choice_close(et_samples *samples)
{
    choice *self = (choice *)samples;
    et_samples_close(self->inner);
    et_free(self->which);
    et_free(self);
}

static const et_samples_class choice_class = {
    .name = "choice",
    .sizes = choice_sizes,
    .fill = choice_fill,
    .describe = choice_describe,
    .close = choice_close,
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

static int choice_open(et_samples **out, et_samples *inner, const choice *made, et_error *error)
{
    choice *self = et_alloc(1, sizeof *self);
    if (!self) {
        et_free(made->which);
        return et_alloc_failed(error, sizeof *self, "a choice of samples");
    }
    *self = *made;
    self->samples.class = &choice_class;
    self->samples.layout = inner->layout;
    self->inner = inner;
    uint64_t facts[] = {
        inner->fingerprint, (uint64_t)self->samples.count, self->first, self->stride,
        self->which ? et_checksum(self->which, (size_t)self->samples.count * sizeof *self->which)
                    : 0
    };
    self->samples.fingerprint = et_checksum(facts, sizeof facts);
    measure(&self->samples);
    /* In a mix, other passes have other samples under the same numbers. */
    const et_samples *samples = inner;
    while (samples->class == &choice_class)
        samples = ((const choice *)samples)->inner;
    if (samples->class == &mix_class)
        memcpy(self->samples.largest, inner->largest, sizeof inner->largest);
    *out = &self->samples;
    return ET_OK;
}

int et_take_open(et_samples **out, et_samples *inner, int64_t count, et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%lld samples of %lld: choose at least one",
                       (long long)count, (long long)inner->count);
    choice made = { .samples.count = count < inner->count ? count : inner->count, .stride = 1 };
    return choice_open(out, inner, &made, error);
}

int et_shard_open(et_samples **out, et_samples *inner, int64_t first, int64_t count,
                  et_error *error)
{
    if (count < 1 || first < 0 || first >= count || first >= inner->count)
        return et_fail(error, ET_ECONFIG, "shard %lld of %lld over %lld samples is empty",
                       (long long)first, (long long)count, (long long)inner->count);
    choice made = { .samples.count = (inner->count - first - 1) / count + 1,
                    .first = (uint32_t)first,
                    .stride = (uint32_t)(count < inner->count ? count : inner->count) };
    return choice_open(out, inner, &made, error);
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
    choice made = { .samples.count = count, .which = et_alloc((size_t)count, sizeof *which) };
    if (!made.which)
        return et_alloc_failed(error, (size_t)count * sizeof *which, "a choice of samples");
    memcpy(made.which, which, (size_t)count * sizeof *which);
    return choice_open(out, inner, &made, error);
}

/* ---- mix ---- */

typedef struct mixed {
    et_samples *samples; /* owned */
    int64_t quota;       /* samples of a pass */
    et_random_order order;
    int64_t ordered; /* which of its passes order is of; -1: none */
} mixed;

typedef struct mix {
    et_samples samples;
    mixed *parts; /* [count] */
    int count;
    uint64_t seed;
    uint8_t *part_of;  /* [samples.count]: whose turn it is */
    uint32_t *turn_of; /* [samples.count]: the turn of that part in the pass */
} mix;

static et_random_order order_of(const mix *self, int at, int64_t pass)
{
    const et_random random = { self->seed, (uint64_t)pass, et_random_site("mix") ^ (uint32_t)at };
    return et_random_order_of(random, (uint32_t)self->parts[at].samples->count);
}

/* Which sample of its part number n of a pass is. */
static uint32_t member(const mix *self, int64_t epoch, uint32_t n)
{
    mixed *p = &self->parts[self->part_of[n]];
    int64_t number = epoch * p->quota + self->turn_of[n], pass = number / p->samples->count;
    if (p->ordered != pass) {
        p->order = order_of(self, self->part_of[n], pass);
        p->ordered = pass;
    }
    return et_random_order_at(&p->order, (uint32_t)(number % p->samples->count));
}

static void mix_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const mix *self = (const mix *)samples;
    int32_t *at[ET_LAYOUT_KINDS] = { NULL };
    for (int64_t i = 0; i < pick.count; i++) {
        et_samples *inner = self->parts[self->part_of[pick.which[i]]].samples;
        uint32_t which = member(self, pick.epoch, pick.which[i]);
        for (int k = 1; k < samples->layout.kinds; k++)
            at[k] = sizes[k] + i;
        inner->class->sizes(inner, (et_pick){ &which, 1, pick.epoch }, at);
    }
}

static int mix_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    const mix *self = (const mix *)samples;
    int status = ET_OK;
    for (int64_t i = 0; !status && i < pick.count; i++) {
        et_samples *inner = self->parts[self->part_of[pick.which[i]]].samples;
        uint32_t which = member(self, pick.epoch, pick.which[i]);
        status = inner->class->fill(inner, (et_pick){ &which, 1, pick.epoch }, batch, error);
    }
    return status;
}

/* Describes the sample of the first pass: the number alone does not tell the pass. */
static void mix_describe(const et_samples *samples, uint32_t n, int kind, char *text, size_t size)
{
    const mix *self = (const mix *)samples;
    const et_samples *inner = self->parts[self->part_of[n]].samples;
    const int64_t turn = self->turn_of[n], count = inner->count;
    /* Not the part's own order, which another thread may be at. */
    const et_random_order order = order_of(self, self->part_of[n], turn / count);
    inner->class->describe(inner, et_random_order_at(&order, (uint32_t)(turn % count)), kind, text,
                           size);
}

static void mix_free(mix *self)
{
    et_free(self->parts);
    et_free(self->part_of);
    et_free(self->turn_of);
    et_free(self);
}

static void mix_close(et_samples *samples)
{
    mix *self = (mix *)samples;
    for (int i = 0; i < self->count; i++)
        et_samples_close(self->parts[i].samples);
    mix_free(self);
}

static const et_samples_class mix_class = {
    .name = "mix",
    .sizes = mix_sizes,
    .fill = mix_fill,
    .describe = mix_describe,
    .close = mix_close,
};

/* Largest remainders: rounded down, then one more where most was lost, the earlier part first. */
static void make_quotas(mix *self, const double *weights, double sum)
{
    int64_t given = 0, count = self->samples.count;
    for (int i = 0; i < self->count; i++)
        given += self->parts[i].quota = (int64_t)((double)count * weights[i] / sum);
    for (; given < count; given++) {
        int most = 0;
        double lost = -1;
        for (int i = 0; i < self->count; i++) {
            double left = (double)count * weights[i] / sum - (double)self->parts[i].quota;
            if (left > lost) {
                lost = left;
                most = i;
            }
        }
        self->parts[most].quota++;
    }
}

/* Turn j of a part is due at (2 j + 1) / (2 quota) of the pass. If two turns are due at once, the
 * earlier part comes first. */
static void make_turns(mix *self, uint32_t *next)
{
    for (int64_t n = 0; n < self->samples.count; n++) {
        int first = -1;
        double due = 2;
        for (int i = 0; i < self->count; i++) {
            double at = (2.0 * next[i] + 1) / (2.0 * (double)self->parts[i].quota);
            if (next[i] < self->parts[i].quota && at < due) {
                due = at;
                first = i;
            }
        }
        et_assert(first >= 0);
        self->part_of[n] = (uint8_t)first;
        self->turn_of[n] = next[first]++;
    }
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
    return et_samples_check_parts(parts, count, "of a mix", total, error);
}

static int fill_mix(mix *self, et_samples *const *parts, const double *weights, double sum,
                    et_error *error)
{
    size_t total = (size_t)self->samples.count, count = (size_t)self->count;
    self->parts = et_alloc_zero(count, sizeof *self->parts);
    self->part_of = et_alloc(total, sizeof *self->part_of);
    self->turn_of = et_alloc(total, sizeof *self->turn_of);
    uint32_t *next = et_alloc_zero(count, sizeof *next);
    if (!self->parts || !self->part_of || !self->turn_of || !next) {
        et_free(next);
        return et_alloc_failed(error, 5 * total, "a mix");
    }
    uint64_t print = et_checksum(&self->seed, sizeof self->seed);
    for (int i = 0; i < self->count; i++)
        self->parts[i] = (mixed){ .samples = parts[i], .ordered = -1 };
    make_quotas(self, weights, sum);
    make_turns(self, next);
    et_free(next);
    for (int i = 0; i < self->count; i++) {
        uint64_t facts[] = { print, parts[i]->fingerprint, (uint64_t)self->parts[i].quota };
        print = et_checksum(facts, sizeof facts);
    }
    self->samples.fingerprint = print;
    /* What any pass may hold: a part's samples come all, sooner or later. */
    et_samples *s = &self->samples;
    for (int k = 0; k < s->layout.kinds; k++)
        for (int i = 0; i < self->count; i++) {
            const mixed *p = &self->parts[i];
            s->total[k] += (int64_t)((double)p->samples->total[k] * (double)p->quota /
                                     (double)p->samples->count);
            if (p->samples->largest[k] > s->largest[k])
                s->largest[k] = p->samples->largest[k];
        }
    s->total[0] = s->count;
    return ET_OK;
}

int et_mix_open(et_samples **out, et_samples *const *parts, const double *weights, int count,
                uint64_t seed, et_error *error)
{
    double sum = 0;
    int64_t total = 0;
    int status = check_parts(parts, weights, count, &sum, &total, error);
    mix *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, sizeof *self, "a mix");
    self->samples = (et_samples){ .class = &mix_class, .layout = parts[0]->layout, .count = total };
    self->count = count;
    self->seed = seed;
    status = fill_mix(self, parts, weights, sum, error);
    if (status) {
        mix_free(self);
        return status;
    }
    *out = &self->samples;
    return ET_OK;
}

/* ---- filter and split ---- */

/* Filters call the program once for each sample and keep the numbers of the accepted samples: the
 * result is a subset and has no position. Splits of arrays also work by numbers. */

#define ROWS 64 /* that are made at once */

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
    uint32_t *which = et_alloc((size_t)inner->count, sizeof *which);
    if (!which)
        return et_alloc_failed(error, (size_t)inner->count * sizeof *which, "a filter");
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

/* The samples which[begin .. end - 1]; none: NULL. */
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
    uint32_t *which = et_alloc((size_t)count, sizeof *which);
    if (!which)
        return et_alloc_failed(error, (size_t)count * sizeof *which, "a split of arrays");
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
 * Each slot gives up to `block` samples. The end of a part is noticed when one more sample is asked
 * for: then its slot is empty until its next turn. */

/* ---- parts, one after another ---- */

typedef struct joined {
    et_samples samples;
    et_samples **parts; /* [count], owned */
    uint32_t *first;    /* [count + 1]: number of each part's first sample */
    int count;
} joined;

static int part_of(const joined *self, uint32_t n)
{
    int low = 0, high = self->count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (self->first[middle] <= n)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The run of picks from `at` on that are of one part, at most CHUNK, in its own numbers. */
static et_pick run_of(const joined *self, et_pick pick, int64_t at, uint32_t which[CHUNK],
                      et_samples **part)
{
    int p = part_of(self, pick.which[at]);
    int64_t count = 0;
    while (count < CHUNK && at + count < pick.count) {
        uint32_t n = pick.which[at + count];
        if (n < self->first[p] || n >= self->first[p + 1])
            break;
        which[count++] = n - self->first[p];
    }
    *part = self->parts[p];
    return (et_pick){ which, count, pick.epoch };
}

static void joined_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    uint32_t which[CHUNK];
    int32_t *at[ET_LAYOUT_KINDS] = { NULL };
    et_samples *part;
    for (int64_t done = 0; done < pick.count;) {
        et_pick run = run_of((const joined *)samples, pick, done, which, &part);
        for (int k = 1; k < samples->layout.kinds; k++)
            at[k] = sizes[k] + done;
        part->class->sizes(part, run, at);
        done += run.count;
    }
}

static int joined_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    uint32_t which[CHUNK];
    et_samples *part;
    int status = ET_OK;
    for (int64_t done = 0; !status && done < pick.count;) {
        et_pick run = run_of((const joined *)samples, pick, done, which, &part);
        status = part->class->fill(part, run, batch, error);
        done += run.count;
    }
    return status;
}

static void joined_describe(const et_samples *samples, uint32_t n, int kind, char *text,
                            size_t size)
{
    const joined *self = (const joined *)samples;
    int p = part_of(self, n);
    self->parts[p]->class->describe(self->parts[p], n - self->first[p], kind, text, size);
}

static void joined_free(joined *self)
{
    et_free(self->parts);
    et_free(self->first);
    et_free(self);
}

static void joined_close(et_samples *samples)
{
    joined *self = (joined *)samples;
    for (int i = 0; i < self->count; i++)
        et_samples_close(self->parts[i]);
    joined_free(self);
}

static const et_samples_class joined_class = {
    .name = "parts",
    .sizes = joined_sizes,
    .fill = joined_fill,
    .describe = joined_describe,
    .close = joined_close,
};

static int joined_open(joined **out, et_samples *const *parts, int count, int64_t total,
                       et_error *error)
{
    joined *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "parts");
    self->parts = et_alloc((size_t)count, sizeof(et_samples *));
    self->first = et_alloc((size_t)count + 1, sizeof *self->first);
    if (!self->parts || !self->first) {
        joined_free(self);
        return et_alloc_failed(error, (size_t)count * sizeof(et_samples *), "parts");
    }
    self->samples =
        (et_samples){ .class = &joined_class, .layout = parts[0]->layout, .count = total };
    self->count = count;
    self->first[0] = 0;
    for (int i = 0; i < count; i++) {
        self->parts[i] = parts[i];
        self->first[i + 1] = self->first[i] + (uint32_t)parts[i]->count;
    }
    et_samples *s = &self->samples;
    uint64_t print = (uint64_t)self->count;
    for (int i = 0; i < self->count; i++) {
        const et_samples *part = self->parts[i];
        for (int k = 0; k < s->layout.kinds; k++) {
            s->total[k] += part->total[k];
            if (part->largest[k] > s->largest[k])
                s->largest[k] = part->largest[k];
        }
        uint64_t facts[] = { print, part->fingerprint, (uint64_t)part->count };
        print = et_checksum(facts, sizeof facts);
    }
    s->fingerprint = print;
    *out = self;
    return ET_OK;
}

/* ---- interleave ---- */

typedef struct slot {
    uint32_t next, end; /* samples of its part */
    bool open;          /* its part was not yet found to have ended */
} slot;

static int interleave(et_samples **out, joined *self, int cycle, int64_t block, et_error *error)
{
    uint32_t *order = et_alloc((size_t)self->samples.count, sizeof *order);
    slot *slots = et_alloc_zero((size_t)cycle, sizeof *slots);
    int status = ET_OK;
    if (!order || !slots)
        status = et_alloc_failed(error, (size_t)self->samples.count * sizeof *order, "an order");
    if (!status) {
        /* Writes all numbers in their order. */
        int64_t given = 0;
        int turn = 0, part = 0;
        while (given < self->samples.count) {
            slot *s = &slots[turn];
            if (!s->open && part < self->count) {
                *s = (slot){ self->first[part], self->first[part + 1], true };
                part++;
            }
            int64_t count = 0;
            for (; count < block && s->next < s->end; count++)
                order[given++] = s->next++;
            s->open = count == block;
            turn = (turn + 1) % cycle;
        }
        status = et_subset_open(out, &self->samples, order, self->samples.count, error);
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
        status = et_samples_check_parts(parts, count, "to interleave", &total, error);
    if (!status)
        status = joined_open(&self, parts, count, total, error);
    if (status)
        return status;
    int cycle = cycle_length && cycle_length < count ? cycle_length : count;
    status = interleave(out, self, cycle, block_length ? block_length : 1, error);
    if (status)
        joined_free(self);
    return status;
}
