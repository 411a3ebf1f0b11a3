#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"

/* The entry of key, or the empty one where it would go. capacity is not 0. */
static et_map_entry *find(const et_map *map, const char *key)
{
    size_t at = et_random_site(key) & (map->capacity - 1);
    while (map->entries[at].key && strcmp(map->entries[at].key, key))
        at = (at + 1) & (map->capacity - 1);
    return &map->entries[at];
}

static bool grow(et_map *map)
{
    et_map larger = { .capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count };
    larger.entries = et_alloc_zero(larger.capacity, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].key)
            *find(&larger, map->entries[i].key) = map->entries[i];
    et_free(map->entries);
    *map = larger;
    return true;
}

bool et_map_put(et_map *map, const char *key, int64_t value)
{
    if (2 * (map->count + 1) > map->capacity && !grow(map))
        return false;
    et_map_entry *entry = find(map, key);
    if (!entry->key)
        map->count++;
    *entry = (et_map_entry){ key, value };
    return true;
}

bool et_map_get(const et_map *map, const char *key, int64_t *value)
{
    if (!map->capacity)
        return false;
    const et_map_entry *entry = find(map, key);
    if (entry->key)
        *value = entry->value;
    return entry->key != NULL;
}

void et_map_release(et_map *map)
{
    et_free(map->entries);
    *map = (et_map)ET_MAP_INIT;
}
