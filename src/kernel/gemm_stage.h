/* Copies around a block: slabs of A and B made dense before it, its result brought to C after.
 * A slab is rows x columns as stored, dense in the slab, elements of 2 or 4 bytes. */
#ifndef ETUDE_KERNEL_GEMM_STAGE_H
#define ETUDE_KERNEL_GEMM_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

/* Copies rows x columns with the given stride into a slab of slab_rows x slab_columns;
 * what is left of the slab is zeroed. */
void et_gemm_slab(void *slab, int64_t slab_rows, int64_t slab_columns, const void *from,
                  int64_t rows, int64_t columns, int64_t stride, size_t element);

/* How a result becomes C: c = act(sum of parts + bias), or c += that. */
typedef struct et_gemm_finish {
    const float *bias; /* of the first column; NULL: none */
    bool relu, accumulate;
    et_dtype c;
} et_gemm_finish;

/* One row of C of n elements from `parts` partial rows that are part_stride floats apart. */
void et_gemm_finish_row(const et_gemm_finish *how, void *c, const float *from, int64_t parts,
                        int64_t part_stride, int64_t n);

#endif
