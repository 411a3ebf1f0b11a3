/* One table of kernels: the sources that are written once, compiled for the instruction set of the
 * including file, and bound into the table ET_TABLE named ET_TABLE_NAME.
 *
 * A file that includes this has flags of its own (CMakeLists.txt). Everything but the table is
 * static, so that no function that needs AVX-512 can stand in for one of the same name elsewhere.
 *
 * The pieces are one translation unit, and their order counts: attention takes products and rows of
 * scores from the two before it; softmax_parts takes row_largest and the smoothed target from
 * softmax; float_product brings operands across with staging; best_pieces takes bytes and panels
 * from row_product, and log_softmax_row and top_row from softmax; layer_norms takes sums over
 * blocks of rows from norm, embed_columns takes rows from embedding, sample takes numbers from
 * draw. */

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/normal.h"
#include "kernel/attention_cut.h"
#include "kernel/kernels.h"
#include "kernel/share.h"
#include "kernel/simd.h"
#include "kernel/simd_math.h"
#include "kernel/simd_random.h"
#include "kernel/tables.h"

#include "kernel/elementwise.inc.c"
#include "kernel/norm.inc.c"
#include "kernel/embedding.inc.c"
#include "kernel/softmax.inc.c"
#include "kernel/softmax_parts.inc.c"
#include "kernel/attention_product.inc.c"
#include "kernel/attention_rows.inc.c"
#include "kernel/attention.inc.c"
#include "kernel/cached_attention.inc.c"
#include "kernel/optimizer.inc.c"
#include "kernel/draw.inc.c"
#include "kernel/row_product.inc.c"
#include "kernel/best_pieces.inc.c"
#include "kernel/staging.inc.c"
#include "kernel/float_product.inc.c"
#include "kernel/layer_norms.inc.c"
#include "kernel/embed_columns.inc.c"
#include "kernel/pool.inc.c"
#include "kernel/sample.inc.c"

static const et_layer_kernels layers = {
    .rms_norm = rms_norm,
    .rms_norm_grad = rms_norm_grad,
    .column_moments = column_moments,
    .batch_norm = batch_norm,
    .batch_norm_grad = batch_norm_grad,
    .embed_columns = embed_columns,
    .embed_columns_grad = embed_columns_grad,
    .pool = pool,
    .pool_grad = pool_grad,
    .noise = noise,
    .bernoulli = bernoulli,
};

const et_kernels ET_TABLE = {
    .name = ET_TABLE_NAME,
    .panel = PANEL,
    .elementwise = elementwise,
    .layer_norm = layer_norm,
    .layer_norm_grad = layer_norm_grad,
    .column_sum = column_sum,
    .sum = sum,
    .fill = fill,
    .embedding = embedding,
    .embedding_grad = embedding_grad,
    .attention = attention,
    .attention_grad = attention_grad,
    .cached_attention = cached_attention,
    .row_product = row_product,
    .best_pieces = best_pieces,
    .softmax_cross_entropy = softmax_cross_entropy,
    .log_softmax = log_softmax,
    .top_k = top_k,
    .to_bf16 = to_bf16,
    .from_bf16 = from_bf16,
    .sum_of_squares = sum_of_squares,
    .adam = adam,
    .sgd = sgd,
    .accumulate = accumulate,
    .draw_uniform = draw_uniform,
    .draw_normal = draw_normal,
    .staging = &staging,
    .softmax_parts = &softmax_parts,
    .float_product = float_product,
    .layers = &layers,
};
