/* Derivatives of sums over rows or columns. */
#include "engine/graph/grad_private.h"

#include <etude/ops.h>

#include "engine/graph/build.h"

/* v repeated in the type and shape of a node. */
static et_node *repeated(et_node *v, const et_node *like)
{
    return et_copy(v, like->type[0].dtype, like->type[0].shape);
}

/* y[d] = sum over t of x[t, d]: every row of dx is dy. */
void et_grad_COLUMN_SUM(gradients *g, et_node *node, et_node *dy)
{
    give(g, node->input[0], repeated(dy, node->input[0]));
}

/* y[t] = sum over d of x[t, d]: every column of dx is dy. */
void et_grad_ROW_SUM(gradients *g, et_node *node, et_node *dy)
{
    give(g, node->input[0], repeated(dy, node->input[0]));
}

/* y = softmax(x): dx = y (dy - rowsum(y dy)). */
void et_grad_SOFTMAX(gradients *g, et_node *node, et_node *dy)
{
    et_node *y = value(g, node);
    give(g, node->input[0], et_mul(y, et_sub(dy, et_row_sum(et_mul(y, dy)))));
}

/* y = log softmax(x): dx = dy - e^y rowsum(dy). */
void et_grad_LOG_SOFTMAX(gradients *g, et_node *node, et_node *dy)
{
    et_node *p = et_exp(value(g, node));
    give(g, node->input[0], et_sub(dy, et_mul(p, et_row_sum(dy))));
}

/* The node has made dlogits for dy = 1, as its result 3; each row's is scaled by dy[t]. */
void et_grad_CROSS_ENTROPY(gradients *g, et_node *node, et_node *dy)
{
    node->attributes.gradient = true;
    give(g, node->input[0], et_mul(et_node_result(node, 3), dy));
}
