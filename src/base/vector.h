/* A growing array: the owner keeps pointer, count and capacity in its own struct, with its own
 * types, and makes room before it appends.
 *
 *     part *parts =
 *         et_vector_grow(list->parts, &list->capacity, list->count + 1, sizeof *parts, 8);
 *     if (!parts) return et_alloc_failed(&error, 0, "a list of parts");
 *     list->parts = parts;
 *     list->parts[list->count++] = one;
 *
 * The capacity doubles, so appending n items costs O(n). The memory is et_alloc's: free it with
 * et_free. */
#ifndef ETUDE_BASE_VECTOR_H
#define ETUDE_BASE_VECTOR_H

#include <stddef.h>

/* The array with room for at least wanted elements of size bytes; it may have moved. It is items
 * itself if *capacity is enough. The first memory is for at least `first`. NULL: no memory; items
 * and *capacity do not change. New elements are not initialised. */
void *et_vector_grow(void *items, size_t *capacity, size_t wanted, size_t size, size_t first);

#endif
