/* Functions per op: prepare makes the products and packed weights of a call at planning, scratch
 * returns its bytes, and run calls the kernel. ops.def makes the table of all ops.
 *
 * A function here finds the tensors of a call, takes sizes from their shapes and calls one kernel.
 * It computes no numbers and allocates no memory. Everything that a kernel needs besides its
 * operands is declared at planning.
 *
 * Invariants:
 *
 *   1. Rows come from the tensors, which et_plan_set_rows may have shortened; scratch is for the
 *      planned rows, so it is large enough.
 *   2. A result without memory (NULL) is read by nobody: kernels skip it.
 *   3. Rows after the last segment come out of attention as zeros, so products over all rows, such
 *      as gradients of weights, are not changed by them.
 *   4. Sizes of blocks come from shapes and never from the number of threads: equal bits for any.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"
#include "engine/kernel/sizes.h"

/* ---- element-wise ---- */

/* All outputs of a chain have the shape of the first. plan->random has seed and step; the program
 * has the site, which distinguishes dropouts. */
static void run_elementwise(const et_plan *plan, const et_plan_call *call)
{
    const void *inputs[ET_EW_INPUTS_MAX];
    void *outputs[ET_EW_OUTPUTS_MAX];
    for (int i = 0; i < call->in_count; i++)
        inputs[i] = IN(i);
    for (int i = 0; i < call->out_count; i++)
        outputs[i] = OUT(i);
    const et_tensor *like = TENSOR_OUT(0);
    const et_ew_program *program = &call->program;
    et_ew_program faded;
    if (plan->dropout != 1) {
        /* The chain with its rates of dropout times the plan's factor. */
        faded = *program;
        for (int i = 0; i < faded.steps; i++)
            if (faded.step[i].op == ET_EW_DROPOUT)
                faded.step[i].x *= plan->dropout;
        program = &faded;
    }
    kernels(plan)->elementwise(program, outputs, inputs, rows_of(like), width_of(like),
                               plan->random);
}

/* ---- sums ---- */

/* The kernel adds long runs up in double: rounded once, here. */
static void run_sum(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    double sum = kernels(plan)->sum(x->data, et_shape_count(x->shape), x->dtype);
    *(float *)OUT(0) = (float)sum;
}

const et_op_functions et_cpu_SUM = { .run = run_sum };

/* Input 1 is used only for its shape. */
static void run_fill(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    float value = *(const float *)IN(0);
    kernels(plan)->fill(y->data, value, et_shape_count(y->shape), y->dtype);
}

const et_op_functions et_cpu_FILL = { .run = run_fill };

/* y[d] = sum over t of x[t, d]: the gradient of a bias. Blocks are added in their order. */
static void run_column_sum(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    kernels(plan)->column_sum(OUT(0), scratch(plan), x->data, rows_of(x), width_of(x), x->dtype);
}

const et_op_functions et_cpu_COLUMN_SUM = { .run = run_column_sum,
                                            .scratch = et_cpu_scratch_of_sums };

/* ---- products ---- */

static bool is_param(const et_plan *plan, int value)
{
    return plan->values[value].storage == VALUE_IN_PARAMS;
}

/* Products of rows with a weight use kernels->row_product if operands are multiplied as float32 and
 * it is at least as fast as oneDNN. Products are done in one of three ways:
 *
 *     by rows     B is a weight, row_tile is set              rows by themselves, for decoding
 *     packed B    B is a weight, many rows or a lasting copy  training, decoding in native bfloat16
 *     plain B     all else                                    operands that calls have made
 *
 * A^T B sums over rows, so it never goes by rows. */
static bool is_by_rows(const et_plan *plan, const et_plan_call *call)
{
    const et_matmul_options *options = &call->node->attributes.matmul;
    const et_dtype act = plan->graph->options.act;
    return options->row_tile && !options->transpose_a && is_param(plan, call->in[1]) &&
           et_gemm_multiplied_as(plan->device->gemms, act) == ET_F32;
}

/* Bytes, if the plan wants them and a sum of them cannot exceed 2^31; other weights stay float32.
 * call->gemm[0] stays NULL, by which run_matmul recognizes these products. */
