/* Reading ahead. Two queues of the same slots:
 *
 *   empty --take--> thread fills (inner.next, inner.position) --put--> full
 *     ^                                                             |
 *     +------------------ put <-- next copies out <-- take ---------+
 *
 * A batch carries the position after it. So position gives the position of the reader, not of the
 * thread that reads ahead. next copies the slot instead of lending it, because the plan's inputs
 * are bound to the caller's arrays.
 *
 * Invariants:
 *
 *   (1) while the thread runs, only the thread uses inner;
 *   (2) every slot is in exactly one place: a queue, the thread, or next;
 *   (3) the thread never waits for `full`, which has room for every slot. It waits for `empty`,
 *       and ends when `empty` is finished or `full` is stopped;
 *   (4) the first failure is kept: every later next returns it. */
#include <string.h>

#include <etude/data.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/thread.h"
#include "data/batches/source.h"

/* A batch in progress, with the position after it. */
typedef struct slot {
    et_batch *batch;
    et_position after;
} slot;

/* Slots go round: the thread takes one from `empty`, fills it and puts it in `full`; next
 * copies it out and puts it back. The source within is the thread's while it runs. */
typedef struct prefetch {
    et_around around;
    et_position position; /* the position after the last batch of next */
    int depth;
    slot *slots; /* [depth] */
    et_queue *empty, *full;
    pthread_t thread;
    bool running;     /* a thread is to be joined */
    bool ended;       /* the source within has no more: next gives empty batches */
    et_error failure; /* the failure that every later next returns */
} prefetch;

/* ---- the thread ---- */

/* The thread, from start to stop. It passes batches, the end and errors through `full`. */

/* The thread's function. It returns after an end or an error of the inner source, which it passes
 * on after the batches before, or because stop finished `empty`. It does not put back its slot,
 * because the next start makes new queues. */
static void *fill_slots(void *payload)
{
    prefetch *self = payload;
    et_error error = ET_ERROR_INIT;
    void *item;
    int status;
    while (!(status = et_queue_take(self->empty, &item, &error)) && item) {
        slot *filled = item;
        status = et_source_next(self->around.inner, filled->batch, &error);
        /* An empty batch marks the end. The reader does not get it: next makes its own. */
        if (status || filled->batch->filled[0] == 0)
            break;
        et_source_position(self->around.inner, &filled->after);
        if (!et_queue_put(self->full, filled))
            break;
    }
    et_queue_finish(self->full, status, &error);
    return NULL;
}

/* All slots are empty at first. The thread reads from inner's position. */
static int start(prefetch *self, et_error *error)
{
    et_assert(!self->running && !self->empty && !self->full);
    int status = et_queue_open(&self->empty, self->depth, error);
    if (!status)
        status = et_queue_open(&self->full, self->depth, error);
    for (int i = 0; !status && i < self->depth; i++)
        et_queue_put(self->empty, &self->slots[i]);
    if (!status)
        status = et_thread_start(&self->thread, fill_slots, self, error);
    self->running = !status;
    self->ended = false;
    self->failure = (et_error)ET_ERROR_INIT;
    return status;
}

/* Also undoes a part of start. Batches that were read ahead are lost; a restore reads them
 * again. */
static void stop(prefetch *self)
{
    if (self->running) {
        /* Both, since the thread may be waiting for a slot or about to put one. */
        et_queue_finish(self->empty, ET_OK, NULL);
        et_queue_stop(self->full);
        et_thread_join(self->thread);
    }
    if (self->empty)
        et_queue_close(self->empty);
    if (self->full)
        et_queue_close(self->full);
    self->empty = self->full = NULL;
    self->running = false;
}

/* ---- the class ---- */

/* Only one thread calls this, as for every source; the reading thread is reached through the queues
 * only. */

