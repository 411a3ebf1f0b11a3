/* The tree as a stack of sums of neighbours: a shard is pushed, and while the two top sums are
 * siblings they are added. With six shards, from 0 on:
 *
 *     after shard      0    1      2        3      4          5
 *     the stack        0    0-1    0-1 2    0-3    0-3 4      0-5
 *
 * Siblings are determined by numbers (et_tree_siblings), so shards of another rank may be missing
 * on the left. Then several sums remain, and ranked.c adds them to the others'.
 *
 * A sum is in a slot: an array of the store's trained size, then the moving means and scalars.
 * There are as many slots as sums can exist at once. With one shard the store's gradients are the
 * sum, and nothing is copied; this is a separate class. With more, each shard's gradient is read
 * once more to check that it is finite, because the sum would not show which shard is not. */
#include "train/step/reducer_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/inline.h"
#include "engine/tensor/params.h"

typedef et_tree tree;
typedef et_tree_slot slot;

int et_reducer_sum(et_reducer *reducer, int status, et_shard_fn *run, void *self, et_reduced *sum,
                   et_error *error)
{
    et_reducer_begin(reducer);
    for (int i = reducer->first; !status && i < reducer->end; i++)
        status = run(self, i, error);
    status = et_reducer_meet(reducer, status, error);
    return status ? status : et_reducer_end(reducer, sum, error);
}

void et_reducer_close(et_reducer *reducer)
{
    if (reducer)
        reducer->class->close(reducer);
}

bool et_tree_siblings(int shards, et_tree_node left, et_tree_node right)
{
    bool whole =
        left.count > 0 && !(left.count & (left.count - 1)) && left.first % (2 * left.count) == 0;
    bool last = right.first + right.count == shards && right.count < left.count;
    return whole && right.first == left.first + left.count && (right.count == left.count || last);
}

static bool top_are_siblings(const tree *self)
{
    return self->depth > 1 && et_tree_siblings(self->reducer.shards, self->stack[self->depth - 2],
                                               self->stack[self->depth - 1]);
}

/* Nodes on the stack are neighbours up to the shard to come, no two of them siblings, and each has
 * a slot; the others are free. */
static void sane(const tree *self)
{
    const et_reducer *r = &self->reducer;
    et_assert(r->first >= 0 && r->first < r->end && r->end <= r->shards);
    et_assert(self->next >= r->first && self->next <= r->end);
    et_assert(self->depth >= 0 && self->depth <= ET_TREE_DEPTH);
    et_assert_equal(self->depth + self->free_count, self->slot_count);
    for (int i = 0; i < self->depth; i++) {
        const et_tree_node *node = &self->stack[i];
        et_assert(node->count > 0 && node->slot >= 0 && node->slot < self->slot_count);
        et_assert(!i || node->first == node[-1].first + node[-1].count);
    }
    et_assert(!top_are_siblings(self));
}

static void tree_begin(et_reducer *reducer)
{
    tree *self = (tree *)reducer;
    self->next = reducer->first;
    self->free_count = self->depth = 0;
    for (int i = 0; i < self->slot_count; i++)
        self->free[self->free_count++] = i;
    sane(self);
}

ET_NOINLINE static void copy_means(const tree *self, float *means, const et_pass *pass)
{
    for (int i = 0; i < self->tracks; i++) {
        et_tracked tracked = et_pass_tracked(pass, i);
        memcpy(means, tracked.value, tracked.elements * sizeof *means);
        means += tracked.elements;
    }
}

