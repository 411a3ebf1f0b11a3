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

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"
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

typedef struct part {
    et_samples *samples; /* owned */
    int64_t quota;       /* samples of a pass */
    et_random_order order;
    int64_t ordered; /* which of its passes order is of; -1: none */
} part;

typedef struct mix {
    et_samples samples;
    part *parts; /* [count] */
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
    part *p = &self->parts[self->part_of[n]];
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
        self->parts[i] = (part){ .samples = parts[i], .ordered = -1 };
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
            const part *p = &self->parts[i];
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
