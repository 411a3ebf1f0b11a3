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

#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/thread.h"
#include "engine/tensor/params.h"
#include "train/ranks/bucket_sum.h"

/* ---- the exchange of sums ---- */

/* Buckets follow each other in one order on all ranks: the order in which rank 0's first plan
 * finishes them. Another plan may have another order; a ready bucket then waits. bucket_sum.c sums
 * each bucket.
 *
 * The first to come does all of an update: the thread, if there is something to send, or the caller
 * in wait. Handing over costs more than a small message.
 *
 * If everything is ready on all ranks when they agree, there is nothing to overlap, and every round
 * only costs time. Then neighbouring buckets are sent as one. Not as bfloat16: its bits depend on
 * the division into buckets, and readiness depends on timing.
 *
 * `state` and `ready` are protected by the mutex. All other members belong to the caller, or, from
 * begin to wait, to the thread that does the update. */

#define BUCKETS_MOST 16                 /* about; a few more where parameters are larger than one */
#define BUCKET_LEAST ((int64_t)1 << 16) /* elements: a message should take longer than its way */
#define JOINED_MOST  ((int64_t)1 << 21) /* elements of buckets that go as one: memory for half */

typedef enum exchange_state { IDLE, ASKED, TAKEN, DONE, ENDS } exchange_state;

struct et_exchange {
    et_exchange_parts parts;
    et_bucket_sum *sum;
    int own;      /* sums of this rank */
    float **mine; /* [own], and [own] of the bucket under way */
    bool halves;  /* gradients go in half the bytes */
    bool ordered; /* order is rank 0's */
    bool rides;   /* the agreement is sent with the first bucket */
    bool whole;   /* all buckets are ready when sending begins */
    bool begun;
    int status; /* it begins with, and ends with */
    unsigned bad;
    et_error error;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    exchange_state state;
    bool *ready; /* [buckets] */
};

/* Call under the mutex, or before the thread has work; no call may be in progress. */
static void sane_exchange(const et_exchange *self)
{
    const et_exchange_parts *p = &self->parts;
    et_assert(p->buckets && p->order && p->sums.comm && self->sum);
    et_assert(p->buckets->count > 0 && p->buckets->trained <= p->buckets->count);
    et_assert(self->own >= 0 && self->mine && self->ready);
    et_assert(self->begun || self->state != ASKED);
    et_assert(self->state != ENDS);
}

/* ---- buckets ---- */

static int64_t end_of(const et_params *params, int index)
{
    int64_t trained = et_params_trained_size(params);
    if (index + 1 >= et_params_count(params))
        return trained;
    int64_t next = et_params_offset(params, et_params_in_order(params, index + 1));
    return next < trained ? next : trained;
}

/* Joins neighbouring parameters to buckets; a parameter larger than a bucket is split. end NULL:
 * only counts. */
static int cut(const et_params *params, int64_t *end)
{
    const int64_t trained = et_params_trained_size(params);
    int64_t goal = (trained + BUCKETS_MOST - 1) / BUCKETS_MOST, begin = 0;
    int count = 0;
    goal = goal > BUCKET_LEAST ? goal : BUCKET_LEAST;
    for (int index = 0; begin < trained; index++) {
        int64_t from = et_params_offset(params, et_params_in_order(params, index));
        int64_t to = end_of(params, index);
        if (to - begin < goal && to < trained)
            continue;
        if (from - begin >= goal / 2 && to - from >= goal / 2) {
            if (end)
                end[count] = from;
            count++;
            begin = from;
        }
        int64_t pieces = (to - begin) / goal > 1 ? (to - begin) / goal : 1;
        for (int64_t i = 1; i <= pieces; i++, count++)
            if (end)
                end[count] =
                    i == pieces ? to
                                : begin + (to - begin) * i / pieces / ET_FLAT_ALIGN * ET_FLAT_ALIGN;
        begin = to;
    }
    return count;
}

