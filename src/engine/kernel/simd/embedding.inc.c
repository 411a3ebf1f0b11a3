/* Table look-up and its derivative.
 *
 *   y[t] = scale table[ids[t]] + positions[position[t]];  ids below 0: zeros
 *   dtable[ids[t]] += scale dy[t]
 *
 * The derivative adds into rows that several t may share. Threads split columns and ids among
 * them, so one thread owns an element of dtable and adds its rows in ascending order: no atomics,
 * and the same bits for any number of threads. */
#ifndef ETUDE_KERNEL_EMBEDDING_INC_C
#define ETUDE_KERNEL_EMBEDDING_INC_C

#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/simd.h"

/* row NULL: an empty place, and then place is NULL as well. */
ET_INLINE void embed_row(void *y, const float *row, const float *added, float scale, int64_t at,
                         int64_t width, et_dtype dtype)
{
    for (int64_t d = 0; d < width; d += V_LANES) {
        vf value = v_set(0.0f);
        if (row)
            value = v_get_n(row, d, width - d) * v_set(scale);
        if (added)
            value = value + v_get_n(added, d, width - d);
        v_write_n(y, at + d, value, width - d, dtype);
    }
}

static void embedding_part(void *y, const int32_t *ids, const int32_t *position, const float *table,
                           const float *positions, float scale, int64_t width, et_dtype dtype,
                           int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        const float *row = ids[t] >= 0 ? table + ids[t] * width : NULL;
        const bool placed = row && positions && position[t] >= 0;
        const float *added = placed ? positions + position[t] * width : NULL;
        ET_BY_DTYPE(dtype, embed_row, y, row, added, scale, (t * width), width);
    }
}

static void embedding(void *y, const int32_t *ids, const int32_t *position, const float *table,
                      const float *positions, float scale, int64_t rows, int64_t width,
                      et_dtype dtype)
{
    et_assert(rows >= 0 && width >= 1);
    ET_PARALLEL(rows * width >= ET_GRAIN, rows, 1, embedding_part, y, ids, position, table,
                positions, scale, width, dtype);
}

/* A width of 512 gives 8 x 4 = 32 items, about even where ids are spread evenly over remainders. */
#define EMBED_COLUMNS 64 /* columns of one item of work: whole cache lines */
#define EMBED_CLASSES 4  /* classes of ids, by their remainder */

/* One row's columns, count of them. */
ET_INLINE void embed_add(float *to, const void *dy, float scale, int64_t at, int64_t count,
                         et_dtype dtype)
{
    for (int64_t d = 0; d < count; d += V_LANES) {
        const int64_t n = count - d;
        vf grown = v_get_n(to, d, n) + v_read_n(dy, at + d, n, dtype) * v_set(scale);
        v_put_n(to, d, grown, n);
    }
}

/* An item is a class of ids in a chunk of columns. Each reads all ids, which are few bytes compared
 * with the rows. */
static void embedding_grad_part(float *dtable, const int32_t *ids, const void *dy, float scale,
                                int64_t rows, int64_t width, int64_t vocabulary, et_dtype dtype,
                                int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item / EMBED_CLASSES * EMBED_COLUMNS;
        int64_t count = width - first < EMBED_COLUMNS ? width - first : EMBED_COLUMNS;
        for (int64_t t = 0; t < rows; t++) {
            et_assert(ids[t] < vocabulary);
            if (ids[t] < 0 || ids[t] % EMBED_CLASSES != item % EMBED_CLASSES)
                continue;
            ET_BY_DTYPE(dtype, embed_add, dtable + ids[t] * width + first, dy, scale,
                        (t * width + first), count);
        }
    }
    (void)vocabulary;
}

/* Work is divided by column and by id, never by row: the owner of an element of dtable adds all its
 * rows, in ascending order. */
static void embedding_grad(float *dtable, const int32_t *ids, const void *dy, float scale,
                           int64_t rows, int64_t width, int64_t vocabulary, et_dtype dtype)
{
    et_assert(rows >= 0 && width >= 1);
    const int64_t chunks = (width + EMBED_COLUMNS - 1) / EMBED_COLUMNS;
    ET_PARALLEL(rows * width >= ET_GRAIN, chunks * EMBED_CLASSES, 1, embedding_grad_part, dtable,
                ids, dy, scale, rows, width, vocabulary, dtype);
}

#endif
