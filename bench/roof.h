/* The roof: how fast this machine multiplies two matrices at best.
 *
 * One product is timed in several ways, all threads working: oneDNN with every operand in the
 * layout it likes best, oneDNN with only B so, and the library's own product. Packing is not
 * timed. The smallest time of all runs counts, so a share of the roof is never flattered. */
#ifndef ETUDE_BENCH_ROOF_H
#define ETUDE_BENCH_ROOF_H

#include "kernel/gemm.h"

/* Seconds of one product of that shape; bias and activation are left out. */
double bench_roof(const et_gemm_shape *shape);

#endif
