/* Derivative rules of ops that move elements: each moves dy back. As in grad.c. */
#include "engine/graph/grad_private.h"

void et_grad_RESHAPE(gradients *g, et_node *node, et_node *dy)
{
    if (is_needed(g, node->input[0]))
        give(g, node->input[0], et_reshape(dy, node->input[0]->type[0].shape));
}

/* Each input gets the piece of dy that it was. */
void et_grad_CONCATENATE(gradients *g, et_node *node, et_node *dy)
{
    et_attributes attributes = { .along = { .axis = node->attributes.along.axis } };
    et_axis_range *along = &attributes.along;
    for (int i = 0; i < node->inputs; i++) {
        et_node *input = node->input[i];
        along->first += along->count;
        along->count = input->type[0].shape.size[along->axis];
        if (is_needed(g, input) && along->count)
            give(g, input, et_node_add(g->graph, ET_OP_SLICE, NULL, &dy, 1, &attributes));
    }
}

/* y = a piece of x: dx = dy there, else 0. */
void et_grad_SLICE(gradients *g, et_node *node, et_node *dy)
{
    et_attributes attributes = node->attributes;
    attributes.leaf = node->input[0]->type[0];
    if (is_needed(g, node->input[0]))
        give(g, node->input[0], et_node_add(g->graph, ET_OP_SLICE_GRAD, NULL, &dy, 1, &attributes));
}

/* y[r] = x[row[r]]: dx[row[r]] += dy[r], in ascending r. */
void et_grad_GATHER(gradients *g, et_node *node, et_node *dy)
{
    et_node *inputs[] = { node->input[1], dy };
    et_attributes attributes = { .leaf = node->input[0]->type[0] };
    if (is_needed(g, node->input[0]))
        give(g, node->input[0],
             et_node_add(g->graph, ET_OP_GATHER_GRAD, NULL, inputs, 2, &attributes));
}

void et_grad_EMBED_COLUMNS(gradients *g, et_node *node, et_node *dy)
{
    scatter_into_table(g, node, ET_OP_EMBED_COLUMNS_GRAD, dy);
}
