/* A thread that sends a few signs of life in each timeout, and measures the silence of the previous
 * rank. A process that was stopped itself (Ctrl-Z of all) has heard nobody and starts measuring
 * again: its own signs were late too. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/threads/thread.h"
#include "engine/comm/comm.h"

#define BEATS        5   /* in a timeout, */
#define BEAT_LONGEST 1.0 /* and at least one in so many seconds */

typedef struct et_heartbeat {
    et_comm *comm;
    double timeout;
    _Atomic int lost;
    pthread_t thread;
    pthread_mutex_t mutex; /* of ends */
    pthread_cond_t ended;
    bool ends;
} et_heartbeat;

/* Until the next beat; false: it is over. */
static bool rest(et_heartbeat *w, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&w->mutex);
    while (!w->ends && pthread_cond_timedwait(&w->ended, &w->mutex, &until) != ETIMEDOUT)
        continue;
    bool goes_on = !w->ends;
    pthread_mutex_unlock(&w->mutex);
    return goes_on;
}

static void *heartbeat(void *payload)
{
    et_heartbeat *w = payload;
    double every = w->timeout / BEATS < BEAT_LONGEST ? w->timeout / BEATS : BEAT_LONGEST;
    double heard = et_clock_monotonic(), last = heard;
    do {
        int beat = w->comm->class->beat(w->comm);
        double now = et_clock_monotonic();
        if (beat > 0 || now - last > w->timeout / 2)
            heard = now;
        last = now;
        if (beat < 0)
            return NULL;
        if (now - heard > w->timeout) {
            atomic_store(&w->lost, (w->comm->rank + w->comm->size - 1) % w->comm->size);
            return NULL;
        }
    } while (rest(w, every));
    return NULL;
}

int et_comm_start_heartbeat(et_comm *comm, double timeout, et_error *error)
{
    if (comm->size == 1 || !comm->class->beat)
        return ET_OK;
    et_heartbeat *w = et_alloc_zero(1, sizeof *w);
    if (!w)
        return et_alloc_failed(error, sizeof *w, "a rank");
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->ended, &clock);
    pthread_condattr_destroy(&clock);
    w->comm = comm;
    w->timeout = timeout;
    atomic_init(&w->lost, -1);
    int status = et_thread_start(&w->thread, heartbeat, w, error);
    if (status)
        et_free(w);
    else
        comm->heartbeat = w;
    return status;
}

void et_comm_stop_heartbeat(et_comm *comm)
{
    et_heartbeat *w = comm->heartbeat;
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->ends = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->mutex);
    et_thread_join(w->thread);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->mutex);
    et_free(w);
    comm->heartbeat = NULL;
}

int et_comm_lost(const et_comm *comm)
{
    return comm->heartbeat ? atomic_load(&comm->heartbeat->lost) : -1;
}

int et_comm_fail_lost(et_comm *comm, int rank, const char *why, et_error *error)
{
    comm->gone = rank;
    return et_fail(error, ET_EIO,
                   "lost rank %d of %d, which %s; run the same command again to resume from the "
                   "newest checkpoint",
                   rank, comm->size, why);
}
