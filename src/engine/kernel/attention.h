/* Arguments of the attention kernels: queries, keys and values of a batch of segments (training,
 * encoding) or of one new row per hypothesis (decoding). The kernels are et_kernels.attention,
 * attention_grad and cached_attention.
 *
 * Legend: T rows (tokens), H heads. Pointers are borrowed for the call. */
#ifndef ETUDE_ENGINE_KERNEL_ATTENTION_H
#define ETUDE_ENGINE_KERNEL_ATTENTION_H

#include <etude/dtype.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/numbers/philox.h"

/* Sizes of a (segment, head) tile of attention: numbers that the scratch's size and the kernels
 * must agree on. Every width is padded to ET_ATTENTION_PAD, the widest vector of all tables, so
 * inner loops have no tails. */
/* Floats of the widest vector, 16 as in AVX-512. Tables with shorter vectors use it too, so that
 * scratch has the same size for all. */
#define ET_ATTENTION_PAD 16

/* Query rows of one pass: their scores against all keys of a segment stay in cache. 16 x 512 keys
 * are 32 KiB. Two blocks of rows of the widest table, so few are computed in vain. */
#define ET_ATTENTION_ROWS 16

/* padded(64) = 64, padded(65) = 80. */
static inline size_t et_attention_padded(size_t count)
{
    return (count + ET_ATTENTION_PAD - 1) / ET_ATTENTION_PAD * ET_ATTENTION_PAD;
}

/* Multi-head attention over segments. Query rows of segment s are query_offsets[s] ..
 * query_offsets[s+1]; keys and values likewise. A row holds heads * head_dim columns from the given
 * pointer, rows `stride` elements apart, so q, k and v may be column ranges of one matrix. Weights
 * are softmax(scale * q k^T); rows of a causal segment see keys up to their own position only.
 * Dropout acts on the weights; the element index of weight (query row t, head h, key j within its
 * segment) is ((t * heads + h) << 16) + j. Empty segments (both ranges empty) are allowed; a query
 * whose segment has no keys gives 0. */
typedef struct et_attention_shape {
    int segments;
    const int32_t *query_offsets; /* [segments + 1], ascending */
    const int32_t *key_offsets;   /* [segments + 1], ascending */
    int heads, head_dim;
    int64_t query_stride, key_stride, value_stride, out_stride; /* elements between rows */
    bool causal;
    float scale; /* usually 1 / sqrt(head_dim) */
    float rate;  /* dropout on the weights; 0: none */
    et_random random;
    et_dtype dtype;
    size_t scratch_per_thread; /* floats: et_attention_scratch() of the longest segments; thread
                                  i uses scratch + i * scratch_per_thread */
} et_attention_shape;

/* Attention of one new query row per hypothesis over a key/value cache (decoding). Row r sees
 * length[r] cached rows; position p of row r is the cache row
 *   slot[r * slot_stride + p]  when slot is given (beam search: an ancestor table), or
 *   begin[r] + p               when slot is NULL (cross attention over the encoder's rows).
 * A cache row holds heads * head_dim columns. No row reads another's numbers and sums run in
 * the order of positions, so a row has the same bits in any batch. Length 0 gives zeros. */
#define ET_CACHED_HEAD_DIM_MAX 1024 /* the running output of one head lives on the stack */

typedef struct et_cached_attention_shape {
    int rows;
    const int32_t *length; /* [rows] positions seen */
    const int32_t *slot;   /* [rows, slot_stride] cache rows, or NULL */
    int64_t slot_stride;
    const int32_t *begin; /* [rows] first cache row where slot is NULL */
    int heads, head_dim;
    int64_t query_stride, key_stride, value_stride, out_stride; /* elements between rows */
    float scale;
    et_dtype dtype; /* of q, keys, values and out */
} et_cached_attention_shape;

/* Floats of scratch for one thread of attention and attention_grad; of the longest segment of
 * keys, in rows: linear in it, and queries come in blocks of a fixed size. */
size_t et_attention_scratch(int longest_key, int head_dim);

#endif
