/* One update:
 *
 *   expect    the pass runs on this rank's last shard next: its place in the sums is known, and the
 *             exchange begins
 *   final     a bucket of its gradients is final: it is added to the sums, and they are sent
 *   add       adds the rest: scalars, moving means
 *   meet      all buckets are sent; all ranks agree on the status of that shard
 *   end       each rank's losses, divisors and measures go to all; all add them in the tree
 *
 * Earlier shards go into the tree of this process. Sums of all ranks are numbered from left to
 * right: `nodes` has them, `begin` the first of each rank. This rank's sums are the tree's
 * slots. */
#include "train/ranks/ranked.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/exec/device.h"
#include "train/ranks/bucket_sum.h"
#include "train/ranks/exchange.h"

typedef struct ranked {
    et_reducer reducer;
    et_tree *tree;
    et_pass *pass; /* borrowed, as comm */
    et_comm *comm;
    int rank, ranks;
    et_tree_node *nodes; /* [count] */
    int *begin;          /* [ranks + 1] */
    int count, most;     /* most: of one rank */
    size_t row;          /* doubles that a rank says: most times those of a sum */
    double *rows;        /* [ranks * row], and one row more of our own */
    et_buckets buckets;
    et_exchange *exchange; /* NULL: there is one rank */
    et_plan_listener listener;
    et_tree_moves moves; /* of the last shard, */
    bool pushed;         /* which the stack has; */
    bool expected;       /* and which the pass is at */
    bool *moved;         /* [buckets.trained]: its gradients are in the sums */
} ranked;

static et_tree_slot *slot_of(const ranked *self, int sum)
{
    return &self->tree->slots[self->tree->stack[sum].slot];
}

/* ---- scalars ---- */

static size_t scalars(const ranked *self)
{
    return 2 + 2 * (size_t)self->tree->measures;
}

static double *row_of(const ranked *self, int sum)
{
    int rank = 0;
    while (sum >= self->begin[rank + 1])
        rank++;
    return self->rows + (size_t)rank * self->row +
           (size_t)(sum - self->begin[rank]) * scalars(self);
}

static void add_rows(void *payload, int to, int from)
{
    ranked *self = payload;
    double *sum = row_of(self, to);
    const double *more = row_of(self, from);
    for (size_t i = 0; i < scalars(self); i++)
        sum[i] += more[i];
}

/* ---- the last shard ---- */

static void move(ranked *self, int bucket)
{
    const int64_t *end = self->buckets.end;
    if (self->moved[bucket])
        return;
    et_tree_move_gradients(self->tree, &self->moves, bucket ? end[bucket - 1] : 0, end[bucket]);
    self->moved[bucket] = true;
    et_exchange_ready(self->exchange, bucket);
}

/* The pass may also run for others, and on other shards. */
static void hear(void *payload, int bucket)
{
    ranked *self = payload;
    if (self->expected)
        move(self, bucket);
}

static void push(ranked *self, int shard)
{
    float *mine[2 * ET_TREE_DEPTH];
    et_tree_push(self->tree, shard, &self->moves);
    self->pushed = true;
    memset(self->moved, 0, (size_t)self->buckets.trained * sizeof *self->moved);
    et_assert_equal(self->tree->depth, self->begin[self->rank + 1] - self->begin[self->rank]);
    for (int i = 0; i < self->tree->depth; i++)
        mine[i] = slot_of(self, i)->array;
    et_exchange_begin(self->exchange, ET_OK, false, NULL, mine);
}

static bool is_last(const ranked *self, int shard)
{
    return self->exchange && shard + 1 == self->reducer.end;
}

/* ---- the class ---- */

/* Sums of ranks are adjacent, and this rank's are those of its tree. */
static void sane(const ranked *self)
{
    et_assert(self->tree && self->rank >= 0 && self->rank < self->ranks);
    et_assert_equal(self->ranks, et_comm_size(self->comm));
    et_assert(self->begin[0] == 0 && self->begin[self->ranks] == self->count);
    et_assert(self->begin[self->rank + 1] - self->begin[self->rank] <= self->most);
    et_assert(!self->exchange == (self->ranks == 1));
    et_assert(self->row >= (size_t)self->most * scalars(self));
    et_assert(!self->expected || self->pushed);
}

static void ranked_begin(et_reducer *reducer)
{
    ranked *self = (ranked *)reducer;
    sane(self);
    self->pushed = self->expected = false;
    et_reducer_begin(&self->tree->reducer);
}

static void ranked_expect(et_reducer *reducer, int shard)
{
    ranked *self = (ranked *)reducer;
    if (!is_last(self, shard))
        return;
    push(self, shard);
    self->expected = true;
}

