/* Matrix products with oneDNN: C = A B, with A [m, k], B [k, n], row-major, float32 sums. Gradients
 * of weights, A^T B, and float32 products of few rows use Etude's own kernel (arguments.h) instead;
 * bfloat16 gradients do so where it is as fast as blocks. gemm/onednn_block.c runs oneDNN's
 * products, with oneDNN 2 or 3.
 *
 * Equal bits for any number of threads: a product is divided into a fixed grid of tiles that
 * depends only on its shape and the CPU. Single-threaded primitives do each tile, and threads share
 * the tiles. Sums over a long k with a small result are divided into fixed pieces whose partial
 * results are added in order.
 *
 * A constant B (a weight) is packed once per update into the primitive's layout; other operands are
 * converted tile by tile. If the CPU's bfloat16 products are missing or no faster than its float32
 * ones, bfloat16 operands become float32 (which is exact): always the same on one machine, and C is
 * rounded as always. ETUDE_BF16=native or =widen in the environment overrides the choice if
 * possible. Primitives are cached by shape. After et_gemm_get has made a product, running it
 * allocates nothing (except oneDNN's small bookkeeping, which a test measures). */
#ifndef ETUDE_ENGINE_KERNEL_GEMM_GEMM_H
#define ETUDE_ENGINE_KERNEL_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>
#include <etude/error.h>

#include "base/threads/trace.h"

typedef struct et_gemm_cache et_gemm_cache;
typedef struct et_gemm et_gemm;

/* Up to this number of rows of A, a product that reads each part of the unpacked B once is faster
 * than packing B. */
#define ET_GEMM_FEW_ROWS 128

typedef enum et_gemm_activation { ET_GEMM_LINEAR, ET_GEMM_RELU } et_gemm_activation;

/* The parameters of a product. Compared member by member, so zero it first ({0}). */
typedef struct et_gemm_shape {
    int64_t m, n, k;
    bool transpose_a;      /* A is stored [k, m] */
    bool transpose_b;      /* B is stored [n, k] */
    int64_t lda, ldb, ldc; /* elements between stored rows; 0: dense */
    et_dtype a, b, c;      /* ET_F32 or ET_BF16; b is a or ET_BF16; c any */
    bool pack_b;           /* B comes packed by et_gemm_pack */
    bool accumulate;       /* C += A B (c must be float32) */
    bool bias;             /* + bias [n] float32 on every row, before the activation */
    et_gemm_activation activation;
    int64_t row_tile; /* about how many rows a tile has; 0: chosen from the shape. With equal
                         row_tile, n, k and the rest a row has the same bits at any m and any
                         place: decoding relies on it. On some CPUs the
                         last tile costs as much as a full one. */
} et_gemm_shape;

/* Whether this CPU has instructions for bfloat16 products (AVX-512 BF16 or AMX). */
bool et_gemm_has_bf16(void);

/* Whether the CPU has AMX, whose bfloat16 products are several times as fast. */
bool et_gemm_has_amx(void);

/* "AMX", "AVX-512 BF16", "AVX-512", "AVX2" or "SSE": what oneDNN will use here. Static. */
const char *et_gemm_isa(void);

/* A cache for at most max_threads threads. Owns everything that et_gemm_get gives out. */
int et_gemm_cache_open(et_gemm_cache **out, int max_threads, et_error *error);
void et_gemm_cache_close(et_gemm_cache *cache);

/* Choice between oneDNN's blocks and Etude's own kernels, for products that both can compute. */
typedef enum et_gemm_preference {
    ET_GEMM_BEST, /* the faster one on this CPU */
    ET_GEMM_BLOCKS,
    ET_GEMM_OWN
} et_gemm_preference;

/* For tests and comparisons: sets the preference for all products of the cache. Call before the
 * first product. */
void et_gemm_cache_prefer(et_gemm_cache *cache, et_gemm_preference preference);

/* For tests: assumes a second-level cache of `bytes` per core. */
void et_gemm_cache_assume_l2(et_gemm_cache *cache, size_t bytes);

/* Each tile that thread `thread` of a team does becomes a span of track. Not while products of
 * the cache run. */
void et_gemm_cache_trace(et_gemm_cache *cache, int thread, et_track *track);

/* The type in which operands are multiplied if both have the given type: the best type for an
 * operand that is made for only one product. */
et_dtype et_gemm_multiplied_as(const et_gemm_cache *cache, et_dtype dtype);

