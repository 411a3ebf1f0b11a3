/* Ways to sum a bucket of n elements over P ranks; the first that fits is used. s: sums of the rank
 * with the most sums.
 *
 *   way         rounds         sends               used for
 *   doubling    log2 P         n log2 P            small; one sum per rank, sums pair up
 *   halving     2 log2 P       2 n (P-1)/P         any size, sums pair up
 *   gathering   log2 P         n s (P - 1)         small; any tree
 *   parts       2 (P - 1)      n (s + 1) (P-1)/P   any
 *
 * Sums pair up if P is a power of two and, in round k, the sum of ranks r to r + 2^k - 1 is the
 * left or the right half of a sum in the tree: the first rounds are the tree's lowest branches. So
 * doubling and halving exchange with the nearest rank first, and each sum of round k is a branch. A
 * sum of two does not depend on their order.
 *
 *   doubling    in round k send everything to rank r ^ 2^k, and receive everything it has
 *   gathering   et_comm_gather_blocks of all sums, then the tree
 *   halving     in round k send half of the rest to rank r ^ 2^k, which adds it; then the same way
 *               back with finished sums (Rabenseifner 2004, with distances doubling)
 *   parts       send part p of each sum to rank p, which adds it in the tree; then to all
 *
 * bfloat16 uses only parts: the owner of a sum rounds the whole sum once. */
#include "train/ranks/bucket_sum.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/tensor/params.h"

#define DOUBLING_MOST  ((int64_t)(ET_COMM_SHORT - sizeof(et_comm_word))) /* bytes of a bucket */
#define GATHERING_MOST ((int64_t)64 << 10)                               /* bytes of all sums */
#define LEVELS         31

typedef struct collective collective;

struct et_bucket_sum {
    et_rank_sums sums;
    int64_t longest;            /* elements of the largest bucket */
    int rank, ranks, own, most; /* sums of this rank, of the one that has most */
    bool pairs;
    unsigned char *room; /* received bytes, and bytes sent with a word */
    size_t room_size;
    float **part;        /* [sums]: the tree's terms */
    int64_t part_length; /* and the length of each */
    et_bf16 *sent, *got; /* a part each, as it travels; NULL: as it is */
    float *const *mine;  /* of the bucket under way, as what follows */
    int64_t count;
    bool halves;
    et_comm_word *word; /* NULL: nothing is agreed on */
};

