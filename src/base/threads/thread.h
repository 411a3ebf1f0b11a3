/* Threads for work in the background of training (prefetch, saving): a thread, and a bounded queue
 * of pointers with an end and an error, so that no failure is hidden. Loops inside a step use
 * OpenMP instead. */
#ifndef ETUDE_BASE_THREADS_THREAD_H
#define ETUDE_BASE_THREADS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

/* The stack, in bytes, that the library needs in a thread that calls it: a stack of 256 KB has
 * enough left. */
#define ET_THREAD_STACK ((size_t)192 << 10)

/* Checks that the calling thread has enough stack left: ET_EUSAGE with both sizes. For a process's
 * first thread, the limit (ulimit -s) counts, not the rest. */
int et_thread_check_stack(et_error *error);

/* Starts fn(payload) with all signals blocked in the new thread, and with a fixed size of stack,
 * whatever the process's limit is. Join with et_thread_join. */
int et_thread_start(pthread_t *thread, void *(*fn)(void *payload), void *payload, et_error *error);
void et_thread_join(pthread_t thread);

/* Checks that count more threads can be started now, each with `stack` bytes of stack (0: the
 * default, et_thread_size); none stays. Call before libraries that end the process if they can't
 * start a thread. ET_ENOMEM if not. */
int et_threads_check(int count, size_t stack, et_error *error);

/* Bytes of address space that a thread takes by being there: its stack. */
size_t et_thread_size(void);

typedef struct et_queue et_queue;

/* A queue of at most capacity pointers. Close it with et_queue_close when no thread uses it. In a
 * child of fork() take returns ET_EUSAGE, put returns false, and the other functions only free
 * memory. */
int et_queue_open(et_queue **out, size_t capacity, et_error *error);
void et_queue_close(et_queue *queue);

/* Waits for room; false: the reader has stopped the queue. */
bool et_queue_put(et_queue *queue, void *item);

/* No more items will come: status ET_OK is the end; another status is an error that the reader gets
 * after the earlier items. */
void et_queue_finish(et_queue *queue, int status, const et_error *error);

/* Waits for an item; *item is NULL at the end. Returns the writer's status then. */
int et_queue_take(et_queue *queue, void **item, et_error *error);

/* Reader's side: from now on put returns false. Nothing is dropped: take still gives the remaining
 * items, then the end, without waiting. */
void et_queue_stop(et_queue *queue);

#endif
