/* A thread, and a ring of pointers under one mutex with two conditions. The main thread handles
 * signals: only it saves and stops, and ^C must not wake a blocked writer instead.
 *
 * The queue has two sides: a writer that puts and finishes, and a reader that takes and may stop.
 * Several threads may put, and several may take. A mutex for each pointer is expensive for single
 * numbers, but cheap for batches and files.
 *
 * Invariants:
 *
 *   (1) items[(first + i) % capacity], i < count, wait to be taken, oldest first;
 *   (2) nothing is put after finish, and nothing accepted after stop;
 *   (3) every wait is in a loop over its condition, because wake-ups may be spurious;
 *   (4) every change that could end a wait signals it, under the mutex;
 *   (5) in a child of fork() nothing waits and nothing is locked: the other thread does not
 *       exist. */
#include "base/threads/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Much more than is needed: it costs addresses, not memory. */
#define OWN_STACK ((size_t)1 << 20)

/* Bytes below the caller's frame. SIZE_MAX: the system does not say. */
static size_t stack_left(void)
{
    void *lowest;
    size_t size;
    pthread_attr_t attributes;
    struct rlimit limit;
    /* For the first thread, the system would have to read a file to get the stack's size. */
    if (gettid() == getpid())
        return getrlimit(RLIMIT_STACK, &limit) ? SIZE_MAX : (size_t)limit.rlim_cur;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return SIZE_MAX;
    int status = pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    uintptr_t at = (uintptr_t)__builtin_frame_address(0), from = (uintptr_t)lowest;
    /* A thread that runs on a stack of somebody's own, such as a coroutine's. */
    return status || at < from || at > from + size ? SIZE_MAX : at - from;
}

int et_thread_check_stack(et_error *error)
{
    size_t left = stack_left();
    return left >= ET_THREAD_STACK
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "a thread has %zu bytes of stack left and needs %zu; raise ulimit -s, "
                         "OMP_STACKSIZE or the size given to pthread_attr_setstacksize",
                         left, ET_THREAD_STACK);
}

/* stack: bytes; 0: what threads have by default. */
static int start(pthread_t *thread, size_t stack, void *(*fn)(void *payload), void *payload,
                 et_error *error)
{
    /* A new thread takes its creator's mask, so the mask is set before and put back after. */
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* raised by a thread itself: if it is blocked, the process ends at
                              * once */
    pthread_attr_init(&attributes);
    if (stack)
        pthread_attr_setstacksize(&attributes, stack);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(thread, &attributes, fn, payload);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!status)
        return ET_OK;
    /* The system's word for it, "try again", would be no help. */
    if (status == EAGAIN)
        return et_fail(error, ET_ENOMEM,
                       "cannot start a thread: no memory for its stack of %zu bytes, or too many "
                       "threads (ulimit -v, -s, -u)",
                       stack ? stack : et_thread_size());
    errno = status; /* pthread_create does not set errno, which et_fail_errno reads */
    return et_fail_errno(error, "cannot start a thread");
}

int et_thread_start(pthread_t *thread, void *(*fn)(void *payload), void *payload, et_error *error)
{
    return start(thread, OWN_STACK, fn, payload, error);
}

void et_thread_join(pthread_t thread)
{
    /* Fails only for a thread that is not there or oneself. */
    int status = pthread_join(thread, NULL);
    et_assert_equal(status, 0);
    (void)status;
}

/* Waits at the gate, so that all threads exist at the same time. */
static void *wait_for(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* The C library keeps the stacks of ended threads for new threads of that size, so later threads
 * reuse the stacks of this check. */
int et_threads_check(int count, size_t stack, et_error *error)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads;
    if (ET_ALLOC(threads, count, "threads", error))
        return ET_ENOMEM;
    int started = 0, status = ET_OK;
    pthread_mutex_lock(&gate);
    while (started < count && !status) {
        status = start(&threads[started], stack, wait_for, &gate, error);
        started += !status;
    }
    pthread_mutex_unlock(&gate);
    while (started > 0)
        et_thread_join(threads[--started]);
    et_free(threads);
    return status;
}

/* The fallback, if the C library does not tell, is its default on systems without a limit. */
size_t et_thread_size(void)
{
    size_t size = (size_t)2 << 20;
#ifdef __GLIBC__
    pthread_attr_t attributes;
    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &size);
        pthread_attr_destroy(&attributes);
    }
#endif
    return size;
}

