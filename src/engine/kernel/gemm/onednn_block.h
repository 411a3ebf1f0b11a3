/* One single-threaded oneDNN product of a fixed shape: a block. gemm.c divides products into tiles
 * and runs a block on each. Only engine/kernel/onednn.h includes oneDNN's headers.
 *
 * The code that makes a block owns it, and must free it before the engine is closed. Several
 * threads may run a block at once if each passes its own thread number. */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_ONEDNN_BLOCK_H
#define ETUDE_ENGINE_KERNEL_GEMM_ONEDNN_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>
#include <etude/error.h>

typedef struct et_gemm_engine et_gemm_engine;
typedef struct et_gemm_block et_gemm_block;

/* C [m, n] = A [m, k] B [k, n], all dense except B, which is a slab (gemm/gemm_private.h). Compared
 * as bytes: all members have one width, so there is no padding. */
typedef struct et_gemm_block_shape {
    int64_t m, n, k;
    int64_t accumulate; /* 0 or 1 */
    int64_t bias;       /* 1: [n] float32 on every row */
    int64_t panels;     /* 1: B is in panels, which the engine has for ab */
    int64_t across;     /* 1: B is [n, k] instead, and the block copies it itself */
    int64_t ab, c;      /* et_dtype */
} et_gemm_block_shape;

/* An engine whose blocks run on threads 0 .. threads - 1. */
int et_gemm_engine_open(et_gemm_engine **out, int threads, et_error *error);
void et_gemm_engine_close(et_gemm_engine *engine);

/* Whether blocks with A and B of this type take B in panels; otherwise B is [k, n]. A CPU without
 * bfloat16 products has no bfloat16 panels. */
bool et_gemm_engine_panels(const et_gemm_engine *engine, et_dtype ab);

/* A block of that shape: C = A B + bias, or onto C. The engine must outlive it. ET_ENOMEM or
 * ET_EFAIL. */
int et_gemm_block_new(et_gemm_block **out, et_gemm_engine *engine, const et_gemm_block_shape *shape,
                      et_error *error);
void et_gemm_block_free(et_gemm_block *block);

/* Borrowed from the block. */
const et_gemm_block_shape *et_gemm_block_shape_of(const et_gemm_block *block);
const char *et_gemm_block_implementation(const et_gemm_block *block);

/* Whether this CPU's bfloat16 products are faster than its float32 ones. */
bool et_gemm_fast_bf16(void);

/* Whether gradients of weights in float32 are faster by blocks than by our own kernel. */
bool et_gemm_fast_blocks(void);

/* Unit of rows: if m of a block is a multiple of this number, all rows are summed in the same
 * order. */
int64_t et_gemm_row_unit(void);

/* Call with OpenMP set to one thread (omp_set_num_threads). false: a kernel without panels had no
 * memory; C is not changed. A block has no other failures. */
bool et_gemm_block_run(const et_gemm_block *block, int thread, void *c, const void *a,
                       const void *b, const float *bias);

#endif
