/* The most likely tokens of each row, with the kernel of that name.
 *
 * The result is the `count` largest logits h table^T of each row and their log p;
 * engine/kernel/best_tokens.h says how the other tokens are excluded. The table is needed twice: as
 * bytes, packed with the plan's other weights, and as float32 for the remaining tokens, directly
 * from the store. */
#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"

/* Bytes of the kernel's scratch; room for unread tokens follows it. */
static size_t kernel_scratch(const et_plan *plan, const et_row_weight *rows)
{
    return et_best_scratch(rows) * (size_t)plan->device->threads;
}

/* The bytes of a row are added up in 32 bits, which bounds the width. transposed: a token is a
 * row of the table, and a column of the product's weight. */
int et_prepare_vocabulary_best(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_plan_value *table = &plan->values[call->in[1]];
    et_row_weight rows = { .kind = ET_ROW_INT8,
                           .n = table->tensor.shape.size[0],
                           .k = table->tensor.shape.size[1],
                           .panel = plan->device->kernels->panel };
    if (table->storage != VALUE_IN_PARAMS || call->node->attributes.count > ET_BEST_COUNT_MAX ||
        rows.k > ET_ROW_BYTES_MAX)
        return et_fail(error, ET_EGRAPH,
                       "%s: the table must be a parameter of width at most %d, and at most %d "
                       "tokens can be chosen",
                       call->node->name, ET_ROW_BYTES_MAX, ET_BEST_COUNT_MAX);
    call->scratch = kernel_scratch(plan, &rows) +
                    (size_t)et_shape_count(call->node->type[1].shape) * sizeof(int32_t);
    return et_plan_add_row_pack(plan, &rows, table->node->attributes.param, ET_F32, true,
                                &call->pack[0], error);
}

/* The kernel always writes tokens; if the plan gave them no memory, they go after its scratch. */
void et_run_vocabulary_best(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = &plan->values[call->in[0]].tensor;
    et_assert(h->shape.size[0] <= call->node->type[0].shape.size[0]);
    const et_plan_pack *pack = et_plan_pack_at(plan, call->pack[0]);
    int32_t *token = et_plan_data(plan, call->out[1]);
    if (!token)
        token = (int32_t *)(void *)(plan->scratch + kernel_scratch(plan, &pack->rows));
    const et_best_tokens shape = { .rows = h->shape.size[0],
                                   .count = call->node->attributes.count,
                                   .weight = &pack->rows,
                                   .table = et_plan_data(plan, call->in[1]),
                                   .dtype = h->dtype,
                                   .scratch = plan->scratch };
    plan->device->kernels->best_tokens(et_plan_data(plan, call->out[0]), token, h->data, &shape);
}