static int prepare_rows(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_tensor *a = TENSOR_IN(0), *c = TENSOR_OUT(0);
    const et_dtype act = plan->graph->options.act;
    bool int8 = plan->options.int8 && act == ET_F32 && a->shape.size[1] <= ET_ROW_BYTES_MAX;
    const et_plan_pack wanted = { .rows = { .kind = int8 ? ET_ROW_INT8 : ET_ROW_F32,
                                            .n = c->shape.size[1],
                                            .k = a->shape.size[1],
                                            .panel = kernels(plan)->panel },
                                  .transposed = call->node->attributes.matmul.transpose_b,
                                  .param = plan->values[call->in[1]].node->attributes.param,
                                  .dtype = act };
    call->scratch = et_row_scratch(c->shape.size[0], wanted.rows.k, wanted.rows.kind, act);
    return et_plan_add_pack(plan, &wanted, &call->pack[0], error);
}

static void run_rows(const et_plan *plan, const et_plan_call *call)
{
    const et_dtype act = plan->graph->options.act;
    const et_row_product shape = { .rows = TENSOR_OUT(0)->shape.size[0],
                                   .x = act,
                                   .y = TENSOR_OUT(0)->dtype,
                                   .weight = &et_plan_pack_at(plan, call->pack[0])->rows,
                                   .bias = call->in_count == 3 ? IN(2) : NULL,
                                   .relu = call->node->attributes.matmul.relu,
                                   .scratch = plan->scratch };
    kernels(plan)->row_product(OUT(0), et_plan_data_as(plan, call->in[0], act), &shape);
}

/* Whether B is packed: a weight, except for few rows or if it is small. Then tiles read or copy it
 * faster themselves, unless the packed copy is kept. Products by tiles of fixed rows are those of
 * decoding, which run often with the same weights. */
static bool wants_packing(const et_plan *plan, const et_plan_call *call, const et_gemm_shape *shape)
{
    bool lasts = plan->options.keep_packed && !plan->graph->options.training;
    bool soon = shape->m <= ET_GEMM_FEW_ROWS || et_gemm_reads_stored(plan->device->gemms, shape);
    return is_param(plan, call->in[1]) && (!soon || lasts || shape->row_tile > 0);
}

/* C = A B (+ bias) (relu), [m, k] x [k, n]. Operands are read in the activations' type: a weight
 * from its shadow if that is bfloat16. k is A's second size, or its first if A is stored
 * transposed. With groups, the product is that of one group; its rows have the stride of all
 * groups. */
static int prepare_matmul(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_matmul_options *options = &call->node->attributes.matmul;
    const et_tensor *a = TENSOR_IN(0), *c = TENSOR_OUT(0);
    et_dtype act = plan->graph->options.act;
    const int64_t groups = et_matmul_groups(options);
    if (is_by_rows(plan, call))
        return prepare_rows(plan, call, error);
    et_gemm_shape shape = {
        .m = c->shape.size[0],
        .n = c->shape.size[1] / groups,
        .k = options->transpose_a ? a->shape.size[0] : a->shape.size[1] / groups,
        .transpose_a = options->transpose_a,
        .transpose_b = options->transpose_b,
        .a = act,
        .b = act,
        .c = c->dtype,
        .bias = call->in_count == 3,
        .activation = options->relu ? ET_GEMM_RELU : ET_GEMM_LINEAR,
        .row_tile = options->row_tile,
    };
    if (groups > 1) {
        shape.lda = a->shape.size[1];
        shape.ldb = TENSOR_IN(1)->shape.size[1];
        shape.ldc = c->shape.size[1];
    }
    shape.pack_b = groups == 1 && wants_packing(plan, call, &shape);
    int status = et_gemm_get(&call->gemm[0], plan->device->gemms, &shape, error);
    if (status)
        return et_fail_while(error, status, "%s", call->node->name);
    if (!shape.pack_b)
        return ET_OK;
    const et_plan_pack wanted = { .gemm = call->gemm[0],
                                  .param = plan->values[call->in[1]].node->attributes.param,
                                  .dtype = act };
    return et_plan_add_pack(plan, &wanted, &call->pack[0], error);
}

