/* Look-ups of several columns in consecutive tables, and their derivative. As in embedding.inc.c,
 * threads divide columns and ids, never rows, so one thread owns an element of dtable and adds its
 * rows in ascending order. */
#ifndef ETUDE_KERNEL_EMBED_COLUMNS_INC_C
#define ETUDE_KERNEL_EMBED_COLUMNS_INC_C

#include <stdint.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/embedding.inc.c"
#include "engine/kernel/simd/simd.h"

static void embed_columns_part(void *y, const int32_t *ids, const float *table,
                               const et_column_embedding *s, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        const float *from = table;
        int64_t at = t * s->width;
        for (int c = 0; c < s->count; c++) {
            const et_column *column = &s->column[c];
            const int32_t id = ids[t * s->count + c];
            et_assert(id < column->rows);
            const float *row = id >= 0 ? from + id * column->width : NULL;
            ET_BY_DTYPE(s->dtype, embed_row, y, row, (const float *)NULL, 1.0f, at, column->width);
            at += column->width;
            from += column->rows * column->width;
        }
    }
}

static void embed_columns(void *y, const int32_t *ids, const float *table,
                          const et_column_embedding *s)
{
    ET_PARALLEL(s->rows * s->width >= ET_GRAIN, s->rows, 1, embed_columns_part, y, ids, table, s);
}

/* An item is a class of ids of one column. */
static void embed_columns_grad_part(float *dtable, const int32_t *ids, const void *dy,
                                    const et_column_embedding *s, int64_t begin, int64_t end)
{
    int64_t first = 0, at = 0;
    for (int c = 0; c < s->count; c++) {
        const et_column *column = &s->column[c];
        for (int64_t item = (int64_t)c * EMBED_CLASSES; item < ((int64_t)c + 1) * EMBED_CLASSES;
             item++) {
            for (int64_t t = 0; t < s->rows && item >= begin && item < end; t++) {
                const int32_t id = ids[t * s->count + c];
                if (id < 0 || id % EMBED_CLASSES != item % EMBED_CLASSES)
                    continue;
                et_assert(id < column->rows);
                ET_BY_DTYPE(s->dtype, embed_add, dtable + first + id * column->width, dy, 1.0f,
                            (t * s->width + at), column->width);
            }
        }
        first += column->rows * column->width;
        at += column->width;
    }
}

static void embed_columns_grad(float *dtable, const int32_t *ids, const void *dy,
                               const et_column_embedding *s)
{
    const int64_t items = (int64_t)s->count * EMBED_CLASSES;
    ET_PARALLEL(s->rows * s->width >= ET_GRAIN, items, 1, embed_columns_grad_part, dtable, ids, dy,
                s);
}

#endif