/* They are added to its left neighbour's. */
static void add_rest(const tree *self, slot *to, const et_pass *pass)
{
    float *means = to->array + self->trained;
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

static void add_slot_rest(const tree *self, slot *to, const slot *from)
{
    self->kernels->accumulate(to->array + self->trained, from->array + self->trained, self->means);
    to->loss += from->loss;
    to->divisor += from->divisor;
    for (int i = 0; i < self->measures; i++) {
        to->measured[i].total += from->measured[i].total;
        to->measured[i].weight += from->measured[i].weight;
    }
}

bool et_tree_is_finite(const tree *self, const et_pass *pass)
{
    return isfinite(et_pass_loss(pass)) &&
           isfinite(self->kernels->sum_of_squares(self->gradients, self->trained));
}

/* Appends a shard: to the top node (true), or as a node whose slot the caller sets. */
static bool append_shard(tree *self, int shard)
{
    bool joins = self->depth && self->stack[self->depth - 1].count == 1 &&
                 et_tree_siblings(self->reducer.shards, self->stack[self->depth - 1],
                                  (et_tree_node){ shard, 1, -1 });
    if (joins)
        self->stack[self->depth - 1].count++;
    else
        self->stack[self->depth++] = (et_tree_node){ shard, 1, -1 };
    return joins;
}

/* The top node becomes part of its sibling. The slot that is free by that. */
static int fold_top(tree *self)
{
    et_tree_node top = self->stack[--self->depth];
    self->stack[self->depth - 1].count += top.count;
    return top.slot;
}

void et_tree_push(tree *self, int shard, et_tree_moves *moves)
{
    et_assert_equal(shard, self->next);
    self->next++;
    bool joins = append_shard(self, shard);
    et_tree_node *top = &self->stack[self->depth - 1];
    et_assert(joins || self->free_count > 0);
    if (!joins)
        top->slot = self->free[--self->free_count];
    moves->count = 1;
    moves->move[0] = (et_tree_move){ .to = top->slot, .from = -1, .adds = joins };
    while (top_are_siblings(self)) {
        int from = fold_top(self);
        moves->move[moves->count++] =
            (et_tree_move){ self->stack[self->depth - 1].slot, from, true };
        self->free[self->free_count++] = from;
    }
    sane(self);
}

void et_tree_move_gradients(const tree *self, const et_tree_moves *moves, int64_t first,
                            int64_t end)
{
    for (int i = 0; i < moves->count; i++) {
        const et_tree_move *m = &moves->move[i];
        slot to = self->slots[m->to];
        if (m->adds)
            self->kernels->accumulate(
                to.array + first,
                (m->from < 0 ? self->gradients : self->slots[m->from].array) + first, end - first);
        else
            memcpy(to.array + first, self->gradients + first,
                   (size_t)(end - first) * sizeof *to.array);
    }
}

void et_tree_move_rest(tree *self, const et_tree_moves *moves, const et_pass *pass)
{
    for (int i = 0; i < moves->count; i++) {
        const et_tree_move *m = &moves->move[i];
        slot *to = &self->slots[m->to];
        if (m->from >= 0) {
            add_slot_rest(self, to, &self->slots[m->from]);
        } else if (m->adds) {
            add_rest(self, to, pass);
        } else { /* a shard's first slot */
            et_pass_read(pass, &to->loss, &to->divisor, to->measured);
            copy_means(self, to->array + self->trained, pass);
        }
    }
}

static int tree_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    tree *self = (tree *)reducer;
    et_tree_moves moves;
    (void)error;
    if (!et_tree_is_finite(self, pass)) {
        self->next++;
        return ET_EDIVERGED;
    }
    et_tree_push(self, shard, &moves);
    et_tree_move_gradients(self, &moves, 0, self->trained);
    et_tree_move_rest(self, &moves, pass);
    return ET_OK;
}

void et_tree_give(tree *self, int index, et_reduced *out)
{
    et_assert(index >= 0 && index < self->slot_count);
    const slot *sum = &self->slots[index];
    float *means = sum->array + self->trained;
    for (int64_t i = 0; i < self->means; i++)
        means[i] /= (float)self->reducer.shards;
    *out = (et_reduced){ .gradient = sum->array,
                         .loss = sum->loss,
                         .divisor = sum->divisor,
                         .measures = self->measures,
                         .measured = sum->measured,
                         .means = means };
}

