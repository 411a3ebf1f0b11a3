/* The peak: the best rate at which this machine multiplies two matrices.
 *
 * One product is timed in several ways, with all threads: oneDNN with every operand in the layout
 * that oneDNN chooses, oneDNN with only B in such a layout, and Etude's own product. Packing is not
 * timed. The smallest time of all runs counts, so a share of the peak is never too high.
 *
 * Attention's products are small, one for each segment and head: they are timed as a series of
 * equal products, by one primitive that all threads share or by one for each thread, in four
 * layouts. For the smallest products this time is mostly the cost of a call and of a tile's edges
 * in oneDNN, so a peak from this time would be too low. The peak of attention is therefore the
 * better of this rate and the best rate of all products with weights in the same plan (kinds.c). A
 * kernel can reach the peak: it may keep scores in registers and cache, and has no call for each
 * product. */
#ifndef ETUDE_BENCH_PEAK_H
#define ETUDE_BENCH_PEAK_H

#include "engine/kernel/gemm/gemm.h"

/* Seconds of one product of that shape, without bias and activation. */
double bench_peak(const et_gemm_shape *shape);

/* Seconds of one of at least `count` independent products of that shape, run together. Transposes
 * of the shape do not matter: every layout is tried. */
double bench_peak_run(const et_gemm_shape *shape, int64_t count);

#endif
