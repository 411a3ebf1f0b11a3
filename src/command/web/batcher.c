/* Invariants:
 *   (1) a job is unread, being read, in the queue, with the service, or in `done`; never in two of
 *       them. It changes only while it is in no list;
 *   (2) lists and counts are read and written only under the lock;
 *   (3) done is called without the lock. */
#include "command/web/batcher.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/threads/thread.h"
#include "base/vector.h"

/* A batch may take this fraction of the time that a request may wait. */
#define SHARE 0.25

/* Seconds to wait for as many items as the last batch had. */
#define LINGER 3e-3

/* Weight of a new batch in the mean rate, against all earlier ones. */
#define FRESH 0.2

typedef struct list {
    et_job *first, **end;
    int64_t items;
} list;

struct et_batcher {
    et_batcher_options options;
    pthread_t reader, thread; /* reads; opens the service and answers */
    pthread_mutex_t lock;
    pthread_cond_t news; /* of unread jobs or the queue; or the service is open, or not */
    list unread, queue, done;
    int64_t reading; /* items of the job that is being read */
    et_batcher_counts counts;
    et_service *service;
    bool started, reads, opened, over;
    int status; /* of opening */
    et_error error;
    /* the thread's own */
    et_service_request **batch; /* [capacity], owned */
    size_t capacity, count;
    list taken;
    int64_t last; /* items of the previous batch, if it had more than one request */
    double rate;  /* items a second; 0: not known */
};

/* ---- lists ---- */

static void clear(list *l)
{
    *l = (list){ .first = NULL, .end = &l->first };
}

/* A job counts as an item until it is read. */
static int64_t items_of(const et_job *job)
{
    return job->request.items > 0 ? job->request.items : 1;
}

static void append(list *l, et_job *job)
{
    job->next = NULL;
    *l->end = job;
    l->end = &job->next;
    l->items += items_of(job);
}

/* The job that *place points to. */
static et_job *unlink_at(list *l, et_job **link)
{
    et_job *job = *link;
    et_assert(job);
    *link = job->next;
    if (!*link)
        l->end = link;
    l->items -= items_of(job);
    return job;
}

static void sane_list(const list *l)
{
    et_assert(l->end && !*l->end);
    et_assert(l->items >= 0);
    et_assert(!l->first == (l->end == &l->first));
    et_assert(l->first || !l->items);
}

/* Call with the lock held. `taken` is not checked: it belongs to the thread while it answers. */
static void sane(const et_batcher *b)
{
    const et_batcher_counts *c = &b->counts;
    sane_list(&b->unread);
    sane_list(&b->queue);
    sane_list(&b->done);
    et_assert(b->reading >= 0);
    et_assert(b->queue.items <= b->options.queue);
    et_assert(c->answering >= 0 && c->batches >= 0 && c->requests >= c->batches);
    et_assert(c->items >= 0 && c->busy >= 0);
    et_assert(b->count <= b->capacity);
    et_assert(b->last >= 0 && b->rate >= 0);
}

/* ---- batches ---- */

/* The oldest job, and the jobs that fit into its batch. Under the lock. */
static void take_batch(et_batcher *b)
{
    const double wanted = b->rate * b->options.patience * SHARE;
    int64_t most = b->options.service.items_max;
    if (b->rate > 0 && wanted < (double)most)
        most = (int64_t)wanted;
    et_assert(b->queue.first && !b->taken.first);
    const uint64_t group = b->queue.first->request.group;
    clear(&b->taken);
    b->count = 0;
    for (et_job **link = &b->queue.first; *link;) {
        const et_service_request *r = &(*link)->request;
        if (r->group != group || (b->count && b->taken.items + r->items > most)) {
            link = &(*link)->next;
            continue;
        }
        if (!ET_VECTOR_APPEND(b->batch, b->count, b->capacity, &(*link)->request))
            break;
        append(&b->taken, unlink_at(&b->queue, link));
    }
    b->counts.answering = b->taken.items;
}

