/* The vocabulary projection, softmax cross-entropy and both derivatives, in row blocks:
 *
 *   for each block of rows:   logits = h table^T           [block, V], in scratch
 *                             losses; logits become d(loss)/d(logits) in place
 *                             dh = dlogits table           [block, D]
 *                             dtable += dlogits^T h        [V, D]
 *
 * so the block stays in cache and [T, V] never exists. Blocks without a label are passed over.
 * Where the vocabulary is large a block has fewer rows: what it needs is bounded, while each
 * block reads and writes all of dtable, which fewer rows pay for. */
#include <string.h>

#include "base/assert.h"
#include "exec/parts.h"

/* Rows of a block: enough that a product is worth its start, few enough for the cache. */
#define ROW_BLOCK       256
#define ROW_BLOCK_LEAST 32
#define LOGITS_MOST     ((size_t)32 << 20) /* bytes of a block's logits that fewer rows are for */

enum { GEMM_LOGITS, GEMM_DH, GEMM_DTABLE_FIRST, GEMM_DTABLE };

typedef struct loss_sizes {
    int64_t rows, width, vocabulary;
    et_dtype act;
} loss_sizes;

static loss_sizes sizes_of(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *h = &plan->values[step->in[0]].tensor;
    const et_tensor *table = &plan->values[step->in[1]].tensor;
    return (loss_sizes){ h->shape.size[0], h->shape.size[1], table->shape.size[0],
                         plan->graph->options.act };
}

static int64_t block_rows(const et_plan_step *step, int64_t rows, int64_t at)
{
    return rows - at < step->row_block ? rows - at : step->row_block;
}

static int get(et_plan *plan, et_plan_step *step, int which, et_gemm_shape shape, et_error *error)
{
    shape.a = shape.b = plan->graph->options.act;
    return et_gemm_get(&step->gemm[which], plan->device->gemms, &shape, error);
}

static int prepare_gradient(et_plan *plan, et_plan_step *step, loss_sizes size, int param,
                            et_error *error)
{
    int64_t block = step->row_block;
    et_gemm_shape dh = {
        .m = block, .n = size.width, .k = size.vocabulary, .c = size.act, .pack_b = true
    };
    et_gemm_shape dtable = {
        .m = size.vocabulary, .n = size.width, .k = block, .transpose_a = true, .c = ET_F32
    };
    int status = get(plan, step, GEMM_DH, dh, error);
    if (!status)
        status = et_plan_add_pack(plan, step->gemm[GEMM_DH], param, size.act, &step->pack[GEMM_DH],
                                  error);
    if (!status)
        status = get(plan, step, GEMM_DTABLE_FIRST, dtable, error);
    dtable.accumulate = true;
    if (!status)
        status = get(plan, step, GEMM_DTABLE, dtable, error);
    return status;
}

static int64_t choose_block(loss_sizes size)
{
    size_t row = (size_t)size.vocabulary * et_dtype_size(size.act);
    int64_t rows = (int64_t)(LOGITS_MOST / row) / ROW_BLOCK_LEAST * ROW_BLOCK_LEAST;
    return rows > ROW_BLOCK ? ROW_BLOCK : rows < ROW_BLOCK_LEAST ? ROW_BLOCK_LEAST : rows;
}

/* Work space: logits of one block, then loss, nll and correct of each row. */
static size_t logits_bytes(const et_plan_step *step, loss_sizes size)
{
    size_t bytes = (size_t)(step->row_block * size.vocabulary) * et_dtype_size(size.act);
    return (bytes + 63) / 64 * 64;
}

int et_prepare_vocabulary_loss(et_plan *plan, et_plan_step *step, et_error *error)
{
    loss_sizes size = sizes_of(plan, step);
    step->row_block = choose_block(size);
    step->scratch = logits_bytes(step, size) + (size_t)(3 * step->row_block) * sizeof(float);
    step->scratch += 2 * (size_t)(step->row_block * size.width) * et_dtype_size(size.act);
    int param = plan->values[step->in[1]].node->attributes.param;
    et_gemm_shape logits = { .m = step->row_block,
                             .n = size.vocabulary,
                             .k = size.width,
                             .transpose_b = true,
                             .c = size.act,
                             .pack_b = true };
    int status = get(plan, step, GEMM_LOGITS, logits, error);
    if (!status)
        status = et_plan_add_pack(plan, step->gemm[GEMM_LOGITS], param, size.act,
                                  &step->pack[GEMM_LOGITS], error);
    if (!status && step->node->attributes.gradient)
        status = prepare_gradient(plan, step, size, param, error);
    return status;
}

static bool has_label(const int32_t *labels, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= 0)
            return true;
    return false;
}

