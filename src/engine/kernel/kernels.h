/* Kernels: loops over raw pointers and sizes. They allocate nothing, know no graph, and have no
 * state. A table has one function per kernel; there is one table per instruction set (plain C,
 * AVX2, AVX-512, the same with VNNI), all compiled from the same source with a small vector header.
 * et_kernels_best() chooses the best for the CPU; plain C runs on every CPU.
 *
 * Legend: T rows (tokens), D columns (width), H heads, S segments, V vocabulary. "act" is the
 * element type of activations, float32 or bfloat16, given as a dtype argument; arithmetic,
 * statistics and parameters are float32.
 *
 * Threads: kernels use OpenMP loops above a grain. Every result has the same bits for any number of
 * threads: sums over rows run over fixed blocks of ET_ROW_BLOCK rows, whose partial sums are added
 * in order. Results of two tables differ only by rounding. */
#ifndef ETUDE_ENGINE_KERNEL_KERNELS_H
#define ETUDE_ENGINE_KERNEL_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>

#include "engine/kernel/arguments.h"
#include "engine/kernel/elementwise.h"

/* Rows in one block of a sum over rows. Part of the result's bits: another number gives sums in
 * another order. */
#define ET_ROW_BLOCK 128

/* The derivative of layer_norm, [rows, width] of type dtype; statistics and parameters float32. */
typedef struct et_layer_norm_grad {
    void *dx, *y;          /* y: NULL or the norm's result once more */
    float *dgamma, *dbeta; /* [width]; NULL: not needed, because the parameter is frozen */
    float *scratch;        /* et_row_blocks(rows) * 2 * width */
    const void *dy, *x;
    const float *stats;        /* [rows, 2], as layer_norm leaves them */
    const float *gamma, *beta; /* [width]; beta: NULL if y is */
    int64_t rows, width;
    et_dtype dtype;
} et_layer_norm_grad;

/* ---- one table per instruction set ---- */

typedef struct et_kernels {
    const char *name; /* one of et_kernels_names */
    int64_t panel;    /* columns of a panel of an et_row_weight */

#define KERNEL(type, name, ...) type (*(name))(__VA_ARGS__);
#include "engine/kernel/kernels.def"
#undef KERNEL

    /* Copies around matrix products. */
    const et_staging *staging;

    /* Cross-entropy over a vocabulary in parts. */
    const et_softmax_parts *softmax_parts;
} et_kernels;

/* Names of tables, the fastest first; NULL at the end. */
extern const char *const et_kernels_names[];

/* The table for an instruction set by name; NULL: unknown, or not in this CPU or build. */
const et_kernels *et_kernels_named(const char *name);

/* The name in the environment variable ETUDE_ISA; NULL if it is unset or empty. */
const char *et_kernels_wanted(void);

/* The best table for this CPU, or the lower one named by ETUDE_ISA; a name that et_kernels_named
 * does not know changes nothing. */
const et_kernels *et_kernels_best(void);

/* Blocks of ET_ROW_BLOCK rows. */
static inline int64_t et_row_blocks(int64_t rows)
{
    return (rows + ET_ROW_BLOCK - 1) / ET_ROW_BLOCK;
}

#endif
