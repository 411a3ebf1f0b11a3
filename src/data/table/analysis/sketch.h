/* Quantiles of a stream of numbers in fixed memory. Up to 2 * width values are kept, so quantiles
 * of few values are exact. With more, the root mean square error of a rank is 0.1 % of all values
 * at a width of 1024 (0.05 % up to half a million values), and proportionally more for smaller
 * widths. The kept values depend only on the values, their order and the seed, not on the division
 * into calls. Memory at 1024: 16 KiB, and up to 8 KiB for each doubling of the number of values
 * beyond 2048, 100 KiB in all. Use from one thread at a time.
 *
 *     et_sketch sketch;
 *     et_sketch_init(&sketch, 1024, 7);
 *     if (!et_sketch_add(&sketch, values, count)) ...
 *     et_sketch_view view;
 *     if (!et_sketch_view_init(&view, &sketch)) ...
 *     double median = et_sketch_quantile(&view, 0.5);
 *     et_sketch_view_release(&view);
 *     et_sketch_release(&sketch); */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_SKETCH_H
#define ETUDE_DATA_TABLE_ANALYSIS_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ET_SKETCH_WIDTH_MAX 1024
#define ET_SKETCH_WIDTH_MIN 16

#define ET_SKETCH_LEVELS 48

typedef struct et_sketch {
    int width;                       /* a power of two */
    int filled;                      /* of base */
    int shift;                       /* one of 2^shift values is used */
    uint64_t seed, draws;            /* the next random number is a function of both */
    int64_t count;                   /* values seen */
    int64_t next, group;             /* number of the value to use next; begin of its group */
    double *base;                    /* [2 * width], as they came; NULL at first */
    double *level[ET_SKETCH_LEVELS]; /* [width], sorted, each for 2^(level + 1) values; or NULL */
    uint64_t full;                   /* bit l: level l holds values */
} et_sketch;

void et_sketch_init(et_sketch *sketch, int width, uint64_t seed);
void et_sketch_release(et_sketch *sketch);

/* Finite values. False: no memory, and the sketch is good for release only. */
bool et_sketch_add(et_sketch *sketch, const double *values, size_t count);

/* The contents of a sketch, in order. */
typedef struct et_sketch_view {
    double *value;   /* [count], rising; owned */
    int64_t *weight; /* [count]: number of values that it represents; owned */
    int64_t *below;  /* [count]: sum of the weights before it; owned */
    size_t count;
    int64_t total; /* of weights */
} et_sketch_view;

/* False: no memory. */
bool et_sketch_view_init(et_sketch_view *view, const et_sketch *sketch);
/* A view of count known values. reserve makes room for them. The caller then sets values and
 * weights, and order sorts the first count of them. False: no memory. */
bool et_sketch_view_reserve(et_sketch_view *view, size_t count);
bool et_sketch_view_order(et_sketch_view *view, size_t count);
void et_sketch_view_release(et_sketch_view *view);

/* The value at a fraction of all from 0 to 1, between two values linearly, as in NumPy. NaN: no
 * values. */
double et_sketch_quantile(const et_sketch_view *view, double fraction);

/* How many values are within [low, high), or [low, high] if closed, as a fraction of all. */
double et_sketch_fraction(const et_sketch_view *view, double low, double high, bool closed);

/* Sorts values; at most 2 * ET_SKETCH_WIDTH_MAX. */
void et_sketch_sort(double *values, int count);

/* ---- distinct values ----
 *
 * Estimates their number in 2^bits bytes: HyperLogLog. The root mean square error
 * is 1.04 / sqrt(2^bits), 1.6 % at 12 bits, and much less if there are fewer values than registers.
 * The order of values does not matter. */

#define ET_DISTINCT_BITS_MIN 6
#define ET_DISTINCT_BITS_MAX 16

typedef struct et_distinct {
    unsigned char *seen; /* [2^bits]; owned */
    int bits;
} et_distinct;

/* False: no memory. */
bool et_distinct_init(et_distinct *distinct, int bits);
void et_distinct_release(et_distinct *distinct);

/* Equal values have equal hashes; the hashes of different values are independent. */
void et_distinct_add(et_distinct *distinct, uint64_t hash);
/* Numbers are compared by value: 0 and -0 are equal. */
void et_distinct_add_numbers(et_distinct *distinct, const double *values, size_t count);

double et_distinct_estimate(const et_distinct *distinct);

/* ---- entries ----
 *
 * The distinct texts of a column and their counts, in bounded memory. Exact up to a limit of
 * distinct texts. Beyond the limit, only frequent texts are certainly kept: those that occur more
 * than `error` times. Each count is too low by at most `error`. Use from one thread at a time. */

/* Longer texts are not classes: they are not kept. */
#define ET_ENTRY_MAX 1024

typedef struct et_entry {
    uint64_t head, tail; /* its first and its last 8 bytes */
    uint32_t length;     /* bytes */
    uint32_t hash;       /* of the table's own */
    size_t at;           /* in texts */
    int64_t count;       /* number of occurrences */
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
    int64_t error;       /* counts are too low by at most this number */
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

/* Whether another text fits without dropping an entry. */
bool et_entries_fits(const et_entries *entries, size_t length);

/* Borrowed, not terminated; until the next add. */
const char *et_entries_text(const et_entries *entries, const et_entry *entry);

/* Sorts entries: the most frequent first, equally frequent ones by their bytes. Afterwards nothing
 * may be added or found. */
void et_entries_sort(et_entries *entries);

#endif
