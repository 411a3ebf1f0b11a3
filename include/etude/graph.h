/* Graphs: a model is a C function that adds nodes to a scope. A pass (pass.h) calls the function
 * once per input signature, then differentiates, plans and runs the graph. Building computes
 * nothing. ops.h has the nodes.
 *
 * Building is sticky: if the inputs of a node do not fit, the graph keeps the first error with the
 * node's name and shapes, and returns a poison node. Every later node on a poison node is poison
 * without another error. Invalid options, numbers, names or shapes, nodes of another graph and
 * failed allocations do the same. So layers stay one line per equation, and et_pass_open reports
 * the error.
 *
 *     et_node *x = et_batch_input(s, "pixels");
 *     et_node *h = et_relu(et_dense(et_in(s, "hidden"), x, 512));        (ops.h, layers.h)
 *     if (et_scope_training(s))
 *         h = et_dropout(s, h, 0.1f);
 *
 * Nodes and scopes belong to the graph and live as long as it does. Use from one thread at a time.
 * Shapes: T rows (tokens or samples), D columns. "act" is the graph's activation type. */
#ifndef ETUDE_GRAPH_H
#define ETUDE_GRAPH_H

#include <etude/error.h>
#include <etude/params.h>
#include <etude/tensor.h>

typedef struct et_graph et_graph;
typedef struct et_node et_node;
typedef struct et_scope et_scope;

/* Values that the backward pass computes again instead of keeping them. The bits do not change. */
typedef enum et_recompute {
    ET_RECOMPUTE_NONE,
    ET_RECOMPUTE_CHEAP,  /* ops that cost at most a pass over memory: norms, activations */
    ET_RECOMPUTE_MARKED, /* the same, and nodes marked by et_recomputable */
    ET_RECOMPUTE_LAYERS, /* the same, and attention with its inputs in layers of a Transformer */
    ET_RECOMPUTE_AUTO, /* MARKED if the values of a batch need more than 1 GiB, LAYERS if they then
                          still need more than 768 MiB, else CHEAP; only for a pass */
} et_recompute;

/* Scopes give names: "encoder/layer_0/". */
ET_API et_scope *et_in(et_scope *scope, const char *name);            /* scope/name */
ET_API et_scope *et_at(et_scope *scope, const char *name, int index); /* scope/name_index */
/* Enters a scope: from now on, ops without a scope argument name their nodes in it,
 * "hidden/matmul_17" (see et_node_name). Returns the previous scope (at first the root), so that
 * you can enter it again. Layers (layers.h) enter the scope that they get. */
ET_API et_scope *et_scope_enter(et_scope *scope);
ET_API bool et_scope_training(const et_scope *scope); /* an option of the graph */

ET_API et_shape et_node_shape(const et_node *node);
/* Full name, "encoder/layer_0/matmul_17"; borrowed from the graph. */
ET_API const char *et_node_name(const et_node *node);

#endif
