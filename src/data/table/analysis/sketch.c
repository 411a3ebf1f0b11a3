/* Levels of sorted buffers as digits of a binary counter (Agarwal, Cormode, Huang, Phillips, Wei,
 * Yi: Mergeable Summaries, PODS 2012, 3.1). A full base is sorted and every second value goes to
 * the next level, from the first or the second by a random bit. Two buffers of one level are merged
 * and halved in the same way into one of the next. Each halving moves the rank of a value by at
 * most the weight of one value, and by nothing on average: with n values and width w the variance
 * is below n^2 / (2 w^2).
 *
 * From 2^17 values on, one of two consecutive values is drawn at random, from 2^18 on one of four,
 * and so on (as in Luo, Wang, Yi, Cormode: Quantiles over data streams, VLDB Journal 2016). This
 * adds a deviation of at most 2^-9, half as much for values in random order, and makes most of a
 * long stream almost free.
 *
 * Numbers are sorted by bytes of their bits (sign inverted, negative numbers complemented): the 27
 * highest bits in which they differ. Insertion sorts the rest, or all 64 bits if insertion takes
 * too long. */
#include "data/table/analysis/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/sort.h"
#include "base/vector.h"

/* Up to this number of values, no value is left out. */
#define TAKE_ALL ((int64_t)1 << 17)

#define SORT_MAX (2 * ET_SKETCH_WIDTH_MAX)

/* Digits of sorting, and how many are sorted by at first and at most. */
#define BITS       9
#define RADIX      (1 << BITS)
#define DIGITS     3
#define DIGITS_MAX 8

void et_sketch_init(et_sketch *sketch, int width, uint64_t seed)
{
    et_assert(width >= ET_SKETCH_WIDTH_MIN && width <= ET_SKETCH_WIDTH_MAX &&
              !(width & (width - 1)));
    *sketch = (et_sketch){ .width = width, .seed = seed };
}

void et_sketch_release(et_sketch *sketch)
{
    et_free(sketch->base);
    for (int i = 0; i < ET_SKETCH_LEVELS; i++)
        et_free(sketch->level[i]);
    *sketch = (et_sketch){ .width = sketch->width };
}

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014: the mix of a
 * counter. */
