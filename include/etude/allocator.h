/* Where the library's memory comes from: four functions that a program may replace
 * before its first other call. All memory that Etude owns passes them; what the
 * libraries under it allocate does not. Thread-safe as the functions are.
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
    void *(*allocate)(void *payload, size_t size, size_t alignment); /* NULL: none left */
    void *(*reallocate)(void *payload, void *memory, size_t size);   /* 16-byte alignment */
    void (*release)(void *payload, void *memory);                    /* NULL allowed */
} et_allocator;

/* Copies allocator; NULL restores the C library's. All three functions are there. */
ET_API void et_allocator_set(const et_allocator *allocator);

#endif