typedef struct loss_block {
    int64_t at, rows; /* rows of the batch in this block */
    const char *h;    /* [row_block, D]: the batch's rows, or a copy filled up with zeros */
    char *dh;         /* likewise */
    void *logits;
    float *loss, *nll, *correct;
    int32_t labels[ROW_BLOCK];
    bool copied; /* a short last block works on copies of full size */
} loss_block;

/* The block's buffers. Products have one shape, so a short last block is filled up. */
static void open_block(const et_plan *plan, const et_plan_step *step, loss_sizes size,
                       loss_block *block)
{
    size_t row = (size_t)size.width * et_dtype_size(size.act);
    char *work = (char *)plan->scratch;
    block->logits = work;
    block->loss = (float *)(void *)(work + logits_bytes(step, size));
    block->nll = block->loss + step->row_block;
    block->correct = block->nll + step->row_block;
    block->h = (const char *)et_plan_data(plan, step->in[0]) + (size_t)block->at * row;
    char *dh = et_plan_data(plan, step->out[1]);
    block->dh = dh ? dh + (size_t)block->at * row : NULL;
    const int32_t *labels = et_plan_data(plan, step->in[2]);
    for (int64_t i = 0; i < step->row_block; i++)
        block->labels[i] = i < block->rows ? labels[block->at + i] : -1;
    block->copied = block->rows < step->row_block;
    if (!block->copied)
        return;
    char *copy = (char *)(block->correct + step->row_block);
    size_t whole = (size_t)step->row_block * row;
    memcpy(copy, block->h, (size_t)block->rows * row);
    memset(copy + (size_t)block->rows * row, 0, whole - (size_t)block->rows * row);
    block->h = copy;
    block->dh = copy + whole;
}

static void close_block(const et_plan *plan, const et_plan_step *step, loss_sizes size,
                        const loss_block *block)
{
    size_t row = (size_t)size.width * et_dtype_size(size.act);
    char *dh = et_plan_data(plan, step->out[1]);
    if (block->copied && dh)
        memcpy(dh + (size_t)block->at * row, block->dh, (size_t)block->rows * row);
}

static void add_sums(const loss_block *block, double sums[ET_LOSS_SUM_COUNT])
{
    for (int64_t i = 0; i < block->rows; i++) {
        if (block->labels[i] < 0)
            continue;
        sums[ET_LOSS_SUM_LOSS] += block->loss[i];
        sums[ET_LOSS_SUM_NLL] += block->nll[i];
        sums[ET_LOSS_SUM_CORRECT] += block->correct[i];
        sums[ET_LOSS_SUM_TOKENS] += 1;
    }
}

static void run_block(const et_plan *plan, const et_plan_step *step, loss_sizes size,
                      loss_block *block, bool first, double sums[ET_LOSS_SUM_COUNT])
{
    const et_kernels *kernels = plan->device->kernels;
    bool gradient = step->node->attributes.gradient;
    open_block(plan, step, size, block);
    et_gemm_run(step->gemm[GEMM_LOGITS], block->logits, block->h,
                plan->packs[step->pack[GEMM_LOGITS]].data, NULL);
    kernels->softmax_cross_entropy(block->logits, block->loss, block->nll, block->correct,
                                   block->labels, step->node->attributes.x, gradient,
                                   step->row_block, size.vocabulary, size.act);
    add_sums(block, sums);
    if (!gradient)
        return;
    et_gemm_run(step->gemm[GEMM_DH], block->dh, block->logits,
                plan->packs[step->pack[GEMM_DH]].data, NULL);
    et_gemm_run(step->gemm[first ? GEMM_DTABLE_FIRST : GEMM_DTABLE],
                et_plan_data(plan, step->out[2]), block->logits, block->h, NULL);
    close_block(plan, step, size, block);
}

static void clear_gradients(const et_plan *plan, const et_plan_step *step)
{
    for (int i = 1; i < step->out_count; i++) {
        const et_tensor *tensor = &plan->values[step->out[i]].tensor;
        if (tensor->data)
            memset(tensor->data, 0, et_tensor_bytes(*tensor));
    }
}

void et_run_vocabulary_loss(const et_plan *plan, const et_plan_step *step)
{
    loss_sizes size = sizes_of(plan, step);
    const int32_t *labels = et_plan_data(plan, step->in[2]);
    double sums[ET_LOSS_SUM_COUNT] = { 0 };
    bool first = true;
    loss_block block;
    et_assert(step->row_block <= ROW_BLOCK);
    clear_gradients(plan, step);
    for (int64_t at = 0; at < size.rows; at += step->row_block) {
        block.at = at;
        block.rows = block_rows(step, size.rows, at);
        if (!has_label(labels + at, block.rows))
            continue;
        run_block(plan, step, size, &block, first, sums);
        first = false;
    }
    float *result = et_plan_data(plan, step->out[0]);
    for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
        result[i] = (float)sums[i];
}