/* Whether Etude's own kernel computes gradients of weights, A^T B, of this type. The kernel reads B
 * in place, so packing B is useless. */
bool et_gemm_own_gradients(const et_gemm_cache *cache, et_dtype dtype);

/* Whether Etude's own kernel computes a product of more than ET_GEMM_FEW_ROWS rows, because it
 * reads the unpacked B faster than blocks read a packed B: B is float32 with rows far from each
 * other, and oneDNN takes no panels. */
bool et_gemm_own_rows(const et_gemm_cache *cache, const et_gemm_shape *shape);

/* Whether a product of more than ET_GEMM_FEW_ROWS rows reads an unpacked B as fast as a packed B: B
 * is float32, not transposed, dense and small; or et_gemm_own_rows. Then packing B for a few runs
 * is useless. */
bool et_gemm_reads_stored(const et_gemm_cache *cache, const et_gemm_shape *shape);

/* The product of this shape, made at the first call. Valid until the cache is closed. Do not call
 * while products of the cache run. k is at least 1; accumulate excludes an activation. */
int et_gemm_get(et_gemm **out, et_gemm_cache *cache, const et_gemm_shape *shape, et_error *error);

/* Bytes of a packed B, and packing: from is B as stored ([k, n] or [n, k]) of type b, packed is
 * aligned to 64. Two products can share a packed B if their shapes differ only in m, as
 * et_gemm_same_packing, for tests, says. Inside a parallel region the calling thread packs alone;
 * so pack many weights in a parallel loop over them. */
size_t et_gemm_packed_size(const et_gemm *gemm);
void et_gemm_pack(const et_gemm *gemm, void *packed, const void *from);
bool et_gemm_same_packing(const et_gemm *left, const et_gemm *right);

/* Runs the product with up to the cache's threads; inside a parallel region (outermost level), on
 * the calling thread alone. bias is NULL unless the shape has one. C overlaps nothing. */
void et_gemm_run(const et_gemm *gemm, void *c, const void *a, const void *b, const float *bias);

/* Products of the same shape, without packing. a, b, c and bias are the distances, in elements,
 * between the first elements of the operands of two consecutive products. Rows of the products may
 * interleave in memory (lda, ldb, ldc). */
typedef struct et_gemm_groups {
    int64_t count;
    int64_t a, b, c, bias;
    int64_t rows; /* rows of C that are read afterwards; tiles without such rows may be skipped */
} et_gemm_groups;

/* Runs the products one after another, or distributes the tiles of all products over the threads.
 * Each result has the same bits as with et_gemm_run. */
void et_gemm_run_groups(const et_gemm *gemm, const et_gemm_groups *groups, void *c, const void *a,
                        const void *b, const float *bias);

/* For an op that runs a product piecewise inside its own parallel region. First run tiles 0 ..
 * tiles - 1 in any order on any threads, then sums 0 .. sums - 1, which add the results for the
 * pieces of a long k (most products have no sums). Each tile and sum belongs to one thread. thread:
 * the caller's number in its team, below the cache's threads. In a cache, at most one product with
 * sums may run at a time, and any number of others.
 *
 *     #pragma omp for
 *     for (int64_t tile = 0; tile < et_gemm_tiles(gemm); tile++)
 *         et_gemm_run_tile(gemm, tile, omp_get_thread_num(), c, a, b, NULL);
 */
int64_t et_gemm_tiles(const et_gemm *gemm);
int64_t et_gemm_sums(const et_gemm *gemm);
void et_gemm_run_tile(const et_gemm *gemm, int64_t tile, int thread, void *c, const void *a,
                      const void *b, const float *bias);
void et_gemm_run_sum(const et_gemm *gemm, int64_t sum, void *c, const float *bias);

/* The part of C that a tile writes: rows [row, row + rows), columns alike. Elements, not tiles.
 * Parts of the pieces of one product are the same part of C. */
typedef struct et_gemm_part {
    int64_t row, rows, column, columns;
} et_gemm_part;

et_gemm_part et_gemm_tile_part(const et_gemm *gemm, int64_t tile);

/* The name of oneDNN's implementation of the first tile, such as "brg:avx512_core_bf16"; "own":
 * Etude's kernel. Valid as long as the gemm. */
const char *et_gemm_implementation(const et_gemm *gemm);

/* For tests: how many primitives the cache made so far. */
size_t et_gemm_cache_primitives(const et_gemm_cache *cache);

#endif