static int ranked_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    ranked *self = (ranked *)reducer;
    if (!is_last(self, shard))
        return et_reducer_add(&self->tree->reducer, shard, pass, error);
    self->expected = false;
    if (!et_tree_is_finite(self->tree, pass))
        return ET_EDIVERGED;
    if (!self->pushed)
        push(self, shard);
    for (int i = 0; i < self->buckets.trained; i++)
        move(self, i);
    et_tree_move_rest(self->tree, &self->moves, pass);
    if (self->buckets.count > self->buckets.trained)
        et_exchange_ready(self->exchange, self->buckets.trained);
    return ET_OK;
}

/* The first of all that are not finite, as where one process has them all. */
static int first_bad(ranked *self, bool mine, et_error *error)
{
    double bad = mine ? self->reducer.bad : self->reducer.shards;
    int status = et_comm_gather(self->comm, &bad, sizeof bad, self->rows, error);
    if (status)
        return status;
    for (int i = 0; i < self->ranks; i++)
        bad = self->rows[i] < bad ? self->rows[i] : bad;
    self->reducer.bad = (int)bad;
    return ET_EDIVERGED;
}

/* A failure without agreement is reported as it is. */
static int exchanged(ranked *self, int status, unsigned *bad, et_error *error)
{
    et_error failure = ET_ERROR_INIT;
    bool any;
    if (!et_exchange_begun(self->exchange))
        et_exchange_begin(self->exchange, *bad ? ET_OK : status, *bad, error, NULL);
    int sent = et_exchange_wait(self->exchange, &any, &failure);
    *bad |= any;
    if (!sent || (status && !*bad && !self->comm->reported))
        return sent ? status : ET_OK;
    return et_fail(error, sent, "%s", failure.text);
}

static int ranked_meet(et_reducer *reducer, int status, et_error *error)
{
    ranked *self = (ranked *)reducer;
    bool bad = status == ET_EDIVERGED;
    unsigned any = bad;
    sane(self);
    self->expected = false;
    if (!self->exchange)
        return status;
    int sent = exchanged(self, status, &any, error);
    if (sent)
        return sent;
    status = et_comm_agree(self->comm, bad ? ET_OK : status, &any, error);
    return status || !any ? status : first_bad(self, bad, error);
}

static int gather_scalars(ranked *self, et_error *error)
{
    double *mine = self->rows + (size_t)self->ranks * self->row;
    for (int i = 0; i < self->tree->depth; i++) {
        const et_tree_slot *slot = slot_of(self, i);
        double *to = mine + (size_t)i * scalars(self);
        to[0] = slot->loss;
        to[1] = slot->divisor;
        for (int k = 0; k < self->tree->measures; k++) {
            to[2 + 2 * k] = slot->measured[k].total;
            to[3 + 2 * k] = slot->measured[k].weight;
        }
    }
    int status = et_comm_gather(self->comm, mine, self->row * sizeof *mine, self->rows, error);
    if (status)
        return status;
    et_tree_fold(self->nodes, self->count, self->reducer.shards, add_rows, self);
    const double *from = self->rows;
    et_tree_slot *sum = slot_of(self, 0);
    sum->loss = from[0];
    sum->divisor = from[1];
    for (int i = 0; i < self->tree->measures; i++) {
        sum->measured[i].total = from[2 + 2 * i];
        sum->measured[i].weight = from[3 + 2 * i];
    }
    return ET_OK;
}

static int ranked_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    ranked *self = (ranked *)reducer;
    int status = self->exchange ? gather_scalars(self, error) : ET_OK;
    if (!status)
        et_tree_give(self->tree, self->tree->stack[0].slot, out);
    return status;
}

static int ranked_failed(et_reducer *reducer, int shard, int status, et_error *error)
{
    ranked *self = (ranked *)reducer;
    char text[ET_ERROR_TEXT_MAX] = "";
    int owner = 0;
    while (shard >= self->nodes[self->begin[owner + 1] - 1].first +
                        self->nodes[self->begin[owner + 1] - 1].count)
        owner++;
    if (self->ranks == 1)
        return status;
    if (error)
        memcpy(text, error->text, sizeof text);
    int sent = et_comm_broadcast(self->comm, owner, text, sizeof text, error);
    text[sizeof text - 1] = 0;
    return sent ? sent : et_fail(error, status, "%s", text);
}

static void ranked_close(et_reducer *reducer)
{
    ranked *self = (ranked *)reducer;
    if (self->exchange)
        et_pass_listen(self->pass, NULL, NULL);
    et_exchange_close(self->exchange);
    et_buckets_release(&self->buckets);
    if (self->tree)
        et_reducer_close(&self->tree->reducer);
    et_free(self->nodes);
    et_free(self->begin);
    et_free(self->rows);
    et_free(self->moved);
    et_free(self);
}

