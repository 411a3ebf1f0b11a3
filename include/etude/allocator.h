/* The library's allocator: three functions and a payload that a program may replace, before its
 * first other call. Etude allocates all of its own memory with these functions. Libraries that
 * Etude uses allocate with their own. The functions must be thread-safe.
 *
 *     static const et_allocator counted = { &counts, count_allocate, count_reallocate,
 *                                           count_release };
 *     et_allocator_set(&counted);
 */
#ifndef ETUDE_ALLOCATOR_H
#define ETUDE_ALLOCATOR_H

#include <stddef.h>

#include <etude/export.h>

typedef struct et_allocator {
    void *payload;
    void *(*allocate)(void *payload, size_t size, size_t alignment); /* NULL: no memory left */
    void *(*reallocate)(void *payload, void *memory, size_t size);   /* 16-byte alignment */
    void (*release)(void *payload, void *memory);                    /* NULL allowed */
} et_allocator;

/* Copies allocator; NULL restores the C library's functions. None of the three functions may be
 * NULL. */
ET_API void et_allocator_set(const et_allocator *allocator);

#endif
