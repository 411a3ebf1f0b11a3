/* The tree as a binary counter: level k holds the sum of 2^k neighbours or nothing. A shard enters
 * at level 0; two sums of one level make one of the next. At the end what is left is added from
 * the smallest on.
 *
 *     after shard      0    1     2       3      4       5
 *     levels full      0    1     1 0     2      2 0     2 1
 *
 * A sum lies in a slot: an array of the store's trained size with the moving means behind it, and
 * scalars. As many slots are made as levels are ever full at once. With one shard the store's
 * gradients are the sum, and nothing is copied. With more, each shard's gradient is read once more
 * to see whether it is finite: a sum that is not would not tell whose fault it is. */
#include "train/reducer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* 2^31 shards have no more. */
#define LEVELS_MAX 32

typedef struct slot {
    float *array; /* [trained + means]; with one shard [means] */
    double loss, divisor;
    et_measured *measured; /* [measures] */
} slot;

typedef struct tree {
    et_reducer reducer;
    et_params *params; /* borrowed, as kernels */
    const et_kernels *kernels;
    int64_t trained, means; /* elements of a slot's two parts */
    int measures, tracks;
    slot slots[LEVELS_MAX]; /* [slot_count] */
    int slot_count;
    et_measured *block;    /* what measured of all slots point into */
    int level[LEVELS_MAX]; /* slot of each level; -1: empty */
    int free[LEVELS_MAX], free_count;
    int next; /* shard to come */
} tree;

void et_reducer_begin(et_reducer *reducer)
{
    reducer->class->begin(reducer);
}

int et_reducer_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    et_assert(shard >= 0 && shard < reducer->shards);
    return reducer->class->add(reducer, shard, pass, error);
}

int et_reducer_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    return reducer->class->end(reducer, out, error);
}

void et_reducer_close(et_reducer *reducer)
{
    if (reducer)
        reducer->class->close(reducer);
}

static void tree_begin(et_reducer *reducer)
{
    tree *self = (tree *)reducer;
    self->next = self->free_count = 0;
    if (reducer->shards == 1)
        return;
    for (int i = 0; i < self->slot_count; i++)
        self->free[self->free_count++] = i;
    for (int i = 0; i < LEVELS_MAX; i++)
        self->level[i] = -1;
}

/* A shard's values take a slot. */
static void fill_slot(const tree *self, slot *to, const et_pass *pass)
{
    float *means = to->array;
    to->loss = et_pass_loss(pass);
    to->divisor = et_pass_divisor(pass);
    et_pass_read_measures(pass, to->measured);
    if (self->reducer.shards > 1) {
        memcpy(to->array, et_params_gradients(self->params),
               (size_t)self->trained * sizeof *to->array);
        means += self->trained;
    }
    for (int i = 0; i < self->tracks; i++) {
        et_tracked tracked = et_pass_tracked(pass, i);
        memcpy(means, tracked.value, (size_t)tracked.elements * sizeof *means);
        means += tracked.elements;
    }
}

/* A shard's values are added to its left neighbour's. */
static void add_shard(const tree *self, slot *to, const et_pass *pass)
{
    float *means = to->array + self->trained;
    self->kernels->accumulate(to->array, et_params_gradients(self->params), self->trained);
    for (int i = 0; i < self->tracks; i++) {
        et_tracked tracked = et_pass_tracked(pass, i);
        self->kernels->accumulate(means, tracked.value, tracked.elements);
        means += tracked.elements;
    }
    to->loss += et_pass_loss(pass);
    to->divisor += et_pass_divisor(pass);
    for (int i = 0; i < self->measures; i++) {
        et_measured measured = et_pass_measured(pass, i);
        to->measured[i].total += measured.total;
        to->measured[i].weight += measured.weight;
    }
}

static void add_slot(const tree *self, slot *to, const slot *from)
{
    self->kernels->accumulate(to->array, from->array, self->trained + self->means);
    to->loss += from->loss;
    to->divisor += from->divisor;
    for (int i = 0; i < self->measures; i++) {
        to->measured[i].total += from->measured[i].total;
        to->measured[i].weight += from->measured[i].weight;
    }
}

static bool is_finite(const tree *self, const et_pass *pass)
{
    return isfinite(et_pass_loss(pass)) && isfinite(self->kernels->sum_of_squares(
                                               et_params_gradients(self->params), self->trained));
}

