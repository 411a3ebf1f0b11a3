/* How the attention kernels cut one (segment, head) tile: the numbers that the scratch's size
 * and the kernels must agree on. Every width is padded to ET_ATTENTION_PAD, the widest vector
 * of all tables, so that inner loops have no tails. */
#ifndef ETUDE_KERNEL_ATTENTION_H
#define ETUDE_KERNEL_ATTENTION_H

#include <stddef.h>

/* Floats in the widest vector. */
#define ET_ATTENTION_PAD 16

/* Query rows of one pass: their scores against all keys of a segment stay in cache. */
#define ET_ATTENTION_ROWS 16

static inline size_t et_attention_padded(size_t count)
{
    return (count + ET_ATTENTION_PAD - 1) / ET_ATTENTION_PAD * ET_ATTENTION_PAD;
}

#endif
