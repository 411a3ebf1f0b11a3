/* B for a block, in the layout of gemm/slab.h: panels of 64 columns one after another, each filled
 * by a kernel of staging.h from its part of B. Columns after n in the last panel and rows after k
 * are zeros, which add nothing to a sum. */
#include "engine/kernel/gemm/slab.h"

#include <etude/dtype.h>

#include "base/assert.h"

/* Both values are from oneDNN's tags, BA16a64b and BA16a64b2a. */
enum { PANEL = ET_GEMM_PANEL, UNIT = 16 }; /* rows of k come in such units */

/* To a multiple, which need not be a power of two. */
static int64_t round_up(int64_t value, int64_t multiple)
{
    et_assert(value >= 0 && multiple > 0);
    return (value + multiple - 1) / multiple * multiple;
}

/* Rows of a panel. bfloat16 rows come in pairs, so the unit is twice as many. */
static int64_t panel_rows(const et_gemm_slab *slab)
{
    return round_up(slab->k, slab->dtype == ET_BF16 ? 2 * UNIT : UNIT);
}

/* Rounded up to 64 bytes, so that slabs side by side stay aligned. Example, float32 in panels: 100
 * x 200 is 112 rows of 4 panels, 256 columns. */
size_t et_gemm_slab_size(const et_gemm_slab *slab)
{
    int64_t elements =
        slab->panels ? panel_rows(slab) * round_up(slab->n, PANEL) : slab->k * slab->n;
    return ((size_t)elements * et_dtype_size(slab->dtype) + 63) / 64 * 64;
}

/* Columns first .. first + PANEL of B, as it is stored. If B is stored transposed, its columns are
 * rows there. */
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

/* Calls one of four kernels, by type and by how B is stored. Each zeroes the rest of the panel
 * after the part. */
static void fill_panel(const et_gemm_slab *slab, void *to, const et_staging *staging,
                       const et_stored *from, bool transposed)
{
    int64_t rows = panel_rows(slab);
    if (slab->dtype == ET_BF16)
        (transposed ? staging->pairs_across : staging->row_pairs)(to, rows, PANEL, from);
    else
        (transposed ? staging->across : staging->rows)(to, rows, PANEL, slab->dtype, from);
}

int64_t et_gemm_slab_panels(const et_gemm_slab *slab)
{
    return slab->panels ? round_up(slab->n, PANEL) / PANEL : 1;
}

/* Without panels the slab is B itself, dense. */
void et_gemm_slab_fill_panel(const et_gemm_slab *slab, int64_t index, void *to,
                             const et_staging *staging, const et_stored *from, bool transposed)
{
    et_assert(index >= 0 && index < et_gemm_slab_panels(slab));
    et_assert_equal(transposed ? from->columns : from->rows, slab->k);
    et_assert_equal(transposed ? from->rows : from->columns, slab->n);
    et_assert(slab->dtype == from->dtype || slab->dtype == ET_F32);
    if (!slab->panels) {
        (transposed ? staging->across : staging->rows)(to, slab->k, slab->n, slab->dtype, from);
        return;
    }
    size_t panel = (size_t)(panel_rows(slab) * PANEL) * et_dtype_size(slab->dtype);
    et_stored part = part_of(from, index * PANEL, transposed);
    fill_panel(slab, (char *)to + (size_t)index * panel, staging, &part, transposed);
}

void et_gemm_slab_fill(const et_gemm_slab *slab, void *to, const et_staging *staging,
                       const et_stored *from, bool transposed)
{
    for (int64_t index = 0; index < et_gemm_slab_panels(slab); index++)
        et_gemm_slab_fill_panel(slab, index, to, staging, from, transposed);
}
