#include "tasks/tabular/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/philox.h"
#include "base/sort.h"

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
    borrowed *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "samples");
    self->samples = *samples;
    self->samples.class = &borrowed_class;
    self->inner = samples;
    *out = &self->samples;
    return ET_OK;
}

int et_tabular_choose(et_samples **out, et_samples *samples, const uint32_t *which, int64_t count,
                      et_error *error)
{
    et_samples *all = NULL;
    int status = et_tabular_borrow(&all, samples, error);
    if (status)
        return status;
    status = et_subset_open(out, all, which, count, error);
    if (status)
        et_samples_close(all);
    return status;
}

/* ---- orders of members ---- */

typedef struct ordered {
    et_samples samples;
    et_samples *inner; /* owned */
    int64_t members;
    uint64_t seed;
    int64_t pass;            /* that the orders are of; -1: of none */
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

/* Of the pass that was read last. */
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
    const size_t size = sizeof(ordered) + (size_t)members * sizeof(et_random_order);
    ordered *self = et_alloc_zero(1, size);
    if (!self)
        return et_alloc_failed(error, size, "an order of rows");
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

/* ---- the split ---- */

typedef struct drawn {
    int32_t class;
    float number; /* of its row's own */
    int64_t row;
} drawn;

ET_SORT_BY(by_class_and_number, drawn, ET_UP(class),
           a->number != b->number ? ET_UP(number) : ET_UP(row))

static drawn *draw(const int32_t *class, int64_t rows, uint64_t seed)
{
    const et_random random = { seed, 0, et_random_site("held_out") };
    drawn *order = et_alloc((size_t)rows, sizeof *order);
    for (int64_t i = 0; order && i < rows; i++)
        order[i] = (drawn){ class ? class[i] : 0, et_random_uniform(random, (uint64_t)i), i };
    if (order)
        qsort(order, (size_t)rows, sizeof *order, by_class_and_number);
    return order;
}

int et_tabular_draw(int64_t *order, const int32_t *class, int64_t rows, uint64_t seed,
                    et_error *error)
{
    drawn *all = draw(class, rows, seed);
    if (!all)
        return et_alloc_failed(error, (size_t)rows * sizeof *all, "folds");
    for (int64_t i = 0; i < rows; i++)
        order[i] = all[i].row;
    et_free(all);
    return ET_OK;
}

/* Rows of the class that begins there. */
static int64_t class_rows(const drawn *order, int64_t begin, int64_t rows)
{
    int64_t end = begin + 1;
    while (end < rows && order[end].class == order[begin].class)
        end++;
    return end - begin;
}

/* Holds out rows of a class, which begins with row `begin` of all: each row that is due by its
 * place, or in place of an earlier row that could not be held out (`due` of them). The last row of
 * a class is never held out. Returns how many rows are still due. */
static int64_t hold_of_class(bool *held, const drawn *order, int64_t begin, int64_t size,
                             double share, int64_t due)
{
    int64_t left = 0;
    for (int64_t i = begin; i < begin + size; i++)
        left += !held[order[i].row];
    for (int64_t i = begin; i < begin + size; i++) {
        due += floor((double)(i + 1) * share + 0.5) > floor((double)i * share + 0.5);
        if (due && left > 1 && !held[order[i].row]) {
            held[order[i].row] = true;
            left--;
            due--;
        }
    }
    return due;
}

/* The share is taken of all rows in order of classes, not of each class, so that small classes do
 * not lose parts of a row. A class keeps a row; other classes give the rows that it cannot give. */
int et_tabular_hold_out(bool *held, const int32_t *class, int64_t rows, double share, uint64_t seed,
                        et_error *error)
{
    drawn *order = draw(class, rows, seed);
    int64_t due = 0, size;
    if (!order)
        return et_alloc_failed(error, (size_t)rows * sizeof *order, "rows that are held out");
    memset(held, 0, (size_t)rows * sizeof *held);
    for (int64_t begin = 0; begin < rows; begin += size) {
        size = class_rows(order, begin, rows);
        due = hold_of_class(held, order, begin, size, share, due);
    }
    for (int64_t begin = 0; due && begin < rows; begin += size) {
        size = class_rows(order, begin, rows);
        due = hold_of_class(held, order, begin, size, 0, due);
    }
    if (rows > 1 && !memchr(held, 1, (size_t)rows * sizeof *held))
        held[order[0].row] = true;
    et_free(order);
    return ET_OK;
}
