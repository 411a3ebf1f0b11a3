/* Levels of sorted buffers as digits of a binary counter (Agarwal, Cormode, Huang, Phillips, Wei,
 * Yi: Mergeable Summaries, PODS 2012, 3.1). A full base is sorted and every second value goes to
 * the next level, from the first or the second by a random bit. Two buffers of one level are merged
 * and halved in the same way into one of the next. Each halving moves the rank of a value by at
 * most the weight of one value, and by nothing on average: with n values and width w the variance
 * is below n^2 / (2 w^2).
 *
 * From 2^17 values on, one of two consecutive values is taken at random, from 2^18 on one of four,
 * and so on (as in Luo, Wang, Yi, Cormode: Quantiles over data streams, VLDB Journal 2016). This
 * adds a deviation of at most 2^-9, and half of it if values come in random order; most of a long
 * stream then costs nothing more.
 *
 * Sorting uses bytes of the numbers' bits in an order of their own (sign inverted, negative ones
 * complemented), as far as they differ: 27 bits of the range. The rest is done by insertion, or by
 * all 64 bits if insertion takes too long. */
#include "data/table/analysis/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Up to this many values, all are taken. */
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

/* Every second of two sorted buffers together. From both ends at once: no end is reached, and the
 * two do not wait for each other. Of equal ones the first buffer's come first. */
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
        memcpy(base, merged, (size_t)width * sizeof *base);
        sketch->full &= ~((uint64_t)1 << level);
    }
    et_assert(level < ET_SKETCH_LEVELS);
    if (!sketch->level[level] && !(sketch->level[level] = et_alloc((size_t)width, sizeof *base)))
        return false;
    memcpy(sketch->level[level], base, (size_t)width * sizeof *base);
    sketch->full |= (uint64_t)1 << level;
    sketch->filled = 0;
    return true;
}

/* A value was taken: the next one comes from the following group. */
static void advance(et_sketch *sketch)
{
    sketch->group += (int64_t)1 << sketch->shift;
    sketch->next = sketch->group;
}

static bool after_take(et_sketch *sketch)
{
    if (sketch->filled == 2 * sketch->width) {
        if (!carry(sketch))
            return false;
        while (sketch->group >= TAKE_ALL << sketch->shift)
            sketch->shift++;
    }
    if (sketch->shift)
        sketch->next += (int64_t)(draw(sketch) >> (64 - sketch->shift));
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
               (size_t)run * sizeof *values);
        sketch->filled += (int)run;
        sketch->group += run - 1; /* of groups of one */
        advance(sketch);
        if (!after_take(sketch))
            return false;
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
