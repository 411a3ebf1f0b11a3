/* Graphs: a model is a C function that adds nodes to a scope. A pass (pass.h) calls it once per
 * input signature, differentiates, plans and runs the graph. Nothing is computed here. What nodes
 * there are stands in ops.h.
 *
 * Building is sticky: a node whose inputs do not fit records the first error, with the node's
 * name and the shapes, and returns a poison node, on which everything else quietly gives poison. So
 * does an option, a number, a name or a shape that makes no sense, and a node of another graph.
 * So layers stay one line per equation; et_pass_open reports the error. A failed
 * allocation is recorded in the same way.
 *
 *     et_node *x = et_batch_input(s, "pixels");
 *     et_node *h = et_relu(et_dense(et_in(s, "hidden"), x, 512));        (ops.h, nn.h)
 *     if (et_scope_training(s))
 *         h = et_dropout(s, h, 0.1f);
 *
 * Nodes and scopes belong to the graph and live as long as it. One thread at a time.
 * Shapes: T rows (tokens or samples), D columns. "act" is the graph's activation type. */
#ifndef ETUDE_GRAPH_H
#define ETUDE_GRAPH_H

#include <etude/error.h>
#include <etude/params.h>
#include <etude/tensor.h>

typedef struct et_graph et_graph;
typedef struct et_node et_node;
typedef struct et_scope et_scope;

/* What derivatives compute again instead of keeping it from the forward pass. Equal bits. */
typedef enum et_recompute {
    ET_RECOMPUTE_NONE,
    ET_RECOMPUTE_CHEAP,  /* what costs a pass over memory at most: norms, activations */
    ET_RECOMPUTE_MARKED, /* and nodes marked by et_recomputable */
    ET_RECOMPUTE_AUTO,   /* MARKED where the values of a batch need more than 1 GiB, else CHEAP;
                            of a pass, not of a graph */
} et_recompute;

/* Scopes name things: "encoder/layer_0/". */
ET_API et_scope *et_in(et_scope *scope, const char *name);            /* scope/name */
ET_API et_scope *et_at(et_scope *scope, const char *name, int index); /* scope/name_index */
/* From here on nodes of ops that have no scope of their own are named in this one,
 * "hidden/matmul_17": et_node_name. Returns the scope that was entered before, the root at first,
 * to be entered again. Layers (nn.h) do so with the scope that they are given. */
ET_API et_scope *et_scope_enter(et_scope *scope);
ET_API bool et_scope_training(const et_scope *scope); /* of the graph's options */

ET_API et_shape et_node_shape(const et_node *node);
/* Full name, "encoder/layer_0/matmul_17"; borrowed from the graph. */
ET_API const char *et_node_name(const et_node *node);

#endif
