/* One update, after meet:
 *
 *   scalars   each rank's losses, divisors and measures to all; all add them in the tree
 *   out       part p of each of my sums to rank p, in rounds: in round k to the one k behind me
 *   add       part `rank` of all sums, in the tree, into the first sum that I have
 *   back      that part of the whole to all, in rounds
 *
 * Sums of all ranks, from left to right, are numbered; `nodes` has them, `begin` where each rank's
 * are. Mine are the tree's slots. */
#include "train/ranked.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "exec/device.h"
#include "train/reducer_private.h"

#define PART_ALIGN 16 /* elements */

typedef struct ranked {
    et_reducer reducer;
    et_tree *tree;
    et_comm *comm; /* borrowed */
    int rank, ranks;
    et_tree_node *nodes;      /* [count] */
    int *begin;               /* [ranks + 1] */
    int count, most;          /* most: of one rank */
    float **part;             /* [count]: this rank's part of each sum */
    float *room;              /* what part points into, of the others' sums */
    size_t row;               /* doubles that a rank says: most times those of a sum */
    double *rows;             /* [ranks * row], and one row more of our own */
    int64_t elements, length; /* of a slot; of a part, the last ones shorter */
} ranked;

static int64_t part_begin(const ranked *self, int rank)
{
    int64_t at = rank * self->length;
    return at < self->elements ? at : self->elements;
}

static int64_t part_length(const ranked *self, int rank)
{
    return part_begin(self, rank + 1) - part_begin(self, rank);
}

static int sums_of(const ranked *self, int rank)
{
    return self->begin[rank + 1] - self->begin[rank];
}

static et_tree_slot *slot_of(const ranked *self, int sum)
{
    return &self->tree->slots[self->tree->stack[sum].slot];
}

/* ---- scalars --------------------------------------------------------------------------------- */

static size_t scalars(const ranked *self)
{
    return 2 + 2 * (size_t)self->tree->measures;
}

static void write_scalars(const ranked *self, const et_tree_slot *from, double *to)
{
    to[0] = from->loss;
    to[1] = from->divisor;
    for (int i = 0; i < self->tree->measures; i++) {
        to[2 + 2 * i] = from->measured[i].total;
        to[3 + 2 * i] = from->measured[i].weight;
    }
}

static void read_scalars(const ranked *self, const double *from, et_tree_slot *to)
{
    to->loss = from[0];
    to->divisor = from[1];
    for (int i = 0; i < self->tree->measures; i++) {
        to->measured[i].total = from[2 + 2 * i];
        to->measured[i].weight = from[3 + 2 * i];
    }
}

/* ---- the tree over all sums ------------------------------------------------------------------ */

typedef void add_fn(ranked *self, int to, int from);

/* Which sum lies where the others have been added to: number 0. */
static void add_all(ranked *self, add_fn *add)
{
    et_tree_node stack[2 * ET_TREE_DEPTH];
    int depth = 0;
    for (int i = 0; i < self->count; i++) {
        et_assert(depth < 2 * ET_TREE_DEPTH);
        stack[depth] = self->nodes[i];
        stack[depth++].slot = i;
        for (; depth > 1 &&
               et_tree_siblings(self->reducer.shards, stack[depth - 2], stack[depth - 1]);
             depth--) {
            add(self, stack[depth - 2].slot, stack[depth - 1].slot);
            stack[depth - 2].count += stack[depth - 1].count;
        }
    }
    et_assert_equal(depth, 1);
}

static void add_parts(ranked *self, int to, int from)
{
    self->tree->kernels->accumulate(self->part[to], self->part[from],
                                    part_length(self, self->rank));
}

static double *row_of(const ranked *self, int sum)
{
    int rank = 0;
    while (sum >= self->begin[rank + 1])
        rank++;
    return self->rows + (size_t)rank * self->row +
           (size_t)(sum - self->begin[rank]) * scalars(self);
}

static void add_rows(ranked *self, int to, int from)
{
    double *sum = row_of(self, to);
    const double *more = row_of(self, from);
    for (size_t i = 0; i < scalars(self); i++)
        sum[i] += more[i];
}

/* ---- the class ------------------------------------------------------------------------------- */

static void ranked_begin(et_reducer *reducer)
{
    et_reducer_begin(&((ranked *)reducer)->tree->reducer);
}

static int ranked_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    return et_reducer_add(&((ranked *)reducer)->tree->reducer, shard, pass, error);
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

static int ranked_meet(et_reducer *reducer, int status, et_error *error)
{
    ranked *self = (ranked *)reducer;
    bool bad = status == ET_EDIVERGED;
    unsigned any = bad;
    status = et_comm_agree(self->comm, bad ? ET_OK : status, &any, error);
    return status || !any ? status : first_bad(self, bad, error);
}

static int gather_scalars(ranked *self, et_error *error)
{
    double *mine = self->rows + (size_t)self->ranks * self->row;
    for (int i = 0; i < self->tree->depth; i++)
        write_scalars(self, slot_of(self, i), mine + (size_t)i * scalars(self));
    int status = et_comm_gather(self->comm, mine, self->row * sizeof *mine, self->rows, error);
    if (!status)
        add_all(self, add_rows);
    return status;
}

static et_comm_piece piece(int rank, float *at, int64_t count)
{
    return (et_comm_piece){ rank, at, (size_t)count * sizeof *at };
}

