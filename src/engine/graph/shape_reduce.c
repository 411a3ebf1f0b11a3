#include "engine/graph/shape_private.h"

static bool is_numbers(const et_node *node, int input)
{
    return is_matrix(shape(node, input)) && dtype(node, input) != ET_I32;
}

/* [T, D] to [D], float32 as every bias is. */
bool et_shape_COLUMN_SUM(et_node *node)
{
    if (!is_numbers(node, 0))
        return refuse(node, "not a numeric matrix", 0, 0);
    return set(node, ET_F32, et_shape_1(shape(node, 0).size[1]));
}

/* [T, D] to [T, 1], float32: a statistic, not an activation. */
bool et_shape_ROW_SUM(et_node *node)
{
    if (!is_numbers(node, 0))
        return refuse(node, "not a numeric matrix", 0, 0);
    return set(node, ET_F32, et_shape_2(shape(node, 0).size[0], 1));
}

/* [T, D] to the same. */
bool et_shape_SOFTMAX(et_node *node)
{
    if (!is_numbers(node, 0))
        return refuse(node, "not a numeric matrix", 0, 0);
    return set(node, dtype(node, 0), shape(node, 0));
}

bool et_shape_LOG_SOFTMAX(et_node *node)
{
    return et_shape_SOFTMAX(node);
}

/* logits [T, V], labels [T]. Results: loss, nll and correct, float32 [T, 1] each; dlogits for dloss
 * = 1, as the logits, only made if it is needed. */
bool et_shape_CROSS_ENTROPY(et_node *node)
{
    et_shape logits = shape(node, 0);
    if (!is_numbers(node, 0))
        return refuse(node, "logits are not a numeric matrix", 0, 1);
    if (!is_vector_of(shape(node, 1), logits.size[0]) || dtype(node, 1) != ET_I32)
        return refuse(node, "not one int32 label for each row", 0, 1);
    et_shape column = et_shape_2(logits.size[0], 1);
    set(node, ET_F32, column);
    add_result(node, ET_F32, column);
    add_result(node, ET_F32, column);
    add_result(node, dtype(node, 0), logits);
    return true;
}

/* labels [T] to [T, 1]. */
bool et_shape_LABELLED(et_node *node)
{
    if (shape(node, 0).rank != 1 || dtype(node, 0) != ET_I32)
        return refuse(node, "labels are not int32, one for each row", 0, 0);
    return set(node, ET_F32, et_shape_2(shape(node, 0).size[0], 1));
}
