/* One bucket, of rank r's S sums, in as many rounds as there are other ranks:
 *
 *   out    part p of it of each of my sums to rank p: in round k to the one k behind me
 *   add    part `rank` of all sums, in the tree
 *   back   that part of the whole to all
 *
 * So a rank sends and receives about twice the bucket. Buckets follow each other in one order on
 * all ranks, rank 0's: the one in which its first plan makes them ready. Another plan's may differ,
 * and then a bucket that is ready waits.
 *
 * `state` and `ready` are under the mutex; all else is whoever's turn it is: of who calls, or from
 * begin to wait of the thread. */
#include "train/exchange.h"

#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/thread.h"

#define PART_ALIGN   16                 /* elements */
#define BUCKETS_MOST 16                 /* about; a few more where parameters are larger than one */
#define BUCKET_LEAST ((int64_t)1 << 16) /* elements: a message should take longer than its way */

typedef enum exchange_state { IDLE, ASKED, DONE, ENDS } exchange_state;

struct et_exchange {
    et_exchange_parts parts;
    int rank, ranks, own; /* own: sums of this rank */
    float **part;         /* [sums]: this rank's part of each, of the bucket under way */
    float *room;          /* what part points into, of the others' sums */
    int64_t begin, end;   /* the bucket under way, */
    int64_t length;       /* and of its parts, the last ones shorter */
    float **mine;         /* [own] */
    et_bf16 *sent, *got;  /* a part each, as it travels; NULL: as it is */
    bool halves;          /* the bucket under way does */
    bool ordered;         /* order is rank 0's */
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

/* ---- buckets --------------------------------------------------------------------------------- */

static int64_t end_of(const et_params *params, int place)
{
    int64_t trained = et_params_trained_size(params);
    if (place + 1 >= et_params_count(params))
        return trained;
    int64_t next = et_params_offset(params, et_params_placed(params, place + 1));
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
    for (int place = 0; begin < trained; place++) {
        int64_t from = et_params_offset(params, et_params_placed(params, place));
        int64_t to = end_of(params, place);
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
                    i == pieces ? to : begin + (to - begin) * i / pieces / PART_ALIGN * PART_ALIGN;
        begin = to;
    }
    return count;
}

int et_buckets_cut(et_buckets *buckets, const et_params *params, int64_t means, et_error *error)
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

/* ---- the tree -------------------------------------------------------------------------------- */

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

/* ---- one bucket ------------------------------------------------------------------------------ */

static int64_t part_begin(const et_exchange *self, int rank)
{
    int64_t at = self->begin + rank * self->length;
    return at < self->end ? at : self->end;
}

static int64_t part_length(const et_exchange *self, int rank)
{
    return part_begin(self, rank + 1) - part_begin(self, rank);
}

static int64_t length_of(const et_exchange *self, int64_t elements)
{
    int64_t length = (elements + self->ranks - 1) / self->ranks;
    return (length + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
}

static void add_parts(void *payload, int to, int from)
{
    et_exchange *self = payload;
    self->parts.kernels->accumulate(self->part[to], self->part[from],
                                    part_length(self, self->rank));
}

/* What goes to a rank, or comes from it; count 0: nothing. */
typedef struct leg {
    int rank;
    float *at;
    int64_t count;
} leg;

static et_comm_piece piece(const et_exchange *self, leg l, et_bf16 *half)
{
    const size_t each = self->halves ? sizeof *half : sizeof *l.at;
    return (et_comm_piece){ l.rank, self->halves ? (void *)half : (void *)l.at,
                            (size_t)l.count * each };
}

static int swap(et_exchange *self, leg out, leg in, et_error *error)
{
    const et_kernels *kernels = self->parts.kernels;
    if (self->halves)
        kernels->to_bf16(self->sent, out.at, out.count);
    int status = et_comm_exchange(self->parts.comm, piece(self, out, self->sent),
                                  piece(self, in, self->got), error);
    if (!status && self->halves)
        kernels->from_bf16(in.at, self->got, in.count);
    return status;
}

/* Sum number i of mine to one rank, of another rank to me. */
static int send_parts(et_exchange *self, int to, int from, et_error *error)
{
    const int *begin = self->parts.begin;
    int in = begin[from + 1] - begin[from], status = ET_OK;
    for (int i = 0; !status && (i < self->own || i < in); i++) {
        leg mine = { .rank = to }, theirs = { .rank = from };
        if (i < self->own)
            mine = (leg){ to, self->mine[i] + part_begin(self, to), part_length(self, to) };
        if (i < in)
            theirs = (leg){ from, self->part[begin[from] + i], part_length(self, self->rank) };
        status = swap(self, mine, theirs, error);
    }
    return status;
}

static int send_back(et_exchange *self, int to, int from, et_error *error)
{
    float *all = self->mine[0];
    int rank = self->rank;
    return swap(self, (leg){ to, all + part_begin(self, rank), part_length(self, rank) },
                (leg){ from, all + part_begin(self, from), part_length(self, from) }, error);
}

static void begin_bucket(et_exchange *self, int bucket)
{
    const et_exchange_parts *p = &self->parts;
    float *at = self->room;
    self->begin = begin_of(p->buckets, bucket);
    self->end = p->buckets->end[bucket];
    self->length = length_of(self, self->end - self->begin);
    self->halves = self->sent && bucket < p->buckets->trained;
    for (int i = 0; i < p->begin[self->ranks]; i++)
        if (i >= p->begin[self->rank] && i < p->begin[self->rank + 1]) {
            self->part[i] = self->mine[i - p->begin[self->rank]] + part_begin(self, self->rank);
        } else {
            self->part[i] = at;
            at += self->length;
        }
}

static int reduce(et_exchange *self, int bucket, et_error *error)
{
    int status = ET_OK, ranks = self->ranks, rank = self->rank;
    begin_bucket(self, bucket);
    float *whole = self->mine[0] + part_begin(self, rank);
    for (int k = 1; !status && k < ranks; k++)
        status = send_parts(self, (rank + k) % ranks, (rank - k + ranks) % ranks, error);
    if (status)
        return status;
    et_tree_fold(self->parts.nodes, self->parts.begin[ranks], self->parts.shards, add_parts, self);
    if (self->part[0] != whole)
        memcpy(whole, self->part[0], (size_t)part_length(self, rank) * sizeof *whole);
    if (self->halves) {
        self->parts.kernels->to_bf16(self->sent, whole, part_length(self, rank));
        self->parts.kernels->from_bf16(whole, self->sent, part_length(self, rank));
    }
    for (int k = 1; !status && k < ranks; k++)
        status = send_back(self, (rank + k) % ranks, (rank - k + ranks) % ranks, error);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Each bucket once, or ranks would take one for another. */
static int share_order(et_exchange *self, et_error *error)
{
    int count = self->parts.buckets->count, *order = self->parts.order;
    int status =
        et_comm_broadcast(self->parts.comm, 0, order, (size_t)count * sizeof *order, error);
    for (int i = 0; !status && i < count; i++)
        for (int k = 0; k <= i; k++)
            if (order[i] < 0 || order[i] >= count || (k < i && order[k] == order[i]))
                status = et_fail(error, ET_EFAIL, "ranks are out of step: bucket %d of %d",
                                 order[i], count);
    self->ordered = !status;
    return status;
}

static void wait_for(et_exchange *self, int bucket)
{
    pthread_mutex_lock(&self->mutex);
    while (!self->ready[bucket])
        pthread_cond_wait(&self->changed, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
}

static int run(et_exchange *self)
{
    int status = et_comm_agree(self->parts.comm, self->status, &self->bad, &self->error);
    if (!status && !self->bad && !self->ordered)
        status = share_order(self, &self->error);
    for (int i = 0; !status && !self->bad && i < self->parts.buckets->count; i++) {
        wait_for(self, self->parts.order[i]);
        status = reduce(self, self->parts.order[i], &self->error);
    }
    return status;
}

/* It adds up alone: the other threads compute. */
static void *speak(void *payload)
{
    et_exchange *self = payload;
    omp_set_num_threads(1);
    pthread_mutex_lock(&self->mutex);
    for (;;) {
        while (self->state != ASKED && self->state != ENDS)
            pthread_cond_wait(&self->changed, &self->mutex);
        if (self->state == ENDS)
            break;
        pthread_mutex_unlock(&self->mutex);
        self->status = run(self);
        pthread_mutex_lock(&self->mutex);
        self->state = DONE;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

static void set_state(et_exchange *self, exchange_state state)
{
    pthread_mutex_lock(&self->mutex);
    self->state = state;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

void et_exchange_begin(et_exchange *self, int status, bool bad, const et_error *error,
                       float *const *mine)
{
    et_assert(!self->begun && (status || bad || mine));
    self->begun = true;
    self->status = status;
    self->bad = bad;
    self->error = status && error ? *error : (et_error)ET_ERROR_INIT;
    for (int i = 0; mine && i < self->own; i++)
        self->mine[i] = mine[i];
    memset(self->ready, 0, (size_t)self->parts.buckets->count * sizeof *self->ready);
    if (self->threaded)
        set_state(self, ASKED);
}

bool et_exchange_begun(const et_exchange *self)
{
    return self->begun;
}

void et_exchange_ready(et_exchange *self, int bucket)
{
    pthread_mutex_lock(&self->mutex);
    self->ready[bucket] = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

int et_exchange_wait(et_exchange *self, bool *bad, et_error *error)
{
    et_assert(self->begun);
    for (int i = 0; i < self->parts.buckets->count; i++)
        et_exchange_ready(self, i);
    if (!self->threaded)
        self->status = run(self);
    pthread_mutex_lock(&self->mutex);
    while (self->threaded && self->state != DONE)
        pthread_cond_wait(&self->changed, &self->mutex);
    self->state = IDLE;
    pthread_mutex_unlock(&self->mutex);
    self->begun = false;
    *bad = self->bad;
    if (self->status && error)
        *error = self->error;
    return self->status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int make_rooms(et_exchange *self, et_error *error)
{
    const et_exchange_parts *p = &self->parts;
    int64_t longest = 0;
    for (int i = 0; i < p->buckets->count; i++) {
        int64_t length = length_of(self, p->buckets->end[i] - begin_of(p->buckets, i));
        longest = length > longest ? length : longest;
    }
    size_t sums = (size_t)p->begin[self->ranks], others = sums - (size_t)self->own;
    size_t bytes = others * (size_t)longest * sizeof(float);
    self->part = et_alloc_zero(sums, sizeof *self->part);
    self->mine = et_alloc_zero((size_t)self->own, sizeof *self->mine);
    self->ready = et_alloc_zero((size_t)p->buckets->count, sizeof *self->ready);
    self->room = et_alloc_aligned(bytes ? bytes : 64, 64);
    bool halves = p->comm->bfloat16_gradients, made = true;
    if (halves) {
        self->sent = et_alloc_aligned((size_t)longest * sizeof *self->sent + 64, 64);
        self->got = et_alloc_aligned((size_t)longest * sizeof *self->got + 64, 64);
        made = self->sent && self->got;
    }
    return self->part && self->mine && self->ready && self->room && made
               ? ET_OK
               : et_alloc_failed(error, bytes, "other ranks' gradients");
}

int et_exchange_open(et_exchange **out, const et_exchange_parts *parts, et_error *error)
{
    et_exchange *self = et_alloc_zero(1, sizeof *self);
    *out = NULL;
    if (!self) {
        et_free(parts->order);
        return et_alloc_failed(error, sizeof *self, "ranks");
    }
    self->parts = *parts;
    self->rank = et_comm_rank(parts->comm);
    self->ranks = et_comm_size(parts->comm);
    self->own = parts->begin[self->rank + 1] - parts->begin[self->rank];
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    int status = make_rooms(self, error);
    if (!status && parts->comm->class->any_thread) {
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
        set_state(self, ENDS);
        et_thread_join(self->thread);
    }
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    et_free(self->parts.order);
    et_free(self->part);
    et_free(self->room);
    et_free(self->mine);
    et_free(self->sent);
    et_free(self->got);
    et_free(self->ready);
    et_free(self);
}