/* Runs only the tiles that hold a batch's rows, if the batch is not full. A tile that begins inside
 * the rows is run whole: C was planned for the full batch, so there is room, and nobody reads the
 * rows past the batch. Products with sums over pieces of k are excluded, because their sums need
 * all tiles. Inside a parallel region the calling thread does all tiles by itself, under its own
 * number. */
static void run_some_tiles(const et_gemm *gemm, int64_t rows, void *c, const void *a, const void *b,
                           const float *bias)
{
    const int64_t tiles = et_gemm_tiles(gemm);
    const int outer = omp_in_parallel() ? omp_get_thread_num() : -1;
    et_assert_equal(et_gemm_sums(gemm), 0);
#pragma omp parallel for schedule(dynamic, 1) if (outer < 0)
    for (int64_t tile = 0; tile < tiles; tile++)
        if (et_gemm_tile_part(gemm, tile).row < rows)
            et_gemm_run_tile(gemm, tile, outer < 0 ? omp_get_thread_num() : outer, c, a, b, bias);
}

/* Fewer rows than planned: only tiles that hold some of them. */
static void run_matmul(const et_plan *plan, const et_plan_call *call)
{
    et_dtype act = plan->graph->options.act;
    if (!call->gemm[0]) {
        run_rows(plan, call);
        return;
    }
    const et_tensor *c = TENSOR_OUT(0);
    const int64_t rows = c->shape.size[0];
    const int64_t count = et_matmul_groups(&call->node->attributes.matmul);
    const void *a = et_plan_data_as(plan, call->in[0], act);
    const void *b = call->pack[0] >= 0 ? et_plan_pack_at(plan, call->pack[0])->data
                                       : et_plan_data_as(plan, call->in[1], act);
    const float *bias = call->in_count == 3 ? IN(2) : NULL;
    if (count > 1) {
        const int64_t columns = c->shape.size[1] / count;
        const et_gemm_groups groups = { .count = count,
                                        .rows = rows,
                                        .a = TENSOR_IN(0)->shape.size[1] / count,
                                        .b = TENSOR_IN(1)->shape.size[1] / count,
                                        .c = columns,
                                        .bias = columns };
        et_gemm_run_groups(call->gemm[0], &groups, c->data, a, b, bias);
    } else if (rows < call->node->type[0].shape.size[0]) {
        run_some_tiles(call->gemm[0], rows, c->data, a, b, bias);
    } else {
        et_gemm_run(call->gemm[0], c->data, a, b, bias);
    }
}

const et_op_functions et_cpu_MATMUL = { .run = run_matmul, .prepare = prepare_matmul };

/* ---- norm ---- */

/* y = (x - mean) / sqrt(variance + epsilon) gamma + beta, by rows; result 1 has the statistics of
 * each row that the derivative needs. attributes.x is epsilon. */
static void run_layer_norm(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    kernels(plan)->layer_norm(OUT(0), OUT(1), x->data, IN(1), IN(2), call->node->attributes.x,
                              rows_of(x), width_of(x), x->dtype);
}

const et_op_functions et_cpu_LAYER_NORM = { .run = run_layer_norm };

/* Inputs: dy, x, stats, gamma (, beta). With a fourth result the norm itself is rematerialized in
 * the same pass, for a reader in the backward pass; only that needs beta. */
static void run_layer_norm_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(1);
    bool again = call->node->results > 3;
    const et_layer_norm_grad norm = { .dx = OUT(0),
                                      .y = again ? OUT(3) : NULL,
                                      .dgamma = OUT(1),
                                      .dbeta = OUT(2),
                                      .scratch = scratch(plan),
                                      .dy = IN(0),
                                      .x = x->data,
                                      .stats = IN(2),
                                      .gamma = IN(3),
                                      .beta = again ? IN(4) : NULL,
                                      .rows = rows_of(x),
                                      .width = width_of(x),
                                      .dtype = x->dtype };
    kernels(plan)->layer_norm_grad(&norm);
}

const et_op_functions et_cpu_LAYER_NORM_GRAD = { .run = run_layer_norm_grad,
                                                 .scratch = et_cpu_scratch_of_sums };

/* ---- embedding ---- */

/* y[t] = scale table[id[t]] (+ positions[position[t]]), zeros for a negative id. The inputs are
 * ids, table (, position, positions). */
