/* Products of bfloat16 with AMX, whose registers are tiles: C = A B, float32 sums. For operands
 * that stay in one core's cache and are multiplied repeatedly, as in Muon's iterations. gemm/gemm.h
 * has products of any shape on any CPU.
 *
 * All sizes are multiples of ET_TILE_UNIT, the operands padded with zeros. B is in panels of
 * ET_TILE_UNIT columns with pairs of rows interleaved, [n / 32][k / 2][32][2]: of a stored B
 * et_staging's row_pairs makes a panel, of a transposed B pairs_across.
 *
 *     if (et_tile_product_for(kernels))
 *         et_tile_product(c, n, a, k, panels, n, k); // 32 rows of C
 */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_TILE_PRODUCT_H
#define ETUDE_ENGINE_KERNEL_GEMM_TILE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/dtype.h>

#include "engine/kernel/kernels.h"

/* Rows and columns of a block, and k of a step. */
#define ET_TILE_UNIT 32

/* Whether this CPU and the system have AMX. The same in every call. */
bool et_tile_product_works(void);

/* The same for a table of kernels: false for those without bfloat16 instructions, which tests and
 * comparisons choose. */
bool et_tile_product_for(const et_kernels *kernels);

/* ET_TILE_UNIT rows of C [.., n], rows ldc floats apart, from as many rows of A [.., k], rows lda
 * elements apart. Single-threaded. A sum runs over k in order: equal bits for any n. */
void et_tile_product(float *c, int64_t ldc, const et_bf16 *a, int64_t lda, const et_bf16 *panels,
                     int64_t n, int64_t k);

#endif
