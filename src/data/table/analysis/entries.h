/* The distinct texts of a column and their counts, in bounded memory. Exact up to a limit of
 * distinct texts. Beyond it the frequent ones stay: a text that occurs more than `error` times is
 * kept, and each count is too low by at most `error`. Use from one thread at a time. */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_ENTRIES_H
#define ETUDE_DATA_TABLE_ANALYSIS_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer texts are not classes: they are not kept. */
#define ET_ENTRY_MAX 1024

typedef struct et_entry {
    uint64_t head, tail; /* its first and its last 8 bytes */
    uint32_t length;     /* bytes */
    uint32_t hash;       /* of the table's own */
    size_t at;           /* in texts */
    int64_t count;       /* how often it was there */
    unsigned char class; /* the caller's; 0 at first */
} et_entry;

typedef struct et_entries {
    et_entry *entry; /* [count] */
    size_t count, capacity;
    uint32_t *slot; /* [slots]: entry + 1, 0: free */
    size_t slots;   /* a power of two; 0 at first */
    int shift;      /* of a hash to a slot */
    char *texts;
    size_t length, room; /* of texts */
    size_t limit;        /* of entries */
    int64_t error;       /* what counts are short by, at most */
    int64_t dropped;     /* how often entries were dropped to make room */
} et_entries;

void et_entries_init(et_entries *entries, size_t limit);
void et_entries_release(et_entries *entries);

uint64_t et_entries_hash(const char *text, size_t length);

/* The entry of a text, or NULL. Valid until the next add. */
et_entry *et_entries_find(const et_entries *entries, const char *text, size_t length);

/* Adds an absent text with a count of 1; at the limit, drops half of the entries. At most
 * ET_ENTRY_MAX bytes. NULL: no memory. */
et_entry *et_entries_add(et_entries *entries, const char *text, size_t length);

/* Whether there is room for one more without dropping others. */
bool et_entries_fits(const et_entries *entries, size_t length);

/* Borrowed, not terminated; until the next add. */
const char *et_entries_text(const et_entries *entries, const et_entry *entry);

/* The most frequent first, equally frequent ones by their bytes. Nothing may be added or found
 * after.
 */
void et_entries_sort(et_entries *entries);

#endif