/* Under the lock, which is let go meanwhile. */
static void linger(et_batcher *b)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(LINGER * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int status = 0;
    while (!status && !b->over && b->queue.items < b->last)
        status = pthread_cond_timedwait(&b->news, &b->lock, &until);
}

/* Under the lock, which is let go while the service is at work. */
static void answer_batch(et_batcher *b)
{
    pthread_mutex_unlock(&b->lock);
    double start = et_clock_monotonic();
    b->service->class->answer(b->service, b->batch, b->count);
    double seconds = et_clock_monotonic() - start;
    pthread_mutex_lock(&b->lock);
    b->counts.batches++;
    b->counts.requests += (int64_t)b->count;
    b->counts.items += b->taken.items;
    b->counts.busy += seconds;
    b->counts.answering = 0;
    b->last = b->count > 1 ? b->taken.items : 0;
    double rate = (double)b->taken.items / (seconds > 1e-6 ? seconds : 1e-6);
    b->rate = b->rate > 0 ? (1 - FRESH) * b->rate + FRESH * rate : rate;
    while (b->taken.first)
        append(&b->done, unlink_at(&b->taken, &b->taken.first));
}

static void tell(et_batcher *b)
{
    pthread_mutex_unlock(&b->lock);
    b->options.done(b->options.payload);
    pthread_mutex_lock(&b->lock);
}

/* Answers batches until the batcher is over. Called under the lock. */
static void work(et_batcher *b)
{
    while (!b->over) {
        sane(b);
        et_assert(!b->counts.answering);
        if (!b->queue.first) {
            pthread_cond_wait(&b->news, &b->lock);
            continue;
        }
        linger(b);
        if (!b->queue.first || b->over)
            continue;
        take_batch(b);
        if (b->count) {
            answer_batch(b);
        } else {
            /* If the list of a batch cannot be allocated, the oldest job fails and no job is
             * taken. */
            et_job *job = unlink_at(&b->queue, &b->queue.first);
            job->request.status = et_alloc_failed(&job->request.error, "a batch");
            append(&b->done, job);
        }
        tell(b);
    }
}

static void *run(void *payload)
{
    et_batcher *b = payload;
    const et_batcher_options *o = &b->options;
    if (o->threads)
        omp_set_num_threads(o->threads);
    b->status = o->class->open(&b->service, o->model_dir, &o->service, &b->error);
    if (!b->status && (!b->service || b->service->ET_CLASS != o->class))
        b->status = et_fail(&b->error, ET_ECONFIG,
                            "the service %s is not open: its class is not set", o->class->name);
    pthread_mutex_lock(&b->lock);
    b->opened = true;
    pthread_cond_broadcast(&b->news);
    if (!b->status)
        work(b);
    pthread_mutex_unlock(&b->lock);
    if (!b->status)
        o->class->close(b->service);
    return NULL;
}

/* ---- reading ---- */

