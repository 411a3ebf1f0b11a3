/* Threads for work in the background of training (prefetch, saving): a thread, and a bounded queue
 * of pointers with an end and an error, so that no failure is hidden. Loops inside a step use
 * OpenMP instead. */
#ifndef ETUDE_BASE_THREADS_THREAD_H
#define ETUDE_BASE_THREADS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

/* What the library needs of the stack of a thread that calls it, in bytes: a stack of 256 KB has
 * that left. */
#define ET_THREAD_STACK ((size_t)192 << 10)

/* Whether the calling thread has that left: ET_EUSAGE with both sizes. Of a process's first thread
 * the limit (ulimit -s) is taken, not what is left. */
int et_thread_check_stack(et_error *error);

/* Starts fn(payload) with all signals blocked in the new thread, and with a stack of its own size,
 * whatever the process's limit is. Join with et_thread_join. */
int et_thread_start(pthread_t *thread, void *(*fn)(void *payload), void *payload, et_error *error);
void et_thread_join(pthread_t thread);

/* Whether count threads can be started beside this one now, each with so many bytes of stack (0:
 * what threads have by default, et_thread_size); none stays. To be asked before a library is called
 * that ends the process where it can't start one. ET_ENOMEM if not. */
int et_threads_check(int count, size_t stack, et_error *error);

/* Bytes of address space that a thread takes by being there: its stack. */
size_t et_thread_size(void);

typedef struct et_queue et_queue;

/* A queue of at most capacity pointers. Close with et_queue_close when no thread uses it. In a
 * child of fork() take returns ET_EUSAGE, put returns false, and the others do nothing but free. */
int et_queue_open(et_queue **out, size_t capacity, et_error *error);
void et_queue_close(et_queue *queue);

/* Waits for room; false: the reader has stopped the queue. */
bool et_queue_put(et_queue *queue, void *item);

/* No more items will come: status ET_OK for an end, else an error that the reader gets after
 * the items before it. */
void et_queue_finish(et_queue *queue, int status, const et_error *error);

/* Waits for an item; *item is NULL at the end. Returns the writer's status then. */
int et_queue_take(et_queue *queue, void **item, et_error *error);

/* Reader's side: makes put return false from now on, and drops nothing by itself: take still
 * gives what is left, then the end, without waiting. */
void et_queue_stop(et_queue *queue);

#endif
