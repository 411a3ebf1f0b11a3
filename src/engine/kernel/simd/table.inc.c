/* One table of kernels: sources that are written once, compiled for the instruction set of the
 * including file, and collected in the table ET_TABLE named ET_TABLE_NAME.
 *
 * A file that includes this file has its own flags (CMakeLists.txt). Everything but the table is
 * static, so a function that needs AVX-512 cannot replace one of the same name elsewhere.
 *
 * The pieces are one translation unit; each includes what it uses, also other pieces, so their
 * order does not matter. */

#include "engine/kernel/kernels.h"
#include "engine/kernel/simd/simd.h"
#include "engine/kernel/tables.h"

#include "engine/kernel/simd/attention.inc.c"
#include "engine/kernel/simd/best_tokens.inc.c"
#include "engine/kernel/simd/cached_attention.inc.c"
#include "engine/kernel/simd/draw.inc.c"
#include "engine/kernel/simd/elementwise.inc.c"
#include "engine/kernel/simd/embed_columns.inc.c"
#include "engine/kernel/simd/embedding.inc.c"
#include "engine/kernel/simd/float_product.inc.c"
#include "engine/kernel/simd/layer_norms.inc.c"
#include "engine/kernel/simd/listed_product.inc.c"
#include "engine/kernel/simd/norm.inc.c"
#include "engine/kernel/simd/pool.inc.c"
#include "engine/kernel/simd/recurrence.inc.c"
#include "engine/kernel/simd/row_product.inc.c"
#include "engine/kernel/simd/sample.inc.c"
#include "engine/kernel/simd/scaled_copies.inc.c"
#include "engine/kernel/simd/slice_update.inc.c"
#include "engine/kernel/simd/softmax.inc.c"
#include "engine/kernel/simd/softmax_parts.inc.c"
#include "engine/kernel/simd/staging.inc.c"

const et_kernels ET_TABLE = {
    .name = ET_TABLE_NAME,
    .panel = PANEL,
#define KERNEL(type, name, ...) .name = (name),
#include "engine/kernel/kernels.def"
#undef KERNEL
    .staging = &staging,
    .softmax_parts = &softmax_parts,
};
