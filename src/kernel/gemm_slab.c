#include "kernel/gemm_slab.h"

#include <etude/dtype.h>

#include "base/assert.h"

enum { PANEL = 64, UNIT = 16 }; /* columns of a panel; rows of k come in such units */

static int64_t round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Rows of a panel. */
static int64_t panel_rows(const et_gemm_slab *slab)
{
    return round_up(slab->k, slab->dtype == ET_BF16 ? 2 * UNIT : UNIT);
}

size_t et_gemm_slab_size(const et_gemm_slab *slab)
{
    int64_t elements =
        slab->panels ? panel_rows(slab) * round_up(slab->n, PANEL) : slab->k * slab->n;
    return ((size_t)elements * et_dtype_size(slab->dtype) + 63) / 64 * 64;
}

/* Columns first .. first + PANEL of B, as it is stored. */
static et_stored part_of(const et_stored *from, int64_t first, bool transposed)
{
    et_stored part = *from;
    int64_t columns = transposed ? from->rows : from->columns;
    int64_t width = columns - first < PANEL ? columns - first : PANEL;
    *(transposed ? &part.rows : &part.columns) = width;
    part.data = (const char *)from->data +
                (size_t)(transposed ? first * from->stride : first) * et_dtype_size(from->dtype);
    return part;
}

static void fill_panel(const et_gemm_slab *slab, void *to, const et_staging *staging,
                       const et_stored *from, bool transposed)
{
    int64_t rows = panel_rows(slab);
    if (slab->dtype == ET_BF16)
        (transposed ? staging->pairs_across : staging->row_pairs)(to, rows, PANEL, from);
    else
        (transposed ? staging->across : staging->rows)(to, rows, PANEL, slab->dtype, from);
}

void et_gemm_slab_fill(const et_gemm_slab *slab, void *to, const et_staging *staging,
                       const et_stored *from, bool transposed)
{
    et_assert_equal(transposed ? from->columns : from->rows, slab->k);
    et_assert_equal(transposed ? from->rows : from->columns, slab->n);
    et_assert(slab->dtype == from->dtype || slab->dtype == ET_F32);
    if (!slab->panels) {
        (transposed ? staging->across : staging->rows)(to, slab->k, slab->n, slab->dtype, from);
        return;
    }
    size_t panel = (size_t)(panel_rows(slab) * PANEL) * et_dtype_size(slab->dtype);
    for (int64_t first = 0; first < slab->n; first += PANEL) {
        et_stored part = part_of(from, first, transposed);
        fill_panel(slab, (char *)to + (size_t)(first / PANEL) * panel, staging, &part, transposed);
    }
}
