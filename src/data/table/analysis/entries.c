/* Anderson, Bevan, Lang, Liberty, Rhodes, Thaler: A high-performance algorithm for identifying
 * frequent items in data streams, IMC 2017. When the table is full, the median count is subtracted
 * from all entries, and entries without a rest are dropped. Half of the entries go, so a text costs
 * constant time on average. The sum of subtracted counts is the error of every count.
 *
 * Texts of up to 16 bytes are compared as two words. Open addressing, at most half full; entries
 * are only removed all at once. */
#include "data/table/analysis/entries.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/vector.h"

/* Bytes of memory for texts, on average per entry. Texts have a separate limit because a text may
 * have any length. */
#define TEXT_MEAN 64

#define SLOTS_FIRST ((size_t)64)

void et_entries_init(et_entries *entries, size_t limit)
{
    et_assert(limit > 0 && limit < UINT32_MAX / 4);
    *entries = (et_entries){ .limit = limit };
}

void et_entries_release(et_entries *entries)
{
    et_free(entries->entry);
    et_free(entries->slot);
    et_free(entries->texts);
    *entries = (et_entries){ .limit = entries->limit };
}

/* ---- texts ---- */

static inline uint64_t word_at(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

static inline uint32_t half_at(const char *text)
{
    uint32_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* A text of up to 16 bytes is identified by its key and length; a longer text has only a part of
 * its bytes in the key. No byte beyond the text is read. */
typedef struct text_key {
    uint64_t head, tail;
} text_key;

static inline text_key key_of(const char *text, size_t length)
{
    if (length >= 8)
        return (text_key){ word_at(text), word_at(text + length - 8) };
    uint64_t all = 0;
    if (length >= 4)
        all = half_at(text) | (uint64_t)half_at(text + length - 4) << 32;
    else if (length)
        all = (unsigned char)text[0] | (uint64_t)(unsigned char)text[length / 2] << 8 |
              (uint64_t)(unsigned char)text[length - 1] << 16;
    return (text_key){ all, all };
}

/* The upper half of products; only chooses a place in the table, since two texts may have equal
 * bits.
 */
static inline uint32_t hash_of(text_key key, const char *text, size_t length)
{
    if (length > 16)
        return (uint32_t)(et_checksum(text, length) >> 32);
    uint64_t x = (key.head + length) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(((x ^ x >> 32) + key.tail) * 0xd6e8feb86659fd93u >> 32);
}

/* The finalizer of MurmurHash3, or xxHash: every bit counts. */
uint64_t et_entries_hash(const char *text, size_t length)
{
    if (length > 8)
        return et_checksum(text, length);
    uint64_t x = key_of(text, length).head + length * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

const char *et_entries_text(const et_entries *entries, const et_entry *entry)
{
    return entries->texts + entry->at;
}

static inline bool is_entry(const et_entries *entries, const et_entry *entry, const char *text,
                            size_t length, text_key key)
{
    return entry->head == key.head && entry->tail == key.tail && entry->length == length &&
           (length <= 16 || !memcmp(entries->texts + entry->at, text, length));
}

/* ---- slots ---- */

static void put_slot(et_entries *entries, uint32_t hash, size_t entry)
{
    size_t at = hash >> entries->shift;
    while (entries->slot[at])
        at = (at + 1) & (entries->slots - 1);
    entries->slot[at] = (uint32_t)entry + 1;
}

static void put_all(et_entries *entries)
{
    memset(entries->slot, 0, entries->slots * sizeof *entries->slot);
    for (size_t i = 0; i < entries->count; i++)
        put_slot(entries, entries->entry[i].hash, i);
}

static bool grow_slots(et_entries *entries)
{
    size_t slots = entries->slots ? entries->slots * 2 : SLOTS_FIRST;
    uint32_t *slot = et_alloc(slots, sizeof *slot);
    if (!slot)
        return false;
    et_free(entries->slot);
    entries->slot = slot;
    entries->slots = slots;
    entries->shift = 32 - __builtin_ctzll(slots);
    put_all(entries);
    return true;
}

/* ---- room ---- */

static int compare_counts(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Small ones are counted; only where half of them are large all are sorted. */
static bool median_count(const et_entries *entries, int64_t *median)
{
    size_t counts[256] = { 0 }, below = 0;
    for (size_t i = 0; i < entries->count; i++)
        if (entries->entry[i].count < 256)
            counts[entries->entry[i].count]++;
    for (int count = 1; count < 256; count++) {
        below += counts[count];
        *median = count;
        if (2 * below >= entries->count)
            return true;
    }
    int64_t *all = et_alloc(entries->count, sizeof *all);
    if (!all)
        return false;
    for (size_t i = 0; i < entries->count; i++)
        all[i] = entries->entry[i].count;
    qsort(all, entries->count, sizeof *all, compare_counts);
    *median = all[entries->count / 2];
    et_free(all);
    return true;
}

/* Entries and their texts move up; both stay in the order in which they came. */
static bool drop_half(et_entries *entries)
{
    int64_t median = 0;
    size_t kept = 0, length = 0;
    if (!median_count(entries, &median))
        return false;
    for (size_t i = 0; i < entries->count; i++) {
        et_entry entry = entries->entry[i];
        entry.count -= median;
        if (entry.count <= 0)
            continue;
        memmove(entries->texts + length, entries->texts + entry.at, entry.length);
        entry.at = length;
        length += entry.length;
        entries->entry[kept++] = entry;
    }
    et_assert(kept <= entries->count / 2 + 1);
    entries->count = kept;
    entries->length = length;
    entries->error += median;
    entries->dropped++;
    put_all(entries);
    return true;
}

bool et_entries_fits(const et_entries *entries, size_t length)
{
    return !entries->count ||
           (entries->count < entries->limit &&
            entries->length + length <= entries->limit * TEXT_MEAN + ET_ENTRY_MAX);
}

static bool make_room(et_entries *entries, size_t length)
{
    if (!et_entries_fits(entries, length) && !drop_half(entries))
        return false;
    et_entry *entry =
        et_vector_grow(entries->entry, &entries->capacity, entries->count + 1, sizeof *entry, 32);
    if (!entry)
        return false;
    entries->entry = entry;
    char *texts =
        et_vector_grow(entries->texts, &entries->room, entries->length + length + 1, 1, 512);
    if (!texts)
        return false;
    entries->texts = texts;
    return entries->slots >= 2 * (entries->count + 1) || grow_slots(entries);
}

et_entry *et_entries_find(const et_entries *entries, const char *text, size_t length)
{
    if (!entries->slots)
        return NULL;
    const text_key key = key_of(text, length);
    size_t at = hash_of(key, text, length) >> entries->shift;
    for (; entries->slot[at]; at = (at + 1) & (entries->slots - 1)) {
        et_entry *entry = &entries->entry[entries->slot[at] - 1];
        if (is_entry(entries, entry, text, length, key))
            return entry;
    }
    return NULL;
}

et_entry *et_entries_add(et_entries *entries, const char *text, size_t length)
{
    et_assert(length <= ET_ENTRY_MAX);
    if (!make_room(entries, length))
        return NULL;
    const text_key key = key_of(text, length);
    const uint32_t hash = hash_of(key, text, length);
    et_entry *entry = &entries->entry[entries->count];
    memcpy(entries->texts + entries->length, text, length);
    *entry = (et_entry){ key.head, key.tail, (uint32_t)length, hash, entries->length, 1, 0 };
    entries->length += length;
    put_slot(entries, hash, entries->count++);
    return entry;
}

/* ---- order ---- */

static int compare_entries(const void *a, const void *b, void *payload)
{
    const et_entry *x = a, *y = b;
    const char *texts = payload;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    int order = memcmp(texts + x->at, texts + y->at, x->length < y->length ? x->length : y->length);
    return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

void et_entries_sort(et_entries *entries)
{
    if (entries->count > 1)
        qsort_r(entries->entry, entries->count, sizeof *entries->entry, compare_entries,
                entries->texts);
}
