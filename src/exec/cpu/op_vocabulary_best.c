/* The likeliest pieces of each row, by the kernel of that name.
 *
 * Logits h table^T, of which the largest `count` of each row and their log p are wanted;
 * kernel/best_pieces.h says how the rest is ruled out. The table is needed twice: as bytes,
 * packed with the plan's other weights, and as float32 for the pieces that stay open, straight
 * from the store. */
#include "base/assert.h"
#include "exec/cpu/op_private.h"

/* Bytes of the kernel's work space; behind it there is room for pieces that nobody reads. */
static size_t kernel_scratch(const et_plan *plan, const et_row_weight *rows)
{
    return et_best_scratch(rows) * (size_t)plan->device->threads;
}

/* The bytes of a row are added up in 32 bits, which bounds the width. transposed: a piece is a
 * row of the table, and a column of the product's weight. */
int et_prepare_vocabulary_best(et_plan *plan, et_plan_step *step, et_error *error)
{
    const et_plan_value *table = &plan->values[step->in[1]];
    et_row_weight rows = { .kind = ET_ROW_INT8,
                           .n = table->tensor.shape.size[0],
                           .k = table->tensor.shape.size[1],
                           .panel = plan->device->kernels->panel };
    if (table->place != PLACE_PARAM || step->node->attributes.count > ET_BEST_COUNT_MAX ||
        rows.k > ET_ROW_BYTES_MAX)
        return et_fail(error, ET_EGRAPH,
                       "%s: the table must be a parameter, of width %d at most, and of its tokens "
                       "%d at most can be had",
                       step->node->name, ET_ROW_BYTES_MAX, ET_BEST_COUNT_MAX);
    step->scratch = kernel_scratch(plan, &rows) +
                    (size_t)et_shape_count(step->node->type[1].shape) * sizeof(int32_t);
    return et_plan_add_row_pack(plan, &rows, table->node->attributes.param, true, &step->pack[0],
                                error);
}

/* The kernel always writes pieces; where the plan gave them no memory they go behind its work
 * space. */
void et_run_vocabulary_best(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *h = &plan->values[step->in[0]].tensor;
    et_assert(h->shape.size[0] <= step->node->type[0].shape.size[0]);
    const et_plan_pack *pack = et_plan_pack_at(plan, step->pack[0]);
    int32_t *piece = et_plan_data(plan, step->out[1]);
    if (!piece)
        piece = (int32_t *)(void *)(plan->scratch + kernel_scratch(plan, &pack->rows));
    const et_best_pieces shape = { .rows = h->shape.size[0],
                                   .count = step->node->attributes.count,
                                   .weight = &pack->rows,
                                   .table = et_plan_data(plan, step->in[1]),
                                   .dtype = h->dtype,
                                   .scratch = plan->scratch };
    plan->device->kernels->best_pieces(et_plan_data(plan, step->out[0]), piece, h->data, &shape);
}
