#include "tasks/tabular/samples.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"

#define CHUNK 256

/* ---- borrowed ---- */

typedef struct borrowed {
    et_samples samples;
    et_samples *inner;
} borrowed;

static void borrowed_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const et_samples *inner = ((const borrowed *)samples)->inner;
    inner->class->sizes(inner, pick, sizes);
}

static int borrowed_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    et_samples *inner = ((borrowed *)samples)->inner;
    return inner->class->fill(inner, pick, batch, error);
}

static void borrowed_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                              size_t size)
{
    const et_samples *inner = ((const borrowed *)samples)->inner;
    inner->class->describe(inner, which, kind, text, size);
}

static void borrowed_close(et_samples *samples)
{
    et_free(samples);
}

static const et_samples_class borrowed_class = {
    .name = "borrowed",
    .sizes = borrowed_sizes,
    .fill = borrowed_fill,
    .describe = borrowed_describe,
    .close = borrowed_close,
};

int et_tabular_borrow(et_samples **out, et_samples *samples, et_error *error)
{
    borrowed *self;
    if (ET_ALLOC_ZERO(self, 1, "samples", error))
        return ET_ENOMEM;
    self->samples = *samples;
    self->samples.class = &borrowed_class;
    self->inner = samples;
    *out = &self->samples;
    return ET_OK;
}

/* ---- orders of members ---- */

typedef struct ordered {
    et_samples samples;
    et_samples *inner; /* owned */
    int64_t members;
    uint64_t seed;
    int64_t pass;            /* the pass of the orders; -1: not drawn yet */
    et_random_order order[]; /* [members] */
} ordered;

static void draw_orders(ordered *self, int64_t pass)
{
    et_random random = { .seed = self->seed, .site = et_random_site("members/order") };
    if (self->pass == pass)
        return;
    for (int64_t i = 0; i < self->members; i++) {
        random.step = (uint64_t)(pass * self->members + i);
        self->order[i] = et_random_order_of(random, (uint32_t)self->inner->count);
    }
    self->pass = pass;
}

static int ordered_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    ordered *self = (ordered *)samples;
    uint32_t which[CHUNK];
    int status = ET_OK;
    draw_orders(self, pick.epoch);
    for (int64_t done = 0, count; !status && done < pick.count; done += count) {
        count = pick.count - done < CHUNK ? pick.count - done : CHUNK;
        for (int64_t i = 0; i < count; i++) {
            const uint32_t j = pick.which[done + i], members = (uint32_t)self->members;
            which[i] = et_random_order_at(&self->order[j % members], j / members);
        }
        status = self->inner->class->fill(self->inner, (et_pick){ which, count, pick.epoch }, batch,
                                          error);
    }
    return status;
}

/* Describes a sample of the pass that was read last. */
static void ordered_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                             size_t size)
{
    const ordered *self = (const ordered *)samples;
    const uint32_t members = (uint32_t)self->members;
    et_assert(self->pass >= 0);
    self->inner->class->describe(self->inner,
                                 et_random_order_at(&self->order[which % members], which / members),
                                 kind, text, size);
}

static void ordered_close(et_samples *samples)
{
    et_samples_close(((ordered *)samples)->inner);
    et_free(samples);
}

static const et_samples_class ordered_class = {
    .name = "an order for each member",
    .fill = ordered_fill,
    .describe = ordered_describe,
    .close = ordered_close,
};

int et_tabular_order_for_members(et_samples **out, et_samples *samples, int64_t members,
                                 uint64_t seed, et_error *error)
{
    const int64_t count = samples->count * members;
    const uint64_t facts[] = { samples->fingerprint, (uint64_t)members, seed };
    et_assert(samples->layout.kinds == 1 && members >= 1);
    if (count > UINT32_MAX)
        return et_fail(error, ET_EDATA,
                       "%lld rows for each of %lld networks: set "
                       "task.model.tabm.shared_batches=true, or use fewer than 2^32 in all",
                       (long long)samples->count, (long long)members);
    const size_t size = sizeof(ordered) + members * sizeof(et_random_order);
    ordered *self = et_alloc_zero(1, size);
    if (!self)
        return et_alloc_failed(error, "an order of rows");
    self->samples = *samples;
    self->samples.class = &ordered_class;
    self->samples.count = self->samples.total[0] = count;
    self->samples.fingerprint = et_checksum(facts, sizeof facts);
    self->inner = samples;
    self->members = members;
    self->seed = seed;
    self->pass = -1;
    *out = &self->samples;
    return ET_OK;
}

/* ---- reading ---- */

int et_tabular_read(et_samples *samples, int64_t rows, et_tabular_visit_fn *visit, void *payload,
                    et_error *error)
{
    et_layout layout = samples->layout;
    et_batch *batch;
    uint32_t which[CHUNK];
    et_assert(rows >= 1 && rows <= samples->count);
    layout.capacity[0] = CHUNK;
    int status = et_batch_new(&batch, &layout, error);
    for (int64_t done = 0, count; !status && done < rows; done += count) {
        count = rows - done < CHUNK ? rows - done : CHUNK;
        for (int64_t i = 0; i < count; i++)
            which[i] = (uint32_t)((done + i) * samples->count / rows);
        et_batch_clear(batch);
        status = samples->class->fill(samples, (et_pick){ which, count, 0 }, batch, error);
        if (!status)
            visit(payload, batch, done);
    }
    et_batch_free(batch);
    return status;
}
