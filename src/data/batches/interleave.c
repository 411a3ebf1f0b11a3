/* Interleaving is a permutation of the samples of all parts, concatenated; it is computed once. The
 * rule is tf.data's: slots 0 to cycle - 1 are visited in turn. An empty slot takes the next part.
 * Each slot gives up to `block` samples. The end of a part is noticed when one more sample is asked
 * for: then its slot is empty until its next turn. */
#include <string.h>

#include <etude/records.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "data/batches/source.h"

#define CHUNK 256

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
