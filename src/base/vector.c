#include "base/vector.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/assert.h"

void *et_vector_grow(void *items, size_t *capacity, size_t wanted, size_t size, size_t first)
{
    et_assert(size > 0 && wanted > 0 && (items || *capacity == 0));
    if (wanted <= *capacity)
        return items;
    size_t larger = *capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * *capacity;
    larger = larger < first ? first : larger;
    larger = larger < wanted ? wanted : larger;
    void *grown = items ? et_realloc(items, larger, size) : et_alloc(larger, size);
    if (grown)
        *capacity = larger;
    return grown;
}