static int tree_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    tree *self = (tree *)reducer;
    (void)error;
    et_assert_equal(shard, self->next);
    self->next++;
    if (reducer->shards == 1) {
        fill_slot(self, &self->slots[0], pass);
        return isfinite(self->slots[0].loss) ? ET_OK : ET_EDIVERGED;
    }
    if (!is_finite(self, pass))
        return ET_EDIVERGED;
    if (self->level[0] < 0) {
        self->level[0] = self->free[--self->free_count];
        fill_slot(self, &self->slots[self->level[0]], pass);
        return ET_OK;
    }
    int sum = self->level[0], level = 1;
    add_shard(self, &self->slots[sum], pass);
    for (self->level[0] = -1; self->level[level] >= 0; self->level[level++] = -1) {
        int left = self->level[level];
        add_slot(self, &self->slots[left], &self->slots[sum]);
        self->free[self->free_count++] = sum;
        sum = left;
    }
    self->level[level] = sum;
    return ET_OK;
}

/* The smallest is of the last shards, so it is the right operand. */
static int sum_of_rest(const tree *self)
{
    int sum = -1;
    for (int level = 0; level < LEVELS_MAX; level++) {
        int left = self->level[level];
        if (left >= 0 && sum >= 0)
            add_slot(self, (slot *)&self->slots[left], &self->slots[sum]);
        sum = left >= 0 ? left : sum;
    }
    return sum;
}

static int tree_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    tree *self = (tree *)reducer;
    bool one = reducer->shards == 1;
    (void)error;
    et_assert_equal(self->next, reducer->shards);
    slot *sum = &self->slots[one ? 0 : sum_of_rest(self)];
    float *means = sum->array + (one ? 0 : self->trained);
    for (int64_t i = 0; !one && i < self->means; i++)
        means[i] /= (float)reducer->shards;
    *out = (et_reduced){ .gradient = one ? et_params_gradients(self->params) : sum->array,
                         .loss = sum->loss,
                         .divisor = sum->divisor,
                         .measures = self->measures,
                         .measured = sum->measured,
                         .means = means };
    return ET_OK;
}

static void tree_close(et_reducer *reducer)
{
    tree *self = (tree *)reducer;
    for (int i = 0; i < self->slot_count; i++)
        et_free(self->slots[i].array);
    et_free(self->block);
    et_free(self);
}

static const et_reducer_class tree_class = { "tree", tree_begin, tree_add, tree_end, tree_close };

/* The most ones that a number up to shards has in binary. */
static int slots_needed(int shards)
{
    int digits = 0;
    while ((shards + 1) >> (digits + 1))
        digits++;
    return digits;
}

static int allocate(tree *self, et_error *error)
{
    bool one = self->reducer.shards == 1;
    int count = slots_needed(self->reducer.shards);
    size_t bytes = (size_t)(self->means + (one ? 0 : self->trained)) * sizeof(float);
    self->block = et_alloc_zero((size_t)count * (size_t)self->measures, sizeof *self->block);
    if (!self->block)
        return et_alloc_failed(error, (size_t)self->measures * sizeof *self->block, "a sum");
    for (int i = 0; i < count; i++) {
        slot *made = &self->slots[self->slot_count++];
        made->measured = self->block + (size_t)(i * self->measures);
        made->array = et_alloc_aligned(bytes ? bytes : 64, 64);
        if (!made->array)
            return et_alloc_failed(error, (size_t)count * bytes, "accumulated gradients");
    }
    return ET_OK;
}

int et_tree_open(et_reducer **out, const et_pass *pass, int shards, et_error *error)
{
    et_assert(shards >= 1);
    tree *self = et_alloc_zero(1, sizeof *self);
    *out = NULL;
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a reducer");
    self->reducer = (et_reducer){ .class = &tree_class, .shards = shards };
    self->params = et_pass_params(pass);
    self->kernels = et_pass_device(pass)->kernels;
    self->trained = et_params_trained_size(self->params);
    self->measures = et_pass_measures(pass);
    self->tracks = et_pass_tracks(pass);
    for (int i = 0; i < self->tracks; i++)
        self->means += et_pass_tracked(pass, i).elements;
    int status = allocate(self, error);
    if (status)
        tree_close(&self->reducer);
    else
        *out = &self->reducer;
    return status;
}