int et_buckets_divide(et_buckets *buckets, const et_params *params, int64_t means, et_error *error)
{
    int trained = cut(params, NULL), count = trained + (means > 0);
    *buckets = (et_buckets){ et_alloc(count, sizeof *buckets->end), count, trained };
    if (!buckets->end)
        return et_alloc_failed(error, "ranks");
    cut(params, buckets->end);
    if (means > 0)
        buckets->end[trained] = et_params_trained_size(params) + means;
    return ET_OK;
}

void et_buckets_release(et_buckets *buckets)
{
    et_free(buckets->end);
    *buckets = (et_buckets){ NULL, 0, 0 };
}

static int64_t begin_of(const et_buckets *buckets, int bucket)
{
    return bucket ? buckets->end[bucket - 1] : 0;
}

/* ---- all of them ---- */

/* Each bucket once, or ranks would take one for another. */
static int share_order(et_exchange *self, et_error *error)
{
    int count = self->parts.buckets->count, *order = self->parts.order;
    int status = et_comm_broadcast(self->parts.sums.comm, 0, order, count * sizeof *order, error);
    for (int i = 0; !status && i < count; i++)
        for (int k = 0; k <= i; k++)
            if (order[i] < 0 || order[i] >= count || (k < i && order[k] == order[i]))
                status = et_fail(error, ET_EFAIL, "ranks are out of step: bucket %d of %d",
                                 order[i], count);
    self->ordered = !status;
    return status;
}

static int64_t count_of(const et_exchange *self, int bucket)
{
    return self->parts.buckets->end[bucket] - begin_of(self->parts.buckets, bucket);
}

static bool goes_halved(const et_exchange *self, int bucket)
{
    return self->halves && bucket < self->parts.buckets->trained;
}

static int add_range(et_exchange *self, int64_t first, int64_t count, bool halved,
                     et_comm_word *word)
{
    float **part = self->mine + self->own;
    et_assert(first >= 0 && count > 0);
    bool have = !self->status && !self->bad;
    for (int i = 0; have && i < self->own; i++)
        part[i] = self->mine[i] + first;
    return et_bucket_sum_run(self->sum, have ? part : NULL, count, halved, word, &self->error);
}

