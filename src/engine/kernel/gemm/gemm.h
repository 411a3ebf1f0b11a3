/* Matrix products with oneDNN: C = A B, with A [m, k], B [k, n], row-major, float32 sums. Gradients
 * of weights, A^T B, and float32 products of few rows use Etude's own kernel instead
 * (arguments.h), the former in bfloat16 if that is as fast as blocks. gemm/onednn_block.c,
 * which runs oneDNN's products, works with its versions 2 and 3.
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

/* Whether it has AMX, whose bfloat16 products are several times as fast. */
bool et_gemm_has_amx(void);

/* "AMX", "AVX-512 BF16", "AVX-512", "AVX2" or "SSE": what oneDNN will use here. Static. */
const char *et_gemm_isa(void);

/* A cache for at most max_threads threads. Owns everything that et_gemm_get gives out. */
int et_gemm_cache_open(et_gemm_cache **out, int max_threads, et_error *error);
void et_gemm_cache_close(et_gemm_cache *cache);

/* Which of two ways computes a product that both can: blocks, which are oneDNN's, or Etude's own
 * kernels. */
typedef enum et_gemm_preference {
    ET_GEMM_BEST, /* as this CPU does it faster */
    ET_GEMM_BLOCKS,
    ET_GEMM_OWN
} et_gemm_preference;

/* For tests and comparisons: all products of the cache are made so. Before the first of them. */
void et_gemm_cache_prefer(et_gemm_cache *cache, et_gemm_preference preference);

/* For tests: as on a CPU whose cores have a second-level cache of `bytes`. */
void et_gemm_cache_assume_l2(et_gemm_cache *cache, size_t bytes);

/* Each tile that thread `thread` of a team does becomes a span of track. Not while products of
 * the cache run. */
void et_gemm_cache_trace(et_gemm_cache *cache, int thread, et_track *track);

/* The type in which operands are multiplied if both have the given type: the best type for an
 * operand that is made for only one product. */
et_dtype et_gemm_multiplied_as(const et_gemm_cache *cache, et_dtype dtype);

/* Whether Etude's own kernel computes gradients of weights, A^T B of that type. It reads B in
 * place, so packing B is useless. */
bool et_gemm_own_gradients(const et_gemm_cache *cache, et_dtype dtype);

/* Whether our own kernel does a product of more than ET_GEMM_FEW_ROWS rows, as it reads an unpacked
 * B faster than blocks do a packed one: float32 whose rows are far from each other, if oneDNN takes
 * no panels. */
bool et_gemm_own_rows(const et_gemm_cache *cache, const et_gemm_shape *shape);

/* Whether a product of more than ET_GEMM_FEW_ROWS rows reads an unpacked B as fast as a packed one,
 * so that packing it for a few runs is useless: B is float32, not transposed, dense and small; or
 * et_gemm_own_rows. */
bool et_gemm_reads_stored(const et_gemm_cache *cache, const et_gemm_shape *shape);

/* The product of that shape, made at the first call. Valid until the cache is closed. Not
 * while products of the cache run. k is at least 1; accumulate excludes an activation. */
int et_gemm_get(et_gemm **out, et_gemm_cache *cache, const et_gemm_shape *shape, et_error *error);

/* Bytes of a packed B, and packing: from is B as stored ([k, n] or [n, k]) of type b, packed is
 * aligned to 64. Two products can share a packed B if their shapes differ only in m, as
 * et_gemm_same_packing, for tests, says. Inside a parallel region the calling thread packs alone;
 * so pack many weights in a parallel loop over them. */
size_t et_gemm_packed_size(const et_gemm *gemm);
void et_gemm_pack(const et_gemm *gemm, void *packed, const void *from);
bool et_gemm_same_packing(const et_gemm *left, const et_gemm *right);

/* Runs it with up to the cache's threads; inside a parallel region, alone on the calling thread
 * (outermost level). bias is NULL unless the shape has one. C overlaps nothing. */
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

/* For an op that runs a product piecewise inside its own parallel region: tiles 0 .. tiles - 1
 * in any order and on any threads, all done before the sums 0 .. sums - 1 (none for most
 * products; they add up what pieces of a long k gave). thread is the caller's number in its
 * team, below the cache's threads; each tile and sum belongs to one thread. At most one
 * product with sums is under way in a cache at a time; of others, any number.
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

/* What oneDNN runs for the first tile, such as "brg:avx512_core_bf16"; "own" is our kernel. Valid
 * as the gemm. */
const char *et_gemm_implementation(const et_gemm *gemm);

/* For tests: how many primitives the cache made so far. */
size_t et_gemm_cache_primitives(const et_gemm_cache *cache);

#endif
