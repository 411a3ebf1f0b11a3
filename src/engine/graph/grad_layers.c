/* Derivative rules of scaled copies, norms over a batch, convolutions and pooling. As in grad.c. */
#include "engine/graph/grad_private.h"

/* y[k, g N + n] = w[k, n] r[g K + k] s[g N + n]. The derivative of each operand is dy times the
 * other two operands, summed over the dimensions along which the operand is repeated. One node
 * computes all three. */
void et_grad_SCALED_COPIES(gradients *g, et_node *node, et_node *dy)
{
    et_node *inputs[4] = { dy };
    for (int i = 0; i < node->inputs; i++)
        inputs[1 + i] = value(g, node->input[i]);
    et_node *all =
        et_node_add(g->graph, ET_OP_SCALED_COPIES_GRAD, NULL, inputs, node->inputs + 1, NULL);
    for (int i = 0; i < node->inputs; i++)
        if (is_needed(g, node->input[i]))
            give(g, node->input[i], i ? et_node_result(all, i) : all);
}

/* With n = x r, r the reciprocal of the root mean square, y = gamma n and g = gamma dy:
 *   dx = r (g - n mean(g n)),  dgamma = sum over rows of dy n. */
void et_grad_RMS_NORM(gradients *g, et_node *node, et_node *dy)
{
    et_node *inputs[] = { dy, value(g, node->input[0]), et_node_result(node, 1), node->input[1] };
    et_node *dx = et_node_add(g->graph, ET_OP_RMS_NORM_GRAD, NULL, inputs, 4, NULL);
    give(g, node->input[0], dx);
    if (is_needed(g, node->input[1]))
        give(g, node->input[1], et_node_result(dx, 1));
}

/* With n = (x - mean) r by columns, y = gamma n + beta:
 *
 *     dgamma = sum over rows of dy n,  dbeta = sum of dy,
 *     dx = gamma r (dy - dbeta / T - n dgamma / T),  or gamma r dy
 *
 * The second form is for a given mean and variance, which do not depend on x and have no
 * derivative. T is the number of rows that count. The sums are over these rows, and the other rows
 * have dx = 0. */
void et_grad_BATCH_NORM(gradients *g, et_node *node, et_node *dy)
{
    bool given = node->inputs == 5;
    et_node *inputs[] = { dy,
                          value(g, node->input[0]),
                          given ? node->input[3] : et_node_result(node, 1),
                          given ? node->input[4] : et_node_result(node, 2),
                          node->input[1],
                          node->input[3] };
    et_attributes attributes = { .x = node->attributes.x, .given = given };
    et_node *dx = et_node_add(g->graph, ET_OP_BATCH_NORM_GRAD, NULL, inputs,
                              node->inputs == 4 ? 6 : 5, &attributes);
    give(g, node->input[0], dx);
    for (int i = 1; i <= 2; i++)
        if (is_needed(g, node->input[i]))
            give(g, node->input[i], et_node_result(dx, i));
}

/* The sum of dy over samples and places, a bias's. */
static et_node *channel_sum(et_node *dy)
{
    et_shape s = dy->type[0].shape;
    et_node *rows = et_reshape(dy, et_shape_2(s.size[0] * s.size[1] * s.size[2], s.size[3]));
    return et_column_sum(rows);
}

/* y = x * w + b, as a product: dw is the convolution of x with dy, dx that of dy with w flipped;
 * each is a separate op. A relu is undone first, as for a product. */
void et_grad_CONVOLUTION(gradients *g, et_node *node, et_node *dy)
{
    et_node *x = node->input[0], *weight = node->input[1];
    et_attributes attributes = { .convolution = node->attributes.convolution };
    attributes.convolution.relu = false;
    if (node->attributes.convolution.relu) {
        dy = et_node_binary(ET_OP_RELU_GRAD, dy, et_rematerialize_sign(&g->rematerialize, node));
    }
    if (node->inputs == 3 && is_needed(g, node->input[2]) && !et_node_is_poison(dy))
        give(g, node->input[2], channel_sum(dy));
    if (is_needed(g, weight)) {
        et_node *inputs[] = { dy, value(g, x) };
        attributes.leaf = weight->type[0];
        give(g, weight,
             et_node_add(g->graph, ET_OP_CONVOLUTION_WEIGHT_GRAD, NULL, inputs, 2, &attributes));
    }
    if (is_needed(g, x)) {
        et_node *inputs[] = { dy, weight };
        attributes.leaf = x->type[0];
        give(g, x, et_node_add(g->graph, ET_OP_CONVOLUTION_GRAD, NULL, inputs, 2, &attributes));
    }
}

/* dy goes to the place of the largest element, or is divided among all; windows that overlap add
 * up. */
static void grad_pool(gradients *g, et_node *node, et_node *dy, et_node *largest_at)
{
    et_node *inputs[] = { dy, largest_at };
    et_attributes attributes = { .pool = node->attributes.pool, .leaf = node->input[0]->type[0] };
    give(g, node->input[0],
         et_node_add(g->graph, ET_OP_POOL_GRAD, NULL, inputs, largest_at ? 2 : 1, &attributes));
}

void et_grad_MAX_POOL(gradients *g, et_node *node, et_node *dy)
{
    grad_pool(g, node, dy, et_node_result(node, 1));
}

void et_grad_MEAN_POOL(gradients *g, et_node *node, et_node *dy)
{
    grad_pool(g, node, dy, NULL);
}
