#include "engine/graph/shape_private.h"

/* Element-wise ops convert no types silently: two activations always have the same type, but a
 * parameter (float32) may be combined with a bfloat16 activation. A repeated operand is a vector or
 * one number, and may be a parameter. */
static bool fits(const et_node *node, int small, int full)
{
    if (!is_float(node, small) || !is_float(node, full))
        return false;
    if (et_shape_equal(shape(node, small), shape(node, full)))
        return dtype(node, small) == dtype(node, full);
    return is_repeated(shape(node, small), shape(node, full)) &&
           (dtype(node, small) == ET_F32 || dtype(node, small) == dtype(node, full));
}

/* The type and shape that the builder has given. */
static bool copy(et_node *node)
{
    const et_result_type *to = &node->attributes.leaf;
    if (!is_float(node, 0) || (to->dtype != ET_F32 && to->dtype != ET_BF16) ||
        !(et_shape_equal(shape(node, 0), to->shape) || is_repeated(shape(node, 0), to->shape)))
        return refuse(node, "does not fit that shape", 0, 0);
    return set(node, to->dtype, to->shape);
}

/* Why two operands do not fit, with the cure. */
static const char *misfit(const et_node *node)
{
    const et_shape a = shape(node, 0), b = shape(node, 1);
    if (!is_float(node, 0) || !is_float(node, 1))
        return NOT_FLOAT;
    if (et_shape_equal(a, b))
        return "different types (et_cast gives one the type of the other)";
    return et_shape_count(a) == et_shape_count(b) && dtype(node, 0) == dtype(node, 1)
               ? "different shapes (et_reshape gives one the shape of the other)"
               : "different shapes or types";
}

bool et_shape_elementwise(et_node *node)
{
    if (node->op == ET_OP_COPY)
        return copy(node);
    int full = node->inputs == 2 && fits(node, 0, 1) ? 1 : 0;
    if (node->inputs == 2 && full == 0 && !fits(node, 1, 0))
        return refuse(node, misfit(node), 0, 1);
    if (!is_float(node, 0))
        return refuse(node, NOT_FLOAT, 0, 0);
    return set(node, dtype(node, full), shape(node, full));
}
