/* Sizes of a (segment, head) tile of attention: numbers that the scratch's size and the kernels
 * must agree on. Every width is padded to ET_ATTENTION_PAD, the widest vector of all tables, so
 * inner loops have no tails. */
#ifndef ETUDE_ENGINE_KERNEL_ATTENTION_SIZES_H
#define ETUDE_ENGINE_KERNEL_ATTENTION_SIZES_H

#include <stddef.h>

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

#endif