/* One block: the head and its ring. */
struct et_queue {
    pid_t process; /* that opened it */
    pthread_mutex_t mutex;
    pthread_cond_t room; /* there may be room, or the reader has stopped */
    pthread_cond_t news; /* there may be an item, or the end */
    size_t capacity;     /* of items, at least 1 */
    size_t first, count; /* the oldest item of the ring, and the number of items */
    bool stopped;        /* by the reader */
    bool finished;       /* by the writer */
    int status;          /* of the writer, once finished */
    et_error error;      /* its text, if status is not ET_OK */
    void *items[];       /* [capacity]; what waits belongs to nobody but the queue's users */
};

int et_queue_open(et_queue **out, size_t capacity, et_error *error)
{
    et_assert(capacity > 0);
    size_t bytes;
    if (__builtin_mul_overflow(capacity, sizeof(void *), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(et_queue), &bytes))
        return et_alloc_failed(error, "a queue");
    et_queue *queue = et_alloc_zero(1, bytes);
    if (!queue)
        return et_alloc_failed(error, "a queue");
    queue->capacity = capacity;
    queue->process = getpid();
    /* With default attributes these cannot fail on Linux. */
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->room, NULL);
    pthread_cond_init(&queue->news, NULL);
    *out = queue;
    return ET_OK;
}

/* Whether this is a child of fork(): the other thread may have held the lock, or waited, when the
 * process was copied. */
static bool is_copy(const et_queue *queue)
{
    return queue->process != getpid();
}

/* Does not free waiting items, because the queue does not know their type. Does not destroy a
 * condition that has waiters, because that would wait for them. */
void et_queue_close(et_queue *queue)
{
    if (!queue)
        return;
    if (!is_copy(queue)) {
        pthread_cond_destroy(&queue->news);
        pthread_cond_destroy(&queue->room);
        pthread_mutex_destroy(&queue->mutex);
    }
    et_free(queue);
}

/* Blocks until the reader catches up: the bound keeps a fast writer from filling memory. false: the
 * caller keeps item. */
bool et_queue_put(et_queue *queue, void *item)
{
    et_assert(item);
    if (is_copy(queue))
        return false;
    pthread_mutex_lock(&queue->mutex);
    et_assert(!queue->finished);
    while (queue->count == queue->capacity && !queue->stopped)
        pthread_cond_wait(&queue->room, &queue->mutex);
    /* After a stop, nothing is accepted even if there is room. */
    bool taken = !queue->stopped;
    if (taken) {
        queue->items[(queue->first + queue->count) % queue->capacity] = item;
        queue->count++;
        pthread_cond_signal(&queue->news);
    }
    pthread_mutex_unlock(&queue->mutex);
    return taken;
}

/* The status follows the last item through the queue, so the reader gets a failure at the end of
 * the data. */
void et_queue_finish(et_queue *queue, int status, const et_error *error)
{
    if (is_copy(queue))
        return;
    pthread_mutex_lock(&queue->mutex);
    et_assert(!queue->finished);
    queue->finished = true;
    queue->status = status;
    /* A copy: the writer's own is gone when the reader asks. */
    if (status && error)
        queue->error = *error;
    else if (status)
        et_fail(&queue->error, status, "%s", et_status_name(status));
    pthread_cond_broadcast(&queue->news);
    pthread_mutex_unlock(&queue->mutex);
}

/* At the end it may be asked again and gives the same answer. */
int et_queue_take(et_queue *queue, void **item, et_error *error)
{
    *item = NULL;
    int status = ET_OK;
    if (is_copy(queue))
        return et_fail(error, ET_EUSAGE,
                       "a process cannot use data or trainers that its parent opened: fork() "
                       "copies only the calling thread; open them after fork()");
    pthread_mutex_lock(&queue->mutex);
    /* Items first, then the end: an error does not overtake the work done before it. */
    while (queue->count == 0 && !queue->finished && !queue->stopped)
        pthread_cond_wait(&queue->news, &queue->mutex);
    if (queue->count > 0) {
        *item = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
        pthread_cond_signal(&queue->room);
    } else {
        status = queue->status;
        if (status && error)
            *error = queue->error;
    }
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

void et_queue_stop(et_queue *queue)
{
    if (is_copy(queue))
        return;
    pthread_mutex_lock(&queue->mutex);
    queue->stopped = true;
    /* Wakes all waiters on both sides: nothing more will come. */
    pthread_cond_broadcast(&queue->room);
    pthread_cond_broadcast(&queue->news);
    pthread_mutex_unlock(&queue->mutex);
}
