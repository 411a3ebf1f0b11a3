/* A profile: the spans of a trace's leading thread as a table, by kind. Each moment of the
 * recording counts once, for the innermost span that has a kind, or as "other", so fractions add up
 * to the whole. */
#ifndef ETUDE_ENGINE_EXEC_PROFILE_H
#define ETUDE_ENGINE_EXEC_PROFILE_H

#include "base/text/strbuf.h"
#include "base/threads/trace.h"
#include "engine/exec/device.h"

/* The best rates of this machine: the roof of a profile. Two rates are measured in the process,
 * with all its threads: a large matrix product with packed weights, and memory traffic (read two
 * arrays, write one). An op's roof is the longer of the times that its operations and its bytes
 * take at these rates (Williams, Waterman, Patterson 2009, "Roofline"). An op with its operands in
 * cache may be faster than the roof. */

/* Sides of the product that is measured. */
enum { ET_PEAK_M = 2048, ET_PEAK_N = 1024, ET_PEAK_K = 1024 };

typedef struct et_peak {
    et_dtype dtype; /* of the product's operands */
    double flops;   /* a second */
    double bytes;   /* a second */
} et_peak;

/* Takes some tenths of a second and 128 MiB, given back. Not while the device works. */
int et_peak_measure(et_peak *peak, const et_device *device, et_dtype dtype, et_error *error);

/* Seconds that work takes at best. */
double et_peak_seconds(const et_peak *peak, et_cost cost);

typedef struct et_profile_row {
    const char *kind; /* borrowed from the trace's labels */
    int64_t calls;
    double seconds; /* without what spans of other kinds within took */
    et_cost cost;
    double peak_seconds; /* seconds that the cost takes at the peak's rates; 0: no cost is known */
} et_profile_row;

#define ET_PROFILE_ROWS_MAX 64

typedef struct et_profile {
    et_profile_row rows[ET_PROFILE_ROWS_MAX]; /* longest first */
    int count;
    double seconds;              /* of the recording */
    double product_peak_seconds; /* seconds of matrix products alone at the peak's rates */
    et_peak peak;
} et_profile;

/* The type of most of the trace's matrix products: what et_peak_measure is to measure. */
et_dtype et_profile_dtype(const et_trace *trace);

/* Adds up a trace that is over and has recorded something. */
void et_profile_make(et_profile *profile, const et_trace *trace, const et_peak *peak);

/* The table, its columns explained by a last line. For people. */
void et_profile_print(const et_profile *profile, et_strbuf *out);

#endif
