/* The builders of <etude/ops_elementwise.h>: a row of elementwise.def each, or a few. */
#include <float.h>
#include <math.h>

#include "base/dtype.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"

/* A constant of the graph. A number that changes from step to step would be an input. */
static et_node *with_constant(et_op op, et_node *a, float x)
{
    et_attributes attributes = { .x = x };
    return et_node_add(a->graph, op, NULL, &a, 1, &attributes);
}

/* et_sub is a separate op instead of et_add of et_scale: one pass, and no rounding of a product in
 * between. */
#define BINARY(name, id)                                                                           \
    et_node *name(et_node *a, et_node *b)                                                          \
    {                                                                                              \
        return et_node_binary(ET_OP_##id, a, b);                                                   \
    }
BINARY(et_add, ADD)
BINARY(et_sub, SUB)
BINARY(et_mul, MUL)
BINARY(et_div, DIV)
BINARY(et_bias, ADD)

et_node *et_scale(et_node *a, float factor)
{
    if (!et_in_range(a->graph, ET_OP_SCALE, "factor", factor, -FLT_MAX, FLT_MAX))
        return &a->graph->poison;
    return with_constant(ET_OP_SCALE, a, factor);
}

et_node *et_offset(et_node *a, float number)
{
    if (!et_in_range(a->graph, ET_OP_OFFSET, "number", number, -FLT_MAX, FLT_MAX))
        return &a->graph->poison;
    return with_constant(ET_OP_OFFSET, a, number);
}

et_node *et_copy(et_node *x, et_dtype dtype, et_shape shape)
{
    if (et_node_is_poison(x) ||
        (et_node_dtype(x) == dtype && et_shape_equal(et_node_shape(x), shape)))
        return x;
    et_attributes attributes = { .leaf = { dtype, shape } };
    return et_node_add(x->graph, ET_OP_COPY, NULL, &x, 1, &attributes);
}

et_node *et_cast(et_node *x, et_dtype dtype)
{
    const et_dtype from = et_node_dtype(x);
    if (et_node_is_poison(x) || from == dtype)
        return x;
    if (dtype != ET_F32 && dtype != ET_BF16)
        return et_graph_poison(x->graph, "%s: cannot be cast from %s to %s; give %s or %s", x->name,
                               et_dtype_name(from), et_dtype_name(dtype), et_dtype_name(ET_F32),
                               et_dtype_name(ET_BF16));
    if (from != ET_I32)
        return et_copy(x, dtype, et_node_shape(x));
    et_attributes attributes = { .leaf = { .dtype = dtype } };
    return et_node_add(x->graph, ET_OP_CAST, NULL, &x, 1, &attributes);
}

et_node *et_as_act(et_graph *graph, et_node *x)
{
    const bool given = x && x->graph == graph && !et_node_is_poison(x);
    return given && x->op != ET_OP_PARAM && et_node_dtype(x) != ET_I32
               ? et_cast(x, et_graph_act(graph))
               : x;
}

/* Each activation is a node, so that exec may fuse it with its neighbours; only et_matmul's relu
 * option needs no node. */
#define UNARY(name, id)                                                                            \
    et_node *name(et_node *x)                                                                      \
    {                                                                                              \
        return et_node_unary(ET_OP_##id, x);                                                       \
    }
UNARY(et_relu, RELU)
UNARY(et_gelu, GELU)
UNARY(et_tanh, TANH)
UNARY(et_sigmoid, SIGMOID)
UNARY(et_swish, SWISH)
UNARY(et_softplus, SOFTPLUS)
UNARY(et_selu, SELU)
UNARY(et_mish, MISH)
UNARY(et_exp, EXP)
UNARY(et_ln, LOG)
UNARY(et_sqrt, SQRT)
UNARY(et_sin, SIN)
UNARY(et_cos, COS)
UNARY(et_square, SQUARE)
UNARY(et_reciprocal, RECIPROCAL)
UNARY(et_abs, ABS)

/* Cheap exponents have their own ops. */
et_node *et_power(et_node *x, float exponent)
{
    if (!isfinite(exponent) || exponent == 0)
        return et_graph_poison(x->graph, "%s: the exponent %g must be a number other than 0",
                               x->name, (double)exponent);
    return exponent == 1      ? x
           : exponent == 2    ? et_square(x)
           : exponent == 0.5f ? et_sqrt(x)
           : exponent == -1   ? et_reciprocal(x)
                              : with_constant(ET_OP_POWER, x, exponent);
}

/* An infinite bound is no bound. */
et_node *et_clamp(et_node *x, float low, float high)
{
    if (!(low <= high))
        return et_graph_poison(x->graph, "%s: the range [%g, %g] is empty", x->name, (double)low,
                               (double)high);
    if (low > -INFINITY)
        x = with_constant(ET_OP_AT_LEAST, x, low);
    return high < INFINITY ? with_constant(ET_OP_AT_MOST, x, high) : x;
}
