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
#include "train/ranks/exchange.h"

#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/thread.h"
#include "engine/tensor/params.h"

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
    bool rides;   /* what is agreed on rides on the first bucket */
    bool whole;   /* all buckets are ready where it is begun to speak */
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

/* Where no call is under way. Under the mutex, or before the thread has anything to do. */
static void sane(const et_exchange *self)
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

/* Neighbours until they are a bucket; what is larger than one by itself is cut up. end NULL: they
 * are only counted. */
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
    *buckets = (et_buckets){ et_alloc((size_t)count, sizeof *buckets->end), count, trained };
    if (!buckets->end)
        return et_alloc_failed(error, (size_t)count * sizeof *buckets->end, "ranks");
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
    int status =
        et_comm_broadcast(self->parts.sums.comm, 0, order, (size_t)count * sizeof *order, error);
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
    sane(self);
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
    memset(self->ready, 0, (size_t)self->parts.buckets->count * sizeof *self->ready);
    pthread_mutex_lock(&self->mutex);
    self->state = ASKED;
    if (!self->ordered)
        pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

bool et_exchange_begun(const et_exchange *self)
{
    return self->begun;
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

/* Elements that ever go at once. */
static int64_t longest_of(const et_exchange *self)
{
    const et_buckets *buckets = self->parts.buckets;
    int64_t all = buckets->end[buckets->count - 1];
    int64_t longest = self->halves ? 0 : all < JOINED_MOST ? all : JOINED_MOST;
    for (int i = 0; i < buckets->count; i++)
        longest = count_of(self, i) > longest ? count_of(self, i) : longest;
    return longest;
}

int et_exchange_open(et_exchange **out, const et_exchange_parts *parts, et_error *error)
{
    et_exchange *self = et_alloc_zero(1, sizeof *self);
    *out = NULL;
    if (!self) {
        et_free(parts->order);
        return et_alloc_failed(error, sizeof *self, "ranks");
    }
    int rank = et_comm_rank(parts->sums.comm);
    self->parts = *parts;
    self->own = parts->sums.begin[rank + 1] - parts->sums.begin[rank];
    self->halves = parts->sums.comm->bfloat16_gradients;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    self->mine = et_alloc_zero(2 * (size_t)self->own, sizeof *self->mine);
    self->ready = et_alloc_zero((size_t)parts->buckets->count, sizeof *self->ready);
    int status = self->mine && self->ready
                     ? et_bucket_sum_open(&self->sum, &self->parts.sums, longest_of(self), error)
                     : et_alloc_failed(error, 0, "ranks");
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