static int tree_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    tree *self = (tree *)reducer;
    (void)error;
    et_assert_equal(self->next, reducer->shards);
    et_assert_equal(self->depth, 1);
    et_tree_give(self, self->stack[0].slot, out);
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

static const et_reducer_class tree_class = {
    .name = "tree", .begin = tree_begin, .add = tree_add, .end = tree_end, .close = tree_close
};

/* ---- of one shard: a slot for all but the gradients ---- */

static void leaf_begin(et_reducer *reducer)
{
    ((tree *)reducer)->next = 0;
}

static int leaf_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    tree *self = (tree *)reducer;
    slot *own = &self->slots[0];
    (void)error;
    et_assert_equal(shard, self->next);
    self->next++;
    et_pass_read(pass, &own->loss, &own->divisor, own->measured);
    if (self->tracks)
        copy_means(self, own->array, pass);
    return isfinite(own->loss) ? ET_OK : ET_EDIVERGED;
}

static int leaf_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    const tree *self = (const tree *)reducer;
    const slot *own = &self->slots[0];
    (void)error;
    et_assert_equal(self->next, 1);
    *out = (et_reduced){ .gradient = self->gradients,
                         .loss = own->loss,
                         .divisor = own->divisor,
                         .measures = self->measures,
                         .measured = own->measured,
                         .means = own->array };
    return ET_OK;
}

static const et_reducer_class leaf_class = {
    .name = "leaf", .begin = leaf_begin, .add = leaf_add, .end = leaf_end, .close = tree_close
};

/* ---- opening ---- */

int et_tree_nodes(int shards, int first, int end, et_tree_node *nodes, int *most)
{
    tree t = { .reducer.shards = shards };
    *most = 0;
    for (int shard = first; shard < end; shard++) {
        append_shard(&t, shard);
        *most = t.depth > *most ? t.depth : *most;
        while (top_are_siblings(&t))
            fold_top(&t);
    }
    for (int i = 0; nodes && i < t.depth; i++)
        nodes[i] = t.stack[i];
    return t.depth;
}

static int allocate(tree *self, et_error *error)
{
    bool one = self->reducer.shards == 1;
    int count;
    et_tree_nodes(self->reducer.shards, self->reducer.first, self->reducer.end, NULL, &count);
    size_t bytes = (size_t)(self->means + (one ? 0 : self->trained)) * sizeof(float);
    if (ET_ALLOC_ZERO(self->block, (size_t)count * (size_t)self->measures, "a sum", error))
        return ET_ENOMEM;
    for (int i = 0; i < count; i++) {
        slot *made = &self->slots[self->slot_count++];
        made->measured = self->block + (size_t)(i * self->measures);
        made->array = et_alloc_aligned(bytes ? bytes : 64, 64);
        if (!made->array)
            return et_alloc_failed(error, "accumulated gradients");
        self->reducer.bytes += one ? 0 : bytes;
    }
    return ET_OK;
}

int et_tree_open_part(et_tree **out, const et_pass *pass, int shards, int first, int end,
                      et_error *error)
{
    et_assert(shards >= 1 && first >= 0 && first < end && end <= shards);
    tree *self;
    *out = NULL;
    if (ET_ALLOC_ZERO(self, 1, "a reducer", error))
        return ET_ENOMEM;
    self->reducer = (et_reducer){ .class = shards == 1 ? &leaf_class : &tree_class,
                                  .shards = shards,
                                  .first = first,
                                  .end = end };
    self->params = et_pass_params(pass);
    self->gradients = et_params_gradients(self->params);
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
        *out = self;
    return status;
}

int et_tree_open(et_reducer **out, const et_pass *pass, int shards, et_error *error)
{
    tree *self;
    int status = et_tree_open_part(&self, pass, shards, 0, shards, error);
    *out = status ? NULL : &self->reducer;
    return status;
}
