/* A table of entries with linear probing (Knuth, The Art of Computer Programming, volume 3, section
 * 6.4, algorithm L): a key is at the position of its hash or, if that is used, at the next free
 * one. Names are looked up while a model is made or a setting or checkpoint is read, not in steps.
 *
 * Invariants:
 *
 *   (1) capacity is 0 or a power of two, so a mask gives the position;
 *   (2) at most three quarters of the entries are used, so a search always meets an empty entry;
 *   (3) no entry is ever removed, so a key is between the position of its hash and the next
 *       empty entry.
 *
 * Memory: 16 bytes per entry, 21 to 43 for each key. Keys are borrowed: no text is copied. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* FNV-1a, 64 bits (Fowler, Noll, Vo): a byte at a time, good enough for names nobody chose in
 * order to collide. */
#define FNV_BASIS      14695981039346656037u
#define FNV_PRIME      1099511628211u
#define CAPACITY_FIRST ((size_t)16)

/* The entry of key, or the free one for it. At least one entry is empty, so the search ends. */
static et_map_entry *find(et_map_entry *entries, size_t capacity, const char *key)
{
    et_assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    uint64_t hash = FNV_BASIS;
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * FNV_PRIME;
    /* The low bits choose the place: let the high ones count too. */
    size_t i = (size_t)(hash ^ hash >> 32) & (capacity - 1);
    while (entries[i].key && strcmp(entries[i].key, key) != 0)
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

/* Doubles the entries and puts every key in its new place: n keys are moved O(n) times in all. The
 * old table is freed last, so that a failure does not change the map. */
static bool grow(et_map *map)
{
    if (map->capacity > SIZE_MAX / 2)
        return false;
    size_t capacity = map->capacity ? map->capacity * 2 : CAPACITY_FIRST;
    et_map_entry *entries = et_alloc_zero(capacity, sizeof *entries);
    if (!entries)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].key)
            *find(entries, capacity, map->entries[i].key) = map->entries[i];
    et_free(map->entries);
    map->entries = entries;
    map->capacity = capacity;
    return true;
}

/* An existing key keeps its own text, because the given text may be temporary. */
bool et_map_put(et_map *map, const char *key, int64_t value)
{
    et_assert(key);
    et_map_entry *entry = map->capacity ? find(map->entries, map->capacity, key) : NULL;
    if (entry && entry->key) {
        entry->value = value;
        return true;
    }
    if (map->count + 1 > map->capacity / 4 * 3) { /* at most three quarters full */
        if (!grow(map))
            return false;
        entry = find(map->entries, map->capacity, key);
    }
    et_assert(entry);
    *entry = (et_map_entry){ key, value };
    map->count++;
    return true;
}

bool et_map_get(const et_map *map, const char *key, int64_t *value)
{
    /* There may be no entries at all, which find could not search. */
    if (map->count == 0)
        return false;
    const et_map_entry *entry = find(map->entries, map->capacity, key);
    if (!entry->key)
        return false;
    *value = entry->value;
    return true;
}

void et_map_release(et_map *map)
{
    et_free(map->entries);
    *map = (et_map)ET_MAP_INIT;
}