static void run_embedding(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    const int32_t *position = call->in_count == 4 ? IN(2) : NULL;
    const float *positions = call->in_count == 4 ? IN(3) : NULL;
    kernels(plan)->embedding(y->data, IN(0), position, IN(1), positions, call->node->attributes.x,
                             rows_of(y), width_of(y), y->dtype);
}

const et_op_functions et_cpu_EMBEDDING = { .run = run_embedding };

/* table = base + scatter of scale dy. */
static void run_embedding_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *dy = TENSOR_IN(1), *table = begin_table(plan, call);
    kernels(plan)->embedding_grad(table->data, IN(0), dy->data, call->node->attributes.x,
                                  rows_of(dy), width_of(dy), rows_of(table), dy->dtype);
}

const et_op_functions et_cpu_EMBEDDING_GRAD = { .run = run_embedding_grad };

/* ---- attention ---- */

/* Column ranges of q and kv as attention wants them; input i of the call is q, i + 1 kv.
 * Self-attention has q, k and v side by side in one matrix [T, 3 width]; else q is [T, width]
 * and kv [S, 2 width], keys on the left.
 *
 *     self:   | q | k | v |     k_column = width, v_column = 2 width elements
 *     else:   | k | v |         k_column = 0, v_column = width elements */
typedef struct attention_views {
    et_attention_shape shape;
    size_t k_column, v_column; /* bytes from a row's start */
} attention_views;

/* scale = 1 / sqrt(head_dim) (Vaswani et al. 2017). The op's site separates the numbers of dropout.
 * offsets has one entry more than there are segments. */
static attention_views view_attention(const et_plan *plan, const et_plan_call *call, int first)
{
    const et_attributes *attributes = &call->node->attributes;
    const et_tensor *q = TENSOR_IN(first), *kv = TENSOR_IN(first + 1);
    const et_tensor *offsets = TENSOR_IN(first + 2);
    int64_t q_stride = q->shape.size[1], kv_stride = kv->shape.size[1];
    int64_t width = attributes->self ? q_stride / 3 : q_stride;
    int head_dim = (int)(width / attributes->attention.heads);
    size_t column = width * et_dtype_size(q->dtype);
    attention_views views = {
        .shape = {
            .segments = (int)offsets->shape.size[0] - 1,
            .query_offsets = offsets->data,
            .key_offsets = IN(first + 3),
            .heads = attributes->attention.heads,
            .head_dim = head_dim,
            .query_stride = q_stride,
            .key_stride = kv_stride,
            .value_stride = kv_stride,
            .out_stride = width,
            .causal = attributes->attention.causal,
            .scale = 1 / sqrtf((float)head_dim),
            .rate = attributes->attention.rate * plan->dropout,
            .random = plan->random,
            .dtype = q->dtype,
            .scratch_per_thread = call->scratch / sizeof(float) / (size_t)plan->device->threads,
        },
        .k_column = attributes->self ? column : 0,
        .v_column = attributes->self ? 2 * column : column,
    };
    views.shape.random.site = attributes->site;
    return views;
}

/* Each thread has its own, for the longest query and key that a batch may have. */
static size_t scratch_of_attention(const et_plan *plan, const et_plan_call *call)
{
    const et_attention_options *options = &call->node->attributes.attention;
    const et_tensor *q = TENSOR_IN(call->node->op == ET_OP_ATTENTION_GRAD ? 2 : 0);
    int64_t width = q->shape.size[1] / (call->node->attributes.self ? 3 : 1);
    return et_attention_scratch(options->longest_key, (int)(width / options->heads)) *
           sizeof(float) * (size_t)plan->device->threads;
}

/* Rows past the last segment belong to nobody; products over all rows must find zeros there.
 * Without memory (log-sum-exp where nobody differentiates) there is nothing to clear. */
static void clear_tail(const et_tensor *tensor, int64_t used)
{
    if (!tensor->data)
        return;
    size_t row = width_of(tensor) * et_dtype_size(tensor->dtype);
    memset((char *)tensor->data + (size_t)used * row, 0, (size_t)(rows_of(tensor) - used) * row);
}

/* Result 1 is the logarithm of each softmax's sum, from which the derivative computes the weights
 * again (Dao et al. 2022, "FlashAttention"). */