static uint64_t draw(et_sketch *sketch)
{
    uint64_t x = sketch->seed + ++sketch->draws * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- sorting ---- */

static inline uint64_t to_ordered(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits ^ (((uint64_t)0 - (bits >> 63)) | (uint64_t)1 << 63);
}

static inline double from_ordered(uint64_t ordered)
{
    uint64_t bits = ordered ^ (((uint64_t)0 - (~ordered >> 63)) | (uint64_t)1 << 63);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Sorts by `digits` digits above bit `low`, the lowest first. A digit that all numbers share is
 * skipped. Returns the array that holds the result. */
static uint64_t *sort_digits(uint64_t *from, uint64_t *to, int count, int low, int digits)
{
    uint16_t counts[DIGITS_MAX][RADIX] = { 0 };
    et_assert(digits <= DIGITS_MAX);
    for (int i = 0; i < count; i++)
        for (int digit = 0; digit < digits; digit++)
            counts[digit][from[i] >> low >> (BITS * digit) & (RADIX - 1)]++;
    for (int digit = 0; digit < digits; digit++) {
        uint16_t *starts = counts[digit], begin = 0;
        const int shift = low + BITS * digit;
        if (starts[from[0] >> shift & (RADIX - 1)] == count)
            continue;
        for (int i = 0; i < RADIX; i++) {
            uint16_t size = starts[i];
            starts[i] = begin;
            begin = (uint16_t)(begin + size);
        }
        for (int i = 0; i < count; i++)
            to[starts[from[i] >> shift & (RADIX - 1)]++] = from[i];
        uint64_t *other = from;
        from = to;
        to = other;
    }
    return from;
}

/* False: it would take more than `most` moves. */
static bool insert_all(uint64_t *keys, int count, int most)
{
    for (int i = 1; i < count; i++) {
        uint64_t key = keys[i];
        int at = i;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
        most -= i - at;
        if (most < 0)
            return false;
    }
    return true;
}

void et_sketch_sort(double *values, int count)
{
    uint64_t keys[SORT_MAX], other[SORT_MAX], *sorted;
    uint64_t least = UINT64_MAX, most = 0;
    et_assert(count <= SORT_MAX);
    if (count < 2)
        return;
    for (int i = 0; i < count; i++) {
        keys[i] = to_ordered(values[i]);
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
    }
    for (int i = 0; i < count; i++)
        keys[i] -= least;
    int bits = most == least ? 0 : 64 - __builtin_clzll(most - least);
    int low = bits > BITS * DIGITS ? bits - BITS * DIGITS : 0;
    sorted = sort_digits(keys, other, count, low, (bits - low + BITS - 1) / BITS);
    if (low && !insert_all(sorted, count, 4 * count))
        sorted = sort_digits(sorted, sorted == keys ? other : keys, count, 0, DIGITS_MAX);
    for (int i = 0; i < count; i++)
        values[i] = from_ordered(sorted[i] + least);
}

/* ---- adding ---- */

/* Takes every second value of two sorted buffers together. Works from both ends: neither end is
 * reached, and the two loops do not wait for each other. Among equal values, the first buffer's
 * come first. */
static void merge_half(double *restrict out, const double *first, const double *second, int width,
                       bool odd)
{
    const int last = width - 1;
    int a = 0, b = 0, c = last, d = last;
    for (int i = 0; i < width / 2; i++) {
        double low[2], high[2];
        for (int k = 0; k < 2; k++) {
            double x = first[a], y = second[b], u = first[c], v = second[d];
            bool left = x <= y, right = u > v;
            low[k] = left ? x : y;
            a += left;
            b += !left;
            high[k] = right ? u : v;
            c -= right;
            d -= !right;
        }
        out[i] = odd ? low[1] : low[0];
        out[width - 1 - i] = odd ? high[0] : high[1];
    }
}

/* Adds the full base to the counter. */
static bool carry(et_sketch *sketch)
{
    const int width = sketch->width;
    double *base = sketch->base, *merged = base + width;
    et_sketch_sort(base, 2 * width);
    bool odd = draw(sketch) & 1;
    for (int i = 0; i < width; i++)
        base[i] = base[2 * i + odd];
    int level = sketch->shift;
    for (; sketch->full >> level & 1; level++) {
        merge_half(merged, sketch->level[level], base, width, draw(sketch) & 1);
        memcpy(base, merged, width * sizeof *base);
        sketch->full &= ~((uint64_t)1 << level);
    }
    et_assert(level < ET_SKETCH_LEVELS);
    if (!sketch->level[level] && !(sketch->level[level] = et_alloc(width, sizeof *base)))
        return false;
    memcpy(sketch->level[level], base, width * sizeof *base);
    sketch->full |= (uint64_t)1 << level;
    sketch->filled = 0;
    return true;
}

bool et_sketch_add(et_sketch *sketch, const double *values, size_t count)
{
    int64_t begin = sketch->count, end = begin + (int64_t)count;
    if (!sketch->base &&
        !(sketch->base = et_alloc(2 * (size_t)sketch->width, sizeof *sketch->base)))
        return false;
    sketch->count = end;
    while (sketch->next < end) {
        int64_t run = 1;
        if (!sketch->shift) {
            int64_t room = 2 * sketch->width - sketch->filled;
            run = end - sketch->next < room ? end - sketch->next : room;
        }
        memcpy(sketch->base + sketch->filled, values + (sketch->next - begin),
               run * sizeof *values);
        sketch->filled += (int)run;
        sketch->group += run - 1; /* of groups of one */
        /* A value was taken: the next one comes from the following group. */
        sketch->group += (int64_t)1 << sketch->shift;
        sketch->next = sketch->group;
        if (sketch->filled == 2 * sketch->width) {
            if (!carry(sketch))
                return false;
            while (sketch->group >= TAKE_ALL << sketch->shift)
                sketch->shift++;
        }
        if (sketch->shift)
            sketch->next += (int64_t)(draw(sketch) >> (64 - sketch->shift));
    }
    return true;
}

/* ---- reading ---- */

typedef struct weighted {
    double value;
    int64_t weight;
} weighted;

static int compare(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

bool et_sketch_view_reserve(et_sketch_view *view, size_t count)
{
    *view = (et_sketch_view){ .value = et_alloc(count, sizeof *view->value),
                              .weight = et_alloc(count, sizeof *view->weight),
                              .below = et_alloc(count, sizeof *view->below) };
    if (view->value && view->weight && view->below)
        return true;
    et_sketch_view_release(view);
    return false;
}

bool et_sketch_view_order(et_sketch_view *view, size_t count)
{
    weighted *all = et_alloc(count, sizeof *all);
    if (!all) {
        et_sketch_view_release(view);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        all[i] = (weighted){ view->value[i], view->weight[i] };
    if (count > 1)
        qsort(all, count, sizeof *all, compare);
    view->count = count;
    view->total = 0;
    for (size_t i = 0; i < count; i++) {
        view->value[i] = all[i].value;
        view->weight[i] = all[i].weight;
        view->below[i] = view->total;
        view->total += all[i].weight;
    }
    et_free(all);
    return true;
}

static void put(et_sketch_view *view, const double *values, int count, int64_t weight)
{
    for (int i = 0; i < count; i++) {
        view->value[view->count] = values[i];
        view->weight[view->count++] = weight;
    }
}

bool et_sketch_view_init(et_sketch_view *view, const et_sketch *sketch)
{
    size_t most = (size_t)(2 + __builtin_popcountll(sketch->full)) * (size_t)sketch->width;
    if (!et_sketch_view_reserve(view, most))
        return false;
    put(view, sketch->base, sketch->filled, (int64_t)1 << sketch->shift);
    for (int i = 0; i < ET_SKETCH_LEVELS; i++)
        if (sketch->full >> i & 1)
            put(view, sketch->level[i], sketch->width, (int64_t)2 << i);
    et_assert(view->count <= most);
    return et_sketch_view_order(view, view->count);
}

void et_sketch_view_release(et_sketch_view *view)
{
    et_free(view->value);
    et_free(view->weight);
    et_free(view->below);
    *view = (et_sketch_view){ 0 };
}

double et_sketch_quantile(const et_sketch_view *view, double fraction)
{
    if (!view->count)
        return NAN;
    double rank = fraction * (double)(view->total - 1);
    int64_t whole = rank < 0 ? 0 : (int64_t)rank;
    /* All before low begin at or before that rank. */
    size_t low = 0, high = view->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (view->below[middle] <= whole)
            low = middle + 1;
        else
            high = middle;
    }
    double a = view->value[low - 1], part = rank - (double)whole;
    if (low == view->count || view->below[low] > whole + 1 || part <= 0)
        return a;
    /* Not a + (b - a) * part, which overflows if a and b are far apart. */
    double b = view->value[low], value = a * (1 - part) + b * part;
    return value < a ? a : value > b ? b : value;
}

double et_sketch_fraction(const et_sketch_view *view, double low, double high, bool closed)
{
    double weight = 0;
    for (size_t i = 0; i < view->count; i++)
        if (view->value[i] >= low && (view->value[i] < high || (closed && view->value[i] == high)))
            weight += (double)view->weight[i];
    return view->total ? weight / (double)view->total : 0;
}

/* Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, AofA 2007: the first bits of a hash choose a
 * register, which keeps the longest run of zeros after them. The estimate is Ertl's (New
 * cardinality estimation algorithms for HyperLogLog sketches, arXiv 1702.01284, algorithm 6). It
 * has no bias at any size, so it needs no tables and no other formula for few values. */

bool et_distinct_init(et_distinct *distinct, int bits)
{
    et_assert(bits >= ET_DISTINCT_BITS_MIN && bits <= ET_DISTINCT_BITS_MAX);
    *distinct = (et_distinct){ et_alloc_zero((size_t)1 << bits, 1), bits };
    return distinct->seen != NULL;
}

void et_distinct_release(et_distinct *distinct)
{
    et_free(distinct->seen);
    distinct->seen = NULL;
}

static inline void add(unsigned char *seen, int bits, uint64_t hash)
{
    size_t at = hash >> (64 - bits);
    /* A bit at the end: no run is longer than the hash. */
    unsigned char run =
        (unsigned char)(1 + __builtin_clzll(hash << bits | (uint64_t)1 << (bits - 1)));
    seen[at] = run > seen[at] ? run : seen[at];
}

void et_distinct_add(et_distinct *distinct, uint64_t hash)
{
    add(distinct->seen, distinct->bits, hash);
}

__extension__ typedef unsigned __int128 wide;

static inline uint64_t fold(uint64_t x, uint64_t by)
{
    wide product = (wide)x * by;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

void et_distinct_add_numbers(et_distinct *distinct, const double *values, size_t count)
{
    unsigned char *seen = distinct->seen;
    const int bits = distinct->bits;
    for (size_t i = 0; i < count; i++) {
        double value = values[i] + 0.0; /* -0 becomes 0 */
        uint64_t x;
        memcpy(&x, &value, sizeof x);
        /* Halves of products of all bits (wyhash's mixing), twice. */
        x = fold(x ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu);
        add(seen, bits, fold(x, 0x8ebc6af09c88c6e3u));
    }
}

/* x + sum of x^(2^k) * 2^(k-1), k from 1. */
static double sigma(double x)
{
    double power = 1, sum = x, before;
    if (x == 1)
        return INFINITY;
    do {
        x *= x;
        before = sum;
        sum += x * power;
        power += power;
    } while (sum != before);
    return sum;
}

/* (1 - x - sum of (1 - x^(2^-k))^2 * 2^-k) / 3, k from 1. */
static double tau(double x)
{
    double power = 1, sum = 1 - x, before;
    if (x == 0 || x == 1)
        return 0;
    do {
        x = sqrt(x);
        before = sum;
        power /= 2;
        sum -= (1 - x) * (1 - x) * power;
    } while (sum != before);
    return sum / 3;
}

double et_distinct_estimate(const et_distinct *distinct)
{
    const int most = 64 - distinct->bits;
    const size_t registers = (size_t)1 << distinct->bits;
    double all = (double)registers, counts[66] = { 0 };
    for (size_t i = 0; i < registers; i++)
        counts[distinct->seen[i]]++;
    double z = all * tau(1 - counts[most + 1] / all);
    for (int run = most; run >= 1; run--)
        z = (z + counts[run]) / 2;
    z += all * sigma(counts[0] / all);
    return all / (2 * M_LN2) * (all / z);
}

/* Anderson, Bevan, Lang, Liberty, Rhodes, Thaler: A high-performance algorithm for identifying
 * frequent items in data streams, IMC 2017. When the table is full, the median count is subtracted
 * from all entries, and entries without a rest are dropped. Half of the entries go, so a text costs
 * constant time on average. The sum of subtracted counts is the error of every count.
 *
 * Texts of up to 16 bytes are compared as two words. Open addressing, at most half full; entries
 * are only removed all at once. */

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

ET_SORT_NUMBERS(compare_counts, int64_t)

/* Small counts are tallied; all are sorted only if half of them are large. */
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

et_entry *et_entries_find(const et_entries *entries, const char *text, size_t length)
{
    if (!entries->slots)
        return NULL;
    const text_key key = key_of(text, length);
    size_t at = hash_of(key, text, length) >> entries->shift;
    for (; entries->slot[at]; at = (at + 1) & (entries->slots - 1)) {
        et_entry *entry = &entries->entry[entries->slot[at] - 1];
        if (entry->head == key.head && entry->tail == key.tail && entry->length == length &&
            (length <= 16 || !memcmp(entries->texts + entry->at, text, length)))
            return entry;
    }
    return NULL;
}

et_entry *et_entries_add(et_entries *entries, const char *text, size_t length)
{
    et_assert(length <= ET_ENTRY_MAX);
    if (!et_entries_fits(entries, length) && !drop_half(entries))
        return NULL;
    if (!ET_VECTOR_GROW(entries->entry, entries->capacity, entries->count + 1) ||
        !ET_VECTOR_GROW(entries->texts, entries->room, entries->length + length + 1))
        return NULL;
    if (entries->slots < 2 * (entries->count + 1) && !grow_slots(entries))
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
