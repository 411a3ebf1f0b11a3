/* Derivatives of element-wise ops: the last two columns of elementwise.def, with these words. Each
 * is computed only if its input needs it, so no node is made in vain.
 *
 * An input that is repeated over rows or columns gets the sum over its copies. value() reads a
 * value and may rematerialize it; relu's sign is read from its dropout (rematerialize.h). */
#include "engine/graph/grad_private.h"

#include "engine/graph/build.h"

#include <etude/ops.h>

/* The sum of gradient over what `like` was repeated for, in its type. */
static et_node *summed(et_node *gradient, const et_node *like)
{
    const et_result_type *type = &like->type[0];
    if (et_node_is_poison(gradient) || et_node_is_poison(like))
        return gradient;
    if (!et_shape_equal(et_node_shape(gradient), type->shape))
        gradient = type->shape.rank == 0   ? et_sum(gradient)
                   : type->shape.rank == 1 ? et_column_sum(gradient)
                                           : et_row_sum(gradient);
    return et_copy(gradient, type->dtype, type->shape);
}

static et_node *refused(gradients *g, et_node *node)
{
    not_differentiable(g, node);
    return &g->graph->poison;
}

/* The words of the table. */
#define A               value(g, node->input[0])
#define B               value(g, node->input[1])
#define Y               value(g, node)
#define SIGN            et_rematerialize_sign(&g->rematerialize, node)
#define NONE            refused(g, node)
#define of(id, p, q)    et_node_binary(ET_OP_##id, p, q)
#define bounded(id)     bounded_by(ET_OP_##id, node, dy, A)
#define the_same_of(dy) et_node_add(g->graph, node->op, NULL, &(dy), 1, &node->attributes)

/* dy where the op returned its input, not the bound. */
static et_node *bounded_by(et_op op, const et_node *node, et_node *dy, et_node *a)
{
    et_node *inputs[] = { dy, a };
    return et_node_add(a->graph, op, NULL, inputs, 2, &node->attributes);
}

/* d(loss)/d(input i) from dy. */
static et_node *derivative(gradients *g, et_node *node, et_node *dy, int i)
{
    const float x = node->attributes.x;
    (void)x;
    switch (et_op_elementwise(node->op)) {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)                                      \
    case ET_EW_##id:                                                                               \
        return i == 0 ? (da) : (db);
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
    case ET_EW_OP_COUNT:
        break;
    }
    return refused(g, node);
}

void et_grad_elementwise(gradients *g, et_node *node, et_node *dy)
{
    for (int i = 0; i < node->inputs; i++)
        if (is_needed(g, node->input[i]))
            give(g, node->input[i], summed(derivative(g, node, dy, i), node->input[i]));
}