static void run_attention(const et_plan *plan, const et_plan_call *call)
{
    attention_views views = view_attention(plan, call, 0);
    const char *q = IN(0), *kv = IN(1);
    kernels(plan)->attention(OUT(0), OUT(1), q, kv + views.k_column, kv + views.v_column,
                             &views.shape, scratch(plan));
    int64_t used = views.shape.query_offsets[views.shape.segments];
    clear_tail(TENSOR_OUT(0), used);
    clear_tail(TENSOR_OUT(1), used);
}

const et_op_functions et_cpu_ATTENTION = { .run = run_attention, .scratch = scratch_of_attention };

/* Derivatives have the layout of their operands: with self-attention dq, dk and dv are columns of
 * one matrix. If nobody needs those of keys and values of another text, they have no memory. */
static void run_attention_grad(const et_plan *plan, const et_plan_call *call)
{
    attention_views views = view_attention(plan, call, 2);
    const char *q = IN(2), *kv = IN(3);
    char *dq = OUT(0);
    char *dkv = call->node->attributes.self ? dq : OUT(1);
    kernels(plan)->attention_grad(
        dq, dkv ? dkv + views.k_column : NULL, dkv ? dkv + views.v_column : NULL, IN(0), IN(1), q,
        kv + views.k_column, kv + views.v_column, &views.shape, scratch(plan));
    clear_tail(TENSOR_OUT(0), views.shape.query_offsets[views.shape.segments]);
    if (!call->node->attributes.self)
        clear_tail(TENSOR_OUT(1), views.shape.key_offsets[views.shape.segments]);
}

const et_op_functions et_cpu_ATTENTION_GRAD = { .run = run_attention_grad,
                                                .scratch = scratch_of_attention };

/* Attention of one new row per hypothesis over a cache of keys and values: decoding. In
 * self-attention the new rows' keys and values are first put into the cache.
 *
 * The cache is [slots, 2 width]: keys in the left half of a row, values in the right.
 * Self-attention finds its positions with a table of slots [rows, longest], because hypotheses of a
 * beam share a past and then separate. Cross-attention reads a run of rows from `begin`, because
 * sources are stored once. */

/* The kernel keeps a head's running sum on its stack. */
static int prepare_cached_attention(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_tensor *cache = TENSOR_IN(1);
    int heads = call->node->attributes.attention.heads;
    if (cache->shape.size[1] / 2 / heads > ET_CACHED_HEAD_DIM_MAX)
        return et_fail(error, ET_EGRAPH, "%s: heads have more than %d columns; use more heads",
                       call->node->name, ET_CACHED_HEAD_DIM_MAX);
    return ET_OK;
}

/* Row r's keys and values, which follow its query, go to its newest slot. Rows with length 0 are
 * empty places of a batch: they have no slot. The newest slot is entry length - 1 of the row's
 * slots: the length counts the new position already. */
static void store_rows(const et_tensor *qkv, char *cache, const int32_t *slot, int64_t longest,
                       const int32_t *length)
{
    et_assert(qkv->shape.size[1] % 3 == 0);
    size_t width = (size_t)qkv->shape.size[1] / 3 * et_dtype_size(qkv->dtype);
    for (int64_t r = 0; r < qkv->shape.size[0]; r++) {
        if (length[r] <= 0)
            continue;
        size_t to = (size_t)slot[r * longest + length[r] - 1];
        const char *row = (const char *)qkv->data + (size_t)r * 3 * width;
        memcpy(cache + to * 2 * width, row + width, 2 * width);
    }
}

/* The inputs: query (or query, key and value of the new rows), cache, where, lengths. The cache
 * is written although it is an input: it is a leaf that the caller owns from step to step.
 *
 *     y = softmax(q K^T / sqrt(head_dim)) V over `length` rows of the cache, head by head
 *
 * New keys are stored before attention begins, so a row sees its own. */
