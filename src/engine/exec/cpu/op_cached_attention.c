/* Attention of one new row per hypothesis over a cache of keys and values: decoding. In
 * self-attention the new rows' keys and values are first put into the cache.
 *
 * The cache is [slots, 2 width]: keys in the left half of a row, values in the right.
 * Self-attention finds its positions with a table of slots [rows, longest], because hypotheses of a
 * beam share a past and then separate. Cross-attention reads a run of rows from `begin`, because
 * sources are stored once. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"

/* The kernel keeps a head's running sum on its stack. */
int et_prepare_cached_attention(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_tensor *cache = &plan->values[call->in[1]].tensor;
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
void et_run_cached_attention(const et_plan *plan, const et_plan_call *call)
{
    const et_attributes *attributes = &call->node->attributes;
    const et_tensor *q = &plan->values[call->in[0]].tensor;
    const et_tensor *out = &plan->values[call->out[0]].tensor;
    const et_tensor *cache = &plan->values[call->in[1]].tensor;
    const et_tensor *where = &plan->values[call->in[2]].tensor;
    const int32_t *length = et_plan_data(plan, call->in[3]);
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
    const char *keys = cache->data;
    plan->device->kernels->cached_attention(out->data, q->data, keys,
                                            keys + (size_t)width * et_dtype_size(q->dtype), &shape);
}