/* The error has its batch's place: all batches before it are given first. */
static int prefetch_next(et_source *source, et_batch *batch, et_error *error)
{
    prefetch *self = (prefetch *)source;
    void *item = NULL;
    if (!self->failure.status && !self->ended) {
        self->failure.status = et_queue_take(self->full, &item, &self->failure);
        self->ended = !item;
    }
    if (self->failure.status)
        return et_fail(error, self->failure.status, "%s", self->failure.text);
    if (!item) {
        et_batch_clear(batch);
        return ET_OK;
    }
    slot *filled = item;
    et_assert(filled >= self->slots && filled < self->slots + self->depth);
    et_batch_copy(batch, filled->batch);
    /* Only now: an earlier position would be that after the batch before. */
    self->position = filled->after;
    et_queue_put(self->empty, filled);
    return ET_OK;
}

static void prefetch_position(const et_source *source, et_position *position)
{
    const et_position *at = &((const prefetch *)source)->position;
    for (int i = 0; i < at->count; i++)
        et_position_put(position, at->name[i], at->value[i]);
}

/* Stops the thread while inner's position changes. If the change fails, the source only returns
 * this failure from then on, because parts of inner may be at different positions. */
static int restart(prefetch *self, int status, et_error *error)
{
    if (!status) {
        et_source_position(self->around.inner, &self->position);
        status = start(self, error);
    }
    if (status) {
        stop(self);
        self->failure.status = status;
        et_fail(&self->failure, status, "no batch: the position could not be restored");
    }
    return status;
}

static int prefetch_seek(et_source *source, const et_position *position, et_error *error)
{
    prefetch *self = (prefetch *)source;
    stop(self);
    return restart(self, et_source_seek(self->around.inner, position, error), error);
}

/* A new pass begins after the last batch that next gave. Batches that were read ahead do not
 * count. */
static int prefetch_rewind(et_source *source, bool next, et_error *error)
{
    prefetch *self = (prefetch *)source;
    stop(self);
    int status = next ? et_source_seek(self->around.inner, &self->position, error) : ET_OK;
    if (!status)
        status = et_source_rewind_to(self->around.inner, next, error);
    return restart(self, status, error);
}

/* All but inner, which on a failure of open stays the caller's. */
static void release(prefetch *self)
{
    for (int i = 0; self->slots && i < self->depth; i++)
        et_batch_free(self->slots[i].batch);
    et_free(self->slots);
    et_free(self);
}

/* Stops the thread, which uses inner. Batches that were read ahead are read again. */
static int prefetch_batches(et_source *source, int64_t *count, et_error *error)
{
    prefetch *self = (prefetch *)source;
    et_position position = self->position;
    stop(self);
    int status = et_source_batches(self->around.inner, count, error);
    int sought = prefetch_seek(source, &position, status ? NULL : error);
    return status ? status : sought;
}

static void prefetch_close(et_source *source)
{
    prefetch *self = (prefetch *)source;
    stop(self);
    et_source_close(self->around.inner);
    release(self);
}

static const et_source_class prefetch_class = {
    .name = "prefetch",
    .next = prefetch_next,
    .position = prefetch_position,
    .seek = prefetch_seek,
    .describe = et_around_describe,
    .close = prefetch_close,
    .batches = prefetch_batches,
    .content = et_around_content,
    .rewind = prefetch_rewind,
};

/* Allocates memory for all batches; afterwards nothing is allocated until a seek makes new
 * queues. */
int et_prefetch_open(et_source **out, et_source *inner, int depth, et_error *error)
{
    if (depth < 1)
        return et_fail(error, ET_ECONFIG, "prefetching %d batches: give at least 1", depth);
    prefetch *self = et_around_new(sizeof *self, &prefetch_class, inner, "prefetching", error);
    if (!self)
        return ET_ENOMEM;
    self->depth = depth;
    et_source_position(inner, &self->position);
    self->slots = et_alloc_zero(depth, sizeof *self->slots);
    int status = self->slots ? ET_OK : et_alloc_failed(error, "prefetching");
    for (int i = 0; !status && i < depth; i++)
        status = et_batch_new(&self->slots[i].batch, &self->around.source.layout, error);
    if (!status)
        status = start(self, error);
    if (status) {
        stop(self);
        release(self);
        return status;
    }
    *out = &self->around.source;
    return ET_OK;
}