static const et_reducer_class ranked_class = {
    .name = "ranked",
    .begin = ranked_begin,
    .expect = ranked_expect,
    .add = ranked_add,
    .end = ranked_end,
    .close = ranked_close,
    .meet = ranked_meet,
    .failed = ranked_failed,
};

/* ---- opening ---- */

static int first_of(int shards, int rank, int ranks)
{
    return (int)((int64_t)shards * rank / ranks);
}

/* Which sums there will be, of all ranks. */
static int list_nodes(ranked *self, int shards, et_error *error)
{
    self->begin = et_alloc((size_t)self->ranks + 1, sizeof *self->begin);
    if (!self->begin)
        return et_alloc_failed(error, 0, "ranks");
    for (int pass = 0; pass < 2; pass++) {
        self->count = 0;
        for (int r = 0; r < self->ranks; r++) {
            int most, first = first_of(shards, r, self->ranks);
            int end = first_of(shards, r + 1, self->ranks);
            self->begin[r] = self->count;
            int count =
                et_tree_nodes(shards, first, end, pass ? self->nodes + self->count : NULL, &most);
            self->count += count;
            self->most = count > self->most ? count : self->most;
        }
        self->begin[self->ranks] = self->count;
        if (!pass)
            self->nodes = et_alloc((size_t)self->count, sizeof *self->nodes);
        if (!self->nodes)
            return et_alloc_failed(error, 0, "ranks");
    }
    return ET_OK;
}

/* The buckets as the prepared plan makes them ready, moving means last. */
static int *order_of(const ranked *self)
{
    const et_plan *plan = et_pass_plan(self->pass);
    int *order = et_alloc((size_t)self->buckets.count, sizeof *order);
    for (int i = 0; order && i < self->buckets.count; i++)
        order[i] = i < self->buckets.trained ? et_plan_heard(plan, i) : i;
    return order;
}

static int open_exchange(ranked *self, et_error *error)
{
    int status = et_buckets_divide(&self->buckets, self->tree->params, self->tree->means, error);
    if (status)
        return status;
    self->moved = et_alloc_zero((size_t)self->buckets.trained, sizeof *self->moved);
    if (!self->moved)
        return et_alloc_failed(error, (size_t)self->buckets.trained, "ranks");
    self->listener = (et_plan_listener){ self->buckets.end, self->buckets.trained, hear, self };
    status = et_pass_listen(self->pass, &self->listener, error);
    if (status)
        return status;
    et_exchange_parts parts = { .sums = { self->comm, self->tree->kernels, self->nodes, self->begin,
                                          self->reducer.shards },
                                .buckets = &self->buckets,
                                .order = order_of(self) };
    status = parts.order ? et_exchange_open(&self->exchange, &parts, error)
                         : et_alloc_failed(error, sizeof *parts.order, "ranks");
    if (status)
        et_pass_listen(self->pass, NULL, NULL);
    return status;
}

int et_ranked_open(et_reducer **out, et_pass *pass, int shards, et_comm *comm, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    *out = NULL;
    if (shards < ranks || shards < 2)
        return et_fail(error, ET_ECONFIG,
                       "%d rank%s, but an update of %d batch%s: give at least as many batches as "
                       "ranks, and at least two (runtime.data_shards)",
                       ranks, ranks == 1 ? "" : "s", shards, shards == 1 ? "" : "es");
    ranked *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a reducer");
    self->reducer = (et_reducer){ .class = &ranked_class,
                                  .shards = shards,
                                  .first = first_of(shards, rank, ranks),
                                  .end = first_of(shards, rank + 1, ranks),
                                  .whole = true };
    self->pass = pass;
    self->comm = comm;
    self->rank = rank;
    self->ranks = ranks;
    int status =
        et_tree_open_part(&self->tree, pass, shards, self->reducer.first, self->reducer.end, error);
    if (!status)
        status = list_nodes(self, shards, error);
    if (!status) {
        self->row = (size_t)self->most * scalars(self);
        size_t count = ((size_t)self->ranks + 1) * self->row;
        self->rows = et_alloc_zero(count, sizeof *self->rows);
        status = self->rows ? ET_OK : et_alloc_failed(error, count * sizeof *self->rows, "ranks");
    }
    if (!status && ranks > 1)
        status = open_exchange(self, error);
    if (status) {
        ranked_close(&self->reducer);
        return status;
    }
    self->reducer.bytes = self->tree->reducer.bytes;
    *out = &self->reducer;
    return ET_OK;
}
