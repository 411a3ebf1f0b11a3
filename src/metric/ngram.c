/* Two hash tables with open addressing and linear probing, both for one pair of lines at a time.
 *
 * An n-gram is the pair (n-gram of n - 1 that it begins with, last code). Orders are counted one
 * after another. When order n is counted, at[side][i] is the slot of the n-gram of order n - 1 at
 * position i, so the key of order n is this slot and one code, 64 bits. With order 1 the slot is
 * always 0.
 *
 *   reference a b a b, order 2: (slot of a, b) twice, (slot of b, a) once
 *   hypothesis b a b:           b a matches, a b matches -> 2
 *
 * A slot's number has a meaning only within its order: slots are released between orders, but keys
 * of order n hold slot numbers of order n - 1, which are equal exactly for equal n-grams. An n-gram
 * of the hypothesis that the reference lacks is `none`; then no longer n-gram at its position can
 * be shared.
 *
 * Invariants:
 *   (1) a slot counts only if its stamp is the table's;
 *   (2) at least half of the slots that a mask reaches are free, so a search ends.
 *
 * Time is linear in both lines for each order; memory is kept from pair to pair. */
#include "metric/score.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* One n-gram of the reference. */
struct et_ngram_slot {
    uint64_t key;   /* slot of the first n - 1 codes << 32 | last code */
    uint32_t stamp; /* 0: never used */
    uint32_t left;  /* occurrences in the reference that have no partner yet */
};

/* One word of the reference. */
struct et_word_slot {
    uint64_t hash;       /* of the word's codes, compared before the codes are */
    size_t first, count; /* codes of the reference's line */
    uint32_t stamp;      /* 0: never used */
    uint32_t number;     /* from 0, in the order of the reference */
};

/* A position from which no n-gram of this length is shared, and so no longer one either. */
static const uint32_t none = UINT32_MAX;

/* The finaliser of MurmurHash3 (Appleby, public domain): every bit counts for every bit. Keys of
 * neighbours differ in few bits, and the mask takes the lowest. */
static uint64_t mix(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xFF51AFD7ED558CCD);
    key ^= key >> 33;
    key *= UINT64_C(0xC4CEB9FE1A85EC53);
    return key ^ key >> 33;
}

/* The table size for count entries, 0 if there can be none. Slots are numbered in 32 bits. */
static size_t table_size(size_t count)
{
    size_t size = 16;
    while (size / 2 < count) {
        if (size > UINT32_MAX / 2)
            return 0;
        size *= 2;
    }
    return size;
}

/* Makes a table of at least `size` slots of `bytes` bytes each, zeroed. Old slots are not copied:
 * they belong to an earlier pair. */
static int grow(void **slots, size_t *capacity, size_t size, size_t bytes, et_error *error)
{
    if (size && size <= *capacity)
        return 0;
    void *grown = size ? et_alloc_zero(size, bytes) : NULL;
    if (!grown)
        return et_alloc_failed(error, (size ? size : UINT32_MAX) * bytes, "n-grams of a line");
    et_free(*slots);
    *slots = grown;
    *capacity = size;
    return 0;
}

/* A new stamp makes all slots free. After 2^32 uses it comes back to 0; then the slots are wiped
 * once. */
static void renew(void *slots, size_t capacity, size_t bytes, uint32_t *stamp)
{
    if (++*stamp == 0) {
        memset(slots, 0, capacity * bytes);
        *stamp = 1;
    }
}

/* The slot of key, or the free slot for it. mask: of the part of the table in use, whose size
 * depends on the pair. */
static uint32_t find_ngram(const et_ngrams *ngrams, size_t mask, uint64_t key)
{
    et_assert(mask + 1 <= ngrams->capacity);
    size_t slot = mix(key) & mask;
    while (ngrams->slots[slot].stamp == ngrams->stamp && ngrams->slots[slot].key != key)
        slot = (slot + 1) & mask;
    return (uint32_t)slot;
}

/* Enters the reference's n-grams: on entry at[] has the slots of order - 1, then of order. */
static void enter(et_ngrams *ngrams, size_t mask, const et_codes *reference, size_t order)
{
    uint32_t *at = ngrams->at[1].items;
    for (size_t i = 0; i + order <= reference->count; i++) {
        uint64_t key = (uint64_t)at[i] << 32 | reference->items[i + order - 1];
        uint32_t index = find_ngram(ngrams, mask, key);
        et_ngram_slot *slot = &ngrams->slots[index];
        if (slot->stamp != ngrams->stamp)
            *slot = (et_ngram_slot){ key, ngrams->stamp, 0 };
        slot->left++;
        at[i] = index;
    }
}

/* Takes the hypothesis' n-grams out again; returns how many were there. */
static int64_t take(et_ngrams *ngrams, size_t mask, const et_codes *hypothesis, size_t order)
{
    int64_t match = 0;
    uint32_t *at = ngrams->at[0].items;
    for (size_t i = 0; i + order <= hypothesis->count; i++) {
        if (at[i] == none)
            continue;
        uint64_t key = (uint64_t)at[i] << 32 | hypothesis->items[i + order - 1];
        uint32_t index = find_ngram(ngrams, mask, key);
        et_ngram_slot *slot = &ngrams->slots[index];
        at[i] = slot->stamp == ngrams->stamp ? index : none;
        if (at[i] != none && slot->left > 0) {
            slot->left--;
            match++;
        }
    }
    return match;
}