static void run_cached_attention(const et_plan *plan, const et_plan_call *call)
{
    const et_attributes *attributes = &call->node->attributes;
    const et_tensor *q = TENSOR_IN(0);
    const et_tensor *out = TENSOR_OUT(0);
    const et_tensor *cache = TENSOR_IN(1);
    const et_tensor *where = TENSOR_IN(2);
    const int32_t *length = IN(3);
    int64_t width = cache->shape.size[1] / 2;
    et_cached_attention_shape shape = {
        .rows = (int)out->shape.size[0],
        .length = length,
        .heads = attributes->attention.heads,
        .head_dim = (int)(width / attributes->attention.heads),
        .query_stride = q->shape.size[1],
        .key_stride = 2 * width,
        .value_stride = 2 * width,
        .out_stride = width,
        .dtype = q->dtype,
    };
    shape.scale = 1 / sqrtf((float)shape.head_dim);
    if (attributes->self) {
        shape.slot = where->data;
        shape.slot_stride = where->shape.size[1];
        store_rows(q, cache->data, shape.slot, shape.slot_stride, length);
    } else {
        shape.begin = where->data;
    }
    kernels(plan)->cached_attention(out->data, q->data, cache->data,
                                    et_element_at(cache->data, width, q->dtype), &shape);
}

const et_op_functions et_cpu_CACHED_ATTENTION = { .run = run_cached_attention,
                                                  .prepare = prepare_cached_attention };

/* ---- recurrence ---- */

/* Segments of the offsets; a step of decoding has one row for each. */
static et_recurrence view_recurrence(const et_plan *plan, const et_plan_call *call, int first)
{
    const et_tensor *x = TENSOR_IN(first), *third = TENSOR_IN(first + 2);
    const bool step = call->node->inputs == 4;
    return (et_recurrence){ .x = x->data,
                            .gate = IN(first + 1),
                            .segments = step ? rows_of(x) : third->shape.size[0] - 1,
                            .width = width_of(x),
                            .offsets = step ? NULL : third->data,
                            .where = step ? IN(first + 3) : NULL,
                            .state = step ? third->data : NULL,
                            .dtype = x->dtype };
}

static void run_recurrence(const et_plan *plan, const et_plan_call *call)
{
    const et_recurrence r = view_recurrence(plan, call, 0);
    kernels(plan)->recurrence(OUT(0), &r);
    if (r.offsets)
        clear_tail(TENSOR_OUT(0), r.offsets[r.segments]);
}

const et_op_functions et_cpu_RECURRENCE = { .run = run_recurrence };

static void run_recurrence_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_recurrence r = view_recurrence(plan, call, 2);
    kernels(plan)->recurrence_grad(OUT(0), OUT(1), IN(0), IN(1), &r);
    clear_tail(TENSOR_OUT(0), r.offsets[r.segments]);
    clear_tail(TENSOR_OUT(1), r.offsets[r.segments]);
}

const et_op_functions et_cpu_RECURRENCE_GRAD = { .run = run_recurrence_grad };

const et_overlap et_cpu_overlaps[] = {
    { ET_OP_EMBEDDING_GRAD, 0, 2, ET_OVERLAP_ADDS },
    { ET_OP_EMBED_COLUMNS_GRAD, 0, 2, ET_OVERLAP_ADDS },
    { ET_OP_RESHAPE, 0, 0, ET_OVERLAP_VIEWS },
    { ET_OP_LAYER_NORM_GRAD, 0, 0, ET_OVERLAP_OVERWRITES }, /* dx in dy's place */
    { ET_OP_LAYER_NORM_GRAD, 3, 1, ET_OVERLAP_OVERWRITES }, /* the norm's result in x's */
    { ET_OP_RMS_NORM_GRAD, 0, 0, ET_OVERLAP_OVERWRITES },
    { ET_OP_BATCH_NORM_GRAD, 0, 0, ET_OVERLAP_OVERWRITES },
    { ET_OP_BATCH_NORM, 0, 0, ET_OVERLAP_OVERWRITES },
    { .mode = ET_OVERLAP_NONE },
};

/* Leaves make no call. */
const et_op_functions et_cpu_INPUT, et_cpu_PARAM, et_cpu_POSITIONS, et_cpu_INTEGERS, et_cpu_RESULT;
/* A call's program, which fuse.c made with it, is all that an element-wise op needs. */
static const et_op_functions elementwise = { .run = run_elementwise };

const et_op_functions *const et_cpu_ops[ET_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = &elementwise,
#define X(id, name, fewest, most)                             [ET_OP_##id] = &et_cpu_##id,
#include "engine/graph/ops.def"
#undef X
};