/* Sum number i of mine to one rank, of another rank to me. */
static int send_parts(ranked *self, int to, int from, et_error *error)
{
    const et_comm_piece none = { -1, NULL, 0 };
    int out = sums_of(self, self->rank), in = sums_of(self, from), status = ET_OK;
    for (int i = 0; !status && (i < out || i < in); i++) {
        et_comm_piece send = none, receive = none;
        if (i < out)
            send = piece(to, slot_of(self, i)->array + part_begin(self, to), part_length(self, to));
        if (i < in)
            receive = piece(from, self->part[self->begin[from] + i], part_length(self, self->rank));
        status = et_comm_exchange(self->comm, send, receive, error);
    }
    return status;
}

static int send_back(ranked *self, float *all, int to, int from, et_error *error)
{
    return et_comm_exchange(
        self->comm, piece(to, all + part_begin(self, self->rank), part_length(self, self->rank)),
        piece(from, all + part_begin(self, from), part_length(self, from)), error);
}

static int gather_gradient(ranked *self, float *all, et_error *error)
{
    int status = ET_OK, ranks = self->ranks;
    float *mine = all + part_begin(self, self->rank);
    for (int i = 0; i < sums_of(self, self->rank); i++)
        self->part[self->begin[self->rank] + i] =
            slot_of(self, i)->array + part_begin(self, self->rank);
    for (int k = 1; !status && k < ranks; k++)
        status =
            send_parts(self, (self->rank + k) % ranks, (self->rank - k + ranks) % ranks, error);
    if (status)
        return status;
    add_all(self, add_parts);
    if (self->part[0] != mine)
        memcpy(mine, self->part[0], (size_t)part_length(self, self->rank) * sizeof *mine);
    for (int k = 1; !status && k < ranks; k++)
        status =
            send_back(self, all, (self->rank + k) % ranks, (self->rank - k + ranks) % ranks, error);
    return status;
}

static int ranked_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    ranked *self = (ranked *)reducer;
    et_assert_equal(self->tree->depth, sums_of(self, self->rank));
    et_tree_slot *sum = slot_of(self, 0);
    int status = self->ranks > 1 ? gather_scalars(self, error) : ET_OK;
    if (!status && self->ranks > 1) {
        read_scalars(self, self->rows, sum);
        status = gather_gradient(self, sum->array, error);
    }
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
    if (self->tree)
        et_reducer_close(&self->tree->reducer);
    et_free(self->nodes);
    et_free(self->begin);
    et_free(self->part);
    et_free(self->room);
    et_free(self->rows);
    et_free(self);
}

static const et_reducer_class ranked_class = {
    .name = "ranked",
    .begin = ranked_begin,
    .add = ranked_add,
    .end = ranked_end,
    .close = ranked_close,
    .meet = ranked_meet,
    .failed = ranked_failed,
};

/* ---- opening --------------------------------------------------------------------------------- */

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

static int make_rooms(ranked *self, et_error *error)
{
    const et_tree *tree = self->tree;
    size_t others = (size_t)(self->count - sums_of(self, self->rank));
    self->elements = tree->trained + tree->means;
    self->length = (self->elements + self->ranks - 1) / self->ranks;
    self->length = (self->length + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    self->row = (size_t)self->most * scalars(self);
    size_t bytes = others * (size_t)self->length * sizeof(float);
    self->part = et_alloc_zero((size_t)self->count, sizeof *self->part);
    self->room = et_alloc_aligned(bytes ? bytes : 64, 64);
    self->rows = et_alloc_zero(((size_t)self->ranks + 1) * self->row, sizeof *self->rows);
    if (!self->part || !self->room || !self->rows)
        return et_alloc_failed(error, bytes, "other ranks' gradients");
    float *at = self->room;
    for (int i = 0; i < self->count; i++)
        if (i < self->begin[self->rank] || i >= self->begin[self->rank + 1]) {
            self->part[i] = at;
            at += self->length;
        }
    return ET_OK;
}

int et_ranked_open(et_reducer **out, const et_pass *pass, int shards, et_comm *comm,
                   et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    *out = NULL;
    if (shards < ranks || shards < 2)
        return et_fail(error, ET_ECONFIG,
                       "%d rank%s, and an update of %d batch%s: give at least as many batches, two "
                       "or more (runtime.data_shards)",
                       ranks, ranks == 1 ? "" : "s", shards, shards == 1 ? "" : "es");
    ranked *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a reducer");
    self->reducer = (et_reducer){ .class = &ranked_class,
                                  .shards = shards,
                                  .first = first_of(shards, rank, ranks),
                                  .end = first_of(shards, rank + 1, ranks),
                                  .whole = true };
    self->comm = comm;
    self->rank = rank;
    self->ranks = ranks;
    int status =
        et_tree_open_part(&self->tree, pass, shards, self->reducer.first, self->reducer.end, error);
    if (!status)
        status = list_nodes(self, shards, error);
    if (!status)
        status = make_rooms(self, error);
    if (status)
        ranked_close(&self->reducer);
    else
        *out = &self->reducer;
    return status;
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* Whatever the order: merging is exact. */
int et_metrics_sum_ranks(et_metrics *metrics, et_comm *comm, et_error *error)
{
    void *bytes;
    int ranks = et_comm_size(comm), rank = et_comm_rank(comm), status = ET_OK;
    size_t size = et_metrics_bytes(metrics, &bytes);
    if (ranks == 1)
        return ET_OK;
    unsigned char *all = et_alloc((size_t)ranks, size);
    if (!all)
        return et_alloc_failed(error, (size_t)ranks * size, "metrics of all ranks");
    status = et_comm_gather(comm, bytes, size, all, error);
    for (int r = 0; !status && r < ranks; r++)
        if (r != rank)
            et_metrics_merge_bytes(metrics, all + (size_t)r * size);
    et_free(all);
    return status;
}
