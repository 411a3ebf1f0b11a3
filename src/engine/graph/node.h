/* Shape rules, and adding nodes, for builders and derivatives. An added node has passed its op's
 * shape rule. A node that has not is poison, and the graph keeps the first reason. */
#ifndef ETUDE_ENGINE_GRAPH_NODE_H
#define ETUDE_ENGINE_GRAPH_NODE_H

#include <etude/ops_image.h>

#include "engine/graph/graph.h"
#include "engine/kernel/window.h"

/* Windows of convolutions and pooling over an image's rows ([0]) and columns ([1]), for shape rules
 * and exec. weight: [KH, KW, C, F]. */
void et_convolution_windows(et_window windows[2], et_shape image, et_shape weight,
                            const et_convolution_options *options);
void et_pool_windows(et_window windows[2], et_shape image, const et_pool_options *options);

/* The largest rate and smoothing: the float32 below 1. */
#define ET_BELOW_1 (1 - 0x1p-24)

/* Adds a node after checking arity and running the op's shape rule. Returns poison if an input is
 * poison or the rule refuses. name: the full name; NULL: made of the current scope, the op's name
 * and the id. */
et_node *et_node_add(et_graph *graph, et_op op, const char *name, et_node *const *inputs,
                     int input_count, const et_attributes *attributes);

/* The same without a name, with the inputs as arguments. */
#define et_node_of(graph, op, attributes, ...)                                                     \
    et_node_add(graph, op, NULL, (et_node *const[]){ __VA_ARGS__ },                                \
                (int)(sizeof((et_node *const[]){ __VA_ARGS__ }) / sizeof(et_node *)), attributes)

/* The same without name or attributes; the graph is the input's. */
et_node *et_node_binary(et_op op, et_node *a, et_node *b);

/* Whether a node is a loss that makes its derivatives itself, with ET_LOSS_SUM_... as its value. */
static inline bool et_node_has_sums(const et_node *node)
{
    return node->op == ET_OP_VOCABULARY_LOSS || node->op == ET_OP_SOFTMAX_LOSS;
}

/* Poison whose error lists the existing fields. field may be NULL. */
et_node *et_graph_no_field(et_graph *graph, const char *field);

/* Result k (from 1) of a node with several. */
et_node *et_node_result(et_node *node, int k);

#endif
