/* A growing array: the owner keeps pointer, count and capacity in its own struct, with its own
 * types, and appends an element at a time or makes room for several.
 *
 *     if (!ET_VECTOR_APPEND(list->parts, list->count, list->capacity, one))
 *         return et_alloc_failed(&error, "a list of parts");
 *
 * The capacity doubles, so appending n items costs O(n). The memory is et_alloc's: free it with
 * et_free. */
#ifndef ETUDE_BASE_VECTOR_H
#define ETUDE_BASE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

/* Whether items, a pointer to elements, has room for at least wanted (size_t) of them; it may have
 * moved. False: no memory; items and capacity (size_t) do not change. New elements are not
 * initialised. */
#define ET_VECTOR_GROW(items, capacity, wanted)                                                    \
    et_vector_grow(&(items), &(capacity), (wanted), sizeof *(items))

/* Whether the value, the last argument, was added as items[count++]. The value is evaluated only if
 * there is room. */
#define ET_VECTOR_APPEND(items, count, capacity, ...)                                              \
    (ET_VECTOR_GROW(items, capacity, (count) + 1) && ((items)[(count)++] = __VA_ARGS__, true))

/* ET_VECTOR_GROW for the array whose pointer is at items and whose elements have size bytes. */
bool et_vector_grow(void *items, size_t *capacity, size_t wanted, size_t size);

#endif