/* Before order 1 every position is in "slot 0", the empty n-gram's. */
int et_ngrams_match(et_ngrams *ngrams, const et_codes *hypothesis, const et_codes *reference,
                    int order, int64_t match[], et_error *error)
{
    et_assert(order >= 1);
    /* For the reference's n-grams of one order: at most one for each of its codes. */
    size_t size = table_size(reference->count);
    void *slots = ngrams->slots;
    int status = grow(&slots, &ngrams->capacity, size, sizeof(et_ngram_slot), error);
    ngrams->slots = slots;
    if (status || et_codes_reserve(&ngrams->at[0], hypothesis->count, error) ||
        et_codes_reserve(&ngrams->at[1], reference->count, error))
        return ET_ENOMEM;
    if (hypothesis->count)
        memset(ngrams->at[0].items, 0, hypothesis->count * sizeof(uint32_t));
    if (reference->count)
        memset(ngrams->at[1].items, 0, reference->count * sizeof(uint32_t));
    /* The table of order n - 1 is cleared here; only the slot numbers in at[] are kept. */
    for (int n = 1; n <= order; n++) {
        renew(ngrams->slots, ngrams->capacity, sizeof(et_ngram_slot), &ngrams->stamp);
        enter(ngrams, size - 1, reference, (size_t)n);
        match[n - 1] = take(ngrams, size - 1, hypothesis, (size_t)n);
    }
    return 0;
}

void et_ngrams_release(et_ngrams *ngrams)
{
    et_free(ngrams->slots);
    et_codes_release(&ngrams->at[0]);
    et_codes_release(&ngrams->at[1]);
    *ngrams = (et_ngrams)ET_NGRAMS_INIT;
}

/* The length is hashed first, so that words with a common prefix differ from the start. */
static uint64_t hash_word(const uint32_t *word, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = mix(hash ^ word[i]);
    return hash;
}

/* The slot of a word, or the free slot for it. line: the line that contains the words in slots. */
static et_word_slot *find_word(const et_words *words, size_t mask, const et_codes *line,
                               const uint32_t *word, size_t count, uint64_t hash)
{
    size_t at = hash & mask;
    for (;; at = (at + 1) & mask) {
        et_word_slot *slot = &words->slots[at];
        if (slot->stamp != words->stamp)
            return slot;
        /* Hashes may be equal by accident, words are compared by their codes. */
        if (slot->hash == hash && slot->count == count &&
            !memcmp(line->items + slot->first, word, count * sizeof(*word)))
            return slot;
    }
}

/* To know how much room is needed, before anything is written. */
static size_t count_words(const et_codes *line)
{
    size_t count = 0, at = 0, first, end;
    while (et_word_next(line, &at, &first, &end))
        count++;
    return count;
}

/* Numbers the words of one side. The reference comes first and enters its words, so that the
 * hypothesis finds them. */
static void number_side(et_words *words, size_t mask, et_codes *out, const et_codes *line,
                        const et_codes *reference_line)
{
    size_t at = 0, first, end;
    out->count = 0;
    while (et_word_next(line, &at, &first, &end)) {
        const uint32_t *word = line->items + first;
        size_t length = end - first;
        uint64_t hash = hash_word(word, length);
        et_word_slot *slot = find_word(words, mask, reference_line, word, length, hash);
        uint32_t number = ET_WORD_UNKNOWN;
        if (slot->stamp == words->stamp) {
            number = slot->number;
        } else if (line == reference_line) {
            number = (uint32_t)out->count;
            *slot = (et_word_slot){ hash, first, length, words->stamp, number };
        }
        out->items[out->count++] = number;
    }
}

/* The reference's words are numbered from 0; what only the hypothesis has is ET_WORD_UNKNOWN,
 * which no n-gram of the reference holds. */
int et_words_number(et_words *words, et_codes *hypothesis, et_codes *reference,
                    const et_codes *hypothesis_line, const et_codes *reference_line,
                    et_error *error)
{
    et_assert(hypothesis_line != reference_line);
    et_assert(hypothesis != reference);
    size_t reference_count = count_words(reference_line);
    size_t size = table_size(reference_count);
    void *slots = words->slots;
    int status = grow(&slots, &words->capacity, size, sizeof(et_word_slot), error);
    words->slots = slots;
    if (status || et_codes_reserve(reference, reference_count, error) ||
        et_codes_reserve(hypothesis, count_words(hypothesis_line), error))
        return ET_ENOMEM;
    renew(words->slots, words->capacity, sizeof(et_word_slot), &words->stamp);
    number_side(words, size - 1, reference, reference_line, reference_line);
    number_side(words, size - 1, hypothesis, hypothesis_line, reference_line);
    return 0;
}

void et_words_release(et_words *words)
{
    et_free(words->slots);
    *words = (et_words)ET_WORDS_INIT;
}