/* Reads jobs until the batcher is over. Holds the lock except while it reads a job. */
static void *read_jobs(void *payload)
{
    et_batcher *b = payload;
    pthread_mutex_lock(&b->lock);
    while (!b->over) {
        sane(b);
        if (!b->unread.first) {
            pthread_cond_wait(&b->news, &b->lock);
            continue;
        }
        /* The oldest of the smallest bodies. Under the lock. */
        et_job **smallest = &b->unread.first;
        for (et_job **link = smallest; *link; link = &(*link)->next)
            if ((*link)->request.length < (*smallest)->request.length)
                smallest = link;
        et_job *job = unlink_at(&b->unread, smallest);
        b->reading = items_of(job);
        pthread_mutex_unlock(&b->lock);
        const bool asks = b->options.read(b->options.payload, job);
        pthread_mutex_lock(&b->lock);
        b->reading = 0;
        const bool answers = asks && !atomic_load(&job->ended);
        et_assert(!answers || job->request.items > 0);
        job->full = answers && b->queue.items + job->request.items > b->options.queue;
        append(answers && !job->full ? &b->queue : &b->done, job);
        if (answers && !job->full)
            pthread_cond_broadcast(&b->news);
        else
            tell(b);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- opening ---- */

int et_batcher_open(et_batcher **out, const et_batcher_options *options, et_error *error)
{
    *out = NULL;
    et_assert(options->class && options->read && options->done && options->queue > 0);
    et_batcher *b;
    if (ET_ALLOC_ZERO(b, 1, "a queue", error))
        return ET_ENOMEM;
    b->options = *options;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&b->news, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&b->lock, NULL);
    clear(&b->unread);
    clear(&b->queue);
    clear(&b->done);
    clear(&b->taken);
    int status = et_thread_start(&b->thread, run, b, error);
    b->started = !status;
    pthread_mutex_lock(&b->lock);
    while (b->started && !b->opened)
        pthread_cond_wait(&b->news, &b->lock);
    pthread_mutex_unlock(&b->lock);
    if (!status && b->status)
        status = et_fail(error, b->status, "%s", b->error.text);
    if (!status)
        status = et_thread_start(&b->reader, read_jobs, b, error);
    b->reads = !status;
    if (status)
        et_batcher_close(b);
    else
        *out = b;
    return status;
}

void et_batcher_stop(et_batcher *b)
{
    pthread_mutex_lock(&b->lock);
    b->over = true;
    pthread_cond_broadcast(&b->news);
    pthread_mutex_unlock(&b->lock);
    if (b->reads)
        et_thread_join(b->reader);
    if (b->started)
        et_thread_join(b->thread);
    b->reads = b->started = false;
}

void et_batcher_close(et_batcher *b)
{
    if (!b)
        return;
    et_batcher_stop(b);
    et_assert(!b->unread.first && !b->queue.first && !b->done.first);
    pthread_cond_destroy(&b->news);
    pthread_mutex_destroy(&b->lock);
    et_free(b->batch);
    et_free(b);
}

et_service *et_batcher_service(et_batcher *b)
{
    return b->service;
}

/* ---- calls of the thread that owns the jobs ---- */

bool et_batcher_put(et_batcher *b, et_job *job)
{
    et_assert(!job->next);
    pthread_mutex_lock(&b->lock);
    sane(b);
    bool fits = b->unread.items + b->reading + b->queue.items + items_of(job) <= b->options.queue;
    if (fits) {
        append(&b->unread, job);
        pthread_cond_broadcast(&b->news);
    }
    pthread_mutex_unlock(&b->lock);
    return fits;
}

et_job *et_batcher_take(et_batcher *b)
{
    pthread_mutex_lock(&b->lock);
    sane(b);
    et_job *job = b->done.first ? unlink_at(&b->done, &b->done.first) : NULL;
    pthread_mutex_unlock(&b->lock);
    return job;
}

bool et_batcher_withdraw(et_batcher *b, et_job *job)
{
    list *const lists[] = { &b->unread, &b->queue };
    bool waits = false;
    pthread_mutex_lock(&b->lock);
    sane(b);
    for (int i = 0; i < 2 && !waits; i++) {
        et_job **link = &lists[i]->first;
        while (*link && *link != job)
            link = &(*link)->next;
        waits = *link != NULL;
        if (waits)
            unlink_at(lists[i], link);
    }
    if (!waits)
        atomic_store(&job->ended, true);
    pthread_mutex_unlock(&b->lock);
    return waits;
}

et_batcher_counts et_batcher_count(et_batcher *b)
{
    pthread_mutex_lock(&b->lock);
    et_batcher_counts counts = b->counts;
    counts.unread = b->unread.items + b->reading;
    counts.waiting = counts.unread + b->queue.items;
    pthread_mutex_unlock(&b->lock);
    return counts;
}
