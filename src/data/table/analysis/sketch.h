/* Quantiles of a stream of numbers in fixed memory. Up to 2 * width values are kept, so quantiles
 * of few values are exact. With more, the root mean square error of a rank is 0.1 % of all values
 * at a width of 1024 (0.05 % up to half a million values), and proportionally more for smaller
 * widths. The kept values depend only on the values, their order and the seed, not on how they
 * arrive. Memory at 1024: 16 KiB, and up to 8 KiB for each doubling of the number of values beyond
 * 2048, 100 KiB in all. Use from one thread at a time.
 *
 *     et_sketch sketch;
 *     et_sketch_init(&sketch, 1024, 7);
 *     if (!et_sketch_add(&sketch, values, count)) ...
 *     et_sketch_view view;
 *     if (!et_sketch_view_init(&view, &sketch)) ...
 *     double median = et_sketch_quantile(&view, 0.5);
 *     et_sketch_view_release(&view);
 *     et_sketch_release(&sketch);
 */
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
/* The same for values that are all known: room for count of them. The caller then sets values and
 * weights; puts count of them in order. False: no memory. */
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

#endif
