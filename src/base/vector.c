#include "base/vector.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { FIRST_BYTES = 1024 }; /* of the first memory, if the elements are smaller */

bool et_vector_grow(void *items, size_t *capacity, size_t wanted, size_t size)
{
    et_assert(size > 0 && wanted > 0);
    if (wanted <= *capacity)
        return true;
    void *grown;
    memcpy(&grown, items, sizeof grown);
    et_assert(grown || *capacity == 0);
    size_t larger = *capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * *capacity;
    larger = larger < FIRST_BYTES / size ? FIRST_BYTES / size : larger;
    larger = larger < wanted ? wanted : larger;
    grown = grown ? et_realloc(grown, larger, size) : et_alloc(larger, size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = larger;
    return true;
}