static int add_up(et_exchange *self, int bucket, et_comm_word *word)
{
    pthread_mutex_lock(&self->mutex);
    while (!self->ready[bucket])
        pthread_cond_wait(&self->changed, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    return add_range(self, begin_of(self->parts.buckets, bucket), count_of(self, bucket),
                     goes_halved(self, bucket), word);
}

/* Whatever their order: all are ready. */
static int add_joined(et_exchange *self)
{
    const et_buckets *buckets = self->parts.buckets;
    int status = ET_OK;
    for (int i = 0, end; !status && i < buckets->count; i = end) {
        int64_t first = begin_of(buckets, i);
        for (end = i + 1; end < buckets->count && buckets->end[end] - first <= JOINED_MOST; end++)
            continue;
        status = add_range(self, first, buckets->end[end - 1] - first, false, NULL);
    }
    return status;
}

/* The first bucket, and what all have to say with it. */
static int add_agreeing(et_exchange *self)
{
    et_comm_word word = et_comm_say(self->parts.sums.comm, self->status, self->bad);
    int sent = add_up(self, self->parts.order[0], &word);
    if (sent)
        return self->status ? self->status : sent;
    return et_comm_settle(self->parts.sums.comm, &word, &self->bad, &self->error);
}

/* *joins: all have everything. */
static int agree(et_exchange *self, bool *joins)
{
    enum { BAD = 1, PIECEMEAL = 2 };
    unsigned flags = (self->bad ? BAD : 0) | (self->whole && !self->halves ? 0 : PIECEMEAL);
    int status = et_comm_agree(self->parts.sums.comm, self->status, &flags, &self->error);
    self->bad = flags & BAD;
    *joins = !(flags & PIECEMEAL);
    return status;
}

static int run(et_exchange *self)
{
    int done = self->rides;
    bool joins = false;
    int status = self->rides ? add_agreeing(self) : agree(self, &joins);
    if (!status && !self->bad && !self->ordered)
        status = share_order(self, &self->error);
    if (!status && !self->bad && joins)
        return add_joined(self);
    for (int i = done; !status && !self->bad && i < self->parts.buckets->count; i++)
        status = add_up(self, self->parts.order[i], NULL);
    return status;
}

/* It adds up alone: the other threads compute. */
static void *speak(void *payload)
{
    et_exchange *self = payload;
    omp_set_num_threads(1);
    pthread_mutex_lock(&self->mutex);
    while (self->state != ENDS) {
        /* The thread sleeps until there is a bucket to send, because waking it costs as much as a
         * small sum. It asks for the order at once. */
        if (self->state != ASKED || (self->ordered && !self->ready[self->parts.order[0]])) {
            pthread_cond_wait(&self->changed, &self->mutex);
            continue;
        }
        self->state = TAKEN;
        pthread_mutex_unlock(&self->mutex);
        self->parts.sums.comm->beside = true;
        self->status = run(self);
        self->parts.sums.comm->beside = false;
        pthread_mutex_lock(&self->mutex);
        self->state = DONE;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

void et_exchange_begin(et_exchange *self, int status, bool bad, const et_error *error,
                       float *const *mine)
{
    const int first = self->parts.order[0];
    sane_exchange(self);
    et_assert(first >= 0 && first < self->parts.buckets->count);
    et_assert(!self->begun && (status || bad || mine));
    self->begun = true;
    self->status = status;
    self->bad = bad;
    self->error = status && error ? *error : (et_error)ET_ERROR_INIT;
    for (int i = 0; mine && i < self->own; i++)
        self->mine[i] = mine[i];
    self->rides = self->ordered && !self->parts.sums.comm->reported &&
                  et_bucket_sum_carries(self->sum, count_of(self, first), goes_halved(self, first));
    self->whole = false;
    memset(self->ready, 0, self->parts.buckets->count * sizeof *self->ready);
    pthread_mutex_lock(&self->mutex);
    self->state = ASKED;
    if (!self->ordered)
        pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

void et_exchange_ready(et_exchange *self, int bucket)
{
    et_assert(self->begun && bucket >= 0 && bucket < self->parts.buckets->count);
    pthread_mutex_lock(&self->mutex);
    self->ready[bucket] = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

int et_exchange_wait(et_exchange *self, bool *bad, et_error *error)
{
    et_assert(self->begun);
    pthread_mutex_lock(&self->mutex);
    bool taken = self->state != ASKED;
    if (!taken)
        self->state = TAKEN;
    for (int i = 0; i < self->parts.buckets->count; i++)
        self->ready[i] = true;
    if (taken)
        pthread_cond_broadcast(&self->changed);
    while (taken && self->state != DONE)
        pthread_cond_wait(&self->changed, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    if (!taken) {
        self->whole = true;
        self->status = run(self);
    }
    self->begun = false;
    *bad = self->bad;
    if (self->status && error)
        *error = self->error;
    return self->status;
}

/* ---- opening ---- */

int et_exchange_open(et_exchange **out, const et_exchange_parts *parts, et_error *error)
{
    et_exchange *self = et_alloc_zero(1, sizeof *self);
    *out = NULL;
    if (!self) {
        et_free(parts->order);
        return et_alloc_failed(error, "ranks");
    }
    const int rank = et_comm_rank(parts->sums.comm);
    const et_buckets *buckets = parts->buckets;
    self->parts = *parts;
    self->own = parts->sums.begin[rank + 1] - parts->sums.begin[rank];
    self->halves = parts->sums.comm->bfloat16_gradients;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    self->mine = et_alloc_zero(2 * (size_t)self->own, sizeof *self->mine);
    self->ready = et_alloc_zero(buckets->count, sizeof *self->ready);
    /* Elements that ever go at once. */
    const int64_t all = buckets->end[buckets->count - 1];
    int64_t longest = self->halves ? 0 : all < JOINED_MOST ? all : JOINED_MOST;
    for (int i = 0; i < buckets->count; i++)
        longest = count_of(self, i) > longest ? count_of(self, i) : longest;
    int status = self->mine && self->ready
                     ? et_bucket_sum_open(&self->sum, &self->parts.sums, longest, error)
                     : et_alloc_failed(error, "ranks");
    if (!status && parts->sums.comm->class->any_thread) {
        status = et_thread_start(&self->thread, speak, self, error);
        self->threaded = !status;
    }
    if (status)
        et_exchange_close(self);
    else
        *out = self;
    return status;
}

void et_exchange_close(et_exchange *self)
{
    bool bad;
    if (!self)
        return;
    if (self->begun)
        et_exchange_wait(self, &bad, NULL);
    if (self->threaded) {
        pthread_mutex_lock(&self->mutex);
        self->state = ENDS;
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->mutex);
        et_thread_join(self->thread);
    }
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    et_free(self->parts.order);
    et_bucket_sum_close(self->sum);
    et_free(self->mine);
    et_free(self->ready);
    et_free(self);
}

/* ---- the reducer ---- */

typedef struct ranked {
    et_reducer reducer;
    et_tree *tree;
    et_pass *pass; /* borrowed, as comm */
    et_comm *comm;
    int rank, ranks;
    et_tree_node *nodes; /* [count] */
    int *begin;          /* [ranks + 1] */
    int count, most;     /* most: of one rank */
    size_t row;          /* doubles sent by a rank: `most` times the doubles of a sum */
    double *rows;        /* [ranks * row], and one more row for this rank */
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
    float *mine[2 * ET_TREE_DEPTH] = { NULL };
    et_tree_push(self->tree, shard, &self->moves);
    self->pushed = true;
    memset(self->moved, 0, self->buckets.trained * sizeof *self->moved);
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
    if (!self->exchange->begun)
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

/* Lists the sums of all ranks. */
static int list_nodes(ranked *self, int shards, et_error *error)
{
    if (ET_ALLOC(self->begin, (size_t)self->ranks + 1, "ranks", error))
        return ET_ENOMEM;
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
        if (!pass && ET_ALLOC(self->nodes, self->count, "ranks", error))
            return ET_ENOMEM;
    }
    return ET_OK;
}

static int open_exchange(ranked *self, et_error *error)
{
    int status = et_buckets_divide(&self->buckets, self->tree->params, self->tree->means, error);
    if (status)
        return status;
    if (ET_ALLOC_ZERO(self->moved, self->buckets.trained, "ranks", error))
        return ET_ENOMEM;
    self->listener = (et_plan_listener){ self->buckets.end, self->buckets.trained, hear, self };
    if ((status = et_pass_listen(self->pass, &self->listener, error)))
        return status;
    /* The buckets as the prepared plan makes them ready, moving means last. */
    const et_plan *plan = et_pass_plan(self->pass);
    const et_buckets *buckets = &self->buckets;
    int *order = et_alloc(buckets->count, sizeof *order);
    for (int i = 0; order && i < buckets->count; i++)
        order[i] = i < buckets->trained ? et_plan_heard(plan, i) : i;
    et_exchange_parts parts = { .sums = { self->comm, self->tree->kernels, self->nodes, self->begin,
                                          self->reducer.shards },
                                .buckets = buckets,
                                .order = order };
    status = parts.order ? et_exchange_open(&self->exchange, &parts, error)
                         : et_alloc_failed(error, "ranks");
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
    ranked *self;
    if (ET_ALLOC_ZERO(self, 1, "a reducer", error))
        return ET_ENOMEM;
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
        status = ET_ALLOC_ZERO(self->rows, count, "ranks", error);
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
