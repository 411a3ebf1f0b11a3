/* A node is made complete (inputs, attributes, types of its results) or not at all, and never
 * changes afterwards, except that the `gradient` of a loss is set when it is differentiated. */
#include "engine/graph/node.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/vector.h"

/* In this order: arity, which is a bug in a builder; poison, which makes everything below it
 * poison; memory; the shape rule, which may refuse. Only then does the node join the list, so
 * a refused one leaves no trace but its error. name: NULL for nodes that nobody binds or
 * saves; theirs is for messages, "matmul_17". */
et_node *et_node_add(et_graph *graph, et_op op, const char *name, et_node *const *inputs,
                     int input_count, const et_attributes *attributes)
{
    et_assert(et_op_takes(op, input_count));
    for (int i = 0; i < input_count; i++) {
        if (!inputs[i])
            return et_graph_poison(graph, "%s: operand %d is NULL", et_op_name(op), i + 1);
        if (inputs[i]->graph != graph)
            return et_graph_poison(graph, "%s: %s is a node of another graph", et_op_name(op),
                                   inputs[i]->name);
        if (et_node_is_poison(inputs[i]))
            return &graph->poison;
    }
    et_node **nodes = et_vector_grow(graph->nodes, &graph->capacity, (size_t)graph->count + 1,
                                     sizeof(et_node *), 128);
    if (!nodes)
        return et_graph_out_of_memory(graph);
    graph->nodes = nodes;
    et_node *node = et_arena_alloc(&graph->arena, sizeof *node);
    /* The number is the node's id, so generated names are unique in their graph. */
    if (node && !name)
        name = et_arena_printf(&graph->arena, "%s%s_%d", graph->entered->prefix, et_op_name(op),
                               graph->count);
    /* The arena's own memory of a failure covers names that a builder could not have made. */
    if (!node || !name || graph->arena.failed)
        return et_graph_out_of_memory(graph);
    *node = (et_node){ .graph = graph, .id = graph->count, .op = op, .name = name };
    node->inputs = input_count;
    node->of_batch = op == ET_OP_INPUT || op == ET_OP_NOISE;
    for (int i = 0; i < input_count; i++)
        node->of_batch = node->of_batch || inputs[i]->of_batch;
    if (input_count)
        memcpy(node->input, inputs, (size_t)input_count * sizeof inputs[0]);
    if (attributes)
        node->attributes = *attributes;
    node->results = 1;
    if (!et_shape_rule(node))
        return &graph->poison;
    graph->nodes[graph->count++] = node;
    return node;
}

et_node *et_node_unary(et_op op, et_node *x)
{
    return et_node_add(x->graph, op, NULL, &x, 1, NULL);
}

et_node *et_node_binary(et_op op, et_node *a, et_node *b)
{
    et_node *inputs[] = { a, b };
    return et_node_add(a->graph, op, NULL, inputs, 2, NULL);
}

/* A node is its own first value; further results are separate nodes that read it. So all later code
 * has one kind of input, a node with one shape. */
et_node *et_node_result(et_node *node, int k)
{
    if (et_node_is_poison(node))
        return node;
    et_assert(k >= 1 && k < node->results);
    /* shape_RESULT looks the type up in the input with this number; exec gives it the same
     * memory. */
    et_attributes attributes = { .result = k };
    return et_node_add(node->graph, ET_OP_RESULT, NULL, &node, 1, &attributes);
}

/* Checks a number of an op that the shape rules do not see: from least on, below or at most. Else
 * poison with the op's name and the allowed range. A NaN fails every comparison. */
bool et_in_range(et_graph *graph, et_op op, const char *what, double x, double least, double most)
{
    if (x >= least && x <= most)
        return true;
    if (most == ET_BELOW_1)
        et_graph_poison(graph, "%s: %s %g: must be at least %g and less than 1", et_op_name(op),
                        what, x, least);
    else
        et_graph_poison(graph, "%s: %s %g: must be from %g to %g", et_op_name(op), what, x, least,
                        most);
    return false;
}