struct collective {
    const char *name;
    bool (*carries)(int64_t count); /* a word; NULL: never */
    bool (*fits)(const et_bucket_sum *self, int64_t count, bool halves);
    size_t (*room)(const et_bucket_sum *self); /* bytes, for any bucket that fits */
    int (*run)(et_bucket_sum *self, et_error *error);
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the tree ---- */

void et_tree_fold(const et_tree_node *nodes, int count, int shards, et_fold_fn *add, void *payload)
{
    et_tree_node stack[2 * ET_TREE_DEPTH];
    int depth = 0;
    for (int i = 0; i < count; i++) {
        et_assert(depth < 2 * ET_TREE_DEPTH);
        stack[depth] = nodes[i];
        stack[depth++].slot = i;
        for (; depth > 1 && et_tree_siblings(shards, stack[depth - 2], stack[depth - 1]); depth--) {
            add(payload, stack[depth - 2].slot, stack[depth - 1].slot);
            stack[depth - 2].count += stack[depth - 1].count;
        }
    }
    et_assert_equal(depth, 1);
}

static void add_parts(void *payload, int to, int from)
{
    et_bucket_sum *self = payload;
    self->sums.kernels->accumulate(self->part[to], self->part[from], self->part_length);
}

static void fold(et_bucket_sum *self)
{
    const et_rank_sums *p = &self->sums;
    et_tree_fold(p->nodes, p->begin[self->ranks], p->shards, add_parts, self);
}

/* Shards of ranks first to first + count - 1, as one sum. */
static et_tree_node branch(const et_rank_sums *sums, int first, int count)
{
    et_tree_node node = sums->nodes[first];
    for (int i = 1; i < count; i++)
        node.count += sums->nodes[first + i].count;
    return node;
}

static bool pairs_up(const et_rank_sums *sums, int ranks)
{
    if (sums->begin[ranks] != ranks || (ranks & (ranks - 1)))
        return false;
    for (int count = 1; count < ranks; count *= 2)
        for (int r = 0; r < ranks; r += 2 * count)
            if (!et_tree_siblings(sums->shards, branch(sums, r, count),
                                  branch(sums, r + count, count)))
                return false;
    return true;
}

/* ---- one round ---- */

static bool is_well(const et_comm_word *word)
{
    return !word || et_comm_is_well(word);
}

/* Whether a word's message has room for this number of elements. */
static bool is_short(int64_t count)
{
    return count * (int64_t)sizeof(float) <= DOUBLING_MOST;
}

/* first to first + count - 1 */
typedef struct span {
    int64_t first, count;
} span;

/* Sends `give` of mine to rank ^ bit, and adds its `keep` to mine. After a word, the elements are
 * sent from a copy. */
static int add_from(et_bucket_sum *self, int bit, span give, span keep, et_error *error)
{
    const size_t gone = give.count * sizeof(float), come = keep.count * sizeof(float);
    const size_t head = self->word ? sizeof *self->word : 0;
    float *mine = self->mine ? self->mine[0] : NULL, *in = (float *)(void *)(self->room + head);
    unsigned char *copy = self->room + ET_COMM_SHORT;
    int status, other = self->rank ^ bit;
    if (self->word && mine)
        memcpy(copy + head, mine + give.first, gone);
    if (self->word)
        status = et_comm_say_round(self->sums.comm, bit, self->word, copy, head + gone, self->room,
                                   head + come, error);
    else
        status =
            et_comm_exchange(self->sums.comm, (et_comm_chunk){ other, mine + give.first, gone },
                             (et_comm_chunk){ other, in, come }, error);
    if (!status && is_well(self->word))
        self->sums.kernels->accumulate(mine + keep.first, in, keep.count);
    return status;
}

/* ---- doubling ---- */

static bool doubling_fits(const et_bucket_sum *self, int64_t count, bool halves)
{
    return self->pairs && !halves && is_short(count);
}

static size_t doubling_room(const et_bucket_sum *self)
{
    return self->pairs ? 2 * ET_COMM_SHORT : 0;
}

static int run_doubling(et_bucket_sum *self, et_error *error)
{
    const span all = { 0, self->count };
    int status = ET_OK;
    for (int bit = 1; !status && bit < self->ranks; bit *= 2)
        status = add_from(self, bit, all, all, error);
    return status;
}

/* ---- gathering ---- */

static int64_t gathering_most(const et_bucket_sum *self)
{
    return GATHERING_MOST / ((int64_t)sizeof(float) * self->most * self->ranks);
}

static bool gathering_fits(const et_bucket_sum *self, int64_t count, bool halves)
{
    return !self->pairs && !halves && count <= gathering_most(self);
}

/* Block size of the rank with the most sums, used for every rank. */
static size_t block_size(const et_bucket_sum *self, int64_t count)
{
    return et_flat_up(count * self->most) * sizeof(float);
}

static size_t gathering_room(const et_bucket_sum *self)
{
    int64_t count = smaller(self->longest, gathering_most(self));
    return self->pairs ? 0 : (size_t)self->ranks * block_size(self, count);
}

static int run_gathering(et_bucket_sum *self, et_error *error)
{
    const size_t block = block_size(self, self->count), each = self->count * sizeof(float);
    for (int i = 0; i < self->own; i++)
        memcpy(self->room + (size_t)i * each, self->mine[i], each);
    int status = et_comm_gather_blocks(self->sums.comm, self->room, block, error);
    if (status)
        return status;
    /* Blocks lie in the order rank, rank + 1, ... */
    const int *begin = self->sums.begin;
    for (int r = 0; r < self->ranks; r++) {
        int nth = (r - self->rank + self->ranks) % self->ranks;
        float *values = (float *)(void *)(self->room + (size_t)nth * block);
        for (int i = begin[r]; i < begin[r + 1]; i++, values += self->count)
            self->part[i] = values;
    }
    self->part_length = self->count;
    fold(self);
    memcpy(self->mine[0], self->part[0], each);
    return ET_OK;
}

/* ---- halving ---- */

static bool halving_fits(const et_bucket_sum *self, int64_t count, bool halves)
{
    (void)count;
    return self->pairs && !halves;
}

static int64_t half_of(int64_t count)
{
    return smaller(count, et_flat_up((count + 1) / 2));
}

static bool is_short_halved(int64_t count)
{
    return is_short(half_of(count));
}

static size_t halving_room(const et_bucket_sum *self)
{
    return self->pairs ? half_of(self->longest) * sizeof(float) : 0;
}

static et_comm_chunk chunk_of(int rank, float *values, span s)
{
    return (et_comm_chunk){ rank, values + s.first, s.count * sizeof *values };
}

static int run_halving(et_bucket_sum *self, et_error *error)
{
    span keep[LEVELS + 1] = { { 0, self->count } }, give[LEVELS];
    int status = ET_OK, level = 0;
    for (int bit = 1; !status && bit < self->ranks; bit *= 2, level++) {
        /* One of two ranks keeps the upper half and gives the lower one, the other the opposite. */
        span whole = keep[level];
        bool upper = self->rank & bit;
        int64_t half = half_of(whole.count);
        const span low = { whole.first, half }, high = { whole.first + half, whole.count - half };
        keep[level + 1] = upper ? high : low;
        give[level] = upper ? low : high;
        status = add_from(self, bit, give[level], keep[level + 1], error);
    }
    while (!status && is_well(self->word) && level-- > 0) {
        int other = self->rank ^ 1 << level;
        status = et_comm_exchange(self->sums.comm, chunk_of(other, self->mine[0], keep[level + 1]),
                                  chunk_of(other, self->mine[0], give[level]), error);
    }
    return status;
}

/* ---- parts ---- */

static bool parts_fit(const et_bucket_sum *self, int64_t count, bool halves)
{
    (void)self, (void)count, (void)halves;
    return true;
}

static int64_t length_of(const et_bucket_sum *self, int64_t count)
{
    return et_flat_up((count + self->ranks - 1) / self->ranks);
}

static size_t parts_room(const et_bucket_sum *self)
{
    size_t others = (size_t)(self->sums.begin[self->ranks] - self->own);
    bool ever = !self->pairs || self->sent;
    return ever ? others * (size_t)length_of(self, self->longest) * sizeof(float) : 0;
}

static span part_of(const et_bucket_sum *self, int rank)
{
    int64_t length = length_of(self, self->count), first = smaller(rank * length, self->count);
    return (span){ first, smaller(length, self->count - first) };
}

/* Numbers to send to a rank, or to receive from it; count 0: none. */
typedef struct leg {
    int rank;
    float *at;
    int64_t count;
} leg;

static et_comm_chunk chunk(const et_bucket_sum *self, leg l, et_bf16 *half)
{
    const size_t each = self->halves ? sizeof *half : sizeof *l.at;
    return (et_comm_chunk){ l.rank, self->halves ? (void *)half : (void *)l.at,
                            (size_t)l.count * each };
}

static int swap(et_bucket_sum *self, leg out, leg in, et_error *error)
{
    const et_kernels *kernels = self->sums.kernels;
    if (self->halves)
        kernels->to_bf16(self->sent, out.at, out.count);
    int status = et_comm_exchange(self->sums.comm, chunk(self, out, self->sent),
                                  chunk(self, in, self->got), error);
    if (!status && self->halves)
        kernels->from_bf16(in.at, self->got, in.count);
    return status;
}

/* Sum number i of mine to one rank, of another rank to me. */
static int send_parts(et_bucket_sum *self, int to, int from, et_error *error)
{
    const int *begin = self->sums.begin;
    int in = begin[from + 1] - begin[from], status = ET_OK;
    span theirs = part_of(self, to);
    for (int i = 0; !status && (i < self->own || i < in); i++) {
        leg go = { .rank = to }, come = { .rank = from };
        if (i < self->own)
            go = (leg){ to, self->mine[i] + theirs.first, theirs.count };
        if (i < in)
            come = (leg){ from, self->part[begin[from] + i], self->part_length };
        status = swap(self, go, come, error);
    }
    return status;
}

static int run_parts(et_bucket_sum *self, et_error *error)
{
    const et_kernels *kernels = self->sums.kernels;
    int status = ET_OK, ranks = self->ranks, rank = self->rank;
    /* Mine where they are, the others' in the room. */
    const int *begin = self->sums.begin;
    float *at = (float *)(void *)self->room;
    span own = part_of(self, self->rank);
    self->part_length = own.count;
    for (int i = 0; i < begin[self->ranks]; i++)
        if (i >= begin[self->rank] && i < begin[self->rank + 1]) {
            self->part[i] = self->mine[i - begin[self->rank]] + own.first;
        } else {
            self->part[i] = at;
            at += length_of(self, self->count);
        }
    float *whole = self->mine[0] + part_of(self, rank).first;
    for (int k = 1; !status && k < ranks; k++)
        status = send_parts(self, (rank + k) % ranks, (rank - k + ranks) % ranks, error);
    if (status)
        return status;
    fold(self);
    if (self->part[0] != whole)
        memcpy(whole, self->part[0], self->part_length * sizeof *whole);
    if (self->halves) {
        kernels->to_bf16(self->sent, whole, self->part_length);
        kernels->from_bf16(whole, self->sent, self->part_length);
    }
    for (int k = 1; !status && k < ranks; k++) {
        int from = (rank - k + ranks) % ranks;
        span mine = part_of(self, rank), theirs = part_of(self, from);
        status = swap(self, (leg){ (rank + k) % ranks, self->mine[0] + mine.first, mine.count },
                      (leg){ from, self->mine[0] + theirs.first, theirs.count }, error);
    }
    return status;
}

/* ---- all ways ---- */

static const collective collectives[] = {
    { "doubling", is_short, doubling_fits, doubling_room, run_doubling },
    { "gathering", NULL, gathering_fits, gathering_room, run_gathering },
    { "halving", is_short_halved, halving_fits, halving_room, run_halving },
    { "parts", NULL, parts_fit, parts_room, run_parts },
};

enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

static const collective *collective_of(const et_bucket_sum *self, int64_t count, bool halves)
{
    int i = 0;
    while (!collectives[i].fits(self, count, halves))
        i++;
    return &collectives[i];
}

bool et_bucket_sum_carries(const et_bucket_sum *self, int64_t count, bool halves)
{
    const collective *w = collective_of(self, count, halves);
    return w->carries && w->carries(count);
}

const char *et_bucket_sum_collective(const et_bucket_sum *self, int64_t count, bool halves)
{
    return collective_of(self, count, halves)->name;
}

int et_bucket_sum_run(et_bucket_sum *self, float *const *mine, int64_t count, bool halves,
                      et_comm_word *word, et_error *error)
{
    et_assert(count > 0 && count <= self->longest && (!halves || self->sent));
    et_assert(mine || !is_well(word));
    et_assert(!word || et_bucket_sum_carries(self, count, halves));
    self->mine = mine;
    self->count = count;
    self->halves = halves;
    self->word = word;
    return collective_of(self, count, halves)->run(self, error);
}

/* ---- opening ---- */

static int make_buffers(et_bucket_sum *self, et_error *error)
{
    const et_rank_sums *p = &self->sums;
    bool halves = p->comm->bfloat16_gradients, made = true;
    if (halves) {
        size_t bytes = length_of(self, self->longest) * sizeof *self->sent + 64;
        self->sent = et_alloc_aligned(bytes, 64);
        self->got = et_alloc_aligned(bytes, 64);
        made = self->sent && self->got;
    }
    self->room_size = 64;
    for (int i = 0; i < COLLECTIVES; i++) {
        size_t bytes = collectives[i].room(self);
        self->room_size = bytes > self->room_size ? bytes : self->room_size;
    }
    self->room = et_alloc_aligned(self->room_size, 64);
    self->part = et_alloc_zero(p->begin[self->ranks], sizeof *self->part);
    if (!made || !self->room || !self->part)
        return et_alloc_failed(error, "other ranks' gradients");
    memset(self->room, 0, self->room_size);
    return ET_OK;
}

int et_bucket_sum_open(et_bucket_sum **out, const et_rank_sums *sums, int64_t longest,
                       et_error *error)
{
    et_bucket_sum *self;
    *out = NULL;
    if (ET_ALLOC_ZERO(self, 1, "ranks", error))
        return ET_ENOMEM;
    self->sums = *sums;
    self->longest = longest;
    self->rank = et_comm_rank(sums->comm);
    self->ranks = et_comm_size(sums->comm);
    self->own = sums->begin[self->rank + 1] - sums->begin[self->rank];
    for (int r = 0; r < self->ranks; r++) {
        int theirs = sums->begin[r + 1] - sums->begin[r];
        self->most = theirs > self->most ? theirs : self->most;
    }
    self->pairs = pairs_up(sums, self->ranks);
    int status = make_buffers(self, error);
    if (status)
        et_bucket_sum_close(self);
    else
        *out = self;
    return status;
}

void et_bucket_sum_close(et_bucket_sum *self)
{
    if (!self)
        return;
    et_free(self->room);
    et_free(self->part);
    et_free(self->sent);
    et_free(self->got);
    et_free(self);
}
