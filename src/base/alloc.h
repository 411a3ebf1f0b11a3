/* Memory: every byte that Etude owns comes from here, through the hooks of
 * <etude/allocator.h>. Sizes are products checked for overflow. A failed call returns
 * NULL; et_alloc_failed() gives the error. */
#ifndef ETUDE_BASE_ALLOC_H
#define ETUDE_BASE_ALLOC_H

#include <stddef.h>

#include <etude/allocator.h>
#include <etude/error.h>

/* count * size bytes, aligned to 16, uninitialised; NULL if none left or on overflow.
 * A size of zero gives a pointer that can be freed. */
void *et_alloc(size_t count, size_t size);

/* As et_alloc, zeroed. */
void *et_alloc_zero(size_t count, size_t size);

/* As et_alloc, aligned to a power of two (64 for kernels' buffers). */
void *et_alloc_aligned(size_t bytes, size_t alignment);

/* A large array, zeroed and aligned to 64. With the C library's hooks it has its own pages, huge
 * ones if available: nobody clears them, and they cost nothing before their first use. Free it with
 * et_free_array, not with et_free. */
void *et_alloc_array(size_t bytes);
void et_free_array(void *array); /* NULL allowed */

/* Grows or shrinks memory from et_alloc; on NULL the old block is unchanged. */
void *et_realloc(void *memory, size_t count, size_t size);

void et_free(void *memory);

/* A copy of a string, or of its first length bytes; NULL if none left. */
char *et_strdup(const char *text);
char *et_strndup(const char *text, size_t length);

/* Records "out of memory (N bytes for <what>)"; returns ET_ENOMEM. N is the size of the last call
 * here that failed in this thread. It is left out if none failed since the last report: a library
 * has no memory, or another thread. */
int et_alloc_failed(et_error *error, const char *what);

/* array = et_alloc(count, sizeof *array), or zeroed, as a status: ET_OK, or et_alloc_failed's and a
 * NULL. */
#define ET_ALLOC(array, count, what, error)                                                        \
    (((array) = et_alloc((size_t)(count), sizeof *(array))) ? ET_OK : et_alloc_failed(error, what))
#define ET_ALLOC_ZERO(array, count, what, error)                                                   \
    (((array) = et_alloc_zero((size_t)(count), sizeof *(array))) ? ET_OK                           \
                                                                 : et_alloc_failed(error, what))

/* Whether so much memory is available now; nothing is kept. Call it before a library that does not
 * survive a failed allocation. ET_ENOMEM as et_alloc_failed. */
int et_memory_check(size_t bytes, const char *what, et_error *error);

/* Call after work that needed much memory for a while (training a vocabulary): returns the C
 * library's free memory to the system. Takes milliseconds and has no other effect. */
void et_alloc_trim(void);

/* How often et_alloc and its kin gave out memory since the start of the process. */
size_t et_alloc_count(void);

/* The number of failed allocations, including those that libraries reported to et_alloc_failed. */
size_t et_alloc_refused(void);

#endif
