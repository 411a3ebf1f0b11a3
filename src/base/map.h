/* A hash map from strings to integers: names to indices. Keys are borrowed: the code that adds a
 * key keeps it alive. Open addressing, FNV-1a. */
#ifndef ETUDE_BASE_MAP_H
#define ETUDE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct et_map_entry {
    const char *key; /* NULL: empty */
    int64_t value;
} et_map_entry;

typedef struct et_map {
    et_map_entry *entries; /* [capacity], owned; NULL at first */
    size_t capacity;       /* a power of two, or 0 */
    size_t count;          /* of keys */
} et_map;

#define ET_MAP_INIT                                                                                \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Adds or replaces. False: out of memory, the map is as before. */
bool et_map_put(et_map *map, const char *key, int64_t value);

/* Whether the map has key; then gives its value. */
bool et_map_get(const et_map *map, const char *key, int64_t *value);

void et_map_release(et_map *map);

#endif
